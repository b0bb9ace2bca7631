// The agent among colleagues: own status, their news, chats they offer and
// chats offered to them.

import { byId, setText } from '../core/dom.js';
import { t } from '../core/i18n.js';

export class Team {
	/**
	 * @param {object} o
	 * @param {object} o.app staff, offers, connection, chats, commands, now, notice(text, error), draw(), open(id), call(kind, c, title, body): what the console has
	 * @param {() => void} o.onStaff somebody's status or the own permissions changed
	 */
	constructor({ app, onStaff }) {
		Object.assign(this, { app, onStaff });
		this.listeners = new Set();
	}

	/** Calls f at every change of the staff; returns how to stop. */
	follow(f) {
		this.listeners.add(f);
		return () => this.listeners.delete(f);
	}

	/** Tells everybody that staff has changed. */
	changed() {
		this.onStaff();
		for (const f of this.listeners) f();
	}

	/** Takes a frame about staff or offers; false when it is another one. */
	take(frame) {
		switch (frame.t) {
		case 'ev.agent':
			this.app.staff.apply(frame.d);
			this.changed();
			return true;
		case 'ev.offer':
			this.#offered(frame);
			return true;
		case 'ev.offer_end':
			this.#ended(frame);
			return true;
		}
		return false;
	}

	/** A chat has become this agent's; one that comes by itself calls. */
	given(row) {
		const { commands, chats, call } = this.app;
		if (!commands.asked(row.id)) call('assigned', row.id, t('alerts.assigned', { name: chats.contact(row.id).name }), row.preview ?? '');
	}

	setStatus(status) {
		return this.#set({ status });
	}

	/** Whether the router gives this agent chats while it is online. */
	takeChats(accepting) {
		return this.#set({ status: this.app.staff.status?.status ?? 'online', accepting });
	}

	async #set(chosen) {
		const { connection, staff, notice } = this.app;
		try {
			const { d } = await connection.request('status', { d: chosen });
			staff.setStatus(d);
		} catch {
			notice(t('status.failed'), true);
		}
		this.changed();
	}

	async answer(c, accept) {
		if (await this.app.commands.answerOffer(c, accept) && accept) this.app.open(c);
	}

	#offered(frame) {
		const { offers, chats, call, draw } = this.app;
		const { row, from, note } = frame.d;
		offers.offered(frame);
		chats.learn(frame.c, row?.contact);
		const text = t('offer.title', { from: from?.name ?? '', name: chats.contact(frame.c).name });
		setText(byId('announce'), text);
		call('offer', frame.c, text, note ?? '');
		draw();
	}

	#ended(frame) {
		const made = this.app.offers.ended(frame);
		const known = ['accepted', 'declined', 'expired'].includes(frame.d.result);
		if (made && known) this.app.notice(t(`offer.${frame.d.result}`, { name: frame.d.agent?.name ?? made.agent?.name ?? '' }));
		this.app.draw();
	}
}
