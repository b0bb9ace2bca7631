// One im.v1.json session, by WebSocket or long polls, that keeps itself alive: hello and
// welcome, replies matched by id, heartbeat, back-off and close codes.
// It knows nothing of pages; clock, timers and the socket
// constructor come in so that the tests can drive it.

import { Backoff, closeClass } from './backoff.js';
import { now } from './steady.js';
import { SafeStorage, areaOf } from './storage.js';
import { Way } from './way.js';

const socketOpen = 1; // readyState of a WebSocket that takes messages
const helloTimeout = 10_000; // connect and welcome
const requestTimeout = 15_000; // a reply that never comes frees its sender
const pingEvery = 25_000; // also measures the round trip
const deadAfter = 45_000; // silence that means the connection is gone
const pingGrace = 8_000; // a throttled tab gets this long after its ping
const maxTold = 64; // ids kept of what has no reply
const probeTimeout = 5_000; // the browser says "offline": is our server gone too?

// What the server says to a hello, as the close code that follows it.
const refusals = { unauthorized: 4101, forbidden: 4101, token_expired: 4102, blocked: 4103 };

/** Why a request failed. `code` is the server's code, or 'lost' when the connection ended first. */
export class RequestError extends Error {
	constructor(code, message, retryMs = 0, head = null, reason = '') {
		super(message || code);
		this.reason = reason;
		this.code = code;
		this.retryMs = retryMs;
		this.head = head;
	}
}

/**
 * @typedef {'idle'|'connecting'|'ready'|'waiting'|'stopped'} Phase
 * @typedef {{phase: Phase, draining: boolean, offline: boolean, retryAt: number, attempts: number, code: number, reason: string, rtt: number|null}} Status
 */
export class Connection {
	/**
	 * @param {object} o
	 * @param {() => string} o.url
	 * @param {() => Promise<object>|object} o.hello payload of the hello, asked for at every connect; may reject with {final: true, reason}
	 * @param {(d: object) => void} o.onWelcome
	 * @param {(frame: object) => void} o.onEvent frames that are not replies
	 * @param {(s: Status) => void} o.onStatus
	 * @param {object} [o.env] WebSocket, now, setTimeout, clearTimeout, online, random, polls, fetch, task, memory; the browser's by default
	 */
	constructor({ url, hello, onWelcome, onEvent, onStatus, env = browserEnv() }) {
		Object.assign(this, { url, hello, onWelcome, onEvent, onStatus, env });
		this.backoff = new Backoff({ random: env.random });
		this.way = new Way(env);
		this.socket = null;
		this.pending = new Map(); // request id -> {resolve, reject, timer, at}
		this.told = new Map(); // request id -> type, of what has no reply but may be refused
		this.unknown = new Set(); // types that this server does not know
		this.nextId = 1;
		this.timers = {};
		this.serverRetryAt = 0;
		this.status = { phase: 'idle', draining: false, offline: false, retryAt: 0, attempts: 0, code: 0, reason: '', rtt: null };
	}

	get ready() {
		return this.status.phase === 'ready';
	}

	/** Connects now unless a connection exists or is being made. */
	start() {
		if (this.socket || this.attempt) return;
		this.#clear('retry');
		this.#open();
	}

	/** Ends the session; no further attempts. */
	stop() {
		this.#clear('retry');
		this.#drop(1000, 'bye');
		this.#set({ phase: 'stopped', code: 0, reason: '' });
	}

	/** Begins again after a stop, with new credentials. */
	restart() {
		if (this.status.phase !== 'stopped') return;
		this.serverRetryAt = 0;
		this.start();
	}

	/** The user asked: try at once, whatever the server advised. */
	tryNow() {
		this.serverRetryAt = 0;
		this.nudge();
	}

	/** Something changed for the better (online, tab visible): try now, unless the server asked us to wait. */
	nudge() {
		const { phase } = this.status;
		if (this.status.offline && this.env.online()) {
			this.way.moved();
			this.#set({ offline: false });
		}
		if (phase === 'ready') {
			this.#beat();
			return;
		}
		if (phase !== 'waiting' || this.serverRetryAt > this.env.now()) return;
		this.start();
	}

	/** The page goes away, and may come back: the other side learns it at once, not when nothing has come for a while. */
	hangUp() {
		if (this.socket || this.attempt) this.#lost(0, 'left');
	}

	/**
	 * The browser says that the network is gone. A server on this machine may
	 * still be there, so we ask it instead of believing.
	 */
	suspect() {
		this.#set({ offline: true });
		if (!this.ready) return;
		this.#ping(this.env.now());
		this.#timer('probe', probeTimeout, () => this.#lost(0, 'offline'));
	}

	/**
	 * Sends a command and waits for its reply.
	 * @returns {Promise<object>} the reply frame
	 */
	request(t, frame = {}) {
		if (!this.ready) return Promise.reject(new RequestError('lost', 'not connected'));
		return this.#ask(t, frame, requestTimeout);
	}

