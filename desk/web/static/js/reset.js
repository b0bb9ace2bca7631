// The page about a forgotten password: it asks for a mail, or sets a password with the link of one.

import './reset/texts.js';
import { call } from './core/api.js';
import { byId, el, setText } from './core/dom.js';
import { locale, locales, number, onLocale, setLocale, t, translate } from './core/i18n.js';
import { Reset } from './reset/flow.js';

const fields = { login: byId('login'), fresh: byId('fresh'), again: byId('again') };
const token = location.hash.slice(1);
if (token) history.replaceState(null, '', location.pathname); // it stays out of the history, and out of what is shared
addEventListener('hashchange', () => location.reload()); // another link, put into the address of this tab

const flow = new Reset({ token, call, onChange: draw });

function draw() {
	translate();
	document.title = t('reset.title');
	const { state, busy, error, wait } = flow;
	setText(byId('info'), t(`reset.${state}`));
	byId('login-row').hidden = state !== 'ask';
	byId('fresh-row').hidden = byId('again-row').hidden = state !== 'set';
	byId('submit').hidden = state !== 'ask' && state !== 'set';
	byId('submit').disabled = busy;
	setText(byId('submit'), t(state === 'set' ? 'reset.save' : 'reset.send'));
	byId('error').hidden = !error;
	setText(byId('error'), error ? t(error, { n: number(wait) }) : '');
}

byId('form').addEventListener('submit', (e) => {
	e.preventDefault();
	if (flow.state === 'ask') flow.ask(fields.login.value);
	else flow.set(fields.fresh.value, fields.again.value);
});

const select = byId('language');
for (const [tag, name] of Object.entries(locales)) select.append(el('option', { value: tag, text: name, lang: tag }));
select.value = locale();
select.addEventListener('change', () => setLocale(select.value));
onLocale(draw);
draw();
await flow.start();
fields[flow.state === 'set' ? 'fresh' : 'login'].focus();
