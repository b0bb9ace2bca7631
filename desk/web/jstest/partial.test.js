import test from 'node:test';
import assert from 'node:assert/strict';
import { Conversation } from '../static/js/core/conversation.js';
import { SafeStorage } from '../static/js/core/storage.js';
import { endsPartial, withPiece } from '../static/js/core/partial.js';

const from = { kind: 'bot', id: 'b', name: 'Ada' };
const piece = (n, text, turn = 't1') => ({ turn, n, text, from });
const after = (...pieces) => pieces.reduce(withPiece, null);

test('pieces in order make the text', () => {
	assert.deepEqual(after(piece(0, ''), piece(1, 'Hel'), piece(2, 'lo')), { turn: 't1', n: 2, text: 'Hello', from });
});

test('a page that missed a piece shows nothing until the answer begins anew', () => {
	assert.equal(after(piece(3, 'lo')), null);
	assert.equal(after(piece(0, 'a'), piece(2, 'c')), null);
	assert.equal(after(piece(0, 'a'), piece(1, 'b', 't2')), null);
	assert.equal(after(piece(0, 'a'), piece(2, 'c'), piece(3, 'd')), null);
	assert.equal(after(piece(0, 'a'), piece(1, 'b'), piece(0, 'x')).text, 'x');
});

test('the message and a new owner end it, a word of the customer does not', () => {
	assert.equal(endsPartial({ t: 'ev.msg', d: { from } }), true);
	assert.equal(endsPartial({ t: 'ev.state', d: {} }), true);
	assert.equal(endsPartial({ t: 'ev.msg', d: { from: { kind: 'customer' } } }), false);
});

test('a conversation shows the pieces and then the message alone', async () => {
	const seen = [];
	const c = new Conversation({
		id: 'c', scope: 'x', connection: { tell() {}, notify() {}, request: () => new Promise(() => {}) }, storage: new SafeStorage([]),
		onChange: (conv, what) => what === 'partial' && seen.push(conv.partial?.text ?? null),
	});
	c.accept({ t: 'ev.state', c: 'c', s: 1, d: { event: 'opened', state: 'bot', rev: 1, epoch: 1, owner: from, from: '' } });
	c.accept({ t: 'ev.partial', c: 'c', d: piece(0, '') });
	c.accept({ t: 'ev.partial', c: 'c', d: piece(1, 'He') });
	c.accept({ t: 'ev.msg', c: 'c', s: 2, d: { id: 'm1', kind: 'text', from: { kind: 'customer', id: 'me' }, body: 'more' } });
	c.accept({ t: 'ev.partial', c: 'c', d: piece(2, 'llo') });
	c.accept({ t: 'ev.msg', c: 'c', s: 3, d: { id: 'm2', kind: 'text', from, body: 'Hello' } });
	assert.deepEqual(seen, ['', 'He', 'Hello', null]);
	c.dispose();
});
