import test from 'node:test';
import assert from 'node:assert/strict';
import { Outbox } from '../static/js/core/outbox.js';
import { MemoryArea, SafeStorage } from '../static/js/core/storage.js';
import { Clock, deferred, settle } from './support.js';

const refuse = (code, retryMs = 0) => Object.assign(new Error(code), { code, retryMs });

function make({ area = new MemoryArea(), clock = new Clock(), answer } = {}) {
	const sent = [];
	const acks = [];
	const box = new Outbox({
		scope: 'me.c', storage: new SafeStorage([area]), env: { ...clock.env, random: () => 1 }, onChange: () => {},
		onAck: (item) => acks.push(item.body.body),
		send: (item) => {
			sent.push(item.body.body);
			return answer ? answer(item) : Promise.resolve({ s: sent.length });
		},
	});
	return { box, sent, acks, area, clock };
}

const bodies = (box) => box.items.map((i) => i.body.body);

test('one message is in flight at a time, in order', async () => {
	const answers = [deferred(), deferred()];
	let n = 0;
	const { box, sent, acks } = make({ answer: () => answers[n++].promise });
	box.setOpen(true);
	box.add({ body: 'a' });
	box.add({ body: 'b' });
	assert.deepEqual(sent, ['a']);
	answers[0].resolve({ s: 1 });
	await settle();
	assert.deepEqual(sent, ['a', 'b']);
	assert.deepEqual(acks, ['a']);
});

test('nothing is sent while closed, everything in order afterwards', async () => {
	const { box, sent } = make();
	for (const body of ['a', 'b', 'c']) box.add({ body });
	assert.deepEqual(sent, []);
	box.setOpen(true);
	await settle();
	assert.deepEqual(sent, ['a', 'b', 'c']);
});

test('unsent messages survive a reload, with id and order; acknowledged ones are gone', async () => {
	const area = new MemoryArea();
	const lost = deferred();
	const first = make({ area, answer: (i) => (i.body.body === 'a' ? Promise.resolve({ s: 1 }) : lost.promise) });
	first.box.setOpen(true);
	for (const body of ['a', 'b', 'c']) first.box.add({ body });
	await settle();
	const ids = first.box.items.filter((i) => i.state !== 'acked').map((i) => i.client_id);
	first.box.dispose();
	const second = make({ area });
	assert.deepEqual(bodies(second.box), ['b', 'c']);
	assert.deepEqual(second.box.items.map((i) => i.client_id), ids);
	second.box.setOpen(true);
	await settle();
	assert.deepEqual(second.sent, ['b', 'c']);
	assert.equal(area.length, 0);
});

test('a lost connection sends the same message again first', async () => {
	let fail = true;
	const { box, sent } = make({ answer: () => (fail ? Promise.reject(refuse('lost')) : Promise.resolve({ s: 1 })) });
	box.setOpen(true);
	box.setOpen(false);
	box.add({ body: 'a' });
	box.open = true;
	box.add({ body: 'b' });
	box.setOpen(false);
	await settle();
	fail = false;
	const id = box.items[0].client_id;
	box.setOpen(true);
	await settle();
	assert.deepEqual(sent, ['a', 'a', 'b']);
	assert.equal(box.items[0].client_id, id);
});

test('busy waits for the advice and keeps the order', async () => {
	let tries = 0;
	const { box, sent, clock } = make({ answer: (i) => (i.body.body === 'a' && tries++ === 0 ? Promise.reject(refuse('busy', 900)) : Promise.resolve({ s: 1 })) });
	box.setOpen(true);
	box.add({ body: 'a' });
	box.add({ body: 'b' });
	await clock.advance(1_399);
	assert.deepEqual(sent, ['a']);
	await clock.advance(1);
	assert.deepEqual(sent, ['a', 'a', 'b']);
});

test('a message that is refused again and again is sent ever more seldom', async () => {
	let refused = true;
	const { box, sent, clock } = make({ answer: () => (refused ? Promise.reject(refuse('busy', 250)) : Promise.resolve({ s: 1 })) });
	box.setOpen(true);
	box.add({ body: 'a' });
	await clock.advance(60_000);
	assert.ok(sent.length > 4 && sent.length <= 7, `${sent.length} times in a minute`);
	refused = false;
	await clock.advance(31_000);
	assert.equal(box.items[0].state, 'acked');
	const before = sent.length;
	refused = true;
	box.add({ body: 'b' });
	await clock.advance(750);
	assert.equal(sent.length, before + 2, 'the delays begin anew');
});

