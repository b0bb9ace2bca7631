// The agent console: makes the parts, which draw themselves, and connects them.

import { byId, icon } from '../core/dom.js';
import { passwordDialog, sessionsDialog } from './account-dialogs.js';
import { Actions } from './actions.js';
import { Alerts } from './alerts.js';
import { Banner } from '../core/banner.js';
import { ChatCommands } from './chat-commands.js';
import { cardCommands } from './card-commands.js';
import { Chats } from './chats.js';
import { followBrowser } from '../core/connection.js';
import { ConsoleSession } from './session.js';
import { CustomerCard } from './customer-card.js';
import { Folds } from './folds.js';
import { Inbox } from './inbox.js';
import { Incoming } from './incoming.js';
import { showKeys } from './keys.js';
import { ListPane } from './list-pane.js';
import { logout } from './logout.js';
import { Moves } from './moves.js';
import { Notice } from './notice.js';
import { Offers } from './offers.js';
import { OffersView } from './offers-view.js';
import { Push } from './push.js';
import { ReadMarks } from './read-marks.js';
import { SearchPanel } from './search-panel.js';
import { Staff } from './staff.js';
import { Team } from './team.js';
import { TopBar } from './top-bar.js';
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
		Object.assign(this, { current: null, clockOffset: 0, limit: 8000 });
		this.incoming = new Incoming(this);
		this.moves = new Moves(this);
		const notice = new Notice({ host: byId('notice'), text: byId('notice-text'), button: byId('notice-close') });
		/** Says something above the panes. */
		this.notice = (text, error) => notice.show(text, error);
		this.host = byId('app');
		this.session = new ConsoleSession({
			seen: () => [...this.chats.all()].filter((c) => c.log.last > 0).map((c) => [c.id, c.log.last]),
			onWelcome: (d) => this.incoming.welcome(d),
			onEvent: (frame) => this.incoming.frame(frame),
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
		this.folds = new Folds(this.host, this.storage, this.agent.id);
		document.addEventListener('keydown', (e) => this.moves.key(e));
		document.addEventListener('visibilitychange', () => this.markRead());
		window.addEventListener('hashchange', () => this.moves.linked());
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
		this.moves.open(id);
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
			onChange: (c, what, ev) => this.incoming.changed(c, what, ev),
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
			inbox, app: { request, staff, draw: () => this.draw() }, onOpen: (row) => this.moves.openAt(row),
			of: {
				contact: (id) => this.chats.contact(id), unread: (row) => this.#unread(row), current: () => this.current,
				draft: (id) => storage.get(`desk.draft.${scope}.${id}`, '') || storage.get(`desk.draft.${scope}.${id}.note`, ''),
			},
		});
		this.team = new Team({
			app: {
				staff, offers, connection, chats: this.chats, commands: this.commands, notice: this.notice,
				draw: () => this.draw(), open: (id) => this.open(id), call: (...what) => this.incoming.call(...what),
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
		this.search = new SearchPanel({ fetch: (q, cursor) => request('search', { q, cursor, limit: 20 }), everything: () => staff.can('read_others'), onOpen: (hit) => this.moves.openAt(hit) });
		this.offersView = new OffersView({ host: byId('offers'), offers, now, onAnswer: (c, accept) => this.team.answer(c, accept) });
		this.card = new CustomerCard({
			host: byId('card'), staff,
			on: cardCommands({
				request, chats: this.chats, list: this.list, notice: this.notice, draw: () => this.draw(), open: (id) => this.open(id),
				current: () => this.current, took: (contact) => this.card.took(contact), close: () => this.moves.showCard(false),
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
			back: () => this.moves.back(),
			next: () => this.moves.next(),
			details: () => this.moves.showCard(this.host.dataset.card !== 'open'),
			draft: () => this.draw(),
			scrolled: () => this.markRead(),
			notice: (text) => this.notice(text, true),
			canned: (q, tag) => request('canned.list', { q, locale: this.inbox.rows.get(id)?.locale || tag }),
		};
	}

	// --- session ---

	#status(s) {
		if (s.phase !== 'ready') for (const c of this.chats.all()) c.outbox.setOpen(false);
		this.banner?.update();
		this.top?.quality();
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

	// --- read marks ---

	/** What is on screen is read. */
	markRead() {
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
		this.drawCard();
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

	/** Draws the card of the customer whose chat is open. */
	drawCard() {
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
