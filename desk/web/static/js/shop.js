// The demo shop: its language, and two places that use the widget's interface.

import './shop-texts.js';
import { byId, el } from './core/dom.js';
import { locale, locales, onLocale, setLocale, t, translate } from './core/i18n.js';

const prices = { p1: [12, 88], p2: [18, 129], p3: [54, 368], p4: [22, 149] };

function draw() {
	translate();
	document.title = t('shop.title');
	const [currency, at] = locale() === 'zh-CN' ? ['CNY', 1] : ['EUR', 0];
	const format = new Intl.NumberFormat(locale(), { style: 'currency', currency, maximumFractionDigits: 0 });
	for (const [id, price] of Object.entries(prices)) byId(`${id}-price`).textContent = format.format(price[at]);
}

const select = byId('language');
for (const [tag, name] of Object.entries(locales)) select.append(el('option', { value: tag, text: name, lang: tag }));
select.value = locale();
select.addEventListener('change', () => setLocale(select.value));
onLocale(draw);
draw();

// What is pushed before the widget's script has come runs when it has.
window.EddyDesk ??= [];
for (const id of ['ask', 'help']) {
	byId(id).addEventListener('click', () => window.EddyDesk.push((desk) => desk.open()));
}
