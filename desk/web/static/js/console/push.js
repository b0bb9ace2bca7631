// Calls while no console is open: the browser subscribes at its push service,
// and the server is told where. Without a service worker, a push service or
// the server's key there are none, and everything else works as ever.

import { call } from '../core/api.js';

const worker = '/console/worker.js';
const scope = '/console';
const tag = 'desk.call';

/** The bytes of a text in base64url. */
export function bytesOf(text) {
	const plain = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
	return Uint8Array.from(plain, (c) => c.charCodeAt(0));
}

/** Whether a subscription was made with a key. */
export function madeWith(subscription, key) {
	const made = subscription.options?.applicationServerKey;
	if (!made) return true; // a browser that does not tell
	const bytes = new Uint8Array(made);
	return bytes.length === key.length && bytes.every((b, i) => b === key[i]);
}

export class Push {
	/**
	 * @param {object} o
	 * @param {string} o.key of the server, '' when it calls nobody
	 * @param {() => boolean} o.wanted the agent wants to be called, and the browser lets us
	 * @param {() => string} o.locale
	 * @param {(c: string) => void} o.onOpen a call was pressed
	 * @param {object} [o.env] navigator, trustedTypes, call
	 */
	constructor({ key, wanted, locale, onOpen, env = { navigator: globalThis.navigator, trustedTypes: globalThis.trustedTypes, call } }) {
		Object.assign(this, { key, wanted, locale, env });
		this.container = env.navigator?.serviceWorker ?? null;
		this.told = ''; // what the server knows from this page
		this.turn = Promise.resolve();
		this.script = env.trustedTypes?.createPolicy('eddy-console', { createScriptURL: () => worker }).createScriptURL('') ?? worker;
		this.container?.addEventListener('message', (e) => { if (typeof e.data?.open === 'string') onOpen(e.data.open); });
	}

	/** Whether this browser and this server can do it. */
	get possible() {
		return this.key !== '' && this.container !== null && 'PushManager' in globalThis;
	}

	/**
	 * Brings browser and server in line with what the agent wants; one call after the other.
	 * @returns {Promise<boolean>} whether the agent will be called
	 */
	follow() {
		this.turn = this.turn.then(() => (this.possible && this.wanted() ? this.#subscribe() : this.#leave())).catch(() => false);
		return this.turn;
	}

	/** The server has forgotten the subscription, as it does with every change of the password. */
	forgotten() {
		this.told = '';
		return this.follow();
	}

	/** Takes away the calls that are still shown: the agent is here. */
	async seen() {
		const registration = await this.#registration();
		for (const n of await registration?.getNotifications({ tag }) ?? []) n.close();
	}

	/** Shows a notification by the worker, where pages may not. */
	async show(title, options) {
		const registration = await this.#registration();
		await registration?.showNotification(title, { ...options, data: { c: options.data?.c ?? '' } });
	}

	async #registration() {
		return await this.container?.getRegistration(scope).catch(() => null) ?? null;
	}

	async #subscribe() {
		const registration = await this.container.register(this.script, { scope, updateViaCache: 'none' });
		const key = bytesOf(this.key);
		let subscription = await registration.pushManager.getSubscription();
		if (subscription && !madeWith(subscription, key)) { // another server was here before
			await subscription.unsubscribe();
			subscription = null;
		}
		if (!subscription) {
			await this.#active(registration);
			subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
		}
		const body = { ...subscription.toJSON(), locale: this.locale() };
		const now = JSON.stringify(body);
		if (now !== this.told) await this.env.call('POST', '/api/v1/agent/push', body);
		this.told = now;
		return true;
	}

	// Some browsers subscribe only when the worker works.
	#active(registration) {
		const worker = registration.installing ?? registration.waiting;
		if (registration.active || !worker) return Promise.resolve();
		return new Promise((resolve, reject) => {
			worker.addEventListener('statechange', () => {
				if (worker.state === 'activated') resolve();
				if (worker.state === 'redundant') reject(new Error('the worker did not start'));
			});
		});
	}

	async #leave() {
		const registration = await this.#registration();
		const subscription = await registration?.pushManager?.getSubscription();
		if (!subscription && this.told === '') return false;
		await subscription?.unsubscribe();
		this.told = '';
		if (this.key !== '') await this.env.call('POST', '/api/v1/agent/push/drop', {});
		return false;
	}
}
