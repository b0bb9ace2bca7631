// The agent console: session, list, chats, keyboard.

import { byId, icon, setAttr, setText } from './dom.js';
import { call } from './api.js';
import { Banner } from './banner.js';
import { ChatView } from './chat-view.js';
import { Connection, followBrowser, socketURL } from './connection.js';
import { Conversation } from './conversation.js';
import { drawCard } from './customer-card.js';
import { ask } from './dialog.js';
import { Inbox, urgency } from './inbox.js';
import { showKeys } from './keys.js';
import { initials } from './message-list.js';
import { ReadMarks } from './read-marks.js';
import { RowList } from './row-list.js';
import { number, onLocale, plural, t, waited } from './i18n.js';
import { uuid } from './storage.js';

const maxSeen = 64; // conversations named in a hello, at most

export class ConsoleApp {
	/**
	 * @param {object} o
	 * @param {{id: string, name: string}} o.agent
	 * @param {import('./storage.js').SafeStorage} o.storage
	 * @param {(said: 'out'|'ended') => void} o.leave ends the page's session
	 */
	constructor({ agent, storage, leave }) {
		Object.assign(this, { agent, storage, leave });
		this.scope = `agent.${agent.id}`;
		this.read = new ReadMarks({ storage, agentId: agent.id });
		this.inbox = new Inbox(agent.id);
		this.conversations = new Map();
		this.views = new Map();
		this.names = new Map(); // conversation id -> contact, also after the row is gone
		this.current = null;
		this.device = uuid();
		this.storeId = '';
		this.clockOffset = 0;
		this.limit = 8000;
		this.app = byId('app');
		this.connection = new Connection({
			url: () => socketURL('/ws'),
			hello: () => this.#hello(),
			onWelcome: (d) => this.#welcome(d),
			onEvent: (frame) => this.#frame(frame),
			onStatus: (s) => this.#status(s),
		});
		this.rows = new RowList({
			area: byId('list'), mine: byId('mine'), queue: byId('queue'),
			onOpen: (id) => this.open(id),
			goneText: (id) => this.#goneText(id),
		});
	}

