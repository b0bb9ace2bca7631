// The console page: who is logged in decides what is shown.

import './console/icons.js';
import './console/texts.js';
import './console/list-texts.js';
import { byId, el, icon } from './core/dom.js';
import { call } from './core/api.js';
import { ConsoleApp } from './console/app.js';
import { Login } from './console/login.js';
import { locale, locales, onLocale, setLocale, translate } from './core/i18n.js';
import { SafeStorage } from './core/storage.js';

const storage = new SafeStorage();
const saidKey = 'desk.console.said'; // what to tell on the login form after a reload
const loginKey = 'desk.console.login'; // somebody is logged in here, as far as this browser knows

function languageMenu(select) {
	for (const [tag, name] of Object.entries(locales)) select.append(el('option', { value: tag, text: name, lang: tag }));
	select.value = locale();
	select.addEventListener('change', () => setLocale(select.value));
	onLocale(() => { select.value = locale(); });
}

/** Ends this page's session view; nothing of the agent stays in memory. */
function leave(said) {
	storage.set(saidKey, said);
	storage.remove(loginKey);
	location.reload();
}

function showApp(agent) {
	storage.set(loginKey, true);
	byId('login').hidden = true;
	byId('app').hidden = false;
	new ConsoleApp({ agent, storage, leave }).start();
}

function showLogin(said) {
	storage.remove(loginKey);
	byId('login').hidden = false;
	new Login({ said, onLogin: showApp });
}

// The server may be starting: ask until it answers. A browser that knows of no login is spared the question, whose
// answer would be a refusal.
async function whoAmI() {
	if (storage.persistent && !storage.get(loginKey, false)) return null;
	for (let wait = 500; ; wait = Math.min(wait * 2, 8_000)) {
		try {
			return (await call('GET', '/api/v1/agent/me')).agent;
		} catch (err) {
			if (err.status === 401) return null;
		}
		await new Promise((resolve) => setTimeout(resolve, wait));
	}
}

async function boot() {
	byId('login-mark').append(icon('chat'));
	byId('brand-mark').append(icon('chat'));
	languageMenu(byId('login-language'));
	languageMenu(byId('language'));
	translate();
	onLocale(() => translate());
	const said = storage.get(saidKey, '');
	storage.remove(saidKey);
	const agent = await whoAmI();
	if (agent) showApp(agent);
	else showLogin(said);
}

boot();
