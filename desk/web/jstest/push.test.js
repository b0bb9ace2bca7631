import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { runInNewContext } from 'node:vm';
import { bytesOf, Push } from '../static/js/console/push.js';
import { Alerts } from '../static/js/console/alerts.js';
import { MemoryArea, SafeStorage } from '../static/js/core/storage.js';
import { settle } from './support.js';

const key = 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4';

/** A browser with a push service, of which the tests know everything. */
function browser({ state = 'activated' } = {}) {
	const b = { registered: [], subscribed: 0, unsubscribed: 0, subscription: null, shown: [], messages: [], fails: null };
	const subscriptionOf = (options, n) => ({
		options,
		toJSON: () => ({ endpoint: `https://push.example/${n}`, keys: { p256dh: 'p', auth: 'a' } }),
		unsubscribe: async () => {
			b.unsubscribed++;
			b.subscription = null;
		},
	});
	b.worker = { state, listeners: [], addEventListener: (_, f) => b.worker.listeners.push(f) };
	b.registration = {
		get active() { return b.worker.state === 'activated' ? b.worker : null; },
		get installing() { return b.worker.state === 'activated' ? null : b.worker; },
		waiting: null,
		pushManager: {
			getSubscription: async () => b.subscription,
			subscribe: async (options) => {
				if (b.fails) throw b.fails;
				assert.equal(b.worker.state, 'activated');
				assert.equal(options.userVisibleOnly, true);
				b.subscription = subscriptionOf({ applicationServerKey: options.applicationServerKey.buffer }, ++b.subscribed);
				return b.subscription;
			},
		},
		getNotifications: async ({ tag }) => b.shown.filter((n) => n.tag === tag),
		showNotification: async (title, options) => b.shown.push({ title, ...options }),
	};
	b.navigator = { serviceWorker: {
		register: async (url, options) => {
			b.registered.push([url, options]);
			return b.registration;
		},
		getRegistration: async () => (b.registered.length > 0 ? b.registration : undefined),
		addEventListener: (_, f) => b.messages.push(f),
	} };
	return b;
}

function push({ b = browser(), wanted = true, serverKey = key, ...more } = {}) {
	const calls = [];
	const opened = [];
	const o = { key: serverKey, wanted, language: 'en', fails: null };
	const p = new Push({
		key: o.key, wanted: () => o.wanted, locale: () => o.language, onOpen: (c) => opened.push(c),
		env: { navigator: b.navigator, call: async (...what) => {
			if (o.fails) throw o.fails;
			calls.push(what);
		}, ...more },
	});
	return { b, p, o, calls, opened };
}

globalThis.PushManager ??= class {};

test('who wants to be called is, in the own language, and the server is told once', async () => {
	const { b, p, o, calls } = push();
	assert.equal(p.possible, true);
	assert.equal(await p.follow(), true);
	assert.equal(await p.follow(), true); // as at every reconnect
	assert.deepEqual(b.registered[0], ['/console/worker.js', { scope: '/console', updateViaCache: 'none' }]);
	assert.equal(b.subscribed, 1);
	assert.deepEqual([...new Uint8Array(b.subscription.options.applicationServerKey)], [...bytesOf(key)]);
	assert.deepEqual(calls, [['POST', '/api/v1/agent/push', { endpoint: 'https://push.example/1', keys: { p256dh: 'p', auth: 'a' }, locale: 'en' }]]);
	o.language = 'zh-CN';
	await p.follow();
	assert.equal(calls[1][2].locale, 'zh-CN');
	await p.forgotten();
	assert.equal(calls.length, 3, 'after a change of the password');
});

test('who does not want it any more is not: the browser first, then the server', async () => {
	const { b, p, o, calls } = push();
	await p.follow();
	o.wanted = false;
	assert.equal(await p.follow(), false);
	assert.equal(b.unsubscribed, 1);
	assert.deepEqual(calls.at(-1), ['POST', '/api/v1/agent/push/drop', {}]);
	assert.equal(await p.follow(), false);
	assert.equal(calls.length, 2, 'that is told once');
	o.wanted = true;
	assert.equal(await p.follow(), true);
	assert.equal(b.subscribed, 2);
});

