import test from 'node:test';
import assert from 'node:assert/strict';
import { fillIn, firstLine, givenName, insertReply, slashQuery } from '../static/js/console/canned.js';

test('a slash begins a search at the beginning and behind white space only', () => {
	const at = (text, caret = text.length) => slashQuery(text, caret);
	assert.deepEqual(at('/'), { query: '', start: 0 });
	assert.deepEqual(at('/hel'), { query: 'hel', start: 0 });
	assert.deepEqual(at('Dear Ann, /退款'), { query: '退款', start: 10 });
	assert.deepEqual(at('line\n/x'), { query: 'x', start: 5 });
	assert.deepEqual(at('/help me', 3), { query: 'he', start: 0 });
	for (const text of ['and/or', 'https://example.org', '/help me', '', 'x /a/b']) assert.equal(at(text), null, text);
});

test('a reply replaces the slash word and leaves the rest', () => {
	const word = slashQuery('Dear Ann, /ref thanks', 14);
	assert.deepEqual(insertReply('Dear Ann, /ref thanks', { start: word.start, caret: 14, body: 'your refund is on its way,' }),
		{ text: 'Dear Ann, your refund is on its way, thanks', caret: 36 });
});

test('variables are filled in, unknown ones stay', () => {
	const values = { name: 'Ann', agent: 'Lin' };
	assert.equal(fillIn('Hi {name}, I am {Agent}. {order} {name}', values), 'Hi Ann, I am Lin. {order} Ann');
	assert.equal(fillIn('{name}', { name: '$& {agent}' }), '$& {agent}', 'a value is not read again');
	assert.equal(firstLine('a\nb'), 'a');
});

test('a name that was not given is not greeted', () => {
	const fill = (body) => fillIn(body, { name: '', agent: 'Lin' });
	for (const [body, want] of [
		['Hello {name|there}, I am {agent}', 'Hello there, I am Lin'],
		['Hello {name}, I am {agent}', 'Hello, I am Lin'],
		['{name}, your parcel is here.\n{name|Guest}, bye {Name}!', 'your parcel is here.\nGuest, bye!'],
		['{name}，您好', '您好'],
		['Hello {name|}!', 'Hello!'],
		['{order|none} {name', '{order|none} {name'],
	]) assert.equal(fill(body), want, body);
	assert.equal(fillIn('Hello {name|there}', { name: 'Ann' }), 'Hello Ann');
	assert.equal(fillIn('{name}, hello', { name: 'Ann' }), 'Ann, hello');
});

test('a name that the server has made is no given one', () => {
	assert.equal(givenName({ id: '0190-715d', name: 'Visitor 715D' }), '');
	assert.equal(givenName({ id: '0190-715d', name: 'Visitor 715E' }), 'Visitor 715E');
	assert.equal(givenName({ id: '0190-715d', name: 'Ann' }), 'Ann');
	assert.equal(givenName({ name: 'Visitor 715D' }), '', 'without an id nobody knows');
	assert.equal(givenName({}), '');
});
