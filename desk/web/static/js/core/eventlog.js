// The durable events of one conversation, in order and without holes: what is
// already known is dropped, a gap is fetched with sync.

import { Backoff } from './backoff.js';

const maxWaiting = 500; // events held beyond a gap; the rest comes with the fetch
const retryDelay = 1_000; // least wait when the server names none

export class EventLog {
	/**
	 * @param {object} o
	 * @param {(after: number, limit?: number) => Promise<{events: object[], more: boolean}>} o.fetch one page; rejects with {code, retryMs}
	 * @param {(ev: object) => void} o.onEvent each event once, in order
	 * @param {object} [o.env] setTimeout, random
	 */
	constructor({ fetch, onEvent, env = { setTimeout: (f, ms) => setTimeout(f, ms) } }) {
		Object.assign(this, { fetch, onEvent, env });
		this.backoff = new Backoff({ random: env.random });
		this.events = [];
		this.first = 0; // events before the earliest one held, see startAt
		this.last = 0;
		this.waiting = new Map();
		this.clients = new Set(); // client ids of all messages seen
		this.filling = null;
		this.version = 0;
	}

	/** Takes an event from the wire. */
	accept(ev) {
		if (!Number.isSafeInteger(ev.s) || ev.s <= this.last) return;
		if (ev.s === this.last + 1) {
			this.#push(ev);
			this.#drain();
			return;
		}
		if (this.waiting.size < maxWaiting) this.waiting.set(ev.s, ev);
		this.fill();
	}

	/** Fetches until nothing is missing. Returns when it gave up or is done. */
	fill() {
		this.filling ??= this.#fill().finally(() => { this.filling = null; });
		return this.filling;
	}

	/**
	 * Begins after event n instead of at the first one; what came before it is fetched with older(). It is for a log that
	 * holds nothing yet.
	 */
	startAt(n) {
		if (this.last > 0 || n <= 0) return;
		this.first = this.last = n;
	}

	/**
	 * Fetches the events before the earliest one held.
	 * @param {number} count how many, at most
	 * @returns {Promise<object[]>} in order; none when there are none, or when another call is under way
	 */
	async older(count) {
		if (this.first === 0 || this.reaching) return [];
		this.reaching = true;
		const { version, first } = this;
		const got = [];
		try {
			for (let after = Math.max(0, first - count); after < first;) {
				const page = await this.fetch(after, first - after);
				if (version !== this.version) return [];
				const before = after;
				for (const ev of page.events) {
					if (ev.s !== after + 1 || ev.s > first) continue;
					got.push(ev);
					after = ev.s;
				}
				if (after === before) return []; // no progress
			}
		} finally {
			this.reaching = false;
		}
		for (const ev of got) this.#know(ev);
		this.events = [...got, ...this.events];
		this.first = first - got.length;
		return got;
	}

	/** Whether a message with this client id is in the log. */
	has(clientId) {
		return this.clients.has(clientId);
	}

	/** Forgets everything (the server's store is another one). */
	reset() {
		this.events = [];
		this.first = 0;
		this.last = 0;
		this.waiting.clear();
		this.clients.clear();
		this.version++;
	}

	async #fill() {
		const { version } = this;
		for (let more = true; more;) {
			let page;
			try {
				page = await this.fetch(this.last);
			} catch (err) {
				this.#again(err);
				return;
			}
			this.backoff.reset();
			if (version !== this.version) return;
			const before = this.last;
			for (const ev of page.events) {
				if (ev.s === this.last + 1) this.#push(ev);
			}
			this.#drain();
			more = page.more && this.last > before;
		}
	}

	// A lost connection needs no retry: the next hello tells the server where we are.
	#again(err) {
		if (err.code === 'timeout' || err.retryMs > 0) {
			this.env.setTimeout(() => this.fill(), this.backoff.next(err.retryMs || retryDelay));
		}
	}

	#drain() {
		for (const s of this.waiting.keys()) {
			if (s <= this.last) this.waiting.delete(s);
		}
		for (let ev; (ev = this.waiting.get(this.last + 1)) !== undefined;) {
			this.waiting.delete(ev.s);
			this.#push(ev);
		}
	}

	#push(ev) {
		this.last = ev.s;
		this.events.push(ev);
		this.#know(ev);
		this.onEvent(ev);
	}

	#know(ev) {
		if (ev.d?.client_id) this.clients.add(ev.d.client_id);
	}
}

/** The head of a conversation after a state event. */
export function headAfter(head, ev) {
	if (head && ev.d.rev < head.rev) return head;
	const next = { ...head, id: ev.c, state: ev.d.state, rev: ev.d.rev, epoch: ev.d.epoch };
	if (ev.d.owner) next.owner = ev.d.owner;
	else delete next.owner;
	const back = ev.d.event === 'returned' || ev.d.event === 'transferred'; // it keeps its time
	if (ev.d.state === 'queued' && !(back && next.queued)) next.queued = ev.d.time;
	if (ev.d.state === 'deferred') delete next.queued;
	if (ev.d.event === 'opened') next.opened ??= ev.d.time;
	if (ev.d.state === 'closed') {
		next.closed = ev.d.time;
		next.reason = ev.d.reason;
	}
	return next;
}

/** The newer of two heads of the same conversation. */
export function newerHead(held, head) {
	return !held || head.rev >= held.rev ? head : held;
}
