import test from 'node:test';
import assert from 'node:assert/strict';
import { PollSocket } from '../static/js/core/poll-socket.js';
import { Clock, deferred, settle } from './support.js';

/** A server that the test plays: every request waits for its answer. */
function make() {
	const clock = new Clock();
	const requests = [];
	const fetch = (url, options) => {
		const d = deferred();
		const request = { url, method: options.method, body: options.body, headers: options.headers, keepalive: options.keepalive };
		request.answer = (body, status = 200) => d.resolve({ ok: status < 300, status, json: async () => body });
		request.cut = () => d.reject(new TypeError('cut'));
		options.signal?.addEventListener('abort', () => d.reject(new Error('aborted')));
		requests.push(request);
		return d.promise;
	};
	const socket = new PollSocket('/p', { fetch, setTimeout: clock.env.setTimeout, task: settle });
	const log = { open: 0, messages: [], closes: [], between: 0 };
	socket.onopen = () => log.open++;
	socket.onmessage = (e) => {
		log.messages.push({ ...JSON.parse(e.data), after: log.between });
		Promise.resolve().then(() => {}).then(() => log.between++);
		if (log.messages.length === 1) throw new Error('a mistake of the page');
	};
	socket.onclose = (e) => log.closes.push([e.code, e.reason]);
	const last = async () => {
		for (let i = 0; i < 5; i++) await settle();
		return requests.at(-1);
	};
	const opened = async () => {
		(await last()).answer({ id: 'secret' }, 201);
		return last();
	};
	return { clock, requests, socket, log, last, opened };
}

test('events come in order and are acknowledged, the end has its code', async () => {
	const { log, last, opened, requests } = make();
	assert.equal((await last()).url, '/p/open');
	const first = await opened();
	assert.equal(log.open, 1);
	assert.deepEqual([first.method, first.url, first.headers.Authorization], ['GET', '/p?after=0', 'Bearer secret']);
	first.answer({ last: 2, events: [{ a: 1 }, { a: 2 }] });
	const second = await last();
	assert.equal(second.url, '/p?after=2');
	second.answer({ last: 3, events: [{ a: 3 }], close: { code: 4000, reason: 'draining' } });
	await last();
	assert.deepEqual(log.messages, [{ a: 1, after: 0 }, { a: 2, after: 1 }, { a: 3, after: 2 }]); // each had its time
	assert.deepEqual(log.closes, [[4000, 'draining']]);
	assert.equal(requests.length, 3);
});

test('a request that is cut is made again, with the same number', async () => {
	const { clock, last, opened, requests, socket, log } = make();
	const poll = await opened();
	poll.cut();
	await clock.advance(1000);
	assert.equal(requests.length, 3);
	assert.equal((await last()).url, '/p?after=0');
	socket.send('{"t":"one"}');
	const sent = await last();
	assert.deepEqual([sent.url, sent.body], ['/p?n=1', '[{"t":"one"}]']);
	socket.send('{"t":"two"}');
	socket.send('{"t":"three"}');
	sent.answer({}, 502);
	await clock.advance(1000);
	const again = await last();
	assert.deepEqual([again.url, again.body], ['/p?n=1', '[{"t":"one"}]']);
	again.answer({ next: 2 });
	const rest = await last();
	assert.deepEqual([rest.url, rest.body], ['/p?n=2', '[{"t":"two"},{"t":"three"}]']);
	assert.deepEqual(log.closes, []);
});

test('what is cut for good, or refused, ends the session once', async () => {
	const { clock, last, opened, log, requests } = make();
	await opened();
	for (let i = 0; i < 4; i++) {
		(await last()).cut();
		await clock.advance(1000);
	}
	assert.deepEqual(log.closes, [[1006, '']]);
	assert.equal((await last()).url, '/p/close');
	const refused = make();
	(await refused.opened()).answer({}, 404);
	await settle();
	assert.deepEqual(refused.log.closes, [[1006, '']]);
	const never = make();
	(await never.last()).cut();
	await settle();
	assert.deepEqual(never.log.closes, [[1006, '']]);
	assert.equal(never.requests.length, 1);
	assert.equal(requests.filter((r) => r.url === '/p/close').length, 1);
});

test('close tells the server, although the page goes away, and nothing comes after it', async () => {
	const { last, opened, socket, log } = make();
	const poll = await opened();
	socket.close(1000, 'bye');
	const told = await last();
	assert.deepEqual([told.method, told.url, told.keepalive], ['POST', '/p/close', true]);
	poll.answer({ last: 1, events: [{ a: 1 }] });
	await settle();
	assert.deepEqual(log.messages, []);
	assert.equal(socket.readyState, 3);
});
