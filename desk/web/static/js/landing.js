// The landing page: only its language.

import './landing-texts.js';
import { byId, el } from './core/dom.js';
import { locale, locales, onLocale, setLocale, t, translate } from './core/i18n.js';

function draw() {
	translate();
	document.title = t('landing.title');
}

const select = byId('language');
for (const [tag, name] of Object.entries(locales)) select.append(el('option', { value: tag, text: name, lang: tag }));
select.value = locale();
select.addEventListener('change', () => setLocale(select.value));
onLocale(draw);
draw();
