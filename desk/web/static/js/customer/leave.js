// Nobody is there: what the customer page says then, and the form with which a
// message is left.

import { el, setText } from '../core/dom.js';
import { Fields } from './fields.js';
import { t, upcoming } from '../core/i18n.js';

export const leaveValue = 'leave_message'; // of a bot's button

/** Why nobody takes a chat: what an error or ev.away says, '' for anything else. */
export function nobody(err) {
	return err.code === 'busy' && (err.reason === 'away' || err.reason === 'queue_full') ? err.reason : '';
}

/**
 * What the visitor is told.
 * @param {{reason: string, opens?: number}|null} away as in ev.away; null while somebody is there
 * @param {string} refused the reason why a person could not be asked, '' if none was
 */
export function awayWords(away, refused = '', now = Date.now()) {
	if (away?.reason === 'hours') return away.opens > now ? t('away.opens', { when: upcoming(away.opens, now) }) : t('away.closed');
	if (away || refused === 'away') return t('away.absent');
	return t(refused ? 'away.full' : 'away.back');
}

const fields = () => [
	{ name: 'name', label: t('leave.name'), type: 'text', limit: 100 },
	{ name: 'email', label: t('leave.email'), type: 'email', required: true, limit: 254 },
	{ name: 'body', label: t('leave.body'), type: 'area', required: true, limit: 8000 },
];

export class LeaveForm {
	/**
	 * @param {HTMLElement} host an empty element
	 * @param {object} on
	 * @param {(message: {name: string, email: string, body: string}) => void} on.send
	 * @param {() => void} on.back
	 */
	constructor(host, on) {
		Object.assign(this, { host, on, form: null, busy: false, kept: {} });
	}

	/** Something has been written. */
	get filled() {
		return Boolean(this.form) && this.fields.values().body !== '';
	}

	/** Opens the form. What has been entered before stays; values fill what is empty. */
	open(values = {}) {
		this.#keep();
		const { kept } = this;
		for (const [name, value] of Object.entries(values)) kept[name] ||= value;
		this.fields = new Fields('leave');
		this.words = el('p', { class: 'prechat-greeting', role: 'status', data: { testid: 'leave-words' } });
		this.errorNode = el('p', { class: 'field-error', role: 'status', data: { testid: 'leave-error' } });
		this.button = el('button', { type: 'submit', class: 'button primary', data: { testid: 'leave-send' } });
		this.back = el('button', { type: 'button', class: 'button', text: t('leave.back'), data: { testid: 'leave-back' }, on: { click: () => this.on.back() } });
		this.form = el('form', { class: 'prechat', novalidate: true, data: { testid: 'leave' }, on: { submit: (e) => this.#submit(e) } },
			this.words, el('h2', { text: t('leave.title') }), this.fields.draw(fields(), kept), this.errorNode, this.button, this.back);
		this.host.replaceChildren(this.form);
		this.setBusy(false);
	}

	/** @param {string} words why nobody is there @param {boolean} back whether there is a chat to go back to */
	draw(words, back) {
		setText(this.words, words);
		this.back.hidden = !back;
	}

	focus() {
		this.fields.focus();
	}

	/** Closes the form. Opened again, it has what was entered. */
	close() {
		this.#keep();
		this.form = null;
		this.host.replaceChildren();
	}

	/** The message is on its way: forgets it, but not who has written it. */
	clear() {
		this.#keep();
		delete this.kept.body;
		this.form = null;
	}

	#keep() {
		if (this.form) this.kept = this.fields.values();
	}

	setBusy(busy) {
		this.busy = busy;
		if (!this.form) return;
		this.button.disabled = busy;
		setText(this.button, t(busy ? 'leave.sending' : 'leave.send'));
	}

	/** The server refused. */
	setError(text) {
		if (this.form) setText(this.errorNode, text);
	}

	#submit(e) {
		e.preventDefault();
		if (this.busy) return;
		this.setError('');
		const first = this.fields.check();
		if (first) first.focus();
		else this.on.send(this.fields.values());
	}
}
