// Asks again and again: at an even pace while answers come, with back-off
// while they do not, and not at all while nobody looks at the page.

import { Backoff } from '../core/backoff.js';

export class Poll {
	/**
	 * @param {object} o
	 * @param {() => Promise<any>} o.ask
	 * @param {(answer: any) => void} o.onAnswer
	 * @param {(err: Error, retryAt: number) => boolean} o.onError false ends it
	 * @param {number} o.every ms from an answer to the next question
	 * @param {object} [o.env] now, setTimeout, clearTimeout, hidden, random
	 */
	constructor({ ask, onAnswer, onError, every, env = browserEnv() }) {
		Object.assign(this, { ask, onAnswer, onError, every, env });
		this.backoff = new Backoff({ base: 1_000, random: () => 0.5 + env.random() / 2 });
		this.timer = null;
		this.asking = false;
		this.ended = false;
	}

	/** Asks now, unless an answer is on its way. */
	async now() {
		if (this.asking || this.ended) return;
		this.env.clearTimeout(this.timer);
		this.asking = true;
		let wait = this.every;
		try {
			const answer = await this.ask();
			this.backoff.reset();
			this.onAnswer(answer);
		} catch (err) {
			wait = this.backoff.next(err.retryMs);
			this.ended = this.onError(err, this.env.now() + wait) === false;
		}
		this.asking = false;
		if (!this.ended) this.timer = this.env.setTimeout(() => this.#due(), wait);
	}

	/** The page is looked at again. */
	shown() {
		if (!this.env.hidden()) this.now();
	}

	#due() {
		if (!this.env.hidden()) this.now();
	}
}

function browserEnv() {
	return {
		now: () => Date.now(),
		setTimeout: (f, ms) => setTimeout(f, ms),
		clearTimeout: (t) => clearTimeout(t),
		hidden: () => document.hidden,
		random: Math.random,
	};
}
