// The agent's connection: a ticket for every hello, and what a refusal means.

import { followActivity } from './activity.js';
import { call } from '../core/api.js';
import { Connection, socketURL } from '../core/connection.js';
import { locale } from '../core/i18n.js';
import { uuid } from '../core/storage.js';

const maxSeen = 64; // conversations named in a hello, at most
const askAgain = 2_000; // ms until a server that is away is asked again whether the login still holds

export class ConsoleSession {
	/**
	 * @param {object} o
	 * @param {() => [string, number][]} o.seen conversations held, and up to which number
	 * @param {(d: object) => void} o.onWelcome
	 * @param {(frame: object) => void} o.onEvent
	 * @param {(status: import('../core/connection.js').Status) => void} o.onStatus
	 * @param {() => void} o.onEnd the login is over
	 */
	constructor({ seen, onWelcome, onEvent, onStatus, onEnd }) {
		Object.assign(this, { seen, onStatus, onEnd });
		this.device = uuid();
		this.leaving = false; // the agent logs out: a refusal is expected
		this.checked = false;
		this.connection = new Connection({
			url: () => socketURL('/ws'),
			hello: () => this.#hello(),
			onWelcome: (d) => {
				this.checked = false;
				onWelcome(d);
			},
			onEvent,
			onStatus: (status) => this.#status(status),
		});
		followActivity(this.connection);
	}

	async #hello() {
		let ticket;
		try {
			({ ticket } = await call('POST', '/api/v1/agent/ticket'));
		} catch (err) {
			throw Object.assign(err, (err.status === 401 || err.reason === 'second_factor_setup') && { final: true, reason: err.code, code: 4101 });
		}
		return { ticket, device: this.device, locale: locale(), seen: Object.fromEntries(this.seen().slice(-maxSeen)) };
	}

	async #status(status) {
		this.onStatus(status);
		const refused = status.phase === 'stopped' && (status.code === 4101 || status.code === 4102);
		if (!refused || this.leaving) return;
		// A ticket dies with a restart of the server, the login does not: ask before giving up.
		if (!this.checked) {
			this.checked = true;
			try {
				const { agent } = await call('GET', '/api/v1/agent/me');
				if (!agent.setup) {
					this.connection.restart();
					return;
				}
			} catch (err) {
				if (err.status !== 401) {
					this.checked = false;
					setTimeout(() => this.#status(this.connection.status), askAgain);
					return;
				}
			}
		}
		this.onEnd();
	}
}
