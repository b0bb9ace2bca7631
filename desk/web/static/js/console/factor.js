// The agent's second factor: what the server knows of it, and what it is asked. Pure, no page.

const path = '/api/v1/agent/factor';

export class Factor {
	/**
	 * @param {object} o
	 * @param {(method: string, path: string, body?: object) => Promise<object|null>} o.call
	 * @param {() => void} o.onChange
	 */
	constructor({ call, onChange }) {
		Object.assign(this, { call, onChange });
		this.state = 'loading'; // 'absent' it could not be read, 'off', 'on', 'codes' new recovery codes are shown, 'removed'
		this.offer = null; // {secret, uri, qr} while it is off
		this.since = 0;
		this.recovery = 0; // codes that are left
		this.codes = [];
		this.error = ''; // key of a text
		this.busy = false;
	}

	/** Asks what there is. The secret of a second factor that is off is another one each time. */
	load() {
		return this.#ask(async () => {
			const have = await this.call('GET', path);
			if (have.secret) Object.assign(this, { state: 'off', offer: have });
			else Object.assign(this, { state: 'on', offer: null, since: have.since, recovery: have.recovery });
		});
	}

	setUp(password, code) {
		return this.#change(path, { password, code, secret: this.offer.secret });
	}

	renew(password, code) {
		return this.#change(`${path}/recovery`, { password, code });
	}

	remove(password, code) {
		return this.#change(`${path}/remove`, { password, code });
	}

	#change(to, body) {
		return this.#ask(async () => {
			const made = await this.call('POST', to, body);
			Object.assign(this, made ? { state: 'codes', codes: made.recovery } : { state: 'removed' });
		});
	}

	async #ask(f) {
		if (this.busy) return;
		Object.assign(this, { busy: true, error: '' });
		this.onChange();
		let changed = false;
		try {
			await f();
		} catch (err) {
			this.error = words(err);
			changed = err.status === 409;
			if (this.state === 'loading') this.state = 'absent';
		}
		this.busy = false;
		if (changed) {
			await this.load();
			this.error = 'factor.changed';
		}
		this.onChange();
	}
}

function words(err) {
	if (err.reason === 'second_factor_wrong') return 'factor.wrong';
	if (err.status === 403) return 'password.wrong';
	if (err.status === 429) return 'action.busy';
	return err.status === 0 ? 'login.unreachable' : 'factor.failed';
}
