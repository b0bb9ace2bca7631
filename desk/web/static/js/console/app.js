// The agent console: the session with the server, what its frames change, and
// which chat is on screen. The parts draw themselves; this connects them.

import { byId, icon, setAttr } from '../core/dom.js';
import { passwordDialog, sessionsDialog } from './account-dialogs.js';
import { Actions } from './actions.js';
import { Alerts } from './alerts.js';
import { call } from '../core/api.js';
import { Banner } from '../core/banner.js';
import { ChatCommands } from './chat-commands.js';
import { cardCommands } from './card-commands.js';
import { fileChanged } from './chat-files.js';
import { Chats } from './chats.js';
import { followBrowser } from '../core/connection.js';
import { ConsoleSession } from './session.js';
import { CustomerCard } from './customer-card.js';
import { Folds } from './folds.js';
import { headOf, Inbox } from './inbox.js';
import { showKeys } from './keys.js';
import { ListPane } from './list-pane.js';
import { logout } from './logout.js';
import { Notice } from './notice.js';
import { Offers } from './offers.js';
import { OffersView } from './offers-view.js';
import { Push } from './push.js';
import { ReadMarks } from './read-marks.js';
import { routingNote } from './routing.js';
import { SearchPanel } from './search-panel.js';
import { actionOf } from './shortcuts.js';
import { Staff } from './staff.js';
import { Team } from './team.js';
import { TopBar } from './top-bar.js';
import { allowFiles } from '../core/uploads.js';
import { rowsOfWall } from './wall-rows.js';
import { locale, number, onLocale, t } from '../core/i18n.js';

export class ConsoleApp {
	/**
	 * @param {object} o
	 * @param {{id: string, name: string}} o.agent
	 * @param {import('../core/storage.js').SafeStorage} o.storage
	 * @param {(said: 'out'|'ended') => void} o.leave ends the page's session
	 */
	constructor({ agent, storage, leave }) {
		Object.assign(this, { agent, storage, leave });
		this.scope = `agent.${agent.id}`;
		this.staff = new Staff(agent);
		this.read = new ReadMarks({ storage, agentId: agent.id });
		this.inbox = new Inbox(agent.id, { now: () => this.now(), onMine: (row) => this.team.given(row) });
		this.offers = new Offers();
		Object.assign(this, { current: null, storeId: '', clockOffset: 0, limit: 8000 });
		const notice = new Notice({ host: byId('notice'), text: byId('notice-text'), button: byId('notice-close') });
		/** Says something above the panes. */
		this.notice = (text, error) => notice.show(text, error);
		this.app = byId('app');
		this.session = new ConsoleSession({
			seen: () => [...this.chats.all()].filter((c) => c.log.last > 0).map((c) => [c.id, c.log.last]),
			onWelcome: (d) => this.#welcome(d),
			onEvent: (frame) => this.#frame(frame),
			onStatus: (status) => this.#status(status),
			onEnd: () => this.leave('ended'),
		});
		this.connection = this.session.connection;
		this.#parts();
	}

