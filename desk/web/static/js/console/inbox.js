// The rows of the console's list: which conversations are mine, which wait,
// which others have, and what the newest word about each of them is. Pure data,
// no page.

import { turnOf } from './routing.js';

const amberAfter = 60_000;
const redAfter = 180_000;
const maxOthers = 200; // chats of others in the list; the newest stay
const maxLeft = 100; // rows that left the list, of which the state is still known
const previewLength = 120; // characters, as in the server's rows

/** How urgent a waiting time is: '', 'amber' after 1 min, 'red' after 3. */
export function urgency(ms) {
	if (ms >= redAfter) return 'red';
	return ms >= amberAfter ? 'amber' : '';
}

export class Inbox {
	/**
	 * @param {string} agentId
	 * @param {object} [o]
	 * @param {() => number} [o.now] the server's time
	 * @param {(row: object) => void} [o.onMine] a conversation has become the agent's
	 */
	constructor(agentId, { now = () => Date.now(), onMine = () => {} } = {}) {
		Object.assign(this, { agentId, now, onMine });
		this.rows = new Map();
		this.left = new Map(); // rows that are no longer listed, as they left; the newest
		this.all = false; // whether chats of others are listed, too
		this.beyond = 0; // queued conversations the server did not list
		this.beyondLeft = 0; // left messages that it did not list
	}

	/** Takes the snapshot of a welcome; it replaces what was held. */
	replace({ rows = [], queued = 0, left = 0 }) {
		const others = this.all ? this.others() : [];
		this.rows = new Map([...others, ...rows.map((r) => this.#stamped(r))].map((r) => [r.id, r]));
		this.beyond = Math.max(0, queued - this.queue().length);
		this.beyondLeft = Math.max(0, left - this.messages().length);
	}

	/** Takes a row; one that is older than the held one is ignored. */
	apply(row) {
		const held = this.rows.get(row.id);
		if (held && older(held, row)) return false;
		this.#put(this.#stamped(row));
		return true;
	}

	/** Takes rows of a list that is not live (the wall); rows already held stay as they are. */
	learn(rows) {
		for (const row of rows) {
			if (!this.rows.has(row.id)) this.#put(this.#stamped(row));
		}
	}

	/** Drops rows of conversations that are no more. */
	forget(ids) {
		for (const id of ids) {
			this.rows.delete(id);
			this.left.delete(id);
		}
	}

	/** Folds a newer head into the row (the reply to take or close comes before the row does). */
	applyHead(head) {
		const held = this.rows.get(head.id);
		if (!held || head.rev <= held.rev) return;
		const { snoozed, ...rest } = held; // every change of state or owner ends it
		this.#put({ ...rest, state: head.state, rev: head.rev, epoch: head.epoch, owner: head.owner });
	}

	/** Folds a message into the row of its conversation, so that the last word is shown at once. */
	applyMessage(ev) {
		const held = this.rows.get(ev.c);
		if (!held || ev.s <= held.last) return;
		const { d } = ev;
		if (d.kind === 'note' || d.kind === 'notice') { // not a word between customer and staff
			this.rows.set(ev.c, { ...held, last: ev.s });
			return;
		}
		const text = [...(d.body || d.files?.map((f) => f.name).join(', ') || '')].slice(0, previewLength).join('');
		const row = { ...held, last: ev.s, preview: text, preview_from: d.from.kind, at: d.time };
		if (d.from.kind === 'agent') delete row.since;
		else if (d.from.kind === 'customer') row.since ??= d.time;
		this.rows.set(ev.c, row);
	}

	setOnline(id, online) {
		const held = this.rows.get(id);
		if (held) this.rows.set(id, { ...held, contact: { ...held.contact, online } });
	}

	/** Takes the tags of a conversation. */
	setTags(id, tags) {
		const held = this.rows.get(id);
		if (held) this.rows.set(id, { ...held, tags });
	}

	isMine(row) {
		return row?.state === 'assigned' && row.owner?.id === this.agentId;
	}

	/** Whether a conversation is the agent's, and not put aside. */
	isDue(row) {
		return this.isMine(row) && !row.snoozed;
	}

	/** Own conversations, oldest first: a steady order. */
	mine() {
		return [...this.rows.values()].filter((r) => this.isDue(r)).sort((a, b) => a.opened - b.opened || (a.id < b.id ? -1 : 1));
	}

	/** Own conversations that are put aside, the next to come back first. */
	snoozed() {
		return [...this.rows.values()].filter((r) => this.isMine(r) && r.snoozed).sort((a, b) => a.snoozed - b.snoozed || (a.id < b.id ? -1 : 1));
	}

	/** Waiting conversations, the next to be served first. */
	queue() {
		return [...this.rows.values()].filter((r) => r.state === 'queued').sort((a, b) => turnOf(a) - turnOf(b) || (a.id < b.id ? -1 : 1));
	}

	/** Left messages, those that wait longest first. */
	messages() {
		return [...this.rows.values()].filter((r) => r.state === 'deferred').sort((a, b) => (a.since ?? 0) - (b.since ?? 0) || (a.id < b.id ? -1 : 1));
	}

	/** Open conversations that neither wait nor are mine, the newest word first. */
	others() {
		return [...this.rows.values()].filter((r) => !['queued', 'deferred', 'closed'].includes(r.state) && !this.isMine(r))
			.sort((a, b) => (b.at ?? b.opened ?? 0) - (a.at ?? a.opened ?? 0) || (a.id < b.id ? -1 : 1));
	}

	/** Since when somebody waits for an answer in this row, 0 when nobody does. */
	waitingSince(row) {
		if (row.state === 'queued') return row.queued ?? row.opened;
		if (row.state !== 'assigned' || row.snoozed) return 0;
		return row.since ?? (row.preview_from === 'customer' ? row.at : 0);
	}

	// A row says for how long somebody has waited; what is kept is since when.
	#stamped({ waiting, ...row }) {
		return waiting > 0 ? { ...row, since: this.now() - waiting } : row;
	}

	#put(row) {
		if (!this.#listed(row)) {
			this.rows.delete(row.id);
			this.left.delete(row.id);
			this.left.set(row.id, row);
			if (this.left.size > maxLeft) this.left.delete(this.left.keys().next().value);
			return;
		}
		const mine = this.isDue(row) && !this.isDue(this.rows.get(row.id));
		this.rows.set(row.id, row);
		if (mine) this.onMine(row);
		if (!this.all || this.rows.size <= maxOthers) return;
		for (const old of this.others().slice(maxOthers)) this.rows.delete(old.id);
	}

	#listed(row) {
		return row.state === 'queued' || row.state === 'deferred' || this.isMine(row) || (this.all && row.state !== 'closed');
	}
}

/** The part of a row that is the conversation's head. */
export function headOf(row) {
	const { id, state, rev, epoch, owner, last, opened, queued, closed, reason, group } = row;
	return { id, state, rev, epoch, owner, last, opened, queued, closed, reason, group };
}

function older(held, row) {
	return row.rev < held.rev || (row.rev === held.rev && row.last < held.last);
}
