import test from 'node:test';
import assert from 'node:assert/strict';
import { EventLog, headAfter, newerHead } from '../static/js/core/eventlog.js';
import { Clock, deferred, settle } from './support.js';

const ev = (s, client) => ({ t: 'ev.msg', c: 'c', s, d: { body: `m${s}`, ...(client && { client_id: client }) } });

function make(fetch = async () => ({ events: [], more: false }), clock = new Clock()) {
	const seen = [];
	const log = new EventLog({ fetch, onEvent: (e) => seen.push(e.s), env: { ...clock.env, random: () => 1 } });
	return { log, seen, clock };
}

test('events in order pass, known ones are dropped', () => {
	const { log, seen } = make();
	for (const s of [1, 2, 2, 1, 3, 3]) log.accept(ev(s));
	assert.deepEqual(seen, [1, 2, 3]);
	assert.equal(log.last, 3);
});

test('a gap is fetched and what came meanwhile follows in order', async () => {
	const page = deferred();
	const asked = [];
	const { log, seen } = make((after) => {
		asked.push(after);
		return page.promise;
	});
	log.accept(ev(1));
	log.accept(ev(5));
	log.accept(ev(4));
	log.accept(ev(6));
	assert.deepEqual(seen, [1]);
	page.resolve({ events: [ev(2), ev(3), ev(4)], more: false });
	await settle();
	assert.deepEqual(asked, [1]);
	assert.deepEqual(seen, [1, 2, 3, 4, 5, 6]);
});

test('pages are followed while there is more', async () => {
	const all = Array.from({ length: 450 }, (_, i) => ev(i + 1));
	const { log, seen } = make(async (after) => ({ events: all.slice(after, after + 200), more: after + 200 < all.length }));
	await log.fill();
	assert.equal(seen.length, 450);
	assert.deepEqual(seen, all.map((e) => e.s));
});

test('a page without progress does not loop', async () => {
	let calls = 0;
	const { log } = make(async () => {
		calls++;
		return { events: [], more: true };
	});
	await log.fill();
	assert.equal(calls, 1);
});

test('a refused fetch is tried again later, a lost one waits for the next hello', async () => {
	let calls = 0;
	const { log, seen, clock } = make(async () => {
		calls++;
		if (calls <= 2) throw { code: 'busy', retryMs: 700 };
		return { events: [ev(1)], more: false };
	});
	log.accept(ev(2));
	await clock.advance(1_199);
	assert.equal(calls, 1);
	await clock.advance(1_700);
	assert.equal(calls, 2);
	await clock.advance(1);
	assert.deepEqual(seen, [1, 2]);

	let lost = 0;
	const other = make(async () => {
		lost++;
		throw { code: 'lost', retryMs: 0 };
	});
	await other.log.fill();
	await other.clock.advance(60_000);
	assert.equal(lost, 1);
	await other.log.fill();
	assert.equal(lost, 2);
});

test('a reset during a fetch drops its page', async () => {
	const page = deferred();
	const { log, seen } = make(() => page.promise);
	log.accept(ev(3));
	log.reset();
	page.resolve({ events: [ev(1), ev(2)], more: false });
	await settle();
	assert.deepEqual(seen, []);
	assert.equal(log.last, 0);
});

test('a long log begins near its end and reaches back page by page', async () => {
	const all = Array.from({ length: 430 }, (_, i) => ev(i + 1, `client ${i + 1}`));
	const asked = [];
	const cut = 60; // the server ends a page early when it is large
	const { log, seen } = make(async (after, limit = 200) => {
		asked.push([after, limit]);
		const known = all.slice(Math.max(0, after - 2), after); // more than was asked for
		return { events: [...known, ...all.slice(after, after + Math.min(limit, cut))], more: true };
	});
	log.startAt(400);
	for (const s of [1, 2, 200]) log.accept(ev(s)); // what the server sends by itself is long before
	assert.deepEqual(seen, []);
	log.accept(ev(401));
	assert.deepEqual([log.first, log.last], [400, 401]);
	const older = await log.older(100);
	assert.deepEqual(older.map((e) => e.s), all.slice(300, 400).map((e) => e.s));
	assert.deepEqual(asked, [[300, 100], [360, 40]]);
	assert.ok(log.has('client 301') && !log.has('client 300'));
	for (let i = 0; i < 5; i++) await log.older(100);
	assert.equal(log.first, 0);
	assert.deepEqual(log.events.map((e) => e.s), all.slice(0, 401).map((e) => e.s));
	assert.deepEqual(await log.older(100), []);
	assert.deepEqual(seen, [401]);
	log.startAt(10);
	assert.equal(log.first, 0, 'a log that holds something begins where it began');
});

test('two calls do not fetch the same, and a failed one may be repeated', async () => {
	const page = deferred();
	let calls = 0;
	const { log } = make(async (after, limit) => {
		calls++;
		if (calls === 1) throw Object.assign(new Error('lost'), { code: 'lost' });
		await page.promise;
		return { events: Array.from({ length: limit }, (_, i) => ev(after + i + 1)), more: false };
	});
	log.startAt(50);
	await assert.rejects(log.older(50));
	const first = log.older(50);
	assert.deepEqual(await log.older(50), []);
	page.resolve();
	assert.equal((await first).length, 50);
	assert.equal(calls, 2);
});

test('client ids are remembered', () => {
	const { log } = make();
	log.accept(ev(1, 'x'));
	assert.ok(log.has('x'));
	assert.ok(!log.has('y'));
});

test('heads only move forward', () => {
	const held = { id: 'c', state: 'queued', rev: 3, epoch: 2, queued: 5 };
	const taken = { c: 'c', d: { event: 'taken', state: 'assigned', rev: 4, epoch: 3, owner: { id: 'a', name: 'Lin' }, time: 9 } };
	const next = headAfter(held, taken);
	assert.equal(next.state, 'assigned');
	assert.equal(next.owner.name, 'Lin');
	assert.equal(next.queued, 5);
	assert.equal(headAfter(next, { c: 'c', d: { event: 'handoff', state: 'queued', rev: 3, epoch: 2, time: 7 } }), next);
	const closed = headAfter(next, { c: 'c', d: { event: 'closed', state: 'closed', rev: 5, epoch: 4, time: 12, reason: 'done' } });
	assert.equal(closed.owner, undefined);
	assert.equal(closed.closed, 12);
	assert.equal(newerHead(closed, held), closed);
	const at = (head, event, state, time) => headAfter(head, { c: 'c', d: { event, state, rev: head.rev + 1, epoch: 9, time } });
	const returned = at(next, 'returned', 'queued', 20);
	assert.equal(returned.queued, 5, 'what comes back keeps its time');
	assert.equal(at(closed, 'reopened', 'queued', 30).queued, 30);
	assert.equal(at(at(closed, 'reopened', 'bot', 30), 'handoff', 'queued', 40).queued, 40);
	assert.equal(at({ id: 'c', rev: 1 }, 'transferred', 'queued', 50).queued, 50, 'it was not known');
	assert.equal(newerHead(null, held), held);
});