	start() {
		byId('pick-icon').append(icon('inbox'));
		byId('notice-close').append(icon('close'));
		byId('search-icon').append(icon('search'));
		this.folds = new Folds(this.app, this.storage, this.agent.id);
		document.addEventListener('keydown', (e) => this.#key(e));
		document.addEventListener('visibilitychange', () => this.#markRead());
		window.addEventListener('hashchange', () => this.#linked());
		onLocale(() => this.#relabel());
		this.banner = new Banner(byId('banner'), this.connection);
		if (!this.storage.persistent) this.notice(t('notice.storage'));
		followBrowser(this.connection);
		setInterval(() => this.#tick(), 1_000);
		this.draw();
		this.connection.start();
	}

	/** Shows a conversation. */
	open(id) {
		if (this.current && this.current !== id) this.chats.release(this.current);
		this.current = id;
		const c = this.chats.conversation(id);
		const row = this.inbox.rows.get(id);
		if (row) c.setHead(headOf(row));
		const view = this.chats.show(id);
		this.#drawCard(); // at once: it takes room from the chat, whose buttons must not move when they can be pressed
		this.#load(id, row);
		byId('pick').hidden = true;
		setAttr(this.app, 'data-pane', 'chat');
		view.shown();
		view.focus();
		this.#markRead();
		this.draw();
	}

	/** Shows a conversation that was found, at the message s if there is one. */
	openAt(hit) {
		this.chats.learn(hit.c, hit.contact);
		this.open(hit.c);
		if (hit.s) this.chats.views.get(hit.c).reveal(hit.s);
	}

	/** Draws soon: many events in a row cost one drawing. */
	draw() {
		if (this.drawing) return;
		this.drawing = true;
		setTimeout(() => {
			this.drawing = false;
			this.#drawNow();
		}, 0);
	}

	// --- parts ---

	#parts() {
		const now = this.now = () => Date.now() + this.clockOffset;
		const request = (type, d, c) => this.connection.request(type, c ? { c, d } : { d }).then((reply) => reply.d);
		this.actions = new Actions({ connection: this.connection, agentId: this.agent.id });
		const { connection, storage, scope, staff, inbox, offers } = this;
		this.chats = new Chats({
			app: { connection, storage, scope, staff, inbox, offers, now, limit: () => this.limit },
			onChange: (c, what, ev) => this.#changed(c, what, ev),
			commands: (id) => this.#viewCommands(id, request),
		});
		this.commands = new ChatCommands({
			actions: this.actions, chats: this.chats,
			app: {
				staff, offers, connection, current: () => this.current, draw: () => this.draw(), notice: this.notice,
				followStaff: (f) => this.team.follow(f),
			},
		});
		this.list = new ListPane({
			inbox, app: { request, staff, draw: () => this.draw() }, onOpen: (row) => this.openAt(row),
			of: {
				contact: (id) => this.chats.contact(id), unread: (row) => this.#unread(row), current: () => this.current,
				draft: (id) => storage.get(`desk.draft.${scope}.${id}`, '') || storage.get(`desk.draft.${scope}.${id}.note`, ''),
			},
		});
		this.team = new Team({
			app: {
				staff, offers, connection, chats: this.chats, commands: this.commands, notice: this.notice,
				draw: () => this.draw(), open: (id) => this.open(id), call: (...what) => this.#call(...what),
			},
			onStaff: () => {
				this.top.render();
				this.search.name();
				this.chats.views.get(this.current)?.render();
			},
		});
		this.alerts = new Alerts({ storage, agentId: this.agent.id, onOpen: (id) => this.open(id), show: (title, options) => this.push.show(title, options) });
		this.push = new Push({ key: this.agent.push ?? '', wanted: () => this.alerts.push, locale, onOpen: (id) => this.open(id) });
		this.top = new TopBar({
			staff, connection, alerts: this.alerts, push: this.push,
			on: {
				status: (status) => this.team.setStatus(status), takeChats: (on) => this.team.takeChats(on), keys: () => showKeys(), sessions: () => sessionsDialog(), logout: () => this.#logout(), notice: this.notice,
				password: () => passwordDialog(this.agent.login, () => this.#passwordChanged()),
			},
		});
		this.search = new SearchPanel({ fetch: (q, cursor) => request('search', { q, cursor, limit: 20 }), everything: () => staff.can('read_others'), onOpen: (hit) => this.openAt(hit) });
		this.offersView = new OffersView({ host: byId('offers'), offers, now, onAnswer: (c, accept) => this.team.answer(c, accept) });
		this.card = new CustomerCard({
			host: byId('card'), staff,
			on: cardCommands({
				request, chats: this.chats, list: this.list, notice: this.notice, draw: () => this.draw(), open: (id) => this.open(id),
				current: () => this.current, took: (contact) => this.card.took(contact), close: () => this.#showCard(false),
			}),
		});
	}

	#viewCommands(id, request) {
		return {
			take: () => this.commands.take(id),
			takeOver: () => this.commands.takeOver(id),
			transfer: () => this.commands.transfer(id),
			giveBack: () => this.commands.giveBack(id),
			reopen: () => this.commands.reopen(id),
			close: () => this.commands.close(id),
			back: () => this.#back(),
			next: () => this.#next(),
			details: () => this.#showCard(this.app.dataset.card !== 'open'),
			draft: () => this.draw(),
			scrolled: () => this.#markRead(),
			notice: (text) => this.notice(text, true),
			canned: (q, tag) => request('canned.list', { q, locale: this.inbox.rows.get(id)?.locale || tag }),
		};
	}

	// --- session ---

	#welcome(d) {
		if (this.storeId && this.storeId !== d.store) {
			location.reload(); // another database: nothing here is true any more
			return;
		}
		this.storeId = d.store;
		this.clockOffset = d.time - Date.now();
		this.limit = d.limits?.text ?? this.limit;
		allowFiles(d.limits?.file);
		this.staff.welcome(d);
		this.offers.clear();
		this.chats.watched.clear();
		this.inbox.all = this.staff.can('read_others');
		this.list.archive.rights();
		if (this.inbox.all) this.#others();
		this.inbox.replace(d.inbox ?? {});
		for (const row of this.inbox.rows.values()) this.chats.learn(row.id, row.contact);
		for (const row of this.inbox.mine()) this.chats.conversation(row.id);
		this.read.prune((id) => this.inbox.rows.has(id));
		for (const head of d.heads ?? []) {
			const c = this.chats.conversation(head.id);
			c.setHead(head);
			if (head.mine?.read) this.read.mark(head.id, head.mine.read);
			if (head.truncated) this.chats.load(c, head.last);
		}
		for (const c of this.chats.all()) c.outbox.setOpen(true);
		if (this.current) this.#load(this.current, this.inbox.rows.get(this.current));
		this.card.renew();
		this.team.changed();
		this.push.follow();
		this.push.seen();
		this.#linked();
		this.draw();
	}

	// The chats of others that are open already; from now on their rows come by themselves.
	async #others() {
		if (!this.staff.can('view_wall')) return;
		try {
			const rows = rowsOfWall(await call('GET', '/api/v1/supervisor/wall'));
			this.inbox.learn(rows);
			for (const row of rows) if (!this.chats.names.has(row.id)) this.chats.learn(row.id, row.contact);
			this.draw();
		} catch { /* they are listed when something happens in them */ }
	}

	// The wall links to a chat as /console#c=<id>.
	#linked() {
		const id = /^#c=(.+)$/.exec(location.hash)?.[1];
		if (!id || !this.connection.ready) return;
		history.replaceState(null, '', location.pathname);
		this.open(decodeURIComponent(id));
	}

	#status(s) {
		if (s.phase !== 'ready') for (const c of this.chats.all()) c.outbox.setOpen(false);
		this.banner?.update();
		this.top?.quality();
	}

