// What somebody with the link of an invitation fills in to get an account.

import { ApiError, call } from '../core/api.js';
import { begin, offered, signOnWords } from './sign-on.js';
import { el, setAttr, setText } from '../core/dom.js';
import { field } from './account-dialogs.js';
import { fullTime, t } from '../core/i18n.js';

const path = '/api/v1/agent/invitation';
const mark = '#invite=';

/** The token of the invitation that this page was opened with, or ''. */
export const invited = (hash) => (hash.startsWith(mark) ? hash.slice(mark.length) : '');

/** The address of the page for a token. */
export const linkOf = (token) => `/console${mark}${token}`;

/**
 * What a refusal means: the key of a text, and the field it is about, if it is about one.
 * @param {{status: number, reason: string, code: string}} err
 */
export function refusal(err) {
	if (err.reason === 'password_off') return { key: 'sso.only' };
	if (err.status === 404) return { key: 'invite.gone' };
	if (err.status === 410) return { key: 'invite.expired' };
	if (err.status === 409) return { key: 'invite.taken', field: 'login' };
	if (err.status === 422) return { key: `invite.bad.${err.reason}`, field: err.reason };
	return { key: err.status === 0 ? 'login.unreachable' : 'invite.failed' };
}

/**
 * Draws the form of an invitation.
 * @param {object} o
 * @param {HTMLElement} o.host
 * @param {string} o.token
 * @param {string} [o.failed] key of the text of a single sign-on that did not work
 * @param {(agent: object, password: string) => void} o.onAccount
 */
export async function inviteForm({ host, token, failed = '', onAccount }) {
	const error = el('p', { class: 'error-text', role: 'alert', data: { testid: 'invite-error' } });
	const title = () => el('h1', { text: t('invite.title') });
	let about;
	try {
		about = await call('POST', path, { token });
	} catch (err) {
		setText(error, t(refusal(err).key));
		host.replaceChildren(title(), error, el('a', { class: 'button', href: '/console', text: t('invite.login'), data: { testid: 'invite-login' } }));
		return;
	}
	const fields = {
		login: field('login.user', 'invite-user', 'username', 'text'), name: field('invite.name', 'invite-name', 'name', 'text'),
		password: field('login.password', 'invite-password', 'new-password'), again: field('invite.again', 'invite-again', 'new-password'),
	};
	fields.name.value = about.name;
	const submit = el('button', { type: 'submit', class: 'button primary', text: t('invite.submit'), data: { testid: 'invite-submit' } });
	const fail = ({ key, field: name }) => {
		setText(error, t(key));
		for (const [n, node] of Object.entries(fields)) setAttr(node, 'aria-invalid', n === name ? 'true' : null);
		fields[name]?.focus();
	};
	const form = el('form', { class: 'stack', method: 'post', data: { testid: 'invite' } }, title(),
		el('p', { class: 'login-info', text: t('invite.about', { by: about.by, role: t(`invite.role.${about.role}`), time: fullTime(about.expires) }) }),
		...Object.values(fields).map((node) => el('label', { class: 'field' }, el('span', { text: node.getAttribute('aria-label') }), node)), error, submit);
	form.addEventListener('submit', async (e) => {
		e.preventDefault();
		const [login, name, password] = [fields.login.value.trim(), fields.name.value.trim(), fields.password.value];
		if (password !== fields.again.value) {
			fail({ key: 'password.differ', field: 'again' });
			return;
		}
		submit.disabled = true;
		try {
			const { agent } = await call('POST', `${path}/accept`, { token, login, name, password });
			onAccount(agent, password);
		} catch (err) {
			if (!(err instanceof ApiError)) throw err;
			fail(refusal(err));
		}
		submit.disabled = false;
	});
	host.replaceChildren(form);
	fields.login.focus();
	if (failed) fail({ key: failed });
	const { sso } = await offered().catch(() => ({}));
	if (!sso) return;
	form.append(el('button', { type: 'button', class: 'button', text: sso.text || t('sso.button'), disabled: !sso.ready, data: { testid: 'invite-sso' }, on: {
		click: () => begin({ invitation: token }).catch((err) => fail({ key: signOnWords(err) })),
	} }));
	if (!sso.ready) form.append(el('p', { class: 'login-info', role: 'status', text: t('invite.sso.notReady') }));
}
