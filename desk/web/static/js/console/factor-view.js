// How the second factor is set up, renewed and turned off: in a dialog of the menu, or before anything else.

import { call } from '../core/api.js';
import { closeButton, field, shown } from './account-dialogs.js';
import { el, setText } from '../core/dom.js';
import { Factor } from './factor.js';
import { fullTime, number, t } from '../core/i18n.js';

/**
 * @param {object} o
 * @param {string} o.login for the browser's password store
 * @param {string} [o.password] that the agent has just typed, so that it is not asked for again
 * @param {HTMLElement|false} o.cancel a button that gives up, if one may
 * @param {(said: string) => void} o.onDone
 * @returns {HTMLElement} a form that draws itself
 */
export function factorForm({ login, password = '', cancel, onDone }) {
	const form = el('form', { class: 'stack', method: 'dialog', data: { testid: 'factor' } });
	const secret = field('factor.password', 'factor-password', 'current-password');
	const code = field('factor.code', 'factor-code', 'one-time-code', 'text');
	const error = el('p', { class: 'error-text', role: 'alert', data: { testid: 'factor-error' } });
	const entered = () => [password || secret.value, code.value.trim()];
	let drawn = '';
	let submit = () => {};
	const button = (key, testid, f, kind = 'button') => el('button', { type: f ? 'button' : 'submit', class: kind, text: t(key), data: { testid }, on: f && { click: f } });
	const buttons = (...all) => el('div', { class: 'dialog-buttons' }, ...all);
	const proofs = (key) => [
		el('input', { type: 'text', hidden: true, autocomplete: 'username', value: login }),
		!password && !factor.offer?.no_password && el('label', { class: 'field' }, el('span', { text: t('factor.password') }), secret),
		el('label', { class: 'field' }, el('span', { text: t(key) }), code), error];
	const pages = {
		loading: () => [error],
		absent: () => [error, buttons(cancel, button('retry', 'factor-retry', () => factor.load()))],
		off: () => {
			submit = () => factor.setUp(...entered());
			const { secret: key, uri, qr } = factor.offer;
			return [el('p', { text: t('factor.intro') }), el('img', { class: 'qr', src: qr, alt: t('factor.qr'), width: '272', height: '272' }),
				el('p', {}, el('span', { class: 'quiet', text: t('factor.secret') }), ' ', el('code', { class: 'codes', text: key.match(/.{1,4}/g).join(' '), data: { testid: 'factor-secret' } }), ' ',
					el('a', { href: uri, text: t('factor.open') })),
				...proofs('factor.code'), buttons(cancel, button('factor.save', 'factor-save', null, 'button primary'))];
		},
		codes: () => {
			submit = () => onDone('');
			return [el('h3', { text: t('factor.codes') }), el('ul', { class: 'plain codes', data: { testid: 'factor-codes' } }, ...factor.codes.map((c) => el('li', {}, el('code', { text: c })))),
				el('p', { text: t('factor.codes.help') }), buttons(button('factor.kept', 'factor-kept', null, 'button primary'))];
		},
		on: () => {
			submit = () => factor.renew(...entered());
			return [el('p', { text: `${t('factor.on', { time: fullTime(factor.since) })} ${t('factor.left', { n: number(factor.recovery) })}` }), ...proofs('factor.prove'),
				buttons(cancel, button('factor.remove', 'factor-remove', () => factor.remove(...entered())), button('factor.renew', 'factor-renew', null))];
		},
		removed: () => {
			onDone(t('factor.removed'));
			return [];
		},
	};
	const draw = () => {
		setText(error, factor.error ? t(factor.error) : '');
		if (drawn !== factor.state + (factor.offer?.secret ?? '')) {
			drawn = factor.state + (factor.offer?.secret ?? '');
			code.value = '';
			form.replaceChildren(el('h2', { text: t('factor.title') }), ...pages[factor.state]().filter(Boolean));
			(factor.state === 'off' && (password || factor.offer.no_password) ? code : form.querySelector('input:not([hidden]), button.primary'))?.focus();
		}
		for (const b of form.querySelectorAll('button')) b.disabled = factor.busy;
	};
	const factor = new Factor({ call, onChange: draw });
	form.addEventListener('submit', (e) => {
		e.preventDefault();
		submit();
	});
	factor.load();
	return form;
}

/** Opens the second factor from the menu. */
export function factorDialog(login, notice) {
	const dialog = el('dialog', { class: 'wide', aria: { label: t('factor.title') }, data: { testid: 'factor-dialog' } });
	dialog.append(factorForm({
		login, cancel: closeButton(dialog), onDone: (said) => {
			dialog.close();
			if (said) notice(said);
		},
	}));
	shown(dialog);
}
