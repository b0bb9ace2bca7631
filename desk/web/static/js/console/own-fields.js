// The fields of a contact that an administrator has defined: as they are shown
// and as they are edited.

import './own-texts.js';
import { el } from '../core/dom.js';
import { locale, t } from '../core/i18n.js';

const maxValue = 500;

/** A value in words. What is hidden from the reader is no number and no day, and is shown as it is. */
export function saysOf({ kind }, value) {
	if (kind === 'yes_no') return value === 'yes' || value === 'no' ? t(`own.${value}`) : value;
	if (kind === 'number' && /^-?[0-9.]+$/.test(value)) return new Intl.NumberFormat(locale(), { maximumFractionDigits: 6 }).format(value);
	const day = kind === 'date' && /^\d{4}-\d\d-\d\d$/.test(value) ? Date.parse(value) : NaN;
	return Number.isNaN(day) ? value : new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeZone: 'UTC' }).format(day);
}

/**
 * The lines of the card: the fields that have a value.
 * @param {{key: string, label: string, kind: string}[]} own
 * @param {Object<string, string>} values
 * @returns {{key: string, value: string}[]}
 */
export function ownRows(own, values) {
	return (own ?? []).filter((f) => values?.[f.key]).map((f) => ({ key: f.label, value: saysOf(f, values[f.key]) }));
}

/** What an input for a field is made of. Pure. @returns {{tag: string, attributes: object, options: [string, string][]}} */
export function inputOf(field, value) {
	const listed = { choice: () => field.choices ?? [], yes_no: () => ['yes', 'no'] }[field.kind]?.();
	if (listed) {
		const all = value && !listed.includes(value) ? [value, ...listed] : listed; // hidden from the reader, or of a choice that is gone
		return { tag: 'select', attributes: { class: 'select' }, options: [['', t('own.none')], ...all.map((v) => [v, saysOf(field, v)])] };
	}
	const attributes = { class: 'input', maxlength: String(maxValue), autocomplete: 'off', dir: 'auto' };
	if (field.kind === 'date') Object.assign(attributes, { type: 'date' });
	if (field.kind === 'number') Object.assign(attributes, { inputmode: 'decimal', pattern: '-?[0-9]{1,15}([.][0-9]{1,6})?', title: t('own.number') });
	return { tag: 'input', attributes, options: [] };
}

/** The inputs of the fields that the reader may change. */
export class OwnInputs {
	constructor(own, values) {
		this.fields = (own ?? []).filter((f) => f.edit);
		this.inputs = this.fields.map((f) => {
			const value = values?.[f.key] ?? '';
			const { tag, attributes, options } = inputOf(f, value);
			const input = el(tag, { ...attributes, data: { testid: `own-${f.key}` } }, ...options.map(([v, text]) => el('option', { value: v, text })));
			input.value = value;
			return input;
		});
		this.before = this.inputs.map((input) => input.value); // a browser may take less than was stored
		this.nodes = this.inputs.map((input, i) => el('label', { class: 'field' }, el('span', { text: this.fields[i].label, dir: 'auto' }), input));
	}

	/** What has to be changed: values by key, '' for those that go. */
	change() {
		const change = {};
		this.inputs.forEach((input, i) => {
			if (input.value.trim() !== this.before[i]) change[this.fields[i].key] = input.value.trim();
		});
		return change;
	}

	/** What to say about a refusal of the server; '' if it was not about a field. @param {{code: string, message: string}} err */
	refusal({ code, message }) {
		const [, key, why] = /^field ([a-z0-9_]+) (.*)$/s.exec(message) ?? [];
		if (!key) return '';
		const label = this.fields.find((f) => f.key === key)?.label;
		return label && code === 'bad_request' && why !== 'is unknown' ? t('own.refused', { label }) : t('own.gone');
	}
}
