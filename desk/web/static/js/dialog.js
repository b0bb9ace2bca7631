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
