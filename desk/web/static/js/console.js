// The console page: who is logged in decides what is shown.

import './console/icons.js';
import './console/texts.js';
import './console/list-texts.js';
import './console/login-texts.js';
import { byId, el, icon } from './core/dom.js';
import { call } from './core/api.js';
import { ConsoleApp } from './console/app.js';
import { factorForm } from './console/factor-view.js';
import { invited, inviteForm, linkOf } from './console/invite.js';
import { Login } from './console/login.js';
import { locale, locales, onLocale, setLocale, t, translate } from './core/i18n.js';
import { finish, returned, signOnWords, takeInvitation } from './console/sign-on.js';
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

/** Lets the agent in, or has the second factor set up before. failed is the key of a text that tells what did not work. */
function enter(agent, { password = '', failed = '' } = {}) {
	storage.set(loginKey, true);
	byId('login').hidden = true;
	if (!agent.setup) {
		showApp(agent, failed);
		return;
	}
	byId('setup').hidden = false;
	const out = el('button', { type: 'button', class: 'button', text: t('console.logout'), data: { testid: 'setup-logout' }, on: { click: () => call('POST', '/api/v1/agent/logout').then(() => leave('out'), () => leave('')) } });
	byId('setup-card').replaceChildren(el('p', { class: 'login-info', text: t('factor.required') }), factorForm({ login: agent.login, password, cancel: out, onDone: () => location.reload() }));
}

function showApp(agent, failed) {
	byId('app').hidden = false;
	const app = new ConsoleApp({ agent, storage, leave });
	app.start();
	if (failed) app.notice(t(failed), true);
}

function showLogin(said, more = {}) {
	storage.remove(loginKey);
	byId('login').hidden = false;
	new Login({ said, ...more, onLogin: (agent, password) => enter(agent, { password }) });
}

/** Shows the form of an invitation, with what has gone wrong before. */
function showInvitation(token, failed = '') {
	history.replaceState(null, '', linkOf(token));
	byId('setup').hidden = false;
	inviteForm({ host: byId('setup-card'), token, failed, onAccount: (agent, password) => {
		history.replaceState(null, '', '/console'); // the link has had its use
		byId('setup').hidden = true;
		enter(agent, { password });
	} });
}

/** Ends a login that has come back from the provider of single sign-on. */
async function comeBack(back) {
	history.replaceState(null, '', '/console'); // the code has had its use
	const token = takeInvitation();
	const again = async (failed) => {
		const agent = !token && await whoAmI(); // who was connecting an account is logged in still
		if (token) showInvitation(token, failed);
		else if (agent) enter(agent, { failed });
		else showLogin('', { failed });
	};
	if (!back.code) {
		await again('sso.cancelled');
		return;
	}
	try {
		enter((await finish(back)).agent);
	} catch (err) {
		if (err.reason === 'second_factor') showLogin('', { half: true });
		else await again(signOnWords(err));
	}
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
	const back = returned(location.search);
	if (back) {
		await comeBack(back);
		return;
	}
	addEventListener('hashchange', () => { if (invited(location.hash)) location.reload(); }); // a link that was put into the address of this tab
	const token = invited(location.hash);
	if (token) {
		showInvitation(token);
		return;
	}
	const agent = await whoAmI();
	if (agent) enter(agent);
	else showLogin(said);
}

boot();
