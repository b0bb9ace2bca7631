// The conversations this page holds and their views. A view that exists keeps
// its place, draft and unsent messages; what is neither ours nor on screen nor
// has anything unsent is let go.

import { byId } from '../core/dom.js';
import { FileLinks } from '../core/attachments.js';
import { beginning } from '../core/chunks.js';
import { forgetChat } from './card-person.js';
import { givenName } from './canned.js';
import { ChatView } from './chat-view.js';
import { Conversation } from '../core/conversation.js';
import { t } from '../core/i18n.js';

const firstPage = 100; // events of a long chat that are fetched at once

export class Chats {
	/**
	 * @param {object} o
	 * @param {object} o.app what every view needs: connection, storage, scope, staff, inbox, offers, now(), limit()
	 * @param {(c: Conversation, what: string, ev?: object) => void} o.onChange
	 * @param {(id: string) => object} o.commands the functions behind the buttons of a view
	 */
	constructor({ app, onChange, commands }) {
		Object.assign(this, { app, onChange, commands });
		this.conversations = new Map();
		this.views = new Map();
		this.names = new Map(); // conversation id -> contact, also after the row is gone
		this.watched = new Set();
		this.links = new FileLinks(async (ids) => (await app.connection.request('file.links', { d: { ids } })).d);
	}

	get(id) {
		return this.conversations.get(id);
	}

	all() {
		return this.conversations.values();
	}

	/** Remembers whose conversation it is. */
	learn(id, contact) {
		if (contact) this.names.set(id, { ...this.names.get(id), ...contact });
	}

	/** The customer as shown: name, the name the customer has given ('' for none), id, and whether on the page (null: not known). */
	contact(id) {
		const contact = this.names.get(id);
		return { id: contact?.id, name: contact?.name || t('who.customer'), given: givenName(contact ?? {}), online: contact?.online ?? null };
	}

	/** The conversation, made when it is new. */
	conversation(id) {
		let c = this.conversations.get(id);
		if (c) return c;
		const { app } = this;
		c = new Conversation({
			id, scope: app.scope, connection: app.connection, storage: app.storage,
			onChange: (conv, what, ev) => {
				if (this.conversations.get(id) === conv) this.onChange(conv, what, ev);
			},
			reports: () => c.head?.state === 'assigned' && c.head.owner?.id === app.staff.me.id,
		});
		this.conversations.set(id, c);
		c.outbox.setOpen(app.connection.ready);
		return c;
	}

	/** Begins near the end of a long conversation of which nothing is held yet, and fetches. */
	load(c, last) {
		c.log.startAt(beginning(last ?? 0, firstPage));
		return c.log.fill();
	}

	/** The view of a conversation, made when it is new. */
	view(id) {
		let view = this.views.get(id);
		if (view) return view;
		const { app } = this;
		view = new ChatView({
			conversation: this.conversation(id), staff: app.staff, limit: app.limit(), now: app.now, links: this.links,
			contact: () => this.contact(id), offer: () => app.offers.outgoing.get(id), on: this.commands(id),
		});
		this.views.set(id, view);
		byId('chat').append(view.node);
		return view;
	}

	/** Shows one view and hides the others. */
	show(id) {
		const shown = id && this.view(id);
		for (const view of this.views.values()) view.node.hidden = view !== shown;
		return shown;
	}

	/** Lets a conversation go, unless it is still needed. */
	release(id) {
		const c = this.conversations.get(id);
		if (!c || this.app.inbox.isMine(this.app.inbox.rows.get(id)) || c.outbox.items.length > 0) return;
		this.watched.delete(id);
		// What was watched or passed on goes on coming until then, or until the session ends.
		if (c.state !== 'closed' && !this.cannotWatch) this.app.connection.request('unwatch', { c: id }).catch(() => {});
		c.dispose();
		this.conversations.delete(id);
		this.views.get(id)?.dispose();
		this.views.delete(id);
	}

	/** Two customers are one now. */
	merge({ contact, into }) {
		for (const [id, known] of this.names) if (known.id === contact) this.learn(id, { id: into });
	}

	/**
	 * Forgets every conversation of a customer whose data are deleted, with its drafts.
	 * @returns {string[]} their ids
	 */
	erase(contact) {
		const ids = [...this.names].filter(([, known]) => known.id === contact).map(([id]) => id);
		for (const id of ids) {
			this.conversations.get(id)?.dispose();
			this.views.get(id)?.dispose();
			for (const held of [this.conversations, this.views, this.names, this.watched]) held.delete(id);
			forgetChat(this.app.storage, id);
		}
		return ids;
	}

	/**
	 * Follows a conversation that is not ours, if the server knows how.
	 * @returns {Promise<string>} '' or the code of the refusal
	 */
	async watch(id) {
		const c = this.conversation(id);
		if (this.cannotWatch) return this.#read(c);
		try {
			const { d } = await this.app.connection.request('watch', { c: id });
			if (this.conversations.get(id) !== c) return '';
			this.watched.add(id);
			c.setHead(d.head);
			if (c.log.last === 0 && d.events.length > 0) c.log.startAt(d.events[0].s - 1);
			for (const ev of d.events) c.accept(ev);
			if (d.head.last > c.log.last) await c.log.fill();
			return '';
		} catch (err) {
			this.cannotWatch = err.code === 'unknown_type';
			return this.#read(c);
		}
	}

	// What may not be watched may still be read: one's own closed conversations.
	async #read(c) {
		try {
			const { d } = await this.app.connection.request('sync', { c: c.id, d: { after: 0, limit: 1 } });
			c.setHead(d.head);
			await this.load(c, d.head.last);
			return '';
		} catch (err) {
			return err.code;
		}
	}
}