test('what another agent has left in this browser ends, and so does what another server has', async () => {
	const b = browser();
	const before = push({ b });
	await before.p.follow();
	const next = push({ b, wanted: false });
	await next.p.follow();
	assert.equal(b.subscription, null);
	await before.p.forgotten();
	const other = push({ b, serverKey: key.replace('BCV', 'BDV') });
	assert.equal(await other.p.follow(), true);
	assert.equal(b.unsubscribed, 2);
	assert.deepEqual([...new Uint8Array(b.subscription.options.applicationServerKey)], [...bytesOf(other.o.key)]);
});

test('a server that calls nobody has the browser leave, and is not asked', async () => {
	const b = browser();
	await push({ b }).p.follow();
	const off = push({ b, serverKey: '' });
	assert.equal(off.p.possible, false);
	assert.equal(await off.p.follow(), false);
	assert.equal(b.subscription, null);
	assert.deepEqual(off.calls, []);
});

test('a browser without workers, or whose push service fails, does what it can', async () => {
	const none = push({ b: { navigator: {} } });
	assert.equal(none.p.possible, false);
	assert.equal(await none.p.follow(), false);
	await none.p.seen();
	await none.p.show('x', {});
	assert.deepEqual(none.calls, []);
	const { b, p, o, calls } = push();
	b.fails = new Error('no push service');
	assert.equal(await p.follow(), false);
	b.fails = null;
	o.fails = new Error('no server');
	assert.equal(await p.follow(), false);
	o.fails = null;
	assert.equal(await p.follow(), true, 'the next time');
	assert.equal(calls.length, 1);
});

test('the worker is waited for until it works, and one that does not start is an end', async () => {
	for (const [state, want] of [['activated', true], ['redundant', false]]) {
		const { b, p } = push({ b: browser({ state: 'installing' }) });
		const answer = p.follow();
		await settle();
		assert.equal(b.subscribed, 0);
		b.worker.state = state;
		for (const f of b.worker.listeners) f();
		assert.equal(await answer, want);
	}
});

test('the address of the worker is trusted by its own policy only', () => {
	const made = [];
	const { p } = push({ trustedTypes: { createPolicy: (name, rules) => {
		made.push(name);
		return { createScriptURL: (s) => `trusted ${rules.createScriptURL(s)}` };
	} } });
	assert.deepEqual(made, ['eddy-console']);
	assert.equal(p.script, 'trusted /console/worker.js');
});

test('a call that is pressed opens its chat, and those that are shown go when the agent is here', async () => {
	const { b, p, opened } = push();
	await p.follow();
	for (const f of b.messages) f({ data: { open: 'c1' } });
	for (const f of b.messages) f({ data: 'something else' });
	assert.deepEqual(opened, ['c1']);
	let closed = 0;
	b.shown.push({ tag: 'desk.call', close: () => closed++ }, { tag: 'desk.c1', close: () => closed++ });
	await p.seen();
	assert.equal(closed, 1);
});

test('a page that may not notify leaves it to the worker', async () => {
	globalThis.document = { hidden: true, hasFocus: () => false };
	const { b, p } = push();
	await p.follow();
	globalThis.Notification = class { static permission = 'granted'; static async requestPermission() {} constructor() { throw new TypeError('Illegal constructor'); } };
	const storage = new SafeStorage([new MemoryArea()]);
	const alerts = new Alerts({ storage, agentId: 'a', onOpen: () => {}, show: (title, options) => p.show(title, options) });
	await alerts.setPush(true);
	assert.equal(alerts.push, true);
	alerts.call({ kind: 'message', c: 'c1', title: 'Ann', body: 'hello' });
	await settle();
	assert.deepEqual(b.shown, [{ title: 'Ann', body: 'hello', tag: 'desk.c1', data: { c: 'c1' } }]);
	await alerts.setNotifications(false);
	assert.equal(alerts.push, false, 'without notifications there are no calls');
	Notification.permission = 'denied';
	await alerts.setPush(true);
	assert.equal(alerts.push, false);
	delete globalThis.Notification;
	delete globalThis.document;
});

