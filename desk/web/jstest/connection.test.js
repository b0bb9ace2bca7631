import test from 'node:test';
import assert from 'node:assert/strict';
import { Connection, followBrowser } from '../static/js/core/connection.js';
import { Clock, settle, socketClass } from './support.js';

async function make({ random = 1, hello = () => ({ token: 'x' }), online = true } = {}) {
	const clock = new Clock();
	const Socket = socketClass();
	const env = { ...clock.env, WebSocket: Socket, random: () => random, online: () => env.isOnline, isOnline: online };
	const log = { welcomes: [], events: [] };
	const connection = new Connection({
		url: () => 'ws://x/ws', hello, env,
		onWelcome: (d) => log.welcomes.push(d), onEvent: (f) => log.events.push(f), onStatus: () => {},
	});
	connection.start();
	await settle();
	return { clock, Socket, env, connection, log };
}

test('hello comes first, welcome makes it ready, events and replies are told apart', async () => {
	const { Socket, connection, log } = await make();
	const s = Socket.last;
	assert.equal(s.protocol, 'im.v1.json');
	s.open();
	assert.equal(s.sent[0].t, 'hello');
	assert.deepEqual(s.sent[0].d, { token: 'x' });
	s.receive({ t: 'welcome', re: s.sent[0].id, d: { session: '1' } });
	await settle();
	assert.ok(connection.ready);
	assert.equal(log.welcomes.length, 1);
	const reply = connection.request('take', { c: 'c' });
	const sent = s.sent.at(-1);
	s.receive({ t: 'ev.msg', c: 'c', s: 1, d: {} });
	s.receive({ t: 'ok', re: sent.id, d: { head: 1 } });
	assert.deepEqual((await reply).d, { head: 1 });
	assert.deepEqual(log.events.map((f) => f.t), ['ev.msg']);
	const refused = connection.request('take', { c: 'c' });
	s.receive({ t: 'err', re: s.sent.at(-1).id, d: { code: 'conflict', text: 'no', head: { rev: 4 } } });
	await assert.rejects(refused, (e) => e.code === 'conflict' && e.head.rev === 4);
});

test('a lost connection fails what waits and comes back after the back-off', async () => {
	const { clock, Socket, connection } = await make();
	Socket.last.welcome();
	await settle();
	const request = connection.request('sync', { c: 'c' });
	Socket.last.drop(1006);
	await assert.rejects(request, (e) => e.code === 'lost');
	assert.equal(connection.status.phase, 'waiting');
	await clock.advance(499);
	assert.equal(Socket.all.length, 1);
	await clock.advance(1);
	assert.equal(Socket.all.length, 2);
	Socket.last.drop(1006);
	await clock.advance(999);
	assert.equal(Socket.all.length, 2);
	await clock.advance(1);
	assert.equal(Socket.all.length, 3);
});

test('the advice of bye comes before the own back-off and wins over "tab visible", not over the user', async () => {
	const { clock, Socket, connection } = await make();
	Socket.last.welcome();
	await settle();
	Socket.last.receive({ t: 'bye', d: { retry_ms: 12_000, reason: 'draining' } });
	Socket.last.drop(1001);
	assert.ok(connection.status.draining);
	connection.nudge();
	await clock.advance(12_499);
	assert.equal(Socket.all.length, 1);
	connection.tryNow();
	await settle();
	assert.equal(Socket.all.length, 2);
	Socket.last.welcome();
	await settle();
	assert.ok(!connection.status.draining);
});

test('online and visible try at once', async () => {
	const { Socket, connection, clock } = await make();
	Socket.last.drop(1006);
	await clock.advance(10);
	connection.nudge();
	await settle();
	assert.equal(Socket.all.length, 2);
});

test('a final close code stops until somebody begins again', async () => {
	const { clock, Socket, connection } = await make();
	Socket.last.welcome();
	await settle();
	Socket.last.drop(4101, 'logged out');
	assert.equal(connection.status.phase, 'stopped');
	assert.equal(connection.status.code, 4101);
	await clock.advance(120_000);
	assert.equal(Socket.all.length, 1);
	connection.restart();
	await settle();
	assert.equal(Socket.all.length, 2);
});

test('a refused hello is final, a busy one is not', async () => {
	const { clock, Socket, connection } = await make();
	Socket.last.open();
	Socket.last.receive({ t: 'err', re: Socket.last.sent[0].id, d: { code: 'unavailable', retry_ms: 3_000 } });
	await settle();
	await clock.advance(3_499);
	assert.equal(Socket.all.length, 1);
	await clock.advance(1);
	assert.equal(Socket.all.length, 2);
	Socket.last.open();
	Socket.last.receive({ t: 'err', re: Socket.last.sent[0].id, d: { code: 'token_expired' } });
	await settle();
	assert.equal(connection.status.phase, 'stopped');
	assert.equal(connection.status.code, 4102);
});

