// The language menu of a page.

import { byId, el } from '../core/dom.js';
import { locale, locales, onLocale, setLocale, translate } from '../core/i18n.js';

/** Fills the menu with this id and calls draw now and after every change. */
export function languageMenu(id, draw) {
	const select = byId(id);
	for (const [tag, name] of Object.entries(locales)) select.append(el('option', { value: tag, text: name, lang: tag }));
	select.value = locale();
	select.addEventListener('change', () => setLocale(select.value));
	const redraw = () => {
		select.value = locale();
		translate();
		draw();
	};
	onLocale(redraw);
	redraw();
}