	start() {
		byId('help').append(icon('help'));
		byId('logout').append(icon('exit'));
		byId('pick-icon').append(icon('inbox'));
		byId('notice-close').append(icon('close'));
		setText(byId('me-name'), this.agent.name);
		setText(byId('me-avatar'), initials(this.agent.name));
		byId('help').addEventListener('click', () => showKeys());
		byId('logout').addEventListener('click', () => this.#logout());
		byId('notice-close').addEventListener('click', () => { byId('notice').hidden = true; });
		document.addEventListener('keydown', (e) => this.#key(e));
		document.addEventListener('visibilitychange', () => this.#markRead());
		onLocale(() => this.#relabel());
		this.banner = new Banner(byId('banner'), this.connection);
		if (!this.storage.persistent) this.#notice(t('notice.storage'));
		followBrowser(this.connection);
		setInterval(() => this.#tick(), 1_000);
		this.#draw();
		this.connection.start();
	}

	/** Shows a conversation. */
	open(id) {
		if (this.current !== id) this.#release(this.current);
		this.current = id;
		const c = this.#conversation(id);
		const row = this.inbox.rows.get(id);
		if (row) c.setHead(headOf(row));
		if (row && row.last > c.log.last) c.log.fill();
		for (const [key, view] of this.views) view.node.hidden = key !== id;
		const view = this.#view(c);
		view.node.hidden = false;
		byId('pick').hidden = true;
		setAttr(this.app, 'data-pane', 'chat');
		view.shown();
		view.focus();
		this.#markRead();
		this.#draw();
	}

	// --- session ---

	async #hello() {
		let ticket;
		try {
			({ ticket } = await call('POST', '/api/v1/agent/ticket'));
		} catch (err) {
			throw Object.assign(err, err.status === 401 && { final: true, reason: err.code, code: 4101 });
		}
		const seen = {};
		for (const [id, c] of [...this.conversations].slice(-maxSeen)) {
			if (c.log.last > 0) seen[id] = c.log.last;
		}
		return { ticket, device: this.device, locale: document.documentElement.lang, seen };
	}

	#welcome(d) {
		this.checked = false;
		if (this.storeId && this.storeId !== d.store) {
			location.reload(); // another database: nothing here is true any more
			return;
		}
		this.storeId = d.store;
		this.clockOffset = d.time - Date.now();
		this.limit = d.limits?.text ?? this.limit;
		this.inbox.replace(d.inbox ?? {});
		for (const row of this.inbox.rows.values()) this.#learn(row);
		for (const row of this.inbox.mine()) this.#conversation(row.id);
		this.read.prune((id) => this.inbox.rows.has(id));
		for (const head of d.heads ?? []) {
			const c = this.#conversation(head.id);
			c.setHead(head);
			if (head.truncated) c.log.fill();
		}
		for (const c of this.conversations.values()) c.outbox.setOpen(true);
		this.#catchUp();
		this.#draw();
	}

	async #status(s) {
		if (s.phase !== 'ready') for (const c of this.conversations.values()) c.outbox.setOpen(false);
		this.banner?.update();
		this.#quality();
		const refused = s.phase === 'stopped' && (s.code === 4101 || s.code === 4102);
		if (!refused || this.leaving) return;
		// A ticket dies with a restart of the server, the login does not: ask before giving up.
		if (!this.checked) {
			this.checked = true;
			try {
				await call('GET', '/api/v1/agent/me');
				this.connection.restart();
				return;
			} catch (err) {
				if (err.status !== 401) {
					this.checked = false;
					setTimeout(() => this.#status(this.connection.status), 2_000);
					return;
				}
			}
		}
		this.leave('ended');
	}

	#frame(frame) {
		if (frame.t === 'ev.conv') {
			this.#learn(frame.d);
			this.inbox.apply(frame.d);
			this.conversations.get(frame.c)?.setHead(headOf(frame.d));
			this.#catchUp();
			this.#draw();
			return;
		}
		if (!frame.c) return;
		if (frame.t === 'ev.presence') {
			this.inbox.setOnline(frame.c, frame.d.online);
			this.#learn({ id: frame.c, contact: { ...this.names.get(frame.c), online: frame.d.online } });
		}
		const known = this.conversations.has(frame.c);
		if (!known && frame.s === undefined) return;
		this.#conversation(frame.c).accept(frame);
		this.#draw();
	}

	#learn(row) {
		if (row.contact) this.names.set(row.id, row.contact);
	}

	// The open chat is followed by its row while it is not ours.
	#catchUp() {
		const row = this.inbox.rows.get(this.current);
		const c = this.conversations.get(this.current);
		if (row && c && row.last > c.log.last && !this.inbox.isMine(row)) c.log.fill();
	}

