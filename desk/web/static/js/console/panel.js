// The requests of one panel (search, card, dialog): one at a time, the newest
// wins, and one that does not answer in time is given up. A panel that hangs
// holds one request of the agent's share and nothing of the other panels: with
// three panels the server's four places always have one left for the chats.

/** @typedef {'idle'|'loading'|'ready'|'error'|'absent'} PanelState absent: the server does not have this */

export class Panel {
	/**
	 * @param {object} o
	 * @param {() => void} o.onChange
	 * @param {number} [o.timeout] ms until an answer is no longer waited for
	 * @param {object} [o.env] setTimeout, clearTimeout
	 */
	constructor({ onChange, timeout = 10_000, env = { setTimeout: (f, ms) => setTimeout(f, ms), clearTimeout: (t) => clearTimeout(t) } }) {
		Object.assign(this, { onChange, timeout, env });
		/** @type {PanelState} */
		this.state = 'idle';
		this.value = null;
		this.code = '';
		this.running = null;
		this.wanted = null;
		this.last = null;
	}

	/**
	 * Asks; an earlier question that still runs is answered first and its answer dropped.
	 * @param {() => Promise<object>} request
	 */
	load(request) {
		this.last = request;
		this.#set('loading');
		if (this.running) this.wanted = request;
		else this.#run(request);
	}

	/** Asks the last question again. */
	retry() {
		if (this.last) this.load(this.last);
	}

	/** Forgets question and answer; what still runs is not shown. */
	reset() {
		this.last = this.wanted = null;
		if (this.running) this.running.dropped = true;
		this.value = null;
		this.#set('idle');
	}

	async #run(request) {
		const run = (this.running = { dropped: false });
		let timer;
		const late = new Promise((_, reject) => {
			timer = this.env.setTimeout(() => reject(Object.assign(new Error('no answer in time'), { code: 'timeout' })), this.timeout);
		});
		let outcome;
		try {
			outcome = { value: await Promise.race([request(), late]) };
		} catch (err) {
			outcome = { code: err.code ?? 'internal' };
		}
		this.env.clearTimeout(timer);
		this.running = null;
		const next = this.wanted;
		this.wanted = null;
		if (next) {
			this.#run(next);
			return;
		}
		if (run.dropped) return;
		if (outcome.code) {
			this.code = outcome.code;
			this.#set(outcome.code === 'unknown_type' ? 'absent' : 'error');
			return;
		}
		this.value = outcome.value;
		this.#set('ready');
	}

	#set(state) {
		this.state = state;
		this.onChange();
	}
}