	/** Sends a command that has no reply; dropped when not connected. */
	notify(t, frame = {}) {
		if (this.ready) this.#write({ t, ...frame });
	}

	/** Like notify, with an id: a server that does not know the type is not told again. */
	tell(t, frame = {}) {
		if (!this.ready || this.unknown.has(t)) return;
		const id = this.#id();
		this.told.set(id, t);
		if (this.told.size > maxTold) this.told.delete(this.told.keys().next().value);
		this.#write({ t, id, ...frame });
	}

	/** Milliseconds that the oldest unanswered request has waited. */
	oldestWait() {
		let oldest = Infinity;
		for (const p of this.pending.values()) oldest = Math.min(oldest, p.at);
		return oldest === Infinity ? 0 : this.env.now() - oldest;
	}

	#id() {
		return String(this.nextId++);
	}

	// A socket that closes takes nothing more, some time before it says so: what has a reply is lost then.
	#write(frame) {
		if (this.socket.readyState === socketOpen) this.socket.send(JSON.stringify(frame));
	}

	#ask(t, frame, timeout) {
		const id = this.#id();
		return new Promise((resolve, reject) => {
			const timer = this.env.setTimeout(() => {
				this.pending.delete(id);
				reject(new RequestError('timeout', 'no answer in time'));
			}, timeout);
			this.pending.set(id, { resolve, reject, timer, at: this.env.now() });
			this.#write({ t, id, ...frame });
		});
	}

	async #open() {
		this.#set({ phase: 'connecting' });
		let payload;
		const attempt = (this.attempt = Symbol('attempt'));
		try {
			await this.way.ready();
			payload = await this.hello();
		} catch (err) {
			if (attempt !== this.attempt || this.status.phase !== 'connecting') return;
			this.attempt = null;
			if (err?.final) this.#set({ phase: 'stopped', code: err.code ?? 4101, reason: err.reason ?? '' });
			else this.#retry(err?.retryMs ?? 0);
			return;
		}
		if (attempt !== this.attempt || this.status.phase !== 'connecting') return;
		this.#dial(payload);
	}

	#dial(payload) {
		let socket;
		try {
			socket = this.way.dial(this.url());
		} catch {
			this.#retry(0);
			return;
		}
		this.socket = socket;
		const current = () => this.socket === socket;
		let opened = false;
		this.heard = false; // the server has said something
		const ended = (code, reason) => {
			if (!this.heard && (code < 4000 || code === 4013)) this.way.failed(opened);
			this.#lost(code, reason);
		};
		this.#timer('hello', helloTimeout, () => ended(0, 'no welcome in time'));
		socket.onopen = () => {
			if (!current()) return;
			opened = true;
			this.lastHeard = this.env.now();
			this.#ask('hello', { d: payload }, helloTimeout).then(
				(reply) => current() && this.#welcomed(reply.d ?? {}),
				(err) => current() && this.#refused(err),
			);
		};
		socket.onmessage = (e) => current() && this.#frame(e.data);
		socket.onclose = (e) => current() && ended(e.code, e.reason);
	}

	#welcomed(d) {
		this.#clear('hello');
		const now = this.env.now();
		this.backoff.up(now);
		this.serverRetryAt = 0;
		this.#look(this.way.up());
		this.#set({ phase: 'ready', draining: false, offline: false, retryAt: 0, attempts: 0, code: 0, reason: '' });
		this.onWelcome(d);
		this.#beat();
	}

	// By long polls: after some time, is there a way for a WebSocket?
	#look(wait) {
		if (wait === 0) return;
		this.#timer('look', wait, async () => {
			const { socket } = this;
			const found = this.pending.size === 0 && (await this.way.probe(this.url())); // nobody waits for a reply
			if (this.socket !== socket) return;
			if (!found) {
				this.#look(this.way.wait);
				return;
			}
			this.#drop(1000, '');
			this.#open();
		});
	}

	#refused(err) {
		if (err.code === 'lost') return; // the close event says more
		const code = refusals[err.code];
		if (code) {
			this.#drop(1000, err.code);
			this.#set({ phase: 'stopped', code, reason: err.message });
			return;
		}
		this.#adviseRetry(err.retryMs);
		this.#lost(0, err.message);
	}

	#frame(data) {
		let frame;
		try {
			frame = JSON.parse(data);
		} catch {
			return; // not ours; the sequence numbers show if anything is missing
		}
		this.heard = true;
		this.lastHeard = this.env.now();
		if (this.timers.probe !== undefined) {
			this.#clear('probe');
			this.#set({ offline: false });
		}
		const waiting = frame.re !== undefined && this.pending.get(String(frame.re));
		if (waiting) {
			this.pending.delete(String(frame.re));
			this.env.clearTimeout(waiting.timer);
			if (frame.t === 'err') {
				const d = frame.d ?? {};
				waiting.reject(new RequestError(d.code ?? 'internal', d.text, d.retry_ms, d.head, d.reason));
			} else {
				waiting.resolve(frame);
			}
			return;
		}
		const told = frame.t === 'err' && frame.re !== undefined && this.told.get(String(frame.re));
		if (told) {
			if (frame.d?.code === 'unknown_type') this.unknown.add(told);
			return;
		}
		if (frame.t === 'bye') {
			this.#adviseRetry(frame.d?.retry_ms);
			this.#set({ draining: true, reason: frame.d?.reason ?? '' });
			return;
		}
		this.onEvent(frame);
	}

	#adviseRetry(ms) {
		if (ms > 0) this.serverRetryAt = this.env.now() + ms;
	}

	// Heartbeat. The server's pings are answered by the browser and invisible
	// here, so we ask ourselves every 25 s; 45 s of silence is death.
	#beat() {
		const now = this.env.now();
		const silent = now - this.lastHeard;
		const asked = this.pingAt ?? 0;
		if (asked && silent >= deadAfter && now - asked >= pingGrace) {
			this.#lost(0, 'silent for 45 s');
			return;
		}
		if (!asked && (now - (this.lastPing ?? 0) >= pingEvery || this.status.rtt === null)) this.#ping(now);
		this.#timer('beat', 5_000, () => this.#beat());
	}

	#ping(now) {
		this.pingAt = this.lastPing = now;
		this.#ask('ping', { d: { time: now } }, deadAfter + pingGrace).then(
			() => {
				this.pingAt = 0;
				this.#set({ rtt: this.env.now() - now });
			},
			() => { this.pingAt = 0; },
		);
	}

	#lost(code, reason) {
		this.#drop(1000, '');
		const kind = closeClass(code);
		if (kind === 'final') {
			this.#set({ phase: 'stopped', code, reason });
			return;
		}
		this.#retry(0, { code, reason, draining: kind === 'draining' || this.status.draining });
	}

	#retry(serverMs, change = {}) {
		this.#adviseRetry(serverMs);
		const now = this.env.now();
		const delay = this.backoff.next(this.serverRetryAt - now);
		this.#set({ ...change, phase: 'waiting', offline: !this.env.online(), retryAt: now + delay, attempts: this.status.attempts + 1 });
		this.#timer('retry', delay, () => this.start());
	}

	// Forgets the socket; everybody who waits for a reply learns that it is lost.
	#drop(code, reason) {
		const { socket } = this;
		this.attempt = null;
		this.socket = null;
		this.pingAt = 0;
		this.#clear('hello');
		this.#clear('beat');
		this.#clear('probe');
		this.#clear('look');
		if (socket) {
			this.backoff.down(this.env.now());
			socket.onopen = socket.onmessage = socket.onclose = null;
			try {
				socket.close(code, reason);
			} catch { /* it was never open */ }
		}
		const waiting = [...this.pending.values()];
		this.pending.clear();
		for (const p of waiting) {
			this.env.clearTimeout(p.timer);
			p.reject(new RequestError('lost', 'connection lost'));
		}
		this.status.rtt = null;
	}

	#set(change) {
		this.status = { ...this.status, ...change };
		this.onStatus(this.status);
	}

	#timer(name, ms, f) {
		this.#clear(name);
		this.timers[name] = this.env.setTimeout(f, ms);
	}

	#clear(name) {
		if (this.timers[name] !== undefined) this.env.clearTimeout(this.timers[name]);
		delete this.timers[name];
	}
}

