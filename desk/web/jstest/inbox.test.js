import test from 'node:test';
import assert from 'node:assert/strict';
import { Inbox, urgency } from '../static/js/inbox.js';

const row = (id, state, o = {}) => ({ id, state, rev: 1, epoch: 1, last: 1, opened: 1, contact: { name: id, online: true }, ...o });
const ids = (rows) => rows.map((r) => r.id);

test('rows are mine, queued or not listed', () => {
	const inbox = new Inbox('a1');
	inbox.replace({ rows: [row('x', 'queued', { queued: 20 }), row('y', 'queued', { queued: 10 }), row('z', 'assigned', { owner: { id: 'a1' } })], queued: 5 });
	assert.deepEqual(ids(inbox.queue()), ['y', 'x']);
	assert.deepEqual(ids(inbox.mine()), ['z']);
	assert.equal(inbox.beyond, 3);
	inbox.apply(row('y', 'assigned', { rev: 2, owner: { id: 'other' } }));
	assert.deepEqual(ids(inbox.queue()), ['x']);
	inbox.apply(row('x', 'assigned', { rev: 2, owner: { id: 'a1' } }));
	assert.deepEqual(ids(inbox.mine()), ['x', 'z']);
});

test('stale rows are ignored', () => {
	const inbox = new Inbox('a1');
	inbox.apply(row('x', 'queued', { rev: 3, last: 7 }));
	assert.equal(inbox.apply(row('x', 'bot', { rev: 2, last: 9 })), false);
	assert.equal(inbox.apply(row('x', 'queued', { rev: 3, last: 7 })), false);
	assert.equal(inbox.apply(row('x', 'queued', { rev: 3, last: 8 })), true);
	assert.equal(inbox.rows.get('x').last, 8);
});

test('a newer head moves the row before its own row comes', () => {
	const inbox = new Inbox('a1');
	inbox.apply(row('x', 'queued', { rev: 3 }));
	inbox.applyHead({ id: 'x', state: 'assigned', rev: 4, epoch: 2, owner: { id: 'a1' } });
	assert.deepEqual(ids(inbox.mine()), ['x']);
	inbox.applyHead({ id: 'x', state: 'closed', rev: 5, epoch: 3 });
	assert.equal(inbox.rows.size, 0);
});

test('somebody waits in the queue and behind an unanswered message', () => {
	const inbox = new Inbox('a1');
	assert.equal(inbox.waitingSince(row('x', 'queued', { queued: 5 })), 5);
	assert.equal(inbox.waitingSince(row('x', 'assigned', { preview_from: 'customer', at: 9 })), 9);
	assert.equal(inbox.waitingSince(row('x', 'assigned', { preview_from: 'agent', at: 9 })), 0);
	assert.deepEqual([0, 59_999, 60_000, 179_999, 180_000].map(urgency), ['', '', 'amber', 'amber', 'red']);
});

test('a message renews the preview, an old one does not', () => {
	const inbox = new Inbox('a1');
	inbox.apply(row('x', 'assigned', { owner: { id: 'a1' }, last: 4, preview: 'old' }));
	const msg = (s, body) => ({ t: 'ev.msg', c: 'x', s, d: { body, from: { kind: 'customer' }, time: 77 } });
	inbox.applyMessage(msg(4, 'known'));
	assert.equal(inbox.rows.get('x').preview, 'old');
	inbox.applyMessage(msg(5, '😀'.repeat(200)));
	assert.equal(inbox.rows.get('x').preview, '😀'.repeat(120));
	assert.equal(inbox.waitingSince(inbox.rows.get('x')), 77);
	inbox.applyMessage({ ...msg(9, 'q'), c: 'unknown' });
	assert.equal(inbox.rows.size, 1);
});
