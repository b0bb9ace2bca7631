// Changes several chats of a list: which are chosen, and one command for each
// of them, one after another. Pure, no page.

export const most = 100; // chats that are changed at once
const tries = 5; // of a command that the server takes later

export class Bulk {
	/**
	 * @param {object} o
	 * @param {() => void} o.onChange something has to be drawn
	 * @param {(ms: number) => Promise<void>} [o.wait]
	 */
	constructor({ onChange, wait = (ms) => new Promise((done) => { setTimeout(done, ms); }) }) {
		Object.assign(this, { onChange, wait });
		this.on = false;
		this.running = false;
		this.chosen = new Set();
		this.told = null; // {done, failed, left} of the last run
	}

	/** Begins or ends choosing; nothing is chosen after it. */
	choose(on) {
		if (this.running) return;
		this.on = on;
		this.chosen.clear();
		this.told = null;
		this.onChange();
	}

	/** @returns {boolean} false when no more can be chosen */
	toggle(id) {
		if (this.running) return true;
		if (!this.chosen.delete(id)) {
			if (this.chosen.size >= most) return false;
			this.chosen.add(id);
		}
		this.told = null;
		this.onChange();
		return true;
	}

	/** Chooses these, as many as fit; those that are no longer listed are not chosen any more. */
	only(ids, all) {
		if (this.running) return;
		this.chosen = new Set(ids.filter((id) => all || this.chosen.has(id)).slice(0, most));
		if (all) this.onChange();
	}

	/**
	 * Runs a command for each chat that is chosen. Those for which it has failed stay chosen. A connection that is lost
	 * ends the run.
	 * @param {(id: string) => Promise<void>} command
	 */
	async run(command) {
		if (this.running || this.chosen.size === 0) return;
		this.running = true;
		this.told = { done: 0, failed: 0, left: this.chosen.size, why: '' };
		for (const id of [...this.chosen]) {
			this.onChange();
			try {
				await this.#one(() => command(id));
				this.chosen.delete(id);
				this.told.done++;
			} catch (err) {
				this.told.why ||= err.code ?? 'internal';
				if (err.code === 'lost') break;
				this.told.failed++;
			}
			this.told.left--;
		}
		this.running = false;
		this.onChange();
	}

	async #one(command) {
		for (let i = 1; ; i++) {
			try {
				await command();
				return;
			} catch (err) {
				if (!['rate_limited', 'busy'].includes(err.code) || i === tries) throw err;
				await this.wait(err.retryMs || 1_000);
			}
		}
	}
}
