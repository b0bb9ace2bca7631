// The customer page.

import { byId, icon, setAttr, setText, el } from './dom.js';
import { call } from './api.js';
import { ask } from './dialog.js';
import { Banner } from './banner.js';
import { Composer } from './composer.js';
import { beginning, chunkSize } from './chunks.js';
import { Connection, followBrowser, socketURL } from './connection.js';
import { Conversation } from './conversation.js';
import { initials, MessageList } from './message-list.js';
import { locale, locales, number, onLocale, setLocale, t, translate } from './i18n.js';
import { SafeStorage, uuid } from './storage.js';

const firstPage = 100; // events of a long chat that are fetched at once; the rest when the reader scrolls up

class CustomerPage {
	constructor() {
		this.site = decodeURIComponent(location.pathname.split('/').filter(Boolean).at(-1) ?? '');
		this.siteName = this.site;
		this.storage = new SafeStorage();
		this.tokenKey = `desk.token.${this.site}`;
		this.token = '';
		this.me = null;
		this.storeId = '';
		this.device = uuid();
		this.conversation = null;
		this.opening = false;
		this.unseen = 0;
		this.nodes = Object.fromEntries(['frame', 'avatar', 'who', 'dot', 'substate', 'empty', 'human', 'human-button', 'queue', 'queue-position', 'composer', 'closed', 'again', 'end', 'menu', 'menu-button', 'site-name', 'language', 'notice', 'notice-text']
			.map((id) => [id, byId(id)]));
		this.connection = new Connection({
			url: () => socketURL('/ws'),
			hello: () => this.#hello(),
			onWelcome: (d) => this.#welcome(d),
			onEvent: (frame) => this.#frame(frame),
			onStatus: (s) => this.#status(s),
		});
	}

	start() {
		this.#chrome();
		this.list = new MessageList({
			host: byId('messages'),
			mine: (from) => from.kind === 'customer',
			describe: (ev) => describe(ev),
			nameOf: (from) => nameOf(from),
			onButton: (b) => this.#send(b.label, b.value),
			onRetry: (id) => this.conversation?.outbox.retry(id),
			onDiscard: (id) => this.conversation?.outbox.discard(id),
			onTop: () => this.#older(),
		});
		this.composer = new Composer({
			form: byId('composer'), field: byId('field'), button: byId('send'), counter: byId('counter'),
			onSend: (text) => this.#send(text),
			onTyping: (on) => this.conversation?.sendTyping(on),
			draft: {
				get: () => this.storage.get(`desk.draft.${this.site}`, ''),
				set: (text) => (text ? this.storage.set(`desk.draft.${this.site}`, text) : this.storage.remove(`desk.draft.${this.site}`)),
			},
		});
		this.banner = new Banner(byId('banner'), this.connection);
		if (!this.storage.persistent) this.#notice(t('notice.storage'));
		translate();
		this.#render();
		followBrowser(this.connection);
		setInterval(() => this.conversation?.outbox.expire(), 5_000);
		onLocale(() => this.#relabel());
		this.connection.start();
	}

	// Fixed parts: icons, menu, language.
	#chrome() {
		const n = this.nodes;
		byId('send').append(icon('send'));
		byId('notice-close').append(icon('close'));
		byId('queue-icon').append(icon('clock'));
		n['menu-button'].append(icon('menu'));
		n['human-button'].append(icon('person'), el('span', { data: { t: 'customer.human' } }));
		for (const [tag, name] of Object.entries(locales)) n.language.append(el('option', { value: tag, text: name, lang: tag }));
		n.language.value = locale();
		n.language.addEventListener('change', () => setLocale(n.language.value));
		n['menu-button'].addEventListener('click', () => this.#menu(n.menu.hidden));
		byId('notice-close').addEventListener('click', () => { n.notice.hidden = true; });
		n['human-button'].addEventListener('click', () => this.#askForPerson());
		n.again.addEventListener('click', () => this.#startAgain());
		n.end.addEventListener('click', () => this.#end());
		document.addEventListener('pointerdown', (e) => {
			if (!n.menu.contains(e.target) && !n['menu-button'].contains(e.target)) this.#menu(false);
		});
		document.addEventListener('keydown', (e) => {
			if (e.key !== 'Escape' || n.menu.hidden) return;
			this.#menu(false);
			n['menu-button'].focus();
		});
		document.addEventListener('visibilitychange', () => this.#title());
	}

	#menu(open) {
		this.nodes.menu.hidden = !open;
		setAttr(this.nodes['menu-button'], 'aria-expanded', String(open));
		if (open) this.nodes.language.focus();
	}

	#notice(text, error = false) {
		setText(this.nodes['notice-text'], text);
		this.nodes.notice.classList.toggle('error', error);
		this.nodes.notice.hidden = false;
	}

	// --- session ---

	async #hello() {
		if (!this.token) await this.#session();
		const seen = this.conversation?.log.last ? { [this.conversation.id]: this.conversation.log.last } : {};
		return { token: this.token, device: this.device, locale: locale(), seen };
	}

	async #session() {
		let session;
		try {
			session = await call('POST', '/api/v1/widget/session', { site: this.site, token: this.storage.get(this.tokenKey, '') });
		} catch (err) {
			this.unknownSite = err.code === 'not_found';
			throw Object.assign(err, { final: this.unknownSite, reason: err.code, code: 0 });
		}
		this.token = session.token;
		this.siteName = session.site.name;
		this.storage.set(this.tokenKey, session.token);
		if (session.new) this.#forget();
	}

	#welcome(d) {
		this.renewed = false;
		this.me = d.me;
		if (this.storeId && this.storeId !== d.store) this.#forget();
		this.storeId = d.store;
		this.composer.limit = d.limits?.text ?? this.composer.limit;
		this.heads = new Set((d.heads ?? []).map((h) => h.id)); // those not shown are replayed too
		const head = pick(d.heads ?? [], this.conversation?.id);
		if (head) {
			this.#show(head);
			if (head.truncated) {
				this.conversation.log.startAt(beginning(head.last, firstPage));
				this.conversation.log.fill();
			}
		}
		this.conversation?.outbox.setOpen(true);
		if (!head || (this.opening && head.state === 'closed')) this.#open();
		this.#render();
	}

