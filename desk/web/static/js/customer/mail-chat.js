// The button that has the chat sent to its visitor by mail, once it is over.

import { el } from '../core/dom.js';
import { t } from '../core/i18n.js';

export class MailChat {
	/**
	 * @param {HTMLElement} host an empty element
	 * @param {() => Promise<void>} onSend rejects with the server's error
	 */
	constructor(host, onSend) {
		Object.assign(this, { host, onSend, id: '', said: '' });
	}

	/** Offers to send a conversation; '' takes the offer away. */
	offer(id) {
		if (this.id === id) return;
		Object.assign(this, { id, said: '', busy: false });
		this.draw();
	}

	draw() {
		this.host.hidden = !this.id;
		if (!this.id) return;
		const done = this.said === 'mail.sent';
		this.host.replaceChildren(...[
			!done && el('button', { type: 'button', class: 'link-button', disabled: this.busy, text: t('mail.send'), data: { testid: 'mail-chat' }, on: { click: () => this.#send() } }),
			el('p', { class: done ? 'quiet' : 'field-error', role: 'status', text: this.said ? t(this.said) : '', data: { testid: 'mail-chat-said' } }),
		].filter(Boolean));
	}

	async #send() {
		if (this.busy) return;
		const { id } = this;
		this.busy = true;
		this.draw();
		let said = 'mail.sent';
		try {
			await this.onSend(id);
		} catch (err) {
			said = wordsOf(err);
		}
		if (id !== this.id) return;
		Object.assign(this, { busy: false, said });
		this.draw();
	}
}

/** The text for a refusal. */
export function wordsOf(err) {
	if (err.reason === 'no_address') return 'mail.noAddress';
	if (err.status === 429) return 'mail.limited';
	return 'mail.failed';
}
