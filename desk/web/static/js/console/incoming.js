// What comes from the server, and what it changes in the parts of the console.

import { fileChanged } from './chat-files.js';
import { headOf } from './inbox.js';
import { routingNote } from './routing.js';
import { rowsOfWall } from './wall-rows.js';
import { call } from '../core/api.js';
import { allowFiles } from '../core/uploads.js';
import { t } from '../core/i18n.js';

export class Incoming {
	/** @param {import('./app.js').ConsoleApp} app */
	constructor(app) {
		Object.assign(this, { app, storeId: '' });
	}

	/** The session has begun, or goes on after a break. */
	welcome(d) {
		const { app } = this;
		if (this.storeId && this.storeId !== d.store) {
			location.reload(); // another database: nothing here is true any more
			return;
		}
		this.storeId = d.store;
		app.clockOffset = d.time - Date.now();
		app.limit = d.limits?.text ?? app.limit;
		allowFiles(d.limits?.file);
		app.staff.welcome(d);
		app.offers.clear();
		app.chats.watched.clear();
		this.#inbox(d);
		for (const head of d.heads ?? []) this.#head(head);
		for (const c of app.chats.all()) c.outbox.setOpen(true);
		if (app.current) this.load(app.current, app.inbox.rows.get(app.current));
		app.card.renew();
		app.team.changed();
		app.push.follow();
		app.push.seen();
		app.moves.linked();
		app.draw();
	}

	/** Takes a frame. */
	frame(frame) {
		const { chats, card, inbox, team } = this.app;
		if (team.take(frame)) return;
		switch (frame.t) {
		case 'ev.conv': this.#row(frame.d); return;
		case 'ev.file':
			if (fileChanged(chats.get(frame.c)?.log.events ?? [], frame.d)) chats.views.get(frame.c)?.redraw();
			return;
		case 'ev.visitor': card.visited(frame.d); return;
		case 'ev.merged':
			chats.merge(frame.d);
			this.app.draw();
			return;
		case 'ev.erased': this.#erased(chats.erase(frame.d.contact)); return;
		case 'ev.watch_end': chats.watched.delete(frame.c); return;
		}
		if (!frame.c) return;
		if (frame.t === 'ev.presence') {
			inbox.setOnline(frame.c, frame.d.online);
			chats.learn(frame.c, { online: frame.d.online });
		}
		if (!chats.get(frame.c) && frame.s === undefined) return;
		chats.conversation(frame.c).accept(frame);
		this.app.draw();
	}

	/** A conversation that this page holds has changed. */
	changed(c, what, ev) {
		const { app } = this;
		if (what === 'head') {
			app.inbox.applyHead(c.head);
			app.offers.headChanged(c.head);
		}
		const view = app.chats.views.get(c.id);
		if (what === 'event' && ev.t === 'ev.state' && ev.d.event !== 'closed') view?.setError('');
		view?.changed(what, ev);
		if (what === 'event') {
			if (ev.t === 'ev.msg') this.#message(c, ev);
			app.markRead();
		} else {
			app.draw();
		}
		if (what === 'head' && c.head.state === 'closed' && c.id !== app.current) app.chats.release(c.id);
	}

	/** Calls the agent by sound or notification, as these are set. */
	call(kind, c, title, body) {
		const { alerts, current, staff } = this.app;
		alerts.call({ kind, c, title, body, current: c === current, status: staff.noChats() ? 'away' : (staff.status?.status ?? 'online') });
	}

	/** Fetches what is missing of the open conversation: our own are live, others are watched. */
	async load(id, row) {
		const { app } = this;
		const c = app.chats.get(id);
		if (!c || !app.connection.ready) return;
		if (app.inbox.isMine(row)) {
			if (row.last > c.log.last) app.chats.load(c, row.last);
			return;
		}
		const code = await app.chats.watch(id);
		if (code && code !== 'lost' && app.current === id) app.chats.views.get(id)?.setError(t(code === 'forbidden' || code === 'not_found' ? 'console.watch.forbidden' : 'console.watch.failed'));
		app.draw();
	}

	#inbox(d) {
		const { chats, inbox, list, read, staff } = this.app;
		inbox.all = staff.can('read_others');
		list.archive.rights();
		if (inbox.all) this.#others();
		inbox.replace(d.inbox ?? {});
		for (const row of inbox.rows.values()) chats.learn(row.id, row.contact);
		for (const row of inbox.mine()) chats.conversation(row.id);
		read.prune((id) => inbox.rows.has(id));
	}

	#head(head) {
		const { chats, read } = this.app;
		const c = chats.conversation(head.id);
		c.setHead(head);
		if (head.mine?.read) read.mark(head.id, head.mine.read);
		if (head.truncated) chats.load(c, head.last);
	}

	// The chats of others that are open already; from now on their rows come by themselves.
	async #others() {
		const { chats, inbox, staff } = this.app;
		if (!staff.can('view_wall')) return;
		try {
			const rows = rowsOfWall(await call('GET', '/api/v1/supervisor/wall'));
			inbox.learn(rows);
			for (const row of rows) if (!chats.names.has(row.id)) chats.learn(row.id, row.contact);
			this.app.draw();
		} catch { /* they are listed when something happens in them */ }
	}

	#row(row) {
		const { app } = this;
		const before = app.inbox.rows.get(row.id);
		app.chats.learn(row.id, row.contact);
		app.inbox.apply(row);
		app.list.archive.learn(row.id, row);
		app.offers.headChanged(row);
		app.chats.get(row.id)?.setHead(headOf(row));
		if (row.state === 'queued' && before?.state !== 'queued') this.call('queue', row.id, t('alerts.queue'), row.preview ?? '');
		// The open chat is followed by its row while nothing else brings its events.
		const c = app.chats.get(app.current);
		if (row.id === app.current && c && row.last > c.log.last && !app.inbox.isMine(row) && !app.chats.watched.has(row.id)) c.log.fill();
		app.draw();
	}

	#message(c, ev) {
		const { chats, connection, inbox } = this.app;
		const row = inbox.rows.get(c.id);
		if (ev.d.from.kind === 'customer' && !chats.names.get(c.id)?.id) chats.learn(c.id, { id: ev.d.from.id, name: ev.d.from.name });
		const fresh = connection.ready && ev.s > (row?.last ?? 0) && (ev.d.from.kind === 'customer' || ev.d.payload === 'woken:time') && inbox.isMine(row);
		inbox.applyMessage(ev);
		if (fresh) this.call('message', c.id, chats.contact(c.id).name, routingNote(ev.d) || (ev.d.body ?? ''));
	}

	// The data of their customer were deleted: nothing of it stays here.
	#erased(ids) {
		const { app } = this;
		for (const part of [app.inbox, app.list.archive]) part.forget(ids);
		if (ids.includes(app.current)) app.moves.next([]);
		app.draw();
	}
}
