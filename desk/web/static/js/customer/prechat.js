// What a site asks before a chat begins: its questions and its consent.

import { el, setAttr, setText } from '../core/dom.js';
import { Fields } from './fields.js';
import { renderText } from '../core/message-draw.js';
import { t } from '../core/i18n.js';

/** Whether a site asks anything. */
export function asks(site) {
	return Boolean(site?.consent) || (site?.prechat?.length ?? 0) > 0;
}

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
		const kept = this.site === site ? this.fields.values() : {};
		const agreed = this.site === site && this.consent?.checked;
		this.site = site;
		this.fields = new Fields('prechat');
		this.title = el('h2', { text: t('prechat.title') });
		this.errorNode = el('p', { class: 'field-error', role: 'status' });
		this.button = el('button', { type: 'submit', class: 'button primary', text: t('prechat.start'), data: { testid: 'prechat-start' } });
		this.form = el('form', { class: 'prechat', novalidate: true, data: { testid: 'prechat' }, on: { submit: (e) => this.#submit(e) } },
			site.greeting && el('p', { class: 'prechat-greeting' }, renderText(site.greeting)),
			this.title, this.fields.draw(site.prechat ?? [], kept),
			site.consent && this.#consent(site.consent, agreed), this.errorNode, this.button);
		this.host.replaceChildren(this.form);
	}

	focus() {
		this.fields.focus();
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

	#consent(text, agreed) {
		this.consentError = el('p', { class: 'field-error', id: 'prechat-consent-error' });
		this.consent = el('input', { type: 'checkbox', required: true, aria: { describedby: this.consentError.id }, data: { testid: 'prechat-consent' } });
		this.consent.checked = Boolean(agreed);
		this.consent.addEventListener('change', () => this.#markConsent(''));
		return el('div', { class: 'field' }, el('label', { class: 'check' }, this.consent, el('span', {}, renderText(text))), this.consentError);
	}

	#markConsent(text) {
		setAttr(this.consent, 'aria-invalid', text ? 'true' : null);
		setText(this.consentError, text);
	}

	#submit(e) {
		e.preventDefault();
		if (this.busy) return;
		this.setError('');
		const first = this.fields.check();
		const disagreed = Boolean(this.site.consent) && !this.consent.checked;
		if (this.site.consent) this.#markConsent(disagreed ? t('prechat.consent') : '');
		if (first || disagreed) {
			(first ?? this.consent).focus();
			return;
		}
		this.onDone({ fields: Object.fromEntries(Object.entries(this.fields.values()).filter(([, v]) => v)), consent: Boolean(this.site.consent) });
	}
}
