// The login form of the console.

import { byId, setAttr, setText } from '../core/dom.js';
import { call } from '../core/api.js';
import { number, onLocale, t } from '../core/i18n.js';

export class Login {
	/**
	 * @param {object} o
	 * @param {string} o.said 'out' | 'ended' | '' what happened before
	 * @param {(agent: object) => void} o.onLogin
	 */
	constructor({ said, onLogin }) {
		this.onLogin = onLogin;
		this.user = byId('login-user');
		this.password = byId('login-password');
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
	}

	#title() {
		if (!byId('login').hidden) document.title = t('login.title');
	}

	async #submit() {
		if (this.busy || this.blockedUntil > Date.now()) return;
		const login = this.user.value.trim();
		const password = this.password.value;
		if (!login || !password) {
			this.#fail('login.empty', login ? this.password : this.user);
			return;
		}
		this.busy = true;
		this.message = null;
		this.#draw();
		try {
			const { agent } = await call('POST', '/api/v1/agent/login', { login, password });
			this.password.value = '';
			this.busy = false;
			this.#draw();
			this.onLogin(agent);
		} catch (err) {
			this.busy = false;
			this.#refused(err);
		}
	}

	#refused(err) {
		if (err.status === 401) {
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
		for (const f of [this.user, this.password]) setAttr(f, 'aria-invalid', f === field ? 'true' : null);
		field?.focus();
	}

	#draw() {
		this.error.hidden = !this.message;
		setText(this.error, this.message ? this.message() : '');
		this.button.disabled = this.busy || this.blockedUntil > Date.now();
		setText(this.button, t(this.busy ? 'login.busy' : 'login.submit'));
		if (!this.message) {
			for (const f of [this.user, this.password]) setAttr(f, 'aria-invalid', null);
		}
	}
}
