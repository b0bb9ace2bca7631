import test from 'node:test';
import assert from 'node:assert/strict';
import { Inbox } from '../static/js/console/inbox.js';
import { routingMarks, routingNote } from '../static/js/console/routing.js';

test('the queue is in the order in which it is served', () => {
	const inbox = new Inbox('a1');
	const minute = 60_000;
	const row = (id, at, priority) => ({ id, state: 'queued', rev: 1, last: 1, queued: at * minute, ...(priority && { priority }) });
	inbox.replace({ rows: [row('low', 0, 'low'), row('first', 0), row('high', 14, 'high'), row('late', 16, 'high'), row('urgent', 50, 'urgent'), row('last', 16)], queued: 6 });
	assert.deepEqual(inbox.queue().map((r) => r.id), ['urgent', 'high', 'first', 'late', 'low', 'last']);
});

test('a row says its priority unless that is the usual one, and what its agent needs', () => {
	assert.deepEqual(routingMarks({ priority: 'high', skills: ['returns'] }).map((m) => m.text), ['High', 'returns']);
	assert.deepEqual(routingMarks({}), []);
	assert.deepEqual(routingMarks({ priority: 'soon' }), []);
});

test('notes about routing are told in the words of the page', () => {
	assert.equal(routingNote({ payload: 'priority:high', from: { name: 'Lin' }, body: 'Priority: high' }), 'Lin set the priority: High');
	assert.equal(routingNote({ payload: 'relaxed:returns,zh' }), 'Nobody was free in time with: returns, zh. Any agent of the group may get this chat now.');
	assert.equal(routingNote({ payload: 'relaxed_nobody:moon' }), 'Nobody of the group has: moon. Any agent of the group may get this chat now.');
	for (const payload of [undefined, '', 'human', 'priority:soon', 'other:x']) assert.equal(routingNote({ payload }), '');
});