	// An answer to a refused session: ask for a new one, but only once in a row.
	#status(s) {
		if (s.phase !== 'ready') this.conversation?.outbox.setOpen(false);
		if (s.phase === 'stopped' && (s.code === 4101 || s.code === 4102) && !this.renewed) {
			this.renewed = true;
			this.token = '';
			queueMicrotask(() => this.connection.restart());
		}
		this.banner?.update();
		if (this.list) this.#render();
	}

	async #open() {
		if (!this.connection.ready) return;
		this.opening = true;
		try {
			const reply = await this.connection.request('conv.open', { d: { wants: 'bot', page: location.origin + location.pathname } });
			this.opening = false;
			this.#show(reply.d.head);
		} catch (err) {
			if (err.code === 'lost') return; // the next welcome opens it
			setTimeout(() => this.opening && this.#open(), err.retryMs || 3_000);
		}
		this.#render();
	}

	#show(head) {
		if (this.conversation?.id !== head.id) {
			this.#forget();
			this.conversation = new Conversation({
				id: head.id, scope: this.me.id, connection: this.connection, storage: this.storage,
				onChange: (c, what, ev) => this.#changed(c, what, ev),
			});
			this.list.setPending(this.conversation.outbox.items);
			this.conversation.outbox.setOpen(this.connection.ready);
		}
		this.conversation.setHead(head);
	}

	async #older() {
		const c = this.conversation;
		if (!c || c.log.first === 0) return;
		const events = await c.older(2 * chunkSize);
		if (c === this.conversation) this.list.prepend(events);
	}

	#forget() {
		this.conversation?.dispose();
		this.conversation = null;
		this.list.clear();
		this.list.setTyping('');
	}

	#frame(frame) {
		if (!frame.c) return;
		if (frame.c !== this.conversation?.id) {
			if (frame.t !== 'ev.state' || frame.d.event !== 'opened' || this.heads.has(frame.c)) return;
			this.opening = false; // opened in another tab, or the event was faster than the reply
			this.#show({ id: frame.c, state: frame.d.state, rev: frame.d.rev, epoch: frame.d.epoch, owner: frame.d.owner });
		}
		this.conversation.accept(frame);
	}

	#changed(c, what, ev) {
		if (c !== this.conversation && this.conversation) return;
		if (what === 'event') {
			this.list.append(ev);
			if (ev.t === 'ev.msg' && ev.d.from.kind !== 'customer' && document.hidden) this.unseen++;
			if (ev.t === 'ev.state') this.asking = false;
		}
		if (what === 'outbox') {
			this.list.setPending(c.outbox.items);
			if (c.outbox.items.some((i) => i.state === 'failed' && i.body.payload)) this.asking = false;
		}
		if (what === 'typing') this.list.setTyping(c.typingName && nameOf({ kind: 'agent', name: c.typingName.trim() }));
		this.#render();
	}

	// --- actions ---

	#send(text, payload) {
		if (!this.conversation || this.conversation.state === 'closed') return;
		this.conversation.outbox.add({ body: text, ...(payload && { payload }) });
	}

	#askForPerson() {
		if (this.conversation?.state !== 'bot' || this.asking) return;
		this.asking = true;
		this.#send(t('customer.human'), 'human');
		this.composer.focus();
		this.#render();
	}

	#startAgain() {
		this.opening = true;
		this.#open();
		this.#render();
		this.composer.focus();
	}

	async #end() {
		this.#menu(false);
		const yes = await ask({ title: t('customer.end.title'), body: t('customer.end.body'), confirm: t('customer.end') });
		if (!yes || !this.conversation) return;
		try {
			await this.conversation.close('customer left');
		} catch {
			this.#notice(t('customer.end.failed'), true);
		}
	}

	// --- view ---

	#render() {
		const n = this.nodes;
		const c = this.conversation;
		const state = c?.state || 'connecting';
		const closed = state === 'closed' && !this.opening;
		setAttr(n.frame, 'data-state', state);
		setAttr(n.frame, 'data-connection', this.connection.status.phase);
		this.#header(state);
		n.human.hidden = state !== 'bot';
		n['human-button'].disabled = Boolean(this.asking);
		setText(n['human-button'].lastChild, t(this.asking ? 'customer.human.sent' : 'customer.human'));
		n.queue.hidden = state !== 'queued';
		if (state === 'queued') setText(n['queue-position'], position(c.position));
		setAttr(n.queue, 'data-position', c?.position || null);
		n.composer.hidden = closed || Boolean(this.unknownSite);
		n.closed.hidden = !closed;
		n.end.disabled = !c || state === 'closed';
		this.composer.setEnabled(Boolean(c) && state !== 'closed');
		if (c && state !== 'bot') this.list.endChoices();
		this.#empty();
		this.#title();
	}

	#header(state) {
		const n = this.nodes;
		const owner = this.conversation?.head?.owner;
		const away = this.conversation?.online === false;
		const looks = {
			connecting: ['chat', '', false, 'customer.header.connecting'],
			bot: ['bot', nameOf({ kind: 'bot', name: owner?.name }), 'true', 'customer.header.bot'],
			queued: ['clock', '', 'waiting', 'customer.header.waiting'],
			assigned: ['', nameOf({ kind: 'agent', name: owner?.name }), away ? 'false' : 'true', away ? 'customer.header.away' : 'customer.header.online'],
			closed: ['chat', owner?.name ?? '', 'false', 'customer.header.closed'],
		};
		const [glyph, name, on, text] = looks[state] ?? looks.connecting;
		setAttr(n.avatar, 'class', `avatar ${state === 'assigned' ? 'agent' : state === 'queued' ? 'waiting' : ''}`);
		const key = glyph || initials(name);
		if (n.avatar.dataset.key !== key) {
			n.avatar.dataset.key = key;
			n.avatar.replaceChildren(glyph ? icon(glyph) : initials(name));
		}
		setText(n.who, this.unknownSite ? t('customer.title') : name || this.siteName);
		setAttr(n.dot, 'data-on', String(this.connection.ready ? on : false));
		setText(n.substate, this.unknownSite ? '' : t(text));
		n.dot.hidden = Boolean(this.unknownSite);
		setText(n['site-name'], this.siteName);
	}

	#empty() {
		const n = this.nodes;
		const shown = this.conversation?.log.events.length > 0;
		n.empty.hidden = shown;
		if (shown) return;
		const failed = this.connection.status.attempts > 0;
		setText(n.empty, t(this.unknownSite ? 'customer.unknownSite' : failed ? 'customer.unavailable' : 'customer.opening'));
	}

	#title() {
		if (!document.hidden) this.unseen = 0;
		const title = `${this.siteName} · ${t('customer.title')}`;
		document.title = this.unseen > 0 ? `(${number(this.unseen)}) ${title}` : title;
	}

	#relabel() {
		translate();
		this.nodes.language.value = locale();
		this.list.relabel();
		this.composer.refresh();
		this.banner.update();
		this.#render();
	}
}

