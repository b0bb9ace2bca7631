// Offers of chats: those that wait for this agent's answer and those this agent
// made. Times are the server's. Pure data, no page.

const endGrace = 10_000; // ms an own offer is kept beyond its time, for the server to tell how it ended

export class Offers {
	constructor() {
		this.incoming = new Map(); // conversation -> {c, from, note, expires, row, busy, error}
		this.outgoing = new Map(); // conversation -> {agent, expires}
	}

	/** Takes an ev.offer. */
	offered(frame) {
		this.incoming.set(frame.c, { c: frame.c, busy: false, error: '', ...frame.d });
	}

	/** Takes the offer in the answer to transfer. */
	made(c, offer) {
		this.outgoing.set(c, offer);
	}

	/** Takes an ev.offer_end; returns the offer this agent had made, if it was one. */
	ended(frame) {
		const offer = this.outgoing.get(frame.c);
		this.outgoing.delete(frame.c);
		this.incoming.delete(frame.c);
		return offer ?? null;
	}

	/** A newer head: an offer ends with any change of owner or state. What became of an own one is told by ended. */
	headChanged(head) {
		const held = this.incoming.get(head.id);
		if (held?.row && head.rev > held.row.rev) this.incoming.delete(head.id);
	}

	/** The connection was lost: the server tells again what still counts. */
	clear() {
		this.incoming.clear();
		this.outgoing.clear();
	}

	/** Forgets what has run out; returns whether anything did. */
	expire(now) {
		let gone = false;
		for (const [map, grace] of [[this.incoming, 0], [this.outgoing, endGrace]]) {
			for (const [c, o] of map) {
				if (o.expires + grace > now) continue;
				map.delete(c);
				gone = true;
			}
		}
		return gone;
	}

	/** The incoming ones, the first to run out first. */
	list() {
		return [...this.incoming.values()].sort((a, b) => a.expires - b.expires);
	}
}

/** Whole seconds that are left. */
export function secondsLeft(expires, now) {
	return Math.max(0, Math.ceil((expires - now) / 1000));
}
