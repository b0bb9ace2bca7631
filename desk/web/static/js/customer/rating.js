// The question after a chat: one to five, and a few words.

import { el, icon, setText } from '../core/dom.js';
import { t } from '../core/i18n.js';

const scores = [1, 2, 3, 4, 5];
const maxComment = 1_000; // characters, as the server takes them

export class Rating {
	/**
	 * @param {HTMLElement} host an empty element
	 * @param {(score: number, comment: string) => Promise<void>} onRate rejects when the server did not take it
	 */
	constructor(host, onRate) {
		Object.assign(this, { host, onRate, key: '' });
	}

	/** Asks about a conversation, unless it has been asked already. */
	ask(id, score = 0) {
		if (this.key === id) return;
		Object.assign(this, { key: id, score, comment: '', done: score > 0, error: false });
		this.draw();
	}

	draw() {
		if (!this.key) return;
		this.host.replaceChildren(this.done ? this.#thanks() : this.#form());
	}

	#thanks() {
		return el('div', { class: 'rating-thanks', role: 'status', data: { testid: 'rating-thanks' } }, icon('tick'), el('span', { text: t('rate.thanks') }),
			el('button', { type: 'button', class: 'link-button', text: t('rate.change'), data: { testid: 'rating-change' }, on: { click: () => {
				this.done = false;
				this.draw();
				this.host.querySelector('input:checked, input')?.focus();
			} } }));
	}

	#form() {
		this.word = el('span', { class: 'rating-word', aria: { hidden: true } });
		this.errorNode = el('p', { class: 'field-error', role: 'status' });
		this.field = el('textarea', { rows: '2', maxlength: String(maxComment), placeholder: t('rate.comment'), aria: { label: t('rate.comment') }, data: { testid: 'rating-comment' } });
		this.field.value = this.comment;
		this.button = el('button', { type: 'submit', class: 'button primary small', text: t('rate.send'), data: { testid: 'rating-send' } });
		this.more = el('div', { class: 'rating-more' }, this.field, this.button);
		const stars = scores.map((n) => {
			const input = el('input', { type: 'radio', name: 'score', value: String(n), class: 'sr-only', aria: { label: `${n}: ${t(`rate.${n}`)}` }, data: { testid: `rating-${n}` } });
			input.checked = n === this.score;
			return el('label', { class: 'star', data: { n } }, input, icon('star'));
		});
		const form = el('form', { class: 'rating', data: { testid: 'rating' }, on: { submit: (e) => this.#send(e), change: () => this.#chosen() } },
			el('fieldset', {}, el('legend', { text: t('rate.title') }), el('div', { class: 'stars' }, stars, this.word)),
			this.more, this.errorNode);
		this.stars = stars;
		this.#show();
		return form;
	}

	#chosen() {
		this.score = Number(this.stars.find((s) => s.firstChild.checked)?.dataset.n ?? 0);
		this.#show();
	}

	#show() {
		for (const s of this.stars) s.classList.toggle('on', Number(s.dataset.n) <= this.score);
		setText(this.word, this.score ? t(`rate.${this.score}`) : '');
		this.more.hidden = !this.score;
	}

	async #send(e) {
		e.preventDefault();
		if (!this.score || this.button.disabled) return;
		const { key } = this;
		this.comment = this.field.value.trim();
		this.button.disabled = true;
		setText(this.errorNode, '');
		try {
			await this.onRate(this.score, this.comment);
		} catch {
			if (key !== this.key) return;
			this.button.disabled = false;
			setText(this.errorNode, t('rate.failed'));
			return;
		}
		if (key !== this.key) return;
		this.done = true;
		this.draw();
		this.host.querySelector('button')?.focus({ preventScroll: true });
	}
}