test('silence of 45 s is death, an answered ping is life', async () => {
	const { clock, Socket, connection } = await make();
	const s = Socket.last;
	s.welcome();
	await settle();
	for (let i = 0; i < 12; i++) {
		await clock.advance(10_000);
		const ping = s.sent.findLast((f) => f.t === 'ping');
		s.receive({ t: 'pong', re: ping.id, d: {} });
	}
	assert.ok(connection.ready);
	assert.notEqual(connection.status.rtt, null);
	await clock.advance(70_000);
	assert.ok(!s.onmessage);
	assert.ok(Socket.all.length > 1);
});

test('no welcome in time is a failed attempt', async () => {
	const { clock, Socket } = await make();
	Socket.last.open();
	await clock.advance(10_000);
	await clock.advance(500);
	assert.equal(Socket.all.length, 2);
});

test('credentials that cannot be had: retried, or final', async () => {
	let calls = 0;
	const hello = async () => {
		calls++;
		if (calls === 1) throw { retryMs: 0 };
		throw { final: true, code: 4101, reason: 'unauthorized' };
	};
	const { clock, Socket, connection } = await make({ hello });
	await settle();
	assert.equal(connection.status.phase, 'waiting');
	await clock.advance(500);
	assert.equal(calls, 2);
	assert.equal(connection.status.phase, 'stopped');
	assert.equal(Socket.all.length, 0);
});

test('credentials that are refused again and again are asked for ever more seldom, whatever little the server asks for', async () => {
	let calls = 0;
	const { clock } = await make({ random: 0.5, hello: async () => { calls++; throw { retryMs: 20 }; } });
	await clock.advance(60_000);
	assert.ok(calls > 5 && calls <= 10, `${calls} times in a minute`);
	await clock.advance(600_000);
	assert.ok(calls <= 50, `${calls} times in eleven minutes`);
});

test('the browser says offline: the server is asked before the connection is given up', async () => {
	const { clock, Socket, connection, env } = await make();
	const s = Socket.last;
	s.welcome();
	await settle();
	env.isOnline = false;
	connection.suspect();
	assert.ok(connection.status.offline);
	s.receive({ t: 'pong', re: s.sent.at(-1).id, d: {} });
	assert.ok(connection.ready && !connection.status.offline);
	connection.suspect();
	await clock.advance(5_000);
	assert.equal(connection.status.phase, 'waiting');
	assert.ok(connection.status.offline);
});

test('what has no reply is not told again to a server that does not know it', async () => {
	const { Socket, connection, log } = await make();
	connection.tell('receipt', { c: 'c' });
	const s = Socket.last;
	s.welcome();
	await settle();
	connection.tell('receipt', { c: 'c', d: { read: 1 } });
	const told = s.sent.at(-1);
	assert.deepEqual([told.t, told.c, told.d, typeof told.id], ['receipt', 'c', { read: 1 }, 'string']);
	s.receive({ t: 'err', re: told.id, d: { code: 'rate_limited' } });
	connection.tell('receipt', { c: 'c', d: { read: 2 } });
	assert.deepEqual(s.sent.at(-1).d, { read: 2 });
	s.receive({ t: 'err', re: s.sent.at(-1).id, d: { code: 'unknown_type' } });
	const before = s.sent.length;
	connection.tell('receipt', { c: 'c', d: { read: 3 } });
	assert.equal(s.sent.length, before);
	assert.deepEqual(log.events, []);
});

test('a socket that closes is not written to: what has a reply is lost when it says so', async () => {
	const { Socket, connection } = await make();
	const s = Socket.last;
	s.welcome();
	await settle();
	const before = s.sent.length;
	s.readyState = 2;
	connection.notify('typing', { c: 'c' });
	const asked = assert.rejects(connection.request('sync', { c: 'c' }), { code: 'lost' });
	assert.equal(s.sent.length, before);
	s.drop(4101, 'logged out');
	await asked;
});

test('a page that goes away hangs up at once, and connects again when it comes back', async () => {
	const { clock, Socket, connection } = await make();
	const [win, doc] = [new EventTarget(), new EventTarget()];
	followBrowser(connection, win, doc);
	const back = (persisted) => win.dispatchEvent(Object.assign(new Event('pageshow'), { persisted }));
	const s = Socket.last;
	s.welcome();
	await settle();
	const asked = assert.rejects(connection.request('sync', { c: 'c' }), { code: 'lost' });
	win.dispatchEvent(new Event('pagehide'));
	await asked;
	assert.equal(s.closed, 1000);
	assert.ok(!connection.ready);
	back(false);
	await settle();
	assert.equal(Socket.all.length, 1);
	back(true);
	await settle();
	assert.equal(Socket.all.length, 2);
	Socket.last.welcome();
	await settle();
	assert.ok(connection.ready);
	win.dispatchEvent(new Event('pagehide')); // but stays, against its word
	await clock.advance(1_000);
	assert.equal(Socket.all.length, 3);
	connection.stop();
	win.dispatchEvent(new Event('pagehide'));
	assert.equal(connection.status.phase, 'stopped');
});