// The conversation to show: the one on screen while it is open, else the newest open one, else the latest.
function pick(heads, current) {
	const open = heads.filter((h) => h.state !== 'closed');
	return open.find((h) => h.id === current) ?? open.at(-1) ?? heads.find((h) => h.id === current) ?? heads.at(-1);
}

function nameOf(from) {
	if (from.name) return from.name;
	return t(from.kind === 'bot' ? 'who.bot' : from.kind === 'agent' ? 'who.agent' : 'messages.you');
}

function position(n) {
	if (!n) return t('customer.queue.unknown');
	return n === 1 ? t('customer.queue.next') : t('customer.queue.position', { n: number(n) });
}

function describe(ev) {
	const by = ev.d.by?.kind;
	switch (ev.d.event) {
	case 'handoff':
		return t(by === 'customer' ? 'event.handoff.me' : 'event.handoff.other');
	case 'returned':
	case 'reopened':
		return t(`event.${ev.d.event}`);
	case 'taken':
	case 'assigned':
	case 'transferred':
		if (!ev.d.owner) return t('event.returned');
		return t('event.taken.other', { name: nameOf({ kind: 'agent', name: ev.d.owner?.name }) });
	case 'closed':
		if (by === 'customer') return t('event.closed.me');
		return by === 'agent' ? t('event.closed.agent', { name: nameOf(ev.d.by) }) : t('event.closed.other');
	}
	return '';
}

new CustomerPage().start();
