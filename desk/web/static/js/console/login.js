// The login form of the console.

import { byId, setAttr, setText } from '../core/dom.js';
import { begin, giveCode, offered, signOnWords } from './sign-on.js';
import { call } from '../core/api.js';
import { number, onLocale, t } from '../core/i18n.js';

export class Login {
	/**
	 * @param {object} o
	 * @param {string} o.said 'out' | 'ended' | '' what happened before
	 * @param {string} [o.failed] key of the text of a single sign-on that did not work
	 * @param {boolean} [o.half] the provider has proved the agent; the code of the second factor is missing
	 * @param {(agent: object, password: string) => void} o.onLogin
	 */
	constructor({ said, failed = '', half = false, onLogin }) {
		this.onLogin = onLogin;
		this.user = byId('login-user');
		this.password = byId('login-password');
		this.code = byId('login-code');
		this.button = byId('login-submit');
		this.error = byId('login-error');
		this.info = byId('login-info');
		this.message = null;
		this.busy = false;
		this.showInfo = () => {
			this.info.hidden = !said;
			if (said) setText(this.info, t(said === 'out' ? 'login.out' : 'login.ended'));
		};
		this.showInfo();
		onLocale(() => {
			this.showInfo();
			this.#draw();
		});
		byId('login-form').addEventListener('submit', (e) => {
			e.preventDefault();
			this.#submit();
		});
		this.#title();
		onLocale(() => this.#title());
		this.user.focus();
		this.#setHalf(half);
		if (failed) this.#fail(failed, null);
		this.#offer();
	}

	// Shows the button of single sign-on where there is one, and the fields of a password where one may help.
	async #offer() {
		let offer;
		try {
			offer = await offered();
		} catch {
			return;
		}
		const { sso, passwords } = offer;
		const button = byId('login-sso');
		const label = () => {
			setText(button, sso?.text || t('sso.button'));
			setText(byId('login-sso-note'), sso?.ready ? '' : t('sso.notReady'));
		};
		label();
		onLocale(label);
		button.disabled = !sso?.ready;
		byId('login-sso-note').hidden = !sso || sso.ready;
		Object.assign(this, { sso: Boolean(sso), passwords: passwords !== 'none' });
		this.#showFields();
		button.addEventListener('click', async () => {
			button.disabled = true;
			try {
				await begin();
			} catch (err) {
				this.#fail(signOnWords(err), null);
				button.disabled = false;
			}
		});
	}

	// Asks for the code alone, or for everything.
	#setHalf(half) {
		this.half = half;
		this.#showFields();
		this.#askCode(half);
	}

	#showFields() {
		byId('login-fields').hidden = this.half || this.passwords === false;
		this.button.hidden = !this.half && this.passwords === false;
		byId('login-sso').hidden = !this.sso || this.half;
	}

	#title() {
		if (!byId('login').hidden) document.title = t('login.title');
	}

	async #submit() {
		if (this.busy || this.blockedUntil > Date.now()) return;
		const login = this.user.value.trim();
		const password = this.password.value;
		if (!this.half && (!login || !password)) {
			this.#fail('login.empty', login ? this.password : this.user);
			return;
		}
		const code = byId('login-code-field').hidden ? undefined : this.code.value.trim();
		if (code === '') {
			this.#fail('login.code.empty', this.code);
			return;
		}
		this.busy = true;
		this.message = null;
		this.#draw();
		try {
			const { agent } = await (this.half ? giveCode(code) : call('POST', '/api/v1/agent/login', { login, password, code }));
			this.password.value = '';
			this.#setHalf(false);
			this.busy = false;
			this.#draw();
			this.onLogin(agent, password);
		} catch (err) {
			this.busy = false;
			this.#refused(err);
		}
	}

	// The code is asked for once the password is right.
	#askCode(ask) {
		byId('login-code-field').hidden = !ask;
		this.code.value = '';
		if (ask) this.code.focus();
	}

	#refused(err) {
		if (err.reason === 'second_factor') {
			this.#askCode(true);
			this.#draw();
		} else if (err.reason === 'second_factor_wrong') {
			this.code.select();
			this.#fail('login.code.wrong', this.code);
		} else if (err.reason?.startsWith('sso_') || err.reason === 'password_off') {
			this.#setHalf(false);
			this.#fail(signOnWords(err), null);
		} else if (err.status === 401) {
			this.#askCode(false);
			this.password.select();
			this.#fail('login.wrong', this.password);
		} else if (err.code === 'rate_limited') {
			this.#block(err.retryMs || 1_000);
		} else {
			this.#fail(err.status === 0 ? 'login.unreachable' : 'login.server', null);
		}
	}

	// Counts down to the moment when another attempt is allowed.
	#block(ms) {
		this.blockedUntil = Date.now() + ms;
		const tick = () => {
			const left = Math.ceil((this.blockedUntil - Date.now()) / 1000);
			this.message = left > 0 ? () => t('login.limited', { n: number(left) }) : null;
			this.#draw();
			if (left > 0) setTimeout(tick, 500);
		};
		tick();
	}

	#fail(key, field) {
		this.message = () => t(key);
		this.#draw();
		for (const f of [this.user, this.password, this.code]) setAttr(f, 'aria-invalid', f === field ? 'true' : null);
		field?.focus();
	}

	#draw() {
		this.error.hidden = !this.message;
		setText(this.error, this.message ? this.message() : '');
		this.button.disabled = this.busy || this.blockedUntil > Date.now();
		setText(this.button, t(this.busy ? 'login.busy' : 'login.submit'));
		if (!this.message) {
			for (const f of [this.user, this.password, this.code]) setAttr(f, 'aria-invalid', null);
		}
	}
}
