// One question with two answers, as a native modal dialog.

import { el } from './dom.js';
import { t } from './i18n.js';

/**
 * Asks and resolves with true (confirmed) or false.
 * @param {{title: string, body: string, confirm: string}} texts
 */
export function ask({ title, body, confirm }) {
	return new Promise((resolve) => {
		const answer = (value) => el('button', {
			type: 'submit', class: value ? 'button primary' : 'button', value: value ? 'yes' : 'no',
			text: value ? confirm : t('cancel'), data: { testid: value ? 'dialog-confirm' : 'dialog-cancel' },
		});
		const dialog = el('dialog', { aria: { label: title } },
			el('form', { method: 'dialog' },
				el('h2', { text: title }), el('p', { text: body }),
				el('div', { class: 'dialog-buttons' }, answer(false), answer(true))));
		dialog.addEventListener('close', () => {
			dialog.remove();
			resolve(dialog.returnValue === 'yes');
		});
		document.body.append(dialog);
		dialog.showModal();
	});
}

/**
 * Asks for a line of text and resolves with it, or with null.
 * @param {{title: string, body: string, label: string, confirm: string}} texts
 */
export function askText({ title, body, label, confirm }) {
	return new Promise((resolve) => {
		const field = el('input', { class: 'input', maxlength: '200', aria: { label }, placeholder: label, data: { testid: 'dialog-text' } });
		const dialog = el('dialog', { aria: { label: title } },
			el('form', { method: 'dialog' },
				el('h2', { text: title }), el('p', { text: body }), field,
				el('div', { class: 'dialog-buttons' },
					el('button', { type: 'button', class: 'button', text: t('cancel'), data: { testid: 'dialog-cancel' }, on: { click: () => dialog.close('no') } }),
					el('button', { type: 'submit', class: 'button primary', value: 'yes', text: confirm, data: { testid: 'dialog-confirm' } }))));
		dialog.addEventListener('close', () => {
			dialog.remove();
			resolve(dialog.returnValue === 'yes' ? field.value.trim() : null);
		});
		document.body.append(dialog);
		dialog.showModal();
		field.focus();
	});
}