test('a rejection is final, shows its reason, and later messages go on', async () => {
	const { box, sent } = make({ answer: (i) => (i.body.body === 'a' ? Promise.reject(refuse('too_large')) : Promise.resolve({ s: 1 })) });
	box.setOpen(true);
	box.add({ body: 'a' });
	box.add({ body: 'b' });
	await settle();
	assert.deepEqual(sent, ['a', 'b']);
	assert.equal(box.items[0].state, 'failed');
	assert.equal(box.items[0].code, 'too_large');
	box.discard(box.items[0].client_id);
	assert.deepEqual(bodies(box), ['b']);
});

test('after two minutes the writer decides; a retry keeps the id', async () => {
	const { box, sent, clock } = make();
	const item = box.add({ body: 'a' });
	await clock.advance(119_999);
	box.expire();
	assert.equal(item.state, 'pending');
	await clock.advance(1);
	box.expire();
	assert.equal(item.state, 'failed');
	box.setOpen(true);
	await settle();
	assert.deepEqual(sent, []);
	const id = item.client_id;
	box.retry(id);
	await settle();
	assert.deepEqual(sent, ['a']);
	assert.equal(item.client_id, id);
});

test('an event that arrives before its ack settles the message', async () => {
	const answer = deferred();
	const { box, acks, area } = make({ answer: () => answer.promise });
	box.setOpen(true);
	const item = box.add({ body: 'a' });
	box.accepted(item.client_id);
	assert.equal(box.items.length, 0);
	assert.equal(area.length, 0);
	answer.resolve({ s: 1, dup: true });
	await settle();
	assert.deepEqual(acks, []);
	assert.equal(box.items.length, 0);
});

test('blocked storage keeps messages in memory and says so', () => {
	const throwing = { setItem() { throw new Error('denied'); } };
	const box = new Outbox({ scope: 'x', storage: new SafeStorage([throwing, null]), env: new Clock().env, onChange() {}, onAck() {}, send: async () => ({}) });
	assert.equal(box.persistent, false);
	box.add({ body: 'a' });
	assert.deepEqual(bodies(box), ['a']);
});

test('damaged storage is ignored', () => {
	const area = new MemoryArea();
	area.setItem('desk.outbox.me.c.1', '{');
	area.setItem('desk.outbox.me.c.2', '{"client_id":7}');
	area.setItem('desk.outbox.me.cc.3', '{"client_id":"q","at":1,"n":1,"body":{"body":"other"}}');
	assert.deepEqual(bodies(make({ area }).box), []);
});

test('what waited for a conversation is sent in it, in order and with its ids', async () => {
	const area = new MemoryArea();
	const opening = deferred();
	const before = make({ area, answer: () => opening.promise });
	before.box.scope = 'me.new';
	before.box.setOpen(true);
	before.box.add({ body: 'a' });
	before.box.add({ body: 'b' });
	const ids = before.box.items.map((i) => i.client_id);
	const { box, sent } = make({ area: new MemoryArea() });
	box.adopt(before.box);
	assert.deepEqual(before.box.items, []);
	assert.equal([...area.map.keys()].filter((k) => k.startsWith('desk.outbox.')).length, 0);
	assert.deepEqual(box.items.map((i) => i.client_id), ids);
	assert.deepEqual(sent, []);
	box.setOpen(true);
	await settle();
	assert.deepEqual(sent, ['a', 'b']);
	opening.resolve({});
	await settle();
	assert.deepEqual(before.acks, []);
	box.adopt(make({ area }).box);
	assert.deepEqual(sent, ['a', 'b']);
});

test('a hint of the server is the least that is waited: refusals in a row are asked less and less often', async () => {
	const clock = new Clock();
	clock.env.random = () => 1;
	const { box, sent } = make({ clock, answer: () => Promise.reject(refuse('rate_limited', 10)) });
	box.setOpen(true);
	box.add({ body: 'a' });
	await settle();
	await clock.advance(60_000);
	assert.ok(sent.length > 3 && sent.length < 10, `${sent.length} attempts in a minute`);
});
