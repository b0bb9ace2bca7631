// What the buttons and keys of a chat do: they ask, send the command, and say
// what went wrong.

import { Refusal } from './actions.js';
import { ask } from '../core/dialog.js';
import { returnDialog, transferDialog } from './transfer-dialog.js';
import { t } from '../core/i18n.js';

export class ChatCommands {
	/**
	 * @param {object} o
	 * @param {import('./actions.js').Actions} o.actions
	 * @param {import('./chats.js').Chats} o.chats
	 * @param {object} o.app staff, offers, connection, current(), draw(), followStaff(listener), notice(text)
	 */
	constructor({ actions, chats, app }) {
		Object.assign(this, { actions, chats, app });
	}

	async take(id, force = false) {
		const view = this.chats.views.get(id);
		const c = this.chats.get(id);
		if (!view || !c || view.busy) return;
		view.setBusy('take');
		await this.#do(id, async () => {
			c.setHead(await this.actions.take(id, c.head?.rev, force));
			this.chats.watched.delete(id);
			c.log.fill();
		});
		view.setBusy('');
		if (this.app.current() === id) view.focus();
	}

	/** Whether this agent is about to get a conversation by its own doing. */
	asked(id) {
		return Boolean(this.chats.views.get(id)?.busy || this.app.offers.incoming.get(id)?.busy);
	}

	/** Of the bot: a plain take; of a colleague: by permission, and after a question. */
	async takeOver(id) {
		const head = this.chats.get(id)?.head;
		if (head?.state !== 'assigned') {
			await this.take(id);
			return;
		}
		const yes = await ask({ title: t('console.takeOver.title', { name: head.owner?.name ?? '' }), body: t('console.takeOver.body'), confirm: t('console.takeOver') });
		if (yes) await this.take(id, true);
	}

	async close(id) {
		const c = this.chats.get(id);
		const view = this.chats.views.get(id);
		const forced = !view?.writable;
		if (!c || !view || c.state !== 'assigned' || (forced && !this.app.staff.can('override'))) return;
		const last = c.log.events.findLast((ev) => ev.t === 'ev.msg' && ev.d.kind !== 'note' && ev.d.kind !== 'notice');
		if (last?.d.from.kind === 'customer' || forced) {
			const yes = await ask({ title: t(forced ? 'console.close.other.title' : 'console.close.title'), body: t(forced ? 'console.close.other.body' : 'console.close.body'), confirm: t('console.close') });
			if (!yes) return;
		}
		await this.#do(id, async () => this.#took(c, await this.actions.close(id, forced)));
	}

	async reopen(id) {
		const c = this.chats.get(id);
		if (c) await this.#do(id, async () => this.#took(c, await this.actions.reopen(id, c.head?.rev)));
	}

	transfer(id) {
		const c = this.chats.get(id);
		const view = this.chats.views.get(id);
		const forced = !view?.writable;
		if (c?.state !== 'assigned' || (forced && !this.app.staff.can('override'))) return;
		transferDialog({
			...this.#directory(),
			send: async (target, note, force) => {
				const d = await this.actions.transfer(id, c.head?.rev, target, note, force || forced);
				if (d.offer) {
					this.app.offers.made(id, d.offer);
					this.app.notice(t('offer.made', { name: d.offer.agent?.name ?? '' }));
				}
				this.#took(c, d);
			},
		});
	}

	giveBack(id) {
		const c = this.chats.get(id);
		if (!c || !this.chats.views.get(id)?.writable) return;
		returnDialog({ ...this.#directory(), send: async (note) => this.#took(c, await this.actions.giveBack(id, c.head?.rev, note)) });
	}

	/** @returns {Promise<boolean>} whether the offer was answered as wanted */
	async answerOffer(id, accept) {
		const { offers } = this.app;
		const offer = offers.incoming.get(id);
		if (!offer || offer.busy) return false;
		Object.assign(offer, { busy: true, error: '' });
		this.app.draw();
		try {
			const { head } = await this.actions.answerOffer(id, accept);
			offers.incoming.delete(id);
			if (accept) this.#took(this.chats.conversation(id), { head });
			return true;
		} catch (err) {
			Object.assign(offer, { busy: false, error: err.message });
			return false;
		} finally {
			this.app.draw();
		}
	}

	#directory() {
		const { staff, connection, followStaff } = this.app;
		return {
			staff, follow: followStaff,
			fetch: async () => {
				const { d } = await connection.request('agents', {});
				staff.directory(d);
				return d;
			},
		};
	}

	#took(c, d) {
		c.setHead(d.head);
		if (d.head?.last > c.log.last) c.log.fill();
		this.app.draw();
	}

	async #do(id, f) {
		const view = this.chats.views.get(id);
		view?.setError('');
		try {
			await f();
		} catch (err) {
			if (!(err instanceof Refusal)) throw err;
			this.chats.get(id)?.setHead(err.head);
			view?.setError(err.message);
		}
		this.app.draw();
	}
}
