// The filters of the archive that this agent has kept under a name. The server
// keeps them, so they are there on every machine.

import { ApiError, call } from '../core/api.js';
import { askText } from '../core/dialog.js';
import { el, setChildren, setText } from '../core/dom.js';
import { t } from '../core/i18n.js';

const path = '/api/v1/agent/filters';

export class SavedFilters {
	/**
	 * @param {object} o
	 * @param {() => Object<string, string>} o.values what the fields hold
	 * @param {(fields: Object<string, string>) => void} o.onChoose
	 */
	constructor({ values, onChoose }) {
		Object.assign(this, { values, onChoose, filters: [] });
		this.select = el('select', { class: 'select', data: { testid: 'filters-saved' }, on: { change: () => this.#choose() } });
		this.save = el('button', { type: 'button', class: 'link-button', data: { testid: 'filters-save' }, on: { click: () => this.#save() } });
		this.drop = el('button', { type: 'button', class: 'link-button', data: { testid: 'filters-drop' }, on: { click: () => this.#drop() } });
		this.error = el('p', { class: 'error-text', role: 'status', data: { testid: 'filters-error' } });
		this.node = el('div', { class: 'saved-filters' }, this.select, this.save, this.drop, this.error);
		this.relabel();
	}

	/** Asks for what is kept. */
	async load() {
		await this.#do(() => call('GET', path));
	}

	/** The fields were changed: they no longer are those of a filter. */
	changed() {
		this.select.value = '';
		this.#buttons();
	}

	relabel() {
		this.select.setAttribute('aria-label', t('filters.saved'));
		setText(this.save, t('filters.save'));
		setText(this.drop, t('filters.drop'));
		this.#draw(this.select.value);
	}

	#choose() {
		const f = this.filters.find(({ name }) => name === this.select.value);
		if (f) this.onChoose(f.fields ?? {});
		this.#buttons();
	}

	async #save() {
		const name = await askText({ title: t('filters.save.title'), body: t('filters.save.body'), label: t('filters.name'), confirm: t('save') });
		if (!name) return;
		const fields = Object.fromEntries(Object.entries(this.values()).filter(([, value]) => value !== ''));
		await this.#do(() => call('POST', path, { name, fields }), name);
	}

	async #drop() {
		const name = this.select.value;
		await this.#do(() => call('POST', `${path}/drop`, { name }));
	}

	async #do(f, chosen = '') {
		setText(this.error, '');
		try {
			({ filters: this.filters } = await f());
		} catch (err) {
			if (!(err instanceof ApiError)) throw err;
			setText(this.error, err.status === 422 ? t('filters.refused') : t('filters.failed'));
			return;
		}
		this.#draw(chosen);
	}

	#draw(chosen) {
		setChildren(this.select, [el('option', { value: '', text: t('filters.saved') }), ...this.filters.map(({ name }) => el('option', { value: name, text: name }))]);
		this.select.value = this.filters.some(({ name }) => name === chosen) ? chosen : '';
		this.#buttons();
	}

	#buttons() {
		this.select.hidden = this.filters.length === 0;
		this.drop.hidden = this.select.value === '';
	}
}
