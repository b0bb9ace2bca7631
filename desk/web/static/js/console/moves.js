// Moving about in the console: which chat is on screen, and what the keys do.

import { byId, setAttr } from '../core/dom.js';
import { headOf } from './inbox.js';
import { showKeys } from './keys.js';
import { actionOf } from './shortcuts.js';

export class Moves {
	/** @param {import('./app.js').ConsoleApp} app */
	constructor(app) {
		this.app = app;
	}

	/** Shows a conversation. */
	open(id) {
		const { app } = this;
		if (app.current && app.current !== id) app.chats.release(app.current);
		app.current = id;
		const c = app.chats.conversation(id);
		const row = app.inbox.rows.get(id);
		if (row) c.setHead(headOf(row));
		const view = app.chats.show(id);
		app.drawCard(); // at once: it takes room from the chat, whose buttons must not move when they can be pressed
		app.incoming.load(id, row);
		byId('pick').hidden = true;
		setAttr(app.host, 'data-pane', 'chat');
		view.shown();
		view.focus();
		app.markRead();
		app.draw();
	}

	/** Shows a conversation that was found, at the message s if there is one. */
	openAt(hit) {
		const { chats } = this.app;
		chats.learn(hit.c, hit.contact);
		this.open(hit.c);
		if (hit.s) chats.views.get(hit.c).reveal(hit.s);
	}

	/** Opens the chat of the page's address: the wall links to one as /console#c=<id>. */
	linked() {
		const id = /^#c=(.+)$/.exec(location.hash)?.[1];
		if (!id || !this.app.connection.ready) return;
		history.replaceState(null, '', location.pathname);
		this.open(decodeURIComponent(id));
	}

	/** Shows or hides the customer card where it lies over the chat. */
	showCard(open) {
		const { chats, current, host } = this.app;
		setAttr(host, 'data-card', open ? 'open' : null);
		if (!open) chats.views.get(current)?.details.focus();
	}

	/** From the chat to the list. */
	back() {
		const { current, host, list } = this.app;
		setAttr(host, 'data-pane', 'list');
		setAttr(host, 'data-card', null);
		list.rows.focus(current);
	}

	/** To another chat, or to none if there is no other. */
	next(rows = [...this.app.inbox.mine(), ...this.app.inbox.queue()]) {
		const { app } = this;
		const row = rows.find((r) => r.id !== app.current);
		if (row) {
			this.open(row.id);
			return;
		}
		const id = app.current;
		app.current = null;
		app.chats.release(id);
		app.chats.show(null);
		byId('pick').hidden = false;
		setAttr(app.host, 'data-pane', 'list');
		app.draw();
	}

	/** Takes a key that was pressed anywhere on the page. */
	key(e) {
		const writing = Boolean(e.target.closest?.('textarea, select, input:not([type="checkbox"], [type="radio"])'));
		const action = actionOf(e, { writing, dialog: Boolean(document.querySelector('dialog[open]')) });
		if (!action) return;
		const { chats, commands, current, folds, list, offersView, search } = this.app;
		const view = chats.views.get(current);
		const actions = {
			down: () => list.rows.move(1), up: () => list.rows.move(-1), help: () => showKeys(), search: () => search.focus(), offer: () => offersView.focus(),
			note: () => view?.note(), canned: () => view?.openCanned(), transfer: () => commands.transfer(current), close: () => commands.close(current),
			list: () => folds.toggle('list'), card: () => folds.toggle('card'), leave: () => this.#leaveField(writing),
		};
		if (action !== 'leave') e.preventDefault();
		actions[action]();
	}

	// Escape: the menu, the card, then from the field to the list.
	#leaveField(writing) {
		const { current, host, list, top } = this.app;
		if (top.close()) return;
		if (host.dataset.card === 'open') {
			this.showCard(false);
			return;
		}
		if (!writing && host.dataset.pane !== 'chat') return;
		document.activeElement?.blur();
		list.rows.focus(current);
	}
}
