import test from 'node:test';
import assert from 'node:assert/strict';
import { Inbox, urgency } from '../static/js/console/inbox.js';

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

test('what became of a row that left is known for a while', () => {
	const inbox = new Inbox('a1');
	inbox.apply(row('x', 'queued'));
	inbox.apply(row('x', 'assigned', { rev: 2, owner: { id: 'a2', name: 'Lin' } }));
	assert.equal(inbox.rows.has('x'), false);
	assert.equal(inbox.left.get('x').owner.name, 'Lin');
	for (let i = 0; i < 99; i++) inbox.apply(row(`y${i}`, 'closed'));
	inbox.apply(row('x', 'closed', { rev: 3 }));
	inbox.apply(row('z', 'closed'));
	assert.equal(inbox.left.get('x').state, 'closed', 'the newest stay');
	assert.equal(inbox.left.size, 100);
	assert.equal(inbox.left.has('y0'), false);
});

test('a conversation becomes mine once, by its row or by a head', () => {
	const told = [];
	const inbox = new Inbox('a1', { onMine: (r) => told.push(r.id) });
	const owner = { id: 'a1' };
	inbox.replace({ rows: [row('w', 'assigned', { owner })] });
	inbox.apply(row('x', 'queued'));
	inbox.applyHead({ id: 'x', state: 'assigned', rev: 2, epoch: 2, owner });
	inbox.apply(row('x', 'assigned', { rev: 2, owner, last: 3 }));
	inbox.apply(row('y', 'assigned', { owner }));
	inbox.apply(row('z', 'assigned', { owner: { id: 'a2' } }));
	assert.deepEqual(told, ['x', 'y']);
});

test('stale rows are ignored', () => {
	const inbox = new Inbox('a1');
	inbox.apply(row('x', 'queued', { rev: 3, last: 7 }));
	assert.equal(inbox.apply(row('x', 'bot', { rev: 2, last: 9 })), false);
	assert.equal(inbox.apply(row('x', 'queued', { rev: 3, last: 6 })), false);
	assert.equal(inbox.apply(row('x', 'queued', { rev: 3, last: 7, tags: ['vip'] })), true);
	assert.deepEqual(inbox.rows.get('x').tags, ['vip']);
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

test('chats of others are listed by permission only, the newest word first, and not without end', () => {
	const inbox = new Inbox('a1');
	const other = (id, at, o = {}) => row(id, 'assigned', { owner: { id: 'b', name: 'B' }, at, ...o });
	inbox.apply(other('x', 1));
	assert.deepEqual(ids(inbox.others()), []);
	inbox.all = true;
	inbox.apply(other('x', 1));
	inbox.apply(row('y', 'bot', { at: 5 }));
	inbox.apply(row('z', 'assigned', { owner: { id: 'a1' } }));
	assert.deepEqual(ids(inbox.others()), ['y', 'x']);
	inbox.learn([other('x', 99), other('w', 7)]);
	assert.deepEqual(ids(inbox.others()), ['w', 'y', 'x']);
	inbox.replace({ rows: [row('q', 'queued')], queued: 1 });
	assert.deepEqual(ids(inbox.others()), ['w', 'y', 'x']);
	assert.deepEqual(ids(inbox.mine()), []);
	inbox.apply(row('y', 'closed', { rev: 2 }));
	assert.deepEqual(ids(inbox.others()), ['w', 'x']);
	for (let i = 0; i < 300; i++) inbox.apply(other(`n${i}`, 100 + i));
	assert.equal(inbox.others().length, 200);
	assert.equal(inbox.rows.has('q'), true);
	assert.equal(inbox.others()[0].id, 'n299');
});

test('the server says for how long somebody waits; an answer ends it, notes do not', () => {
	const inbox = new Inbox('a1', { now: () => 1_000_000 });
	const mine = { owner: { id: 'a1' }, last: 4, preview: 'p', preview_from: 'bot', at: 1 };
	inbox.replace({ rows: [row('x', 'assigned', { ...mine, waiting: 70_000 })], queued: 0 });
	const since = () => inbox.waitingSince(inbox.rows.get('x'));
	assert.equal(since(), 930_000);
	const msg = (s, kind, from, time) => inbox.applyMessage({ t: 'ev.msg', c: 'x', s, d: { kind, body: 'b', from: { kind: from }, time } });
	msg(5, 'text', 'customer', 950_000);
	assert.equal(since(), 930_000, 'the first unanswered text counts');
	msg(6, 'note', 'agent', 960_000);
	assert.equal(since(), 930_000);
	assert.equal(inbox.rows.get('x').preview_from, 'customer');
	msg(7, 'text', 'agent', 970_000);
	assert.equal(since(), 0);
	msg(8, 'text', 'customer', 980_000);
	assert.equal(since(), 980_000);
});

test('a message of files alone is previewed by their names', () => {
	const inbox = new Inbox('a1');
	inbox.apply(row('x', 'assigned', { owner: { id: 'a1' }, last: 4 }));
	inbox.applyMessage({ t: 'ev.msg', c: 'x', s: 5, d: { kind: 'file', files: [{ name: 'a.png' }, { name: 'b.pdf' }], from: { kind: 'customer' }, time: 7 } });
	assert.equal(inbox.rows.get('x').preview, 'a.png, b.pdf');
	inbox.setTags('x', ['vip']);
	assert.deepEqual(inbox.rows.get('x').tags, ['vip']);
});

test('left messages are a list of their own, oldest first', () => {
	const inbox = new Inbox('a1', { now: () => 1000 });
	inbox.replace({ rows: [row('x', 'deferred', { waiting: 10 }), row('y', 'deferred', { waiting: 20 }), row('z', 'queued', { queued: 1 })], queued: 1, left: 5 });
	assert.deepEqual(ids(inbox.messages()), ['y', 'x']);
	assert.deepEqual(ids(inbox.queue()), ['z']);
	assert.equal(inbox.beyondLeft, 3);
	assert.equal(inbox.beyond, 0);
	inbox.all = true;
	assert.deepEqual(ids(inbox.others()), []);
	assert.equal(inbox.waitingSince(inbox.rows.get('x')), 0, 'nobody waits by the minute');
	inbox.apply(row('y', 'assigned', { rev: 2, owner: { id: 'a1' } }));
	inbox.apply(row('x', 'assigned', { rev: 2, owner: { id: 'a2' } }));
	assert.deepEqual(ids(inbox.messages()), []);
	assert.deepEqual(ids(inbox.mine()), ['y']);
});
