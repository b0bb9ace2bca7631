// The rows of the console's list: which conversations are mine, which wait,
// and what the newest word about each of them is. Pure data, no page.

const amberAfter = 60_000;
const redAfter = 180_000;
const previewLength = 120; // characters, as in the server's rows

/** How urgent a waiting time is: '', 'amber' after 1 min, 'red' after 3. */
export function urgency(ms) {
	if (ms >= redAfter) return 'red';
	return ms >= amberAfter ? 'amber' : '';
}

export class Inbox {
	/** @param {string} agentId */
	constructor(agentId) {
		this.agentId = agentId;
		this.rows = new Map();
		this.beyond = 0; // queued conversations the server did not list
	}

	/** Takes the snapshot of a welcome; it replaces what was held. */
	replace({ rows = [], queued = 0 }) {
		this.rows = new Map(rows.map((r) => [r.id, r]));
		this.beyond = Math.max(0, queued - this.queue().length);
	}

	/** Takes a row; one that is not newer than the held one is ignored. */
	apply(row) {
		const held = this.rows.get(row.id);
		if (held && !newer(held, row)) return false;
		if (this.#listed(row)) this.rows.set(row.id, row);
		else this.rows.delete(row.id);
		return true;
	}

	/** Folds a newer head into the row (the reply to take or close comes before the row does). */
	applyHead(head) {
		const held = this.rows.get(head.id);
		if (!held || head.rev <= held.rev) return;
		const row = { ...held, state: head.state, rev: head.rev, epoch: head.epoch, owner: head.owner };
		if (this.#listed(row)) this.rows.set(row.id, row);
		else this.rows.delete(row.id);
	}

	/** Folds a message into the row of its conversation, so that the last word is shown at once. */
	applyMessage(ev) {
		const held = this.rows.get(ev.c);
		if (!held || ev.s <= held.last) return;
		const text = [...ev.d.body].slice(0, previewLength).join('');
		this.rows.set(ev.c, { ...held, last: ev.s, preview: text, preview_from: ev.d.from.kind, at: ev.d.time });
	}

	setOnline(id, online) {
		const held = this.rows.get(id);
		if (held) this.rows.set(id, { ...held, contact: { ...held.contact, online } });
	}

	isMine(row) {
		return row?.state === 'assigned' && row.owner?.id === this.agentId;
	}

	/** Own conversations, oldest first: a steady order. */
	mine() {
		return [...this.rows.values()].filter((r) => this.isMine(r)).sort((a, b) => a.opened - b.opened || (a.id < b.id ? -1 : 1));
	}

	/** Waiting conversations, longest wait first. */
	queue() {
		return [...this.rows.values()].filter((r) => r.state === 'queued').sort((a, b) => (a.queued ?? 0) - (b.queued ?? 0) || (a.id < b.id ? -1 : 1));
	}

	/** Since when somebody waits for an answer in this row, 0 when nobody does. */
	waitingSince(row) {
		if (row.state === 'queued') return row.queued ?? row.opened;
		return row.preview_from === 'customer' ? row.at : 0;
	}

	#listed(row) {
		return row.state === 'queued' || this.isMine(row);
	}
}

function newer(held, row) {
	if (row.rev !== held.rev) return row.rev > held.rev;
	if (row.last !== held.last) return row.last > held.last;
	return row.contact?.online !== held.contact?.online;
}