	#frame(frame) {
		if (this.team.take(frame)) return;
		switch (frame.t) {
		case 'ev.conv': this.#row(frame.d); return;
		case 'ev.file':
			if (fileChanged(this.chats.get(frame.c)?.log.events ?? [], frame.d)) this.chats.views.get(frame.c)?.redraw();
			return;
		case 'ev.visitor': this.card.visited(frame.d); return;
		case 'ev.merged':
			this.chats.merge(frame.d);
			this.draw();
			return;
		case 'ev.erased': this.#erased(this.chats.erase(frame.d.contact)); return;
		case 'ev.watch_end': this.chats.watched.delete(frame.c); return;
		}
		if (!frame.c) return;
		if (frame.t === 'ev.presence') {
			this.inbox.setOnline(frame.c, frame.d.online);
			this.chats.learn(frame.c, { online: frame.d.online });
		}
		if (!this.chats.get(frame.c) && frame.s === undefined) return;
		this.chats.conversation(frame.c).accept(frame);
		this.draw();
	}

	// The data of their customer were deleted: nothing of it stays here.
	#erased(ids) {
		for (const part of [this.inbox, this.list.archive]) part.forget(ids);
		if (ids.includes(this.current)) this.#next([]);
		this.draw();
	}

	#row(row) {
		const before = this.inbox.rows.get(row.id);
		this.chats.learn(row.id, row.contact);
		this.inbox.apply(row);
		this.list.archive.learn(row.id, row);
		this.offers.headChanged(row);
		this.chats.get(row.id)?.setHead(headOf(row));
		if (row.state === 'queued' && before?.state !== 'queued') this.#call('queue', row.id, t('alerts.queue'), row.preview ?? '');
		// The open chat is followed by its row while nothing else brings its events.
		const c = this.chats.get(this.current);
		if (row.id === this.current && c && row.last > c.log.last && !this.inbox.isMine(row) && !this.chats.watched.has(row.id)) c.log.fill();
		this.draw();
	}

	#changed(c, what, ev) {
		if (what === 'head') {
			this.inbox.applyHead(c.head);
			this.offers.headChanged(c.head);
		}
		const view = this.chats.views.get(c.id);
		if (what === 'event' && ev.t === 'ev.state' && ev.d.event !== 'closed') view?.setError('');
		view?.changed(what, ev);
		if (what === 'event') {
			if (ev.t === 'ev.msg') this.#message(c, ev);
			this.#markRead();
		} else {
			this.draw();
		}
		if (what === 'head' && c.head.state === 'closed' && c.id !== this.current) this.chats.release(c.id);
	}

	#message(c, ev) {
		const row = this.inbox.rows.get(c.id);
		if (ev.d.from.kind === 'customer' && !this.chats.names.get(c.id)?.id) this.chats.learn(c.id, { id: ev.d.from.id, name: ev.d.from.name });
		const fresh = this.connection.ready && ev.s > (row?.last ?? 0) && (ev.d.from.kind === 'customer' || ev.d.payload === 'woken:time') && this.inbox.isMine(row);
		this.inbox.applyMessage(ev);
		if (fresh) this.#call('message', c.id, this.chats.contact(c.id).name, routingNote(ev.d) || (ev.d.body ?? ''));
	}

	#call(kind, c, title, body) {
		this.alerts.call({ kind, c, title, body, current: c === this.current, status: this.staff.noChats() ? 'away' : (this.staff.status?.status ?? 'online') });
	}

	// Fetches what is missing of the open conversation: our own are live, others are watched.
	async #load(id, row) {
		const c = this.chats.get(id);
		if (!c || !this.connection.ready) return;
		if (this.inbox.isMine(row)) {
			if (row.last > c.log.last) this.chats.load(c, row.last);
			return;
		}
		const code = await this.chats.watch(id);
		if (code && code !== 'lost' && this.current === id) this.chats.views.get(id)?.setError(t(code === 'forbidden' || code === 'not_found' ? 'console.watch.forbidden' : 'console.watch.failed'));
		this.draw();
	}

	// --- moving about ---

	#showCard(open) {
		setAttr(this.app, 'data-card', open ? 'open' : null);
		if (!open) this.chats.views.get(this.current)?.details.focus();
	}

	#back() {
		const id = this.current;
		setAttr(this.app, 'data-pane', 'list');
		setAttr(this.app, 'data-card', null);
		this.list.rows.focus(id);
	}

	#next(rows = [...this.inbox.mine(), ...this.inbox.queue()]) {
		const row = rows.find((r) => r.id !== this.current);
		if (row) {
			this.open(row.id);
			return;
		}
		const id = this.current;
		this.current = null;
		this.chats.release(id);
		this.chats.show(null);
		byId('pick').hidden = false;
		setAttr(this.app, 'data-pane', 'list');
		this.draw();
	}

	#passwordChanged() {
		this.notice(t('password.done'));
		this.push.forgotten();
	}

	async #logout() {
		const outcome = await logout({ storage: this.storage, scope: this.scope, onLeaving: () => { this.session.leaving = true; } });
		if (outcome === 'failed') {
			this.session.leaving = false;
			this.notice(t('console.logout.failed'), true);
		}
		if (outcome !== '') return;
		this.connection.stop();
		this.read.clear();
		this.leave('out');
	}

	#key(e) {
		const writing = Boolean(e.target.closest?.('textarea, select, input:not([type="checkbox"], [type="radio"])'));
		const action = actionOf(e, { writing, dialog: Boolean(document.querySelector('dialog[open]')) });
		if (!action) return;
		const view = this.chats.views.get(this.current);
		const actions = {
			down: () => this.list.rows.move(1), up: () => this.list.rows.move(-1), help: () => showKeys(), search: () => this.search.focus(),
			note: () => view?.note(), canned: () => view?.openCanned(), transfer: () => this.commands.transfer(this.current), close: () => this.commands.close(this.current),
			list: () => this.folds.toggle('list'), card: () => this.folds.toggle('card'), leave: () => this.#leaveField(writing),
		};
		if (action !== 'leave') e.preventDefault();
		actions[action]();
	}

	// Escape: the menu, the card, then from the field to the list.
	#leaveField(writing) {
		if (this.top.close()) return;
		if (this.app.dataset.card === 'open') {
			this.#showCard(false);
			return;
		}
		if (!writing && this.app.dataset.pane !== 'chat') return;
		document.activeElement?.blur();
		this.list.rows.focus(this.current);
	}

	// --- read marks ---

	#markRead() {
		const c = this.chats.get(this.current);
		const view = this.chats.views.get(this.current);
		if (!c || !view || document.hidden || !view.list.atBottom) return;
		c.markRead(c.log.last);
		if (this.read.mark(c.id, c.log.last)) this.draw();
	}

	#unread(row) {
		const events = this.chats.get(row.id)?.log.events ?? [];
		return events.length > 0 ? this.read.unread(row.id, events) : (row.unread ?? 0);
	}

	// --- view ---

	#tick() {
		for (const c of this.chats.all()) c.outbox.expire();
		this.offers.expire(this.now());
		this.draw();
	}

	#drawNow() {
		const { waiting, unread, mine } = this.list.draw(this.now());
		this.#count(mine);
		this.chats.views.get(this.current)?.render();
		this.#drawCard();
		this.offersView.render();
		const calls = unread + waiting + this.offers.list().length;
		document.title = `${calls > 0 ? `(${number(calls)}) ` : ''}${t('console.title')} · ${t('app.name')}`;
	}

	// The own chats are known here before the server tells how many there are.
	#count(active) {
		if (!this.staff.status || this.staff.status.active === active) return;
		this.staff.setStatus({ active });
		this.top.render();
	}

	#drawCard() {
		const c = this.chats.get(this.current);
		byId('card').hidden = !c;
		if (!c) return;
		this.card.show({ c: c.id, contact: this.chats.contact(c.id), head: c.head, row: this.list.row(c.id) });
	}

	#relabel() {
		for (const view of this.chats.views.values()) view.relabel();
		this.banner.update();
		this.top.relabel();
		this.folds.draw();
		this.search.relabel();
		this.list.archive.relabel();
		this.card.relabel();
		this.offersView.relabel();
		this.push.follow(); // in the new language
		this.draw();
	}
}
