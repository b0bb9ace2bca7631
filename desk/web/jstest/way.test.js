import test from 'node:test';
import assert from 'node:assert/strict';
import { Connection } from '../static/js/core/connection.js';
import { PollSocket } from '../static/js/core/poll-socket.js';
import { SafeStorage, MemoryArea } from '../static/js/core/storage.js';
import { Clock, settle, socketClass } from './support.js';

/** A page whose polls are answered by `polls`, and whose WebSockets the test plays. */
async function make({ memory = new SafeStorage([new MemoryArea()]), reach = true } = {}) {
	const clock = new Clock();
	const Socket = socketClass();
	const net = { reach, opened: 0 };
	const fetch = async (url, { method, body, signal }) => {
		if (!net.reach) throw new TypeError('no network');
		const json = (o) => ({ ok: true, status: 200, json: async () => o });
		if (url.endsWith('/open')) {
			net.opened++;
			net.events = [];
			net.waiting = null;
			return json({ id: `${net.opened}` });
		}
		if (method === 'POST' && !url.endsWith('/close')) {
			for (const f of JSON.parse(body)) {
				net.events.push(f.t === 'hello' ? { t: 'welcome', re: f.id, d: {} } : { t: 'pong', re: f.id, d: {} });
			}
			net.waiting?.();
			return json({});
		}
		if (method === 'GET') {
			while (!net.events.length) {
				await new Promise((resolve, reject) => {
					net.waiting = resolve;
					signal.addEventListener('abort', () => reject(new Error('aborted')));
				});
			}
			return json({ last: 1, events: net.events.splice(0) });
		}
		return json({});
	};
	const env = { ...clock.env, WebSocket: Socket, random: () => 0, online: () => env.isOnline, isOnline: true, fetch, memory, task: settle, polls: async () => ({ PollSocket }) };
	const connection = new Connection({ url: () => 'ws://x/ws', hello: () => ({}), env, onWelcome: () => {}, onEvent: () => {}, onStatus: () => {} });
	connection.start();
	await settle();
	return { clock, Socket, env, connection, net, memory };
}

const byPolls = (connection) => connection.socket instanceof PollSocket;

test('a WebSocket that fails twice gives way to polls, which the tab remembers', async () => {
	const { clock, Socket, connection, net, memory } = await make();
	Socket.last.drop(1006);
	await clock.advance(0);
	assert.equal(Socket.all.length, 2);
	Socket.last.drop(1006);
	await clock.advance(0);
	assert.ok(byPolls(connection) && connection.ready);
	const again = await make({ memory });
	assert.ok(byPolls(again.connection) && again.connection.ready);
	assert.equal(again.Socket.all.length, 0);
	assert.equal(net.opened, 1);
});

test('a WebSocket that opens and stays silent gives way at once', async () => {
	const { clock, Socket, connection } = await make();
	Socket.last.open();
	await clock.advance(10_000);
	assert.ok(byPolls(connection) && connection.ready);
	assert.equal(Socket.all.length, 1);
});

test('a WebSocket that was good, or whose server refuses, is not given up quickly', async () => {
	const { clock, Socket, connection } = await make();
	Socket.last.welcome();
	await settle();
	for (let i = 0; i < 6; i++) {
		assert.ok(!byPolls(connection));
		Socket.last.drop(1006);
		await clock.advance(0);
	}
	assert.ok(!byPolls(connection)); // the first of these had been welcomed
	Socket.last.drop(1006);
	await clock.advance(0);
	assert.ok(byPolls(connection));
	const busy = await make();
	for (let i = 0; i < 4; i++) {
		busy.Socket.last.open();
		busy.Socket.last.receive({ t: 'err', re: busy.Socket.last.sent[0].id, d: { code: 'unavailable' } });
		await busy.clock.advance(0);
		busy.Socket.last.drop(4000);
		await busy.clock.advance(0);
	}
	assert.ok(!byPolls(busy.connection));
});

test('without a server both ways are tried in turn, and the first that leads there is taken', async () => {
	const { clock, Socket, connection, net } = await make({ reach: false });
	for (let i = 0; i < 4; i++) {
		if (!byPolls(connection)) Socket.last.drop(1006);
		await clock.advance(0);
	}
	assert.equal(net.opened, 0);
	assert.equal(Socket.all.length, 5); // polls fail by themselves in between
	Socket.last.welcome();
	await settle();
	assert.ok(connection.ready && !byPolls(connection));
});

test('polls look for a WebSocket seldom, and leave only for one that carries messages', async () => {
	const { clock, Socket, connection, memory } = await make();
	for (let i = 0; i < 2; i++) {
		Socket.last.drop(1006);
		await clock.advance(0);
	}
	const before = Socket.all.length;
	await clock.advance(5_000);
	assert.equal(Socket.all.length, before + 1);
	Socket.last.open(); // and silent
	await clock.advance(10_000);
	assert.ok(byPolls(connection) && connection.ready);
	assert.equal(Socket.last.closed, 1000);
	await clock.advance(599_000);
	assert.equal(Socket.all.length, before + 1);
	await clock.advance(1_000);
	assert.equal(Socket.all.length, before + 2);
	Socket.last.open();
	assert.deepEqual(Socket.last.sent.map((f) => f.t), ['ping']);
	Socket.last.receive({ t: 'err', re: 'probe', d: { code: 'out_of_order' } });
	await settle();
	assert.equal(Socket.all.length, before + 3);
	Socket.last.welcome();
	await settle();
	assert.ok(connection.ready && !byPolls(connection));
	assert.equal(memory.get('desk.way'), null);
});

test('a WebSocket that only seemed to have a way is left at its first failure', async () => {
	const { clock, Socket, connection } = await make();
	for (let i = 0; i < 2; i++) {
		Socket.last.drop(1006);
		await clock.advance(0);
	}
	await clock.advance(5_000);
	Socket.last.open();
	Socket.last.receive({ t: 'err', re: 'probe', d: { code: 'out_of_order' } });
	await settle();
	assert.ok(!byPolls(connection));
	Socket.last.drop(1006);
	await clock.advance(0);
	assert.ok(byPolls(connection) && connection.ready);
});
