// How far the agent has read each conversation, kept in this browser, and how
// many of the customer's messages came after that.

export class ReadMarks {
	/**
	 * @param {object} o
	 * @param {import('../core/storage.js').SafeStorage} o.storage
	 * @param {string} o.agentId
	 */
	constructor({ storage, agentId }) {
		Object.assign(this, { storage, agentId });
		this.key = `desk.read.${agentId}`;
		this.marks = storage.get(this.key, {});
	}

	/** Everything up to seq has been read. Returns whether that is news. */
	mark(id, seq) {
		if ((this.marks[id] ?? 0) >= seq) return false;
		this.marks[id] = seq;
		this.storage.set(this.key, this.marks);
		return true;
	}

	/** Unread messages among the events of a conversation; an own answer says that what came before it was read. */
	unread(id, events) {
		const mark = this.marks[id] ?? 0;
		let n = 0;
		for (let i = events.length - 1; i >= 0; i--) {
			const ev = events[i];
			if (ev.s <= mark) break;
			if (ev.t !== 'ev.msg') continue;
			if (ev.d.from.id === this.agentId) break;
			if (ev.d.from.kind === 'customer') n++;
		}
		return n;
	}

	/** Forgets the marks of conversations for which keep(id) is false. */
	prune(keep) {
		this.marks = Object.fromEntries(Object.entries(this.marks).filter(([id]) => keep(id)));
	}

	/** Removes the marks from this browser. */
	clear() {
		this.marks = {};
		this.storage.remove(this.key);
	}
}
