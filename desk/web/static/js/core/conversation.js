// One conversation as a client sees it: its events, its unsent messages, who
// owns it, who types. Shared by the customer page and the console.

import { EventLog, headAfter, newerHead } from './eventlog.js';
import { Outbox } from './outbox.js';
import { endsPartial, withPiece } from './partial.js';
import { Receipts } from './receipts.js';

const typingLasts = 6_000;
const partialLasts = 120_000; // the longest silence that a bot may have
const pageSize = 200;

export class Conversation {
	/**
	 * @param {object} o
	 * @param {string} o.id
	 * @param {string} o.scope who writes here, part of the storage keys
	 * @param {import('./connection.js').Connection} o.connection
	 * @param {import('./storage.js').SafeStorage} o.storage
	 * @param {(c: Conversation, what: 'event'|'head'|'outbox'|'typing'|'partial'|'presence'|'queue'|'receipt'|'file'|'refused', ev?: object) => void} o.onChange 'refused' comes with the error of a message
	 * @param {() => boolean} [o.reports] whether this reader's receipts are of interest now
	 */
	constructor({ id, scope, connection, storage, onChange, reports = () => true }) {
		Object.assign(this, { id, connection, storage, onChange });
		this.head = null;
		this.position = 0; // in the queue, 0 while unknown
		this.estimate = 0; // ms until somebody comes, 0 while unknown
		this.online = null; // the other side, when the server told us
		this.typingName = '';
		this.partial = null; // what the bot is writing
		this.peer = { delivered: 0, read: 0 }; // how far the other side is, in our numbers
		this.receipts = new Receipts({ send: (d) => reports() && connection.tell('receipt', { c: id, d }) });
		this.draftKey = `desk.draft.${scope}.${id}`;
		this.log = new EventLog({ fetch: (after, limit) => this.#page(after, limit), onEvent: (ev) => this.#event(ev) });
		this.outbox = new Outbox({
			scope: `${scope}.${id}`,
			storage,
			send: (item) => this.#send(item),
			onAck: (item) => {
				if (this.log.has(item.client_id)) this.outbox.accepted(item.client_id);
			},
			onChange: () => this.onChange(this, 'outbox'),
		});
	}

	get state() {
		return this.head?.state ?? '';
	}

	/** Takes the head from welcome, open, take, close, sync or an error. */
	setHead(head) {
		if (!head) return;
		if (head.mine) this.receipts.known(head.mine);
		if (head.peer) this.#peer(head.peer);
		const next = newerHead(this.head, head);
		if (next === this.head) return;
		const waited = this.state === 'queued';
		this.head = next;
		// Not before it has waited: the place in the queue may be known earlier than the head that says so.
		if (waited && next.state !== 'queued') this.position = this.estimate = 0;
		this.onChange(this, 'head');
	}

	/** Takes a frame of this conversation. */
	accept(frame) {
		switch (frame.t) {
		case 'ev.msg':
		case 'ev.state':
			this.log.accept(frame);
			return;
		case 'ev.queue':
			this.position = frame.d.position;
			this.estimate = frame.d.estimate_ms ?? 0;
			this.onChange(this, 'queue');
			return;
		case 'ev.typing':
			this.#typing(frame.d.on ? frame.d.from : null);
			return;
		case 'ev.partial':
			this.#writing(withPiece(this.partial, frame.d));
			return;
		case 'ev.file':
			this.#file(frame.d);
			return;
		case 'ev.receipt':
			this.#peer(frame.d);
			return;
		case 'ev.presence':
			this.online = frame.d.online;
			this.onChange(this, 'presence');
		}
	}

	/** Events before the earliest one held, for a reader who scrolls up: [] when there are none; a failed call may be repeated. */
	async older(count) {
		try {
			return await this.log.older(count);
		} catch {
			return [];
		}
	}

	/** Asks the server to close; rejects with a RequestError. */
	async close(reason) {
		try {
			const reply = await this.connection.request('conv.close', { c: this.id, d: { reason } });
			this.setHead(reply.d.head);
			if (reply.d.head.last > this.log.last) this.log.fill();
		} catch (err) {
			this.setHead(err.head);
			if (err.head?.state !== 'closed') throw err;
		}
	}

	/** Tells the other side that we type. */
	sendTyping(on) {
		this.connection.notify('typing', { c: this.id, d: { on } });
	}

	/** The reader has seen everything up to seq. */
	markRead(seq) {
		this.receipts.read(seq);
	}

	/** The stored draft. */
	get draft() {
		return {
			get: () => this.storage.get(this.draftKey, ''),
			set: (text) => (text ? this.storage.set(this.draftKey, text) : this.storage.remove(this.draftKey)),
		};
	}

	/** Stops its timers; stored messages stay. */
	dispose() {
		this.outbox.dispose();
		this.receipts.dispose();
		clearTimeout(this.typingTimer);
		clearTimeout(this.partialTimer);
	}

	async #page(after, limit = pageSize) {
		const reply = await this.connection.request('sync', { c: this.id, d: { after, limit: Math.min(limit, pageSize) } });
		this.setHead(reply.d.head);
		return reply.d;
	}

	async #send(item) {
		try {
			const { note, files, ...body } = item.body; // files: only for showing them
			const reply = note
				? await this.connection.request('note.send', { c: this.id, d: { client_id: item.client_id, body: body.body, attachments: body.attachments } })
				: await this.connection.request('msg.send', { c: this.id, d: { client_id: item.client_id, kind: 'text', ...body } });
			return reply.d;
		} catch (err) {
			this.setHead(err.head);
			this.onChange(this, 'refused', err);
			throw err;
		}
	}

	#event(ev) {
		if (ev.t === 'ev.state') {
			this.setHead(headAfter(this.head, ev));
		} else if (this.typingFrom === ev.d.from.id) {
			this.#typing(null);
		}
		if (endsPartial(ev)) this.#writing(null);
		this.receipts.delivered(ev.s);
		this.onChange(this, 'event', ev);
		if (ev.d.client_id) this.outbox.accepted(ev.d.client_id);
	}

	// A file that was being checked is ready, or refused.
	#file(file) {
		for (const ev of this.log.events) {
			const held = ev.d.files?.find((f) => f.id === file.id);
			if (!held) continue;
			Object.assign(held, file);
			this.onChange(this, 'file');
		}
	}

	// Watermarks only grow: an old receipt that comes late changes nothing.
	#peer({ delivered = 0, read = 0 }) {
		const next = { delivered: Math.max(this.peer.delivered, delivered, read), read: Math.max(this.peer.read, read) };
		if (next.delivered === this.peer.delivered && next.read === this.peer.read) return;
		this.peer = next;
		this.onChange(this, 'receipt');
	}

	#writing(partial) {
		clearTimeout(this.partialTimer);
		if (partial) this.partialTimer = setTimeout(() => this.#writing(null), partialLasts);
		if (partial === this.partial) return;
		this.partial = partial;
		this.onChange(this, 'partial');
	}

	#typing(from) {
		clearTimeout(this.typingTimer);
		this.typingFrom = from?.id;
		const name = from ? from.name || ' ' : '';
		if (from) this.typingTimer = setTimeout(() => this.#typing(null), typingLasts);
		if (name === this.typingName) return;
		this.typingName = name;
		this.onChange(this, 'typing');
	}
}