// --- the worker itself ---

function worker({ open = [] } = {}) {
	const w = { handlers: {}, shown: [], opened: [], posted: [], focused: 0, subscribed: [], waits: [] };
	const context = {
		URL, console, Error,
		addEventListener: (name, f) => { w.handlers[name] = f; },
		skipWaiting: () => { w.skipped = true; },
		registration: {
			showNotification: async (title, options) => { w.shown.push({ title, ...options }); },
			pushManager: { subscribe: async (options) => { w.subscribed.push(options); return { endpoint: 'fresh' }; } },
		},
		clients: {
			matchAll: async () => open.map((url) => ({ url, postMessage: (m) => w.posted.push(m), focus: async () => { w.focused++; } })),
			openWindow: async (url) => { w.opened.push(url); },
		},
		fetch: async (url, options) => { w.posted.push([url, options.method, options.body]); },
	};
	runInNewContext(readFileSync(new URL('../static/console-worker.js', import.meta.url), 'utf8'), context);
	w.fire = async (name, event = {}) => {
		const waits = [];
		w.handlers[name]({ waitUntil: (p) => waits.push(p), ...event });
		await Promise.all(waits);
	};
	return w;
}

const data = (value) => ({ data: { json: () => JSON.parse(value) } });
const same = (a, b) => assert.deepEqual(JSON.parse(JSON.stringify(a)), b); // objects of another realm

test('the worker shows a call, also one that it cannot read, and answers no request', async () => {
	const w = worker();
	await w.fire('install');
	assert.equal(w.skipped, true);
	assert.equal(w.handlers.fetch, undefined);
	await w.fire('push', data('{"title":"2 new messages","body":"x","lang":"en","c":"c1","more":1}'));
	same(w.shown[0], { title: '2 new messages', body: 'x', lang: 'en', icon: '/assets/app-192.png', badge: '/assets/badge.png', tag: 'desk.call', renotify: true, data: { c: 'c1' } });
	for (const bad of [{}, { data: null }, data('{'), data('{"title":7}'), data('null')]) await w.fire('push', bad);
	assert.deepEqual(w.shown.slice(1).map((n) => n.title), ['Desk', 'Desk', 'Desk', 'Desk', 'Desk']);
});

test('a press leads to the console that is open, or to a new one', async () => {
	const press = (c) => ({ notification: { close: () => {}, data: { c } } });
	const there = worker({ open: ['https://desk.example/wall', 'https://desk.example/console#x'] });
	await there.fire('notificationclick', press('c1'));
	await there.fire('notificationclick', press(''));
	same(there.posted, [{ open: 'c1' }]);
	assert.equal(there.focused, 2);
	assert.deepEqual(there.opened, []);
	const gone = worker({ open: ['https://desk.example/wall'] });
	await gone.fire('notificationclick', press('a/b'));
	await gone.fire('notificationclick', { notification: { close: () => {}, data: null } });
	assert.deepEqual(gone.opened, ['/console#c=a%2Fb', '/console']);
});

test('a subscription that the browser has changed is told to the server', async () => {
	const w = worker();
	await w.fire('pushsubscriptionchange', { newSubscription: { endpoint: 'new' } });
	await w.fire('pushsubscriptionchange', { newSubscription: null, oldSubscription: { options: { applicationServerKey: 'k' } } });
	await w.fire('pushsubscriptionchange', {});
	same(w.posted, [['/api/v1/agent/push', 'POST', '{"endpoint":"new"}'], ['/api/v1/agent/push', 'POST', '{"endpoint":"fresh"}']]);
	same(w.subscribed, [{ userVisibleOnly: true, applicationServerKey: 'k' }]);
});
