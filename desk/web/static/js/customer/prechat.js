// What a site asks before a chat begins: its questions and its consent. Errors
// stand below their field and say what to do.

import { el, setAttr, setText } from '../core/dom.js';
import { length } from '../core/composer.js';
import { renderText } from '../core/message-draw.js';
import { number, t } from '../core/i18n.js';

const maxLength = 500; // characters of an answer, as the server takes them

const checks = {
	email: /^[^\s@]+@[^\s@.]+(?:\.[^\s@.]+)+$/u,
	tel: /^(?=(?:\D*\d){5})[+(\d][\d\s().-]{3,30}$/u,
};

/**
 * What is wrong with the answers.
 * @param {{name: string, type: string, required?: boolean}[]} fields
 * @param {Object<string, string>} values
 * @returns {Object<string, 'required'|'long'|'email'|'tel'>} by field
 */
export function problems(fields, values) {
	const out = {};
	for (const f of fields) {
		const value = (values[f.name] ?? '').trim();
		if (value === '') {
			if (f.required) out[f.name] = 'required';
		} else if (length(value) > maxLength) {
			out[f.name] = 'long';
		} else if (checks[f.type] && !checks[f.type].test(value)) {
			out[f.name] = f.type;
		}
	}
	return out;
}

/** Whether a site asks anything. */
export function asks(site) {
	return Boolean(site?.consent) || (site?.prechat?.length ?? 0) > 0;
}

const autocomplete = { email: 'email', tel: 'tel' };

export class PreChat {
	/**
	 * @param {HTMLElement} host an empty element
	 * @param {(answers: {fields: Object<string, string>, consent: boolean}) => void} onDone
	 */
	constructor(host, onDone) {
		Object.assign(this, { host, onDone, site: null, busy: false });
	}

	/** Shows the questions of a site, once; again after a change of the language. */
	show(site, force = false) {
		if (this.site === site && !force) return;
		const kept = this.site === site ? this.#values() : {};
		const agreed = this.site === site && this.consent?.checked;
		this.site = site;
		this.inputs = new Map();
		this.title = el('h2', { text: t('prechat.title') });
		this.errorNode = el('p', { class: 'field-error', role: 'status' });
		this.button = el('button', { type: 'submit', class: 'button primary', text: t('prechat.start'), data: { testid: 'prechat-start' } });
		this.form = el('form', { class: 'prechat', novalidate: true, data: { testid: 'prechat' }, on: { submit: (e) => this.#submit(e) } },
			site.greeting && el('p', { class: 'prechat-greeting' }, renderText(site.greeting)),
			this.title, (site.prechat ?? []).map((f) => this.#field(f, kept[f.name])),
			site.consent && this.#consent(site.consent, agreed), this.errorNode, this.button);
		this.host.replaceChildren(this.form);
	}

	focus() {
		[...this.inputs.values()][0]?.focus({ preventScroll: true });
	}

	/** While the answer is under way. */
	setBusy(busy) {
		this.busy = busy;
		if (!this.site) return;
		this.button.disabled = busy;
		setText(this.button, t(busy ? 'prechat.starting' : 'prechat.start'));
	}

	/** The server refused. */
	setError(text) {
		setText(this.errorNode, text);
	}

	#field(f, value = '') {
		const id = `prechat-${f.name}`;
		const error = el('p', { class: 'field-error', id: `${id}-error` });
		const input = el('input', { id, name: f.name, type: f.type in checks ? f.type : 'text', autocomplete: autocomplete[f.type] ?? (f.name === 'name' ? 'name' : 'off'), required: Boolean(f.required), aria: { describedby: error.id }, data: { testid: id } });
		input.value = value;
		input.addEventListener('input', () => this.#mark(f.name, ''));
		this.inputs.set(f.name, input);
		return el('div', { class: 'field' }, el('label', { for: id, text: f.required ? f.label : t('prechat.optional', { label: f.label }) }), input, error);
	}

	#consent(text, agreed) {
		const error = el('p', { class: 'field-error', id: 'prechat-consent-error' });
		this.consent = el('input', { type: 'checkbox', required: true, aria: { describedby: error.id }, data: { testid: 'prechat-consent' } });
		this.consent.checked = Boolean(agreed);
		this.consent.addEventListener('change', () => this.#mark('', ''));
		return el('div', { class: 'field' }, el('label', { class: 'check' }, this.consent, el('span', {}, renderText(text))), error);
	}

	#values() {
		return Object.fromEntries([...(this.inputs ?? [])].map(([name, input]) => [name, input.value.trim()]));
	}

	// '' is the consent.
	#mark(name, text) {
		const input = name ? this.inputs.get(name) : this.consent;
		setAttr(input, 'aria-invalid', text ? 'true' : null);
		setText(document.getElementById(name ? `prechat-${name}-error` : 'prechat-consent-error'), text);
	}

	#submit(e) {
		e.preventDefault();
		if (this.busy) return;
		this.setError('');
		const values = this.#values();
		const wrong = problems(this.site.prechat ?? [], values);
		for (const f of this.site.prechat ?? []) this.#mark(f.name, wrong[f.name] ? t(`prechat.${wrong[f.name]}`, { n: number(maxLength) }) : '');
		const disagreed = Boolean(this.site.consent) && !this.consent.checked;
		if (this.site.consent) this.#mark('', disagreed ? t('prechat.consent') : '');
		const [first] = Object.keys(wrong);
		if (first || disagreed) {
			(first ? this.inputs.get(first) : this.consent).focus();
			return;
		}
		this.onDone({ fields: Object.fromEntries(Object.entries(values).filter(([, v]) => v)), consent: Boolean(this.site.consent) });
	}
}