	#conversation(id) {
		let c = this.conversations.get(id);
		if (c) return c;
		c = new Conversation({
			id, scope: this.scope, connection: this.connection, storage: this.storage,
			onChange: (conv, what, ev) => this.#changed(conv, what, ev),
		});
		this.conversations.set(id, c);
		c.outbox.setOpen(this.connection.ready);
		return c;
	}

	// Forgets a conversation that is neither ours nor on screen nor has unsent messages.
	#release(id) {
		const c = this.conversations.get(id);
		if (!c || this.inbox.isMine(this.inbox.rows.get(id)) || c.outbox.items.length > 0) return;
		c.dispose();
		this.conversations.delete(id);
		this.views.get(id)?.node.remove();
		this.views.delete(id);
	}

	#changed(c, what, ev) {
		if (this.conversations.get(c.id) !== c) return;
		if (what === 'head') this.inbox.applyHead(c.head);
		if (what === 'event' && ev.t === 'ev.state' && ev.d.event === 'taken') this.views.get(c.id)?.setError('');
		this.views.get(c.id)?.changed(what, ev);
		if (what === 'event') {
			if (ev.t === 'ev.msg') this.inbox.applyMessage(ev);
			this.#markRead();
		}
		if (what === 'head' && c.head.state === 'closed' && c.id !== this.current) this.#release(c.id);
		if (what !== 'event') this.#draw();
	}

	#view(c) {
		let view = this.views.get(c.id);
		if (view) return view;
		view = new ChatView({
			conversation: c, agentId: this.agent.id, limit: this.limit,
			contact: () => this.#contact(c.id),
			on: {
				take: () => this.#take(c.id),
				close: () => this.#close(c.id),
				back: () => this.#back(),
				next: () => this.#next(),
				details: () => this.#card(this.app.dataset.card !== 'open'),
				draft: () => this.#draw(),
				scrolled: () => this.#markRead(),
			},
		});
		this.views.set(c.id, view);
		byId('chat').append(view.node);
		return view;
	}

	#contact(id) {
		const contact = this.names.get(id);
		return { name: contact?.name || t('who.customer'), online: contact?.online ?? null };
	}

	// --- actions ---

	async #take(id) {
		const view = this.views.get(id);
		const c = this.conversations.get(id);
		if (!view || !c || view.taking) return;
		view.setError('');
		view.setTaking(true);
		try {
			const reply = await this.connection.request('take', { c: id, d: { rev: c.head?.rev } });
			c.setHead(reply.d.head);
			c.log.fill();
			this.#draw();
			view.setTaking(false);
			if (this.current === id) view.focus();
		} catch (err) {
			c.setHead(err.head);
			view.setTaking(false);
			view.setError(this.#takeError(err));
			this.#draw();
		}
	}

	#takeError(err) {
		if (err.code === 'forbidden') return t('console.take.full');
		if (err.code !== 'conflict' || err.head?.state === 'queued') return t('console.take.failed');
		const { owner } = err.head ?? {};
		return owner && owner.id !== this.agent.id ? t('console.take.lost', { name: owner.name }) : t('console.take.gone');
	}

	async #close(id) {
		const c = this.conversations.get(id);
		const view = this.views.get(id);
		if (!c || !view?.writable) return;
		const last = c.log.events.findLast((ev) => ev.t === 'ev.msg');
		if (last?.d.from.kind === 'customer') {
			const yes = await ask({ title: t('console.close.title'), body: t('console.close.body'), confirm: t('console.close') });
			if (!yes) return;
		}
		view.setError('');
		try {
			await c.close('done');
		} catch {
			view.setError(t('console.close.failed'));
		}
		this.#draw();
	}

	#back() {
		const id = this.current;
		setAttr(this.app, 'data-pane', 'list');
		this.#card(false);
		this.rows.focus(id);
	}

	#next() {
		const other = (rows) => rows.find((r) => r.id !== this.current);
		const row = other(this.inbox.mine()) ?? other(this.inbox.queue());
		if (row) {
			this.open(row.id);
			return;
		}
		const id = this.current;
		this.current = null;
		this.#release(id);
		const view = this.views.get(id);
		if (view) view.node.hidden = true;
		byId('pick').hidden = false;
		setAttr(this.app, 'data-pane', 'list');
		this.#draw();
	}

	#card(open) {
		setAttr(this.app, 'data-card', open ? 'open' : null);
	}

	async #logout() {
		const prefixes = [`desk.outbox.${this.scope}.`, `desk.draft.${this.scope}.`];
		const kept = prefixes.flatMap((p) => this.storage.keys(p));
		if (kept.length > 0) {
			const yes = await ask({ title: t('console.logout.title'), body: t('console.logout.body'), confirm: t('console.logout') });
			if (!yes) return;
		}
		this.leaving = true;
		try {
			await call('POST', '/api/v1/agent/logout');
		} catch (err) {
			if (err.status !== 401) {
				this.leaving = false;
				this.#notice(t('console.logout.failed'), true);
				return;
			}
		}
		this.connection.stop();
		for (const key of kept) this.storage.remove(key);
		this.read.clear();
		this.leave('out');
	}

	#key(e) {
		if (e.defaultPrevented || e.isComposing || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
		const writing = e.target.closest?.('textarea, input, select');
		if (e.key === 'Escape') {
			if (this.app.dataset.card === 'open') this.#card(false);
			else if (writing || this.app.dataset.pane === 'chat') this.#leaveField();
			return;
		}
		if (writing) return;
		const actions = { j: () => this.rows.move(1), k: () => this.rows.move(-1), e: () => this.#close(this.current), '?': () => showKeys() };
		const action = actions[e.key.length === 1 ? e.key.toLowerCase() : e.key];
		if (!action) return;
		e.preventDefault();
		action();
	}

	#leaveField() {
		document.activeElement?.blur();
		this.rows.focus(this.current);
	}

	// --- read marks ---

	#markRead() {
		const c = this.conversations.get(this.current);
		const view = this.views.get(this.current);
		if (!c || !view || document.hidden || !view.list.atBottom) return;
		if (this.read.mark(c.id, c.log.last)) this.#draw();
	}

	#unread(id) {
		return this.read.unread(id, this.conversations.get(id)?.log.events ?? []);
	}

	// --- view ---

	#tick() {
		for (const c of this.conversations.values()) c.outbox.expire();
		this.#draw();
	}

	// Draws soon: many events in a row cost one drawing.
	#draw() {
		if (this.drawing) return;
		this.drawing = true;
		setTimeout(() => {
			this.drawing = false;
			this.#drawNow();
		}, 0);
	}

	#drawNow() {
		const now = Date.now() + this.clockOffset;
		const mine = this.inbox.mine();
		const queue = this.inbox.queue();
		this.rows.update({ mine: mine.map((r) => this.#model(r, now)), queue: queue.map((r) => this.#model(r, now)) });
		const waiting = queue.length + this.inbox.beyond;
		setText(byId('mine-count'), number(mine.length));
		setText(byId('queue-count'), number(waiting));
		setAttr(byId('queue-count'), 'data-level', queue[0] ? urgency(now - this.inbox.waitingSince(queue[0])) : '');
		byId('mine-empty').hidden = mine.length > 0;
		byId('queue-empty').hidden = waiting > 0;
		byId('queue-more').hidden = this.inbox.beyond === 0;
		setText(byId('queue-more'), t('console.queue.more', { n: number(this.inbox.beyond) }));
		this.views.get(this.current)?.render();
		this.#drawCard();
		this.#announce(waiting);
		const unread = mine.reduce((sum, r) => sum + this.#unread(r.id), 0) + waiting;
		document.title = `${unread > 0 ? `(${number(unread)}) ` : ''}${t('console.title')} · ${t('app.name')}`;
	}

	#model(row, now) {
		const since = this.inbox.waitingSince(row);
		const wait = since ? waited(now - since) : '';
		const draft = this.storage.get(`desk.draft.${this.scope}.${row.id}`, '');
		const unread = row.state === 'queued' ? 0 : this.#unread(row.id);
		const { name, online } = this.#contact(row.id);
		return {
			id: row.id, name, online: online === true,
			preview: draft && row.id !== this.current ? t('console.draft', { text: draft }) : preview(row),
			draft: Boolean(draft && row.id !== this.current),
			wait, waitLabel: wait && t('console.waiting', { time: wait }), level: since ? urgency(now - since) : '',
			unread, unreadLabel: t('console.unread', { n: number(unread) }),
			current: row.id === this.current,
		};
	}

	#goneText(id) {
		const row = this.inbox.rows.get(id);
		if (this.inbox.isMine(row)) return t('console.row.yours');
		const head = this.conversations.get(id)?.head;
		return head?.state === 'assigned' && head.owner ? t('console.row.taken', { name: head.owner.name }) : t('console.row.gone');
	}

	#drawCard() {
		const c = this.conversations.get(this.current);
		byId('card').hidden = !c;
		if (!c) return;
		drawCard(byId('card'), { ...this.#contact(c.id), conversation: c, agentId: this.agent.id, onClose: () => this.#card(false) });
	}

	#announce(waiting) {
		if (waiting > (this.announced ?? 0)) setText(byId('announce'), plural('console.announce.queued', waiting));
		this.announced = waiting;
	}

	#quality() {
		const { phase, rtt } = this.connection.status;
		const grade = rtt === null ? 'measuring' : rtt < 300 ? 'good' : rtt < 1_000 ? 'fair' : 'poor';
		const ready = phase === 'ready';
		setAttr(byId('quality-dot'), 'data-on', !ready ? 'bad' : grade === 'fair' || grade === 'poor' ? 'waiting' : 'true');
		setText(byId('quality-text'), ready ? t(`console.quality.${grade}`, { n: number(rtt ?? 0) }) : t('console.quality.down'));
	}

	#notice(text, error = false) {
		setText(byId('notice-text'), text);
		byId('notice').classList.toggle('error', error);
		byId('notice').hidden = false;
	}

	#relabel() {
		for (const view of this.views.values()) view.relabel();
		delete byId('card').dataset.key;
		this.banner.update();
		this.#quality();
		this.#draw();
	}
}

function headOf(row) {
	const { id, state, rev, epoch, owner, last, opened, queued, closed, reason } = row;
	return { id, state, rev, epoch, owner, last, opened, queued, closed, reason };
}

function preview(row) {
	if (!row.preview) return t('console.preview.none');
	if (row.preview_from === 'agent') return t('console.preview.you', { text: row.preview });
	return row.preview_from === 'bot' ? t('console.preview.bot', { text: row.preview }) : row.preview;
}
