// What has reached this page and what its reader has seen of one conversation,
// told to the other side: two watermarks that only grow. Many events make one
// frame; what is lost with a connection is told again with the next growth.

const every = 400; // ms between two frames, at least

export class Receipts {
	/**
	 * @param {object} o
	 * @param {(d: {delivered: number, read: number}) => void} o.send
	 * @param {object} [o.env] setTimeout, clearTimeout
	 */
	constructor({ send, env = { setTimeout: (f, ms) => setTimeout(f, ms), clearTimeout: (t) => clearTimeout(t) } }) {
		Object.assign(this, { send, env });
		this.held = { delivered: 0, read: 0 };
		this.told = { delivered: 0, read: 0 };
		this.timer = null;
	}

	/** What the server already knows (head.mine): not told again. */
	known({ delivered = 0, read = 0 }) {
		this.told = { delivered: Math.max(this.told.delivered, delivered), read: Math.max(this.told.read, read) };
	}

	delivered(seq) {
		this.#grow(seq, this.held.read);
	}

	/** What is read was delivered, too. */
	read(seq) {
		this.#grow(seq, seq);
	}

	dispose() {
		if (this.timer !== null) this.env.clearTimeout(this.timer);
		this.timer = null;
		this.disposed = true;
	}

	#grow(delivered, read) {
		this.held = { delivered: Math.max(this.held.delivered, delivered), read: Math.max(this.held.read, read) };
		if (this.timer !== null || this.disposed || !this.#news()) return;
		this.timer = this.env.setTimeout(() => {
			this.timer = null;
			if (!this.#news()) return;
			this.told = { delivered: Math.max(this.told.delivered, this.held.delivered), read: Math.max(this.told.read, this.held.read) };
			this.send({ ...this.held });
		}, every);
	}

	#news() {
		return this.held.delivered > this.told.delivered || this.held.read > this.told.read;
	}
}