// Timers would do, but a tab in the background has few of them.
function nextTask() {
	const { port1, port2 } = new MessageChannel();
	return new Promise((resolve) => {
		port1.onmessage = () => {
			port1.close();
			resolve();
		};
		port2.postMessage(0);
	});
}

function browserEnv() {
	return {
		WebSocket: globalThis.WebSocket,
		now,
		setTimeout: (f, ms) => setTimeout(f, ms),
		clearTimeout: (t) => clearTimeout(t),
		online: () => navigator.onLine !== false,
		random: Math.random,
		polls: () => import('./poll-socket.js'),
		fetch: (...args) => fetch(...args),
		task: nextTask,
		memory: new SafeStorage([areaOf('sessionStorage')]),
	};
}

/** Lets the browser's own signals drive a connection. */
export function followBrowser(connection, win = window, doc = document) {
	win.addEventListener('online', () => connection.nudge());
	win.addEventListener('offline', () => connection.suspect());
	doc.addEventListener('visibilitychange', () => {
		if (!doc.hidden) connection.nudge();
	});
	win.addEventListener('pagehide', () => connection.hangUp());
	win.addEventListener('pageshow', (e) => {
		if (e.persisted) connection.nudge();
	});
}

/** The WebSocket address of a path on this origin. */
export function socketURL(path) {
	const url = new URL(path, location.href);
	url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
	return url.href;
}
