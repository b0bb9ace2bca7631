// The agent's own account: another password, and the logins that are open.

import { el, setText } from '../core/dom.js';
import { call } from '../core/api.js';
import { Panel } from './panel.js';
import { drawPanelState } from './panel-view.js';
import { SameNodes } from './same-nodes.js';
import { fullTime, moment, t } from '../core/i18n.js';

export function shown(dialog) {
	dialog.addEventListener('close', () => dialog.remove());
	document.body.append(dialog);
	dialog.showModal();
}

export const closeButton = (dialog, text = t('close')) => el('button', { type: 'button', class: 'button', text, on: { click: () => dialog.close() } });

/** A field with the name of a text. */
export const field = (key, testid, autocomplete, type = 'password') => el('input', { type, class: 'input', required: true, autocomplete, data: { testid }, aria: { label: t(key) } });

/**
 * Asks for the old and a new password.
 * @param {string} login for the browser's password store
 * @param {() => void} onDone
 */
export function passwordDialog(login, onDone) {
	const old = field('password.old', 'password-old', 'current-password');
	const fresh = field('password.new', 'password-new', 'new-password');
	const again = field('password.again', 'password-again', 'new-password');
	const error = el('p', { class: 'error-text', role: 'status', data: { testid: 'password-error' } });
	const submit = el('button', { type: 'submit', class: 'button primary', text: t('save'), data: { testid: 'password-save' } });
	const dialog = el('dialog', { aria: { label: t('password.title') }, data: { testid: 'password-dialog' } });
	const label = (key, node) => el('label', { class: 'field' }, el('span', { text: t(key) }), node);
	const form = el('form', { method: 'dialog', class: 'stack' }, el('h2', { text: t('password.title') }),
		el('input', { type: 'text', hidden: true, autocomplete: 'username', value: login }),
		label('password.old', old), label('password.new', fresh), label('password.again', again), error,
		el('div', { class: 'dialog-buttons' }, closeButton(dialog, t('cancel')), submit));
	form.addEventListener('submit', async (e) => {
		e.preventDefault();
		if (fresh.value !== again.value) {
			setText(error, t('password.differ'));
			again.focus();
			return;
		}
		submit.disabled = true;
		setText(error, '');
		try {
			await call('POST', '/api/v1/agent/password', { old: old.value, new: fresh.value });
			dialog.close();
			onDone();
		} catch (err) {
			setText(error, passwordWords(err));
		}
		submit.disabled = false;
	});
	dialog.append(form);
	shown(dialog);
	old.focus();
}

function passwordWords(err) {
	if (err.status === 401 || err.status === 403) return t('password.wrong');
	if (err.status === 404 || err.status === 405) return t('panel.absent');
	if (err.status === 400 || err.status === 422) return t('password.weak');
	if (err.status === 429) return t('action.busy');
	return t(err.status === 0 ? 'login.unreachable' : 'password.failed');
}

/** Lists the logins of this agent; each can be ended. */
export function sessionsDialog() {
	const state = el('div');
	const list = el('ul', { class: 'plain sessions', data: { testid: 'sessions' } });
	const rows = new SameNodes(list);
	const dialog = el('dialog', { class: 'wide', aria: { label: t('sessions.title') }, data: { testid: 'sessions-dialog' } });
	const load = () => panel.load(() => call('GET', '/api/v1/agent/sessions'));
	const revoke = (body) => panel.load(async () => {
		await call('POST', '/api/v1/agent/sessions/revoke', body);
		return call('GET', '/api/v1/agent/sessions');
	});
	const panel = new Panel({ onChange: () => {
		if (panel.code === 'not_found' && panel.state === 'error') panel.state = 'absent';
		drawPanelState(state, panel, { rows: 2 });
		if (panel.state !== 'ready') return;
		rows.draw(panel.value.sessions, (s) => el('li', { class: 'session', data: { testid: 'session' } },
			el('div', {}, el('strong', { text: s.current ? t('sessions.this') : s.user_agent || t('sessions.other') }),
				el('p', { class: 'quiet', text: [s.ip, t('sessions.since', { time: fullTime(s.created) }), s.seen && t('sessions.seen', { time: moment(s.seen) }), s.push && t('sessions.push')].filter(Boolean).join(' · ') })),
			!s.current && el('button', { type: 'button', class: 'button small', text: t('sessions.end'), on: { click: () => revoke({ id: s.id }) } })));
		if (!dialog.contains(document.activeElement)) others.focus(); // the button that was pressed has gone
	} });
	const others = el('button', { type: 'button', class: 'button', text: t('sessions.endOthers'), data: { testid: 'sessions-end-others' }, on: { click: () => revoke({ all: true }) } });
	dialog.append(el('h2', { text: t('sessions.title') }), state, list, el('div', { class: 'dialog-buttons' }, others, closeButton(dialog)));
	shown(dialog);
	load();
}
