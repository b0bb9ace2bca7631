// Unsent messages of one conversation: kept in storage until the server has
// acknowledged them, sent one at a time and in order, sent again after a
// reconnect with the same client_id (the server drops repeats).
//
// Every message has its own storage key, so two tabs on the same conversation
// never overwrite each other's unsent messages.

import { Backoff } from './backoff.js';
import { now } from './steady.js';
import { SafeStorage, uuid } from './storage.js';

const giveUpAfter = 120_000; // then the writer decides: retry or discard
const retryDelay = 1_000; // least wait when the server names none

/**
 * @typedef {'pending'|'sending'|'acked'|'failed'} State acked: committed, its event has not come yet
 * @typedef {{client_id: string, at: number, n: number, body: object, state: State, code?: string, since: number}} Item
 */
export class Outbox {
	/**
	 * @param {object} o
	 * @param {string} o.scope who and where, part of the storage key
	 * @param {(item: Item) => Promise<object>} o.send rejects with {code, retryMs}; code 'lost' or 'timeout' = unknown, send again
	 * @param {(item: Item, ack: object) => void} o.onAck
	 * @param {() => void} o.onChange
	 * @param {SafeStorage} [o.storage]
	 * @param {object} [o.env] now, setTimeout, clearTimeout, random
	 */
	constructor({ scope, send, onAck, onChange, storage = new SafeStorage(), env = globalEnv() }) {
		Object.assign(this, { scope, send, onAck, onChange, storage, env });
		this.backoff = new Backoff({ random: env.random });
		this.prefix = `desk.outbox.${scope}.`;
		this.items = storage.keys(this.prefix).map((k) => storage.get(k)).filter(valid)
			.sort((a, b) => a.at - b.at || a.n - b.n)
			.map((i) => ({ ...i, state: i.state === 'failed' ? 'failed' : 'pending' }));
		this.counter = this.items.reduce((max, i) => Math.max(max, i.n), 0);
		this.open = false;
		this.busy = false;
		this.backoff = new Backoff({ random: env.random });
	}

	/** False when unsent messages would not survive a reload. */
	get persistent() {
		return this.storage.persistent;
	}

	/** Queues a message. @param {object} body what goes into d besides client_id */
	add(body) {
		const now = this.env.now();
		const item = { client_id: uuid(), at: now, n: ++this.counter, body, state: 'pending', since: now };
		this.items.push(item);
		this.#save(item);
		this.onChange();
		this.#pump();
		return item;
	}

	/** The session is up (true) or gone (false). */
	setOpen(open) {
		this.open = open;
		if (!open) return;
		this.#clear();
		this.#pump();
	}

	/** The writer asked to try a failed message again. It keeps its client_id, so it can still not appear twice. */
	retry(clientId) {
		const item = this.#find(clientId);
		if (item?.state !== 'failed') return;
		item.state = 'pending';
		item.since = this.env.now();
		delete item.code;
		this.#save(item);
		this.onChange();
		this.#pump();
	}

	/** The writer gave up on a failed message. */
	discard(clientId) {
		const item = this.#find(clientId);
		if (item?.state === 'failed') this.#remove(item);
	}

	/** A durable event with this client_id arrived: it is accepted, even when the ack was lost. */
	accepted(clientId) {
		const item = this.#find(clientId);
		if (item) this.#remove(item);
	}

	/** Marks what has waited for 2 min as not sent; called now and then. */
	expire() {
		const now = this.env.now();
		let changed = false;
		for (const item of this.items) {
			if (item.state !== 'pending' || now - item.since < giveUpAfter) continue;
			this.#fail(item, 'not_sent');
			changed = true;
		}
		if (changed) this.onChange();
	}

	/** Stops timers and forgets nothing that is stored. */
	dispose() {
		this.open = false;
		this.#clear();
		this.disposed = true;
	}

	/** Takes over what another outbox has not sent, which ends. */
	adopt(other) {
		for (const { client_id, at, body, state, code, since } of other.items) {
			if (this.#find(client_id)) continue;
			const item = { client_id, at, n: ++this.counter, body, since, ...(state === 'failed' ? { state, code } : { state: 'pending' }) };
			this.items.push(item);
			this.#save(item);
		}
		other.dispose();
		other.clear();
		this.#pump();
	}

	/** Takes back what the server does not have, to be sent in another way. @returns {object[]} the bodies */
	recall() {
		const items = this.items.filter((i) => i.state !== 'acked');
		for (const item of items) this.#remove(item);
		return items.map((i) => i.body);
	}

	/** Removes everything, stored messages included (logout). */
	clear() {
		for (const item of this.items) this.storage.remove(this.prefix + item.client_id);
		this.items = [];
		this.onChange();
	}

	#find(clientId) {
		return this.items.find((i) => i.client_id === clientId);
	}

	#save(item) {
		const { state, ...rest } = item;
		this.storage.set(this.prefix + item.client_id, { ...rest, state: state === 'failed' ? 'failed' : 'pending' });
	}

	#remove(item) {
		this.items = this.items.filter((i) => i !== item);
		this.storage.remove(this.prefix + item.client_id);
		this.onChange();
	}

	#fail(item, code) {
		item.state = 'failed';
		item.code = code;
		this.#save(item);
	}

	// Sends the oldest message that is not failed, then the next. A failed
	// message does not hold back later ones: its writer has been told.
	async #pump() {
		if (!this.open || this.busy || this.disposed || this.timer) return;
		const item = this.items.find((i) => i.state === 'pending');
		if (!item) return;
		this.busy = true;
		item.state = 'sending';
		this.onChange();
		try {
			const ack = await this.send(item);
			this.busy = false;
			this.backoff.attempt = 0;
			this.#settle(item, ack);
		} catch (err) {
			this.busy = false;
			this.#failed(item, err);
		}
		this.#pump();
	}

	// Acknowledged means stored for good: nothing to keep here. The item stays
	// in view until its own event arrives.
	#settle(item, ack) {
		if (this.disposed || !this.items.includes(item)) return;
		this.backoff.reset();
		this.storage.remove(this.prefix + item.client_id);
		item.state = 'acked';
		this.onAck(item, ack);
		this.onChange();
	}

	#failed(item, err) {
		if (this.disposed || !this.items.includes(item)) return;
		const again = err.code === 'lost' || err.code === 'timeout' || err.retryMs > 0 || retryable.has(err.code);
		if (!again) {
			this.#fail(item, err.code);
		} else {
			item.state = 'pending';
			if (err.code !== 'lost') this.#later(this.backoff.next(err.retryMs || retryDelay));
		}
		this.onChange();
	}

	#later(ms) {
		this.#clear();
		this.timer = this.env.setTimeout(() => {
			this.timer = null;
			this.#pump();
		}, ms);
	}

	#clear() {
		if (this.timer) this.env.clearTimeout(this.timer);
		this.timer = null;
	}
}

const retryable = new Set(['busy', 'unavailable', 'rate_limited', 'internal']);

function valid(item) {
	return item && typeof item.client_id === 'string' && typeof item.body === 'object' && Number.isFinite(item.at);
}

function globalEnv() {
	return { now, setTimeout: (f, ms) => setTimeout(f, ms), clearTimeout: (t) => clearTimeout(t) };
}
