// The fields of a form that the customer page asks something with. Errors stand
// below their field and say what to do.

import { el, setAttr, setText } from '../core/dom.js';
import { length } from '../core/composer.js';
import { number, t } from '../core/i18n.js';

const maxLength = 500; // characters of an answer, as the server takes them

const checks = {
	email: /^[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)+$/u,
	tel: /^(?=(?:\D*\d){5})[+(\d][\d\s().-]{3,30}$/u,
};

/** @typedef {{name: string, label: string, type: 'text'|'email'|'tel'|'area', required?: boolean, limit?: number}} Field limit: characters, 500 by default */

/**
 * What is wrong with the answers.
 * @param {Field[]} fields
 * @param {Object<string, string>} values
 * @returns {Object<string, 'required'|'long'|'email'|'tel'>} by field
 */
export function problems(fields, values) {
	const out = {};
	for (const f of fields) {
		const value = (values[f.name] ?? '').trim();
		if (value === '') {
			if (f.required) out[f.name] = 'required';
		} else if (length(value) > limitOf(f)) {
			out[f.name] = 'long';
		} else if (checks[f.type] && !checks[f.type].test(value)) {
			out[f.name] = f.type;
		}
	}
	return out;
}

function limitOf(f) {
	return f.limit ?? maxLength;
}

const autocomplete = { email: 'email', tel: 'tel', area: 'off' };

export class Fields {
	/** @param {string} prefix of the ids of its nodes */
	constructor(prefix) {
		Object.assign(this, { prefix, fields: [], inputs: new Map() });
	}

	/** Makes the rows of fields. @param {Field[]} fields @param {Object<string, string>} values */
	draw(fields, values) {
		this.fields = fields;
		return fields.map((f) => this.#row(f, values[f.name] ?? ''));
	}

	values() {
		return Object.fromEntries([...this.inputs].map(([name, input]) => [name, input.value.trim()]));
	}

	focus() {
		const inputs = [...this.inputs.values()];
		(inputs.find((input) => input.value === '') ?? inputs[0])?.focus({ preventScroll: true });
	}

	/** Marks what is wrong. @returns {HTMLElement|undefined} the first such field */
	check() {
		const wrong = problems(this.fields, this.values());
		for (const f of this.fields) this.#mark(f.name, wrong[f.name] ? t(`prechat.${wrong[f.name]}`, { n: number(limitOf(f)) }) : '');
		return this.inputs.get(this.fields.find((f) => wrong[f.name])?.name);
	}

	#row(f, value) {
		const id = `${this.prefix}-${f.name}`;
		const error = el('p', { class: 'field-error', id: `${id}-error` });
		const about = { id, name: f.name, autocomplete: autocomplete[f.type] ?? (f.name === 'name' ? 'name' : 'off'), required: Boolean(f.required), aria: { describedby: error.id }, data: { testid: id } };
		const input = f.type === 'area' ? el('textarea', { rows: '4', ...about }) : el('input', { type: f.type in checks ? f.type : 'text', ...about });
		input.value = value;
		input.addEventListener('input', () => this.#mark(f.name, ''));
		this.inputs.set(f.name, input);
		return el('div', { class: 'field' }, el('label', { for: id, text: f.required ? f.label : t('prechat.optional', { label: f.label }) }), input, error);
	}

	#mark(name, text) {
		const input = this.inputs.get(name);
		setAttr(input, 'aria-invalid', text ? 'true' : null);
		setText(input.parentNode.lastChild, text);
	}
}
