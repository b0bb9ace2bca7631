// Tells a screen reader what is new, politely and in few words: messages that
// come together are counted, and what is there when a chat opens is no news.

import { el, setText } from './dom.js';

const together = 200; // ms
const inFull = 2; // messages that are read out; more are counted

export class Announcer {
	/**
	 * @param {(n: number) => string} count the words for n new messages
	 * @param {object} [env] setTimeout, clearTimeout
	 */
	constructor(count, env = { setTimeout: (f, ms) => setTimeout(f, ms), clearTimeout: (t) => clearTimeout(t) }) {
		Object.assign(this, { count, env, texts: [], timer: null, opening: true });
		this.node = el('div', { class: 'sr-only', role: 'status', aria: { live: 'polite', atomic: true }, data: { testid: 'announcer' } });
	}

	/** Another conversation: what comes next is its past. */
	clear() {
		if (this.timer !== null) this.env.clearTimeout(this.timer);
		Object.assign(this, { texts: [], timer: null, opening: true });
		setText(this.node, '');
	}

	say(text) {
		this.texts.push(text);
		this.timer ??= this.env.setTimeout(() => this.#speak(), together);
	}

	#speak() {
		const { texts, opening } = this;
		Object.assign(this, { texts: [], timer: null, opening: false });
		if (texts.length <= inFull) setText(this.node, texts.join('\n'));
		else if (!opening) setText(this.node, this.count(texts.length));
	}
}
