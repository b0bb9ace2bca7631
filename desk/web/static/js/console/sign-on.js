// Single sign-on: to the provider, and back with what it gave the browser.

import { call } from '../core/api.js';
import { areaOf, SafeStorage } from '../core/storage.js';

const path = '/api/v1/agent/sso';
const known = { sso_lost: 'sso.lost', sso_refused: 'sso.refused', sso_unknown: 'sso.unknown', sso_taken: 'sso.taken', sso_connect: 'sso.connect.first', password_off: 'sso.only' };

/**
 * What the provider sent the browser back with, null if this page was opened otherwise.
 * @param {string} search of the page's address
 */
export function returned(search) {
	const q = new URLSearchParams(search);
	if (!q.has('state') || !(q.has('code') || q.has('error'))) return null;
	return { state: q.get('state'), code: q.get('code') ?? '' };
}

/** The key of the text for a login that did not work, '' if it says nothing of single sign-on. */
export function signOnWords(err) {
	return known[err.reason] ?? (err.status === 404 || err.status === 410 ? 'invite.gone' : err.status === 429 ? 'action.busy' : err.status === 0 ? 'login.unreachable' : 'sso.failed');
}

/** What the login page may offer: {sso?: {text, ready}, passwords?: 'admins'|'none'}. */
export const offered = () => call('GET', path);

const inviteKey = 'desk.console.invite';
const tab = new SafeStorage([areaOf('sessionStorage')]);

/** Leaves for the provider, to log in, to connect this login's account, or to accept an invitation. */
export async function begin(body = {}) {
	const { url } = await call('POST', `${path}/begin`, body);
	tab.set(inviteKey, body.invitation ?? '');
	location.assign(url);
}

/** The token of the invitation for which this tab has left for the provider, or '': so that it can be tried again. */
export function takeInvitation() {
	const token = tab.get(inviteKey, '');
	tab.remove(inviteKey);
	return token;
}

/** Ends a login at the provider. */
export const finish = (back) => call('POST', `${path}/finish`, back);

/** Ends a login whose account has a second factor. */
export const giveCode = (code) => call('POST', `${path}/code`, { code });
