// The commands on conversations, each with what to say when it fails. They
// change nothing on the page: they return the answer or throw a Refusal.

import { t } from '../core/i18n.js';

/** Why a command failed, in words for the agent. */
export class Refusal extends Error {
	constructor(text, head) {
		super(text);
		this.head = head;
	}
}

export class Actions {
	/**
	 * @param {object} o
	 * @param {import('../core/connection.js').Connection} o.connection
	 * @param {string} o.agentId
	 */
	constructor({ connection, agentId }) {
		Object.assign(this, { connection, agentId });
	}

	/** Takes a waiting chat; with force one of somebody else. @returns {Promise<object>} the head */
	async take(c, rev, force = false) {
		try {
			return (await this.connection.request('take', { c, d: { rev, ...(force && { force }) } })).d.head;
		} catch (err) {
			// A take that was sent twice finds its own success.
			if (err.head?.state === 'assigned' && err.head.owner?.id === this.agentId) return err.head;
			throw new Refusal(takeWords(err, this.agentId), err.head);
		}
	}

	/** Offers to an agent or gives to a group. @returns {Promise<{head: object, offer?: object}>} */
	transfer(c, rev, target, note, force) {
		return this.#ask('transfer', c, { ...target, note, rev, ...(force && { force }) }, 'transfer.failed');
	}

	giveBack(c, rev, note) {
		return this.#ask('return', c, { note, rev }, 'return.failed');
	}

	reopen(c, rev) {
		return this.#ask('reopen', c, { rev }, 'console.reopen.failed');
	}

	close(c, force) {
		return this.#ask('conv.close', c, { reason: 'done', ...(force && { force }) }, 'console.close.failed');
	}

	answerOffer(c, accept) {
		return this.#ask(accept ? 'transfer.accept' : 'transfer.decline', c, {}, accept ? 'offer.gone' : 'offer.failed');
	}

	async #ask(type, c, d, failed) {
		try {
			return (await this.connection.request(type, { c, d })).d;
		} catch (err) {
			throw new Refusal(t(words[err.code] ?? failed), err.head);
		}
	}
}

const words = { lost: 'action.lost', timeout: 'action.lost', busy: 'action.busy', unavailable: 'action.busy', unknown_type: 'panel.absent', forbidden: 'action.forbidden', not_found: 'action.notFound' };

function takeWords(err, agentId) {
	if (err.code === 'forbidden') return t('console.take.full');
	if (err.code !== 'conflict' || ['queued', 'deferred'].includes(err.head?.state)) return t('console.take.failed');
	const { owner } = err.head ?? {};
	return owner && owner.id !== agentId ? t('console.take.lost', { name: owner.name }) : t('console.take.gone');
}
