// The list of keyboard shortcuts.

import { el } from '../core/dom.js';
import { shortcuts } from './shortcuts.js';
import { t } from '../core/i18n.js';

/** Shows the shortcuts as a dialog. */
export function showKeys() {
	const rows = shortcuts.map(([names, text]) => [el('dt', {}, names.map((k) => el('kbd', { text: k }))), el('dd', { text: t(text) })]).flat();
	const dialog = el('dialog', { aria: { label: t('console.help') }, data: { testid: 'keys' } },
		el('h2', { text: t('console.help') }), el('dl', { class: 'keys' }, rows),
		el('form', { method: 'dialog', class: 'dialog-buttons' }, el('button', { class: 'button', text: t('close') })));
	dialog.addEventListener('close', () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
}
