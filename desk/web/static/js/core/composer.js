// The message box: grows to six lines, Enter sends, Shift+Enter breaks the
// line, an input method's Enter never sends, the limit shows at 90 %.

import { setText } from './dom.js';
import { t, number } from './i18n.js';

const typingEvery = 3_000;
const typingIdle = 5_000;

/** Characters as the server counts them: code points. */
export function length(text) {
	let n = 0;
	for (const _ of text) n++;
	return n;
}

export class Composer {
	/**
	 * @param {object} o
	 * @param {HTMLFormElement} o.form
	 * @param {HTMLTextAreaElement} o.field
	 * @param {HTMLButtonElement} o.button
	 * @param {HTMLElement} o.counter
	 * @param {(text: string) => void} o.onSend
	 * @param {(on: boolean) => void} o.onTyping
	 * @param {{get: () => string, set: (text: string) => void}} o.draft
	 * @param {{pending: object[], settled: boolean}} [o.files] what goes with the text: a message may be files alone, and waits for those on their way
	 */
	constructor({ form, field, button, counter, onSend, onTyping, draft, limit = 8000, files = { pending: [], settled: true } }) {
		Object.assign(this, { form, field, button, counter, onSend, onTyping, draft, limit, files });
		this.enabled = true;
		this.typedAt = 0;
		form.addEventListener('submit', (e) => {
			e.preventDefault();
			this.send();
		});
		field.addEventListener('keydown', (e) => this.#key(e));
		field.addEventListener('input', () => this.#changed());
		field.addEventListener('blur', () => this.#typing(false));
		this.restore();
	}

	/** Shows the stored draft. */
	restore() {
		this.field.value = this.draft.get() ?? '';
		this.#layout();
	}

	setEnabled(enabled) {
		if (this.enabled === enabled) return;
		this.enabled = enabled;
		this.#layout();
		if (enabled && this.wanted) this.send();
	}

	focus() {
		this.field.focus({ preventScroll: true });
	}

	send() {
		const text = this.field.value.trim();
		this.wanted = !this.enabled || !this.files.settled; // sent as soon as that is possible, unless the text changes
		if (this.wanted || (!text && this.files.pending.length === 0) || length(text) > this.limit) return;
		this.field.value = '';
		this.draft.set('');
		this.#typing(false);
		this.#layout();
		this.onSend(text);
		this.focus();
	}

	/** The files have changed. */
	filesChanged() {
		if (this.wanted && this.files.pending.length === 0 && !this.field.value.trim()) this.wanted = false; // all given up
		this.#layout();
		if (this.wanted && this.enabled && this.files.settled) this.send();
	}

	/** Draws texts again after a change of language or of size. */
	refresh() {
		this.#layout();
	}

	#key(e) {
		const composing = e.isComposing || e.keyCode === 229;
		if (e.key !== 'Enter' || e.shiftKey || e.altKey || composing) return; // Ctrl+Enter sends too
		e.preventDefault();
		this.send();
	}

	#changed() {
		this.wanted = false;
		this.draft.set(this.field.value);
		this.#layout();
		this.#typing(this.field.value.trim() !== '');
	}

	#typing(on) {
		const now = Date.now();
		clearTimeout(this.idle);
		if (!on) {
			if (this.typedAt) this.onTyping(false);
			this.typedAt = 0;
			return;
		}
		if (now - this.typedAt >= typingEvery) {
			this.typedAt = now;
			this.onTyping(true);
		}
		this.idle = setTimeout(() => this.#typing(false), typingIdle);
	}

	#layout() {
		const { field } = this;
		field.style.height = 'auto';
		if (field.scrollHeight) field.style.height = `${field.scrollHeight + field.offsetHeight - field.clientHeight}px`;
		const n = length(field.value.trim());
		const over = n - this.limit;
		this.counter.hidden = n < this.limit * 0.9;
		this.counter.classList.toggle('over', over > 0);
		setText(this.counter, over > 0 ? t('composer.over', { n: number(over) }) : t('composer.count', { n: number(n), max: number(this.limit) }));
		this.button.disabled = !this.enabled || (n === 0 && this.files.pending.length === 0) || over > 0;
	}
}
