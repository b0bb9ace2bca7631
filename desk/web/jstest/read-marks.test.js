import test from 'node:test';
import assert from 'node:assert/strict';
import { ReadMarks } from '../static/js/console/read-marks.js';
import { MemoryArea, SafeStorage } from '../static/js/core/storage.js';

const msg = (s, kind, id = 'x') => ({ t: 'ev.msg', s, d: { from: { kind, id } } });
const state = (s) => ({ t: 'ev.state', s, d: {} });

test('unread are the customer\'s messages after the mark and after the last own answer', () => {
	const storage = new SafeStorage([new MemoryArea()]);
	const marks = new ReadMarks({ storage, agentId: 'a1' });
	const events = [state(1), msg(2, 'bot'), msg(3, 'customer'), state(4), msg(5, 'customer')];
	assert.equal(marks.unread('c', events), 2);
	assert.ok(marks.mark('c', 3));
	assert.ok(!marks.mark('c', 2));
	assert.equal(marks.unread('c', events), 1);
	events.push(msg(6, 'agent', 'a1'), msg(7, 'customer'));
	assert.equal(marks.unread('c', events), 1);
	assert.equal(marks.unread('other', []), 0);
	assert.equal(new ReadMarks({ storage, agentId: 'a1' }).unread('c', events.slice(0, 5)), 1);
	marks.prune((id) => id !== 'c');
	assert.equal(marks.unread('c', events.slice(0, 5)), 2);
	marks.clear();
	assert.deepEqual(storage.keys('desk.read.'), []);
});
