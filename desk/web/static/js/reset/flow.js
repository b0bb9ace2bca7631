// What the page about a forgotten password does, apart from the page.

const shortest = 10; // characters of a password, as the server wants them

export class Reset {
	/**
	 * state: 'loading', 'off' (the server sends no mail), 'ask' for the login, 'asked', 'set' a password, 'done', 'gone'
	 * (the link no longer works). error: key of a text, or ''. wait: seconds until another attempt, for the error.
	 * @param {object} o
	 * @param {string} o.token of the link that was opened, '' = none
	 * @param {(method: string, path: string, body?: object) => Promise<object|null>} o.call
	 * @param {() => void} o.onChange
	 */
	constructor({ token, call, onChange }) {
		Object.assign(this, { token, call, onChange, state: token ? 'set' : 'loading', error: '', wait: 0, busy: false });
	}

	async start() {
		if (this.state === 'loading') await this.#do(async () => ((await this.call('GET', '/api/v1/agent/reset')).mail ? 'ask' : 'off'));
	}

	/** Asks for a mail. Whether there is such an account is not told. */
	async ask(login) {
		if (!login.trim()) return this.#wrong('reset.empty');
		return this.#do(async () => {
			await this.call('POST', '/api/v1/agent/reset', { login });
			return 'asked';
		});
	}

	/** Sets the new password. */
	async set(password, again) {
		if ([...password].length < shortest) return this.#wrong('reset.weak');
		if (password !== again) return this.#wrong('reset.differ');
		return this.#do(async () => {
			await this.call('POST', '/api/v1/agent/reset/password', { token: this.token, password });
			return 'done';
		});
	}

	#wrong(error) {
		this.error = error;
		this.onChange();
	}

	async #do(what) {
		if (this.busy) return;
		this.busy = true;
		this.error = '';
		this.onChange();
		try {
			this.state = await what();
		} catch (err) {
			this.#failed(err);
		}
		this.busy = false;
		this.onChange();
	}

	#failed(err) {
		this.wait = Math.ceil((err.retryMs || 1_000) / 1_000);
		if (err.status === 404 && this.state === 'set') this.state = 'gone';
		else if (err.status === 409) this.state = 'off';
		else if (err.status === 422) this.error = 'reset.weak';
		else if (err.status === 429) this.error = 'reset.limited';
		else this.error = err.status === 0 ? 'reset.unreachable' : 'reset.failed';
	}
}
