// The field of the customer card that puts a chat aside until a time.

import './snooze-texts.js';
import { el, setText } from '../core/dom.js';
import { t, upcoming } from '../core/i18n.js';

const hour = 3_600_000;
const morning = 9; // o'clock

/**
 * The times that are offered, by name, in the browser's zone. Pure.
 * @param {number} now
 * @returns {Object<string, number>}
 */
export function snoozeTimes(now) {
	const at = (days) => {
		const day = new Date(now);
		return new Date(day.getFullYear(), day.getMonth(), day.getDate() + days, morning).getTime();
	};
	return { hour: now + hour, hours: now + 4 * hour, tomorrow: at(1), monday: at((8 - new Date(now).getDay()) % 7 || 7) };
}

export class SnoozeField {
	/** @param {(c: string, until: number) => Promise<void>} set */
	constructor(set) {
		Object.assign(this, { set, c: '' });
		this.select = el('select', { class: 'select', aria: { label: t('snooze.label') }, data: { testid: 'snooze' }, on: { change: () => this.#chosen() } });
		this.time = el('input', { class: 'input', type: 'datetime-local', required: true, aria: { label: t('snooze.other') }, data: { testid: 'snooze-time' } });
		this.form = el('form', { class: 'tag-form', hidden: true, on: { submit: (e) => this.#own(e) } }, this.time,
			el('button', { type: 'submit', class: 'button small', text: t('snooze.do'), data: { testid: 'snooze-do' } }));
		this.error = el('p', { class: 'error-text', role: 'status' });
		this.node = el('section', { class: 'card-section' }, el('h3', { text: t('snooze.label') }), this.select, this.form, this.error);
	}

	/**
	 * Shows whether a chat is put aside.
	 * @param {string} c
	 * @param {object|undefined} row
	 * @param {boolean} may whether this agent may change it
	 */
	show(c, row, may) {
		const until = row?.snoozed ?? 0;
		this.node.hidden = !may || row?.state !== 'assigned';
		if (this.c === c && this.until === until) return;
		Object.assign(this, { c, until });
		setText(this.error, '');
		this.#draw();
	}

	#draw() {
		const { until } = this;
		const names = [...(until ? ['back'] : []), 'hour', 'hours', 'tomorrow', 'monday', 'other'];
		this.select.replaceChildren(
			el('option', { value: '', text: until ? t('snooze.until', { time: upcoming(until) }) : t('snooze.none') }),
			...names.map((name) => el('option', { value: name, text: t(`snooze.${name}`) })));
		this.form.hidden = true;
	}

	async #chosen() {
		const { value } = this.select;
		this.form.hidden = value !== 'other';
		if (value === 'other') this.time.focus();
		else if (value) await this.#put(value === 'back' ? 0 : snoozeTimes(Date.now())[value]);
	}

	async #own(e) {
		e.preventDefault();
		const until = new Date(this.time.value).getTime();
		if (until > Date.now()) await this.#put(until);
		else setText(this.error, t('snooze.past'));
	}

	// What was chosen is shown by the row that the server sends.
	async #put(until) {
		const { c } = this;
		setText(this.error, '');
		try {
			await this.set(c, until);
		} catch {
			if (this.c !== c) return;
			setText(this.error, t('snooze.failed'));
			this.#draw();
		}
	}
}
