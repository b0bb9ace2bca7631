import test from 'node:test';
import assert from 'node:assert/strict';
import { orderOf, placeAfter, renamed } from '../static/js/rows.js';

test('what names a row gets its new number, and nothing else does', () => {
	assert.equal(renamed('rules[2].reply[3].zh', 'rules', 0), 'rules[0].reply[3].zh');
	assert.equal(renamed('h-rules[#].name e-rules[#].name', 'rules', 12), 'h-rules[12].name e-rules[12].name');
	assert.equal(renamed('fields[1].name', 'rules', 5), 'fields[1].name');
	assert.equal(renamed('xrules[1].name', 'rules', 5), 'xrules[1].name');
	assert.equal(renamed('rules[1].rules[2]', 'rules', 5), 'rules[5].rules[2]');
});

test('a button says what it does to which row', () => {
	assert.deepEqual(orderOf('rules[4].up'), { list: 'rules', at: 4, what: 'up' });
	assert.deepEqual(orderOf('fields.add'), { list: 'fields', at: NaN, what: 'add' });
	for (const other of ['try', 'try=rules.add]', 'rules[x].up', 'rules[1].name', '']) assert.equal(orderOf(other), null, other);
});

test('a row moves by one and not out of its list', () => {
	assert.equal(placeAfter({ at: 0, what: 'up' }, 3), -1);
	assert.equal(placeAfter({ at: 2, what: 'up' }, 3), 1);
	assert.equal(placeAfter({ at: 1, what: 'down' }, 3), 2);
	assert.equal(placeAfter({ at: 2, what: 'down' }, 3), -1);
});
