// What the console says above the panes. It lies over them, so it goes by itself,
// but not while somebody points at it.

import { setText } from '../core/dom.js';

const shownFor = 10_000; // ms

export class Notice {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.host
	 * @param {HTMLElement} o.text within the host
	 * @param {HTMLButtonElement} o.button closes it
	 * @param {object} [o.env] setTimeout, clearTimeout
	 */
	constructor({ host, text, button, env = { setTimeout: (f, ms) => setTimeout(f, ms), clearTimeout: (t) => clearTimeout(t) } }) {
		Object.assign(this, { host, text, env });
		button.addEventListener('click', () => this.hide());
		host.addEventListener('pointerenter', () => env.clearTimeout(this.timer));
		host.addEventListener('pointerleave', () => this.#hideLater());
	}

	show(text, error = false) {
		setText(this.text, text);
		this.host.classList.toggle('error', error);
		this.host.hidden = false;
		this.#hideLater();
	}

	hide() {
		this.env.clearTimeout(this.timer);
		this.host.hidden = true;
	}

	#hideLater() {
		this.env.clearTimeout(this.timer);
		this.timer = this.env.setTimeout(() => this.hide(), shownFor);
	}
}
