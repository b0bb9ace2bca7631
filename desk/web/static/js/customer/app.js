// The customer page: one visitor of one site, and the conversation they are in.

import { byId } from '../core/dom.js';
import { acceptFiles, drawFiles, FileLinks, FileTray } from '../core/attachments.js';
import { Attention } from './attention.js';
import { Beginning } from './beginning.js';
import { call } from '../core/api.js';
import { ask } from '../core/dialog.js';
import { Backoff } from '../core/backoff.js';
import { Banner } from '../core/banner.js';
import { Composer } from '../core/composer.js';
import { beginning, chunkSize } from '../core/chunks.js';
import { Connection, followBrowser, socketURL } from '../core/connection.js';
import { Conversation } from '../core/conversation.js';
import { CustomerView } from './view.js';
import { awayWords, LeaveForm, leaveValue, nobody } from './leave.js';
import { describe, limited, nameOf } from './words.js';
import { MessageList } from '../core/message-list.js';
import { Outbox } from '../core/outbox.js';
import { asks, PreChat } from './prechat.js';
import { MailChat } from './mail-chat.js';
import { Rating } from './rating.js';
import { accentOf, useColour } from '../core/theme.js';
import { locale, number, onLocale, t, translate } from '../core/i18n.js';
import { uuid } from '../core/storage.js';
import { allowFiles, Uploads } from '../core/uploads.js';
import { Visit } from './visit.js';

const person = 'human'; // the value of a bot's button for a person; the page has one of its own, always in reach
const ownRate = 5_000; // ms that a visitor who writes much waits at most
const firstPage = 100; // events of a long chat that are fetched at once; the rest when the reader scrolls up

export class CustomerPage {
	/**
	 * @param {object} o
	 * @param {string} o.site its key
	 * @param {import('../core/storage.js').SafeStorage} o.storage
	 * @param {{page: string, title?: string, referrer?: string}} o.place where the visitor is
	 * @param {import('./frame-host.js').FrameHost|null} [o.host] the page that holds the widget
	 * @param {string} [o.identity] a token signed by the site
	 * @param {string} [o.colour] what the page that holds the widget prefers to the site's
	 */
	constructor({ site, storage, place, host = null, identity = '', colour = '' }) {
		Object.assign(this, { key: site, storage, host, identity, wantedColour: colour });
		this.tokenKey = `desk.token.${site}`;
		this.overKey = `desk.over.${site}`; // the chat after which another one was wanted
		this.token = '';
		this.site = null; // what the server says of it
		this.siteName = site;
		this.me = null;
		this.storeId = '';
		this.device = uuid();
		this.conversation = null;
		this.openings = new Backoff({ base: 3_000 }); // of attempts that the server did not take
		this.fresh = false; // the next chat begins with what the visitor does first
		this.beginning = null; // what was drawn before it began
		this.unsent = null; // an outbox for what is written before it has begun
		this.bot = null; // that it begins with
		this.answers = null; // to what the site asks before a chat
		this.away = null; // why nobody is there, as ev.away says
		this.leaving = false; // the form for a message is open
		this.noPerson = ''; // why a person could not be asked, when it was opened for that
		this.unread = 0;
		this.invited = ''; // what the page has said before the visitor
		this.rated = new Map(); // conversation -> score, on this page
		this.connection = new Connection({
			url: () => socketURL('/ws'),
			hello: () => this.#hello(),
			onWelcome: (d) => this.#welcome(d),
			onEvent: (frame) => this.#frame(frame),
			onStatus: (s) => this.#status(s),
		});
		this.visit = new Visit({ tell: (d) => this.connection.tell('visit', { d }) });
		this.visit.move(place);
	}

	start() {
		this.alerts = new Attention({ storage: this.storage });
		this.view = new CustomerView({
			human: () => this.#askForPerson(), leave: () => this.#leave(), again: () => this.#startAgain(), end: () => this.#end(),
			minimise: () => this.host?.send('close'), sound: (on) => this.alerts.setSound(on),
		}, Boolean(this.host));
		this.view.setSound(this.alerts.sound);
		acceptFiles({ button: byId('attach'), input: byId('files'), field: byId('field'), area: byId('frame') }, (files) => this.#addFiles(files));
		this.prechat = new PreChat(byId('prechat'), (answers) => this.#answered(answers));
		this.leaveForm = new LeaveForm(byId('leave'), { send: (message) => this.#leaveMessage(message), back: () => this.#back() });
		this.rating = new Rating(byId('rating'), (score, comment) => this.#rate(score, comment));
		this.mailChat = new MailChat(byId('mail-chat'), (conv) => call('POST', '/api/v1/widget/transcript', { token: this.token, conv }));
		this.links = new FileLinks(async (ids) => (await this.connection.request('file.links', { d: { ids } })).d);
		this.list = new MessageList({
			host: byId('messages'),
			mine: (from) => from.kind === 'customer',
			describe,
			nameOf,
			onButton: (b) => (b.value === leaveValue ? this.#leave('away') : this.send({ body: b.label, payload: b.value })),
			offers: (b) => b.value !== person,
			onRetry: (id) => this.#outbox()?.retry(id),
			onDiscard: (id) => this.#outbox()?.discard(id),
			onTop: () => this.#older(),
			onView: () => this.#seen(),
			attachments: (m) => (m.files?.length > 0 ? drawFiles(m.files, this.links) : null),
		});
		this.uploads = new Uploads({ target: (name) => this.#uploadTo(name), onChange: () => this.#filesChanged() });
		this.tray = new FileTray({ host: byId('tray'), uploads: this.uploads });
		this.composer = new Composer({
			form: byId('composer'), field: byId('field'), button: byId('send'), counter: byId('counter'),
			files: this.uploads,
			onSend: (text) => this.#write(text),
			onTyping: (on) => this.conversation?.sendTyping(on),
			draft: {
				get: () => this.storage.get(`desk.draft.${this.key}`, ''),
				set: (text) => (text ? this.storage.set(`desk.draft.${this.key}`, text) : this.storage.remove(`desk.draft.${this.key}`)),
			},
		});
		this.banner = new Banner(byId('banner'), this.connection);
		if (!this.storage.persistent) this.view.notice(t('notice.storage'));
		translate();
		this.#render();
		followBrowser(this.connection);
		window.addEventListener('resize', () => this.composer.refresh());
		document.addEventListener('visibilitychange', () => this.#seen());
		setInterval(() => this.#outbox()?.expire(), 5_000);
		onLocale(() => this.#relabel());
		this.connection.start();
	}

	/** Sends a message: {body, payload} or {kind, body, attachments, files}. */
	send(body) {
		if (this.conversation?.state !== 'closed') this.#outbox()?.add(body);
	}

	/** The widget was opened, perhaps by an proactive. */
	shown(proactive = '') {
		this.invited = proactive;
		this.#render();
		this.#seen();
		this.list.toBottom();
		if (this.leaving) this.leaveForm.focus();
		else if (this.#state() === 'prechat') this.prechat.focus();
		else this.composer.focus();
	}

	/** Another visitor, by a token signed by the site; '' for an anonymous one. */
	identify(identity) {
		if (identity === this.identity) return;
		this.identity = identity;
		this.#restart();
	}

	/** Forgets the visitor and everything kept for them. */
	logout() {
		this.connection.stop();
		this.#forget();
		for (const key of this.storage.keys('desk.')) this.storage.remove(key);
		this.identity = this.token = '';
	}

	/** Somebody looks at the messages. */
	get #visible() {
		return !document.hidden && (!this.host || this.host.open);
	}

	// --- session ---

	async #hello() {
		if (!this.token) await this.#session();
		const { log, id } = this.conversation ?? {};
		return { token: this.token, device: this.device, locale: locale(), seen: log?.last ? { [id]: log.last } : {} };
	}

	async #session() {
		let session;
		try {
			session = await call('POST', '/api/v1/widget/session', { site: this.key, token: this.storage.get(this.tokenKey, ''), locale: locale(), ...(this.identity && { identity: this.identity }) });
		} catch (err) {
			this.unknownSite = err.code === 'not_found';
			const refused = err.code === 'unauthorized' || err.code === 'token_expired' || err.code === 'forbidden';
			this.refused = refused;
			if (refused) this.view.notice(t('customer.identity'), true);
			throw Object.assign(err, { final: this.unknownSite || refused || err.code === 'blocked', reason: err.code, code: err.code === 'blocked' ? 4103 : 0 });
		}
		if (this.refused) this.view.notice('');
		this.refused = false;
		this.token = session.token;
		this.site = session.site;
		this.siteName = session.site.name;
		this.storage.set(this.tokenKey, session.token);
		if (session.new) this.#forget();
		this.#colour(this.wantedColour || session.site.color);
	}

	#colour(colour) {
		if (!colour || colour === this.colour) return;
		this.colour = colour;
		useColour(colour);
		const look = accentOf(colour, false);
		if (look) this.host?.send('colour', { accent: look.accent, on: look['on-accent'] });
	}

	#restart() {
		this.token = '';
		this.connection.stop();
		this.#forget();
		this.connection.restart();
	}

	#welcome(d) {
		this.renewed = false;
		this.me = d.me;
		if (this.storeId && this.storeId !== d.store) this.#forget();
		this.storeId = d.store;
		this.composer.limit = d.limits?.text ?? this.composer.limit;
		allowFiles(d.limits?.file);
		this.heads = new Set((d.heads ?? []).map((h) => h.id)); // those not shown are replayed too
		const head = pick(d.heads ?? [], this.conversation?.id);
		this.bot = d.bot ?? null;
		this.away = d.away ?? null;
		const another = this.fresh || this.asksFirst || this.#waiting().items.length > 0 || head?.id === this.storage.get(this.overKey); // than the one that is over
		if (head && (head.state !== 'closed' || !another)) {
			this.#show(head);
			if (head.truncated) {
				this.conversation.log.startAt(beginning(head.last, firstPage));
				this.conversation.log.fill();
			}
		} else if (this.asksFirst && this.answers) {
			this.#answered(this.answers);
		} else if (!this.fresh) {
			this.#begin();
		}
		this.visit.welcome(this.site?.visits);
		this.#outbox()?.setOpen(true);
		if (this.asking) this.#ask();
		this.#render();
	}

	// An answer to a refused session: ask for a new one, but only once in a row.
	#status(s) {
		if (s.phase !== 'ready') this.#outbox()?.setOpen(false);
		if (s.phase === 'stopped' && (s.code === 4101 || s.code === 4102) && !this.renewed) {
			this.renewed = true;
			this.token = '';
			queueMicrotask(() => this.connection.restart());
		}
		this.banner?.update();
		if (this.list) this.#render();
	}

	// Another chat: after the site's questions, or with what the visitor does first.
	#begin() {
		this.#forget();
		this.asksFirst = asks(this.site) && !this.answers;
		this.fresh = !this.asksFirst;
		if (this.fresh) {
			this.beginning = new Beginning(this.list, this.bot);
			this.list.setPending(this.#waiting().items);
			this.unsent.setOpen(this.connection.ready);
		} else {
			this.prechat.show(this.site);
		}
		this.#render();
		if (this.asksFirst && this.#visible && document.hasFocus()) this.prechat.focus();
	}

	// Where messages go: to the chat, or to wait for it.
	#outbox() {
		return this.conversation?.outbox ?? (this.fresh ? this.unsent : null);
	}

	// What was written before the chat has begun. The first message begins it, and then all of them belong to it.
	#waiting() {
		this.unsent ??= new Outbox({
			scope: `${this.me.id}.new`, storage: this.storage, onAck: () => {},
			send: () => this.#open().catch((err) => {
				this.#late(err);
				throw err;
			}),
			onChange: () => {
				if (!this.fresh) return;
				this.list.setPending(this.unsent.items);
				this.#render();
			},
		});
		return this.unsent;
	}

	// A message waits for longer than its own rate asks for: its network has begun as many chats as it may.
	#late(err) {
		if (nobody(err)) this.#leave(nobody(err));
		if (err.code !== 'rate_limited' || err.retryMs <= ownRate) return;
		this.view.notice(limited(err.retryMs, true), true);
		this.late = true;
	}

	async #answered(answers) {
		this.answers = answers;
		this.prechat.setBusy(true);
		try {
			await this.#open();
		} catch (err) {
			this.#notOpened(err);
		}
		this.prechat.setBusy(false);
		this.#render();
	}

	// The chat begins: one request, however much the visitor does meanwhile.
	#open() {
		this.opened ??= this.#openChat().finally(() => { this.opened = null; });
		return this.opened;
	}

	async #openChat() {
		const reply = await this.connection.request('conv.open', { d: { wants: 'bot', page: this.visit.page, ...this.answers } });
		this.#show(reply.d.head);
	}

	#notOpened(err) {
		if (err.code === 'lost') return; // the next welcome goes on
		if (nobody(err)) { // the answers go with the message
			this.asksFirst = false;
			this.fresh = true;
			this.#waiting().setOpen(true);
			this.#leave(nobody(err));
			return;
		}
		if (['busy', 'unavailable', 'timeout', 'internal'].includes(err.code)) {
			setTimeout(() => this.asksFirst && this.answers && this.#answered(this.answers), this.openings.next(err.retryMs));
			return;
		}
		this.answers = null;
		this.prechat.setError(err.code === 'rate_limited' ? limited(err.retryMs) : t('prechat.failed'));
	}

	#show(head) {
		if (this.conversation?.id !== head.id) {
			if (!this.fresh) this.#forget(); // else what was drawn is its beginning
			this.conversation = new Conversation({
				id: head.id, scope: this.me.id, connection: this.connection, storage: this.storage,
				onChange: (c, what, ev) => this.#changed(c, what, ev),
			});
			this.readKey = `desk.read.${this.key}`;
			const read = this.storage.get(this.readKey);
			this.readUpTo = Math.max(head.mine?.read ?? 0, read?.c === head.id ? read.s : 0);
			this.fresh = false;
			if (head.state !== 'closed') this.conversation.outbox.adopt(this.#waiting());
			this.unsent = null;
			this.list.setPending(this.conversation.outbox.items);
			this.conversation.outbox.setOpen(this.connection.ready);
		}
		this.asksFirst = false;
		this.openings.reset();
		this.conversation.setHead(head);
	}

	#forget() {
		this.conversation?.dispose();
		this.unsent?.dispose();
		this.conversation = this.beginning = this.unsent = null;
		this.asking = this.fresh = false;
		this.#stay();
		this.#setUnread(0);
		this.uploads?.clear();
		this.list?.clear();
		this.list?.setTyping('');
		this.list?.setPartial(null);
	}

	#frame(frame) {
		if (frame.t === 'ev.away') {
			this.away = frame.d.reason ? frame.d : null;
			if (!this.away) this.noPerson = '';
			if (this.leaving && !this.away && !this.leaveForm.filled) this.#stay();
			this.#render();
		}
		if (!frame.c) return;
		if (frame.c !== this.conversation?.id) {
			if (frame.t !== 'ev.state' || frame.d.event !== 'opened' || this.heads.has(frame.c)) return;
			const { state, rev, epoch, owner } = frame.d; // opened in another tab, or the event was faster than the reply
			this.#show({ id: frame.c, state, rev, epoch, owner });
		}
		this.conversation.accept(frame);
	}

	#changed(c, what, ev) {
		if (c !== this.conversation && this.conversation) return;
		if (what === 'event') this.#event(ev);
		if (what === 'outbox') this.list.setPending(c.outbox.items);
		if (what === 'refused') this.#late(ev);
		if (what === 'receipt') this.list.setPeer(c.peer);
		if (what === 'file') this.list.redraw();
		if (what === 'partial') {
			this.list.setPartial(c.partial);
			this.list.setTyping(c.partial && !c.partial.text ? nameOf(c.partial.from) : '');
		}
		if (what === 'typing') this.list.setTyping(c.typingName && nameOf({ kind: 'agent', name: c.typingName.trim() }));
		this.#render();
	}

	#event(ev) {
		if (this.beginning?.shows(ev, this.conversation.log.events)) {
			this.#seen();
			return;
		}
		this.list.append(ev);
		if (ev.t === 'ev.state') {
			if (ev.d.state !== 'bot') this.asking = false;
			return;
		}
		if (ev.d.from.kind === 'customer') {
			if (this.late) this.view.notice('');
			this.late = false;
			return;
		}
		if (ev.s > this.readUpTo && !this.#visible) {
			this.#setUnread(this.unread + 1);
			this.alerts.ring();
			this.host?.send('message', { from: { kind: ev.d.from.kind, name: nameOf(ev.d.from) } });
		}
		this.#seen();
	}

	async #older() {
		const c = this.conversation;
		if (!c || c.log.first === 0) return;
		const events = await c.older(2 * chunkSize);
		if (c === this.conversation) this.list.prepend(events);
	}

	// What is on the screen of somebody who looks at it has been read.
	#seen() {
		if (!this.#visible) return;
		this.#setUnread(0);
		const c = this.conversation;
		if (!c || !this.list.atBottom || c.log.last <= this.readUpTo) return;
		this.readUpTo = c.log.last;
		c.markRead(c.log.last);
		this.storage.set(this.readKey, { c: c.id, s: c.log.last });
	}

	#setUnread(n) {
		this.alerts?.setUnread(n);
		if (n !== this.unread) this.host?.send('unread', { n });
		this.unread = n;
	}

	// --- files ---

	#uploadTo(name) {
		const query = new URLSearchParams({ conv: this.conversation.id, name });
		return { url: `/api/v1/widget/uploads?${query}`, headers: { Authorization: `Bearer ${this.token}`, 'Content-Type': 'application/octet-stream' } };
	}

	async #addFiles(files) {
		if (files.length === 0 || !(await this.#begun('file.failed')) || this.conversation.state === 'closed') return;
		if (this.uploads.add(files) > 0) this.view.notice(t('file.tooMany', { n: number(this.uploads.most) }), true);
		this.composer.focus();
	}

	#filesChanged() {
		this.tray?.draw();
		this.composer?.filesChanged();
	}

	#write(text) {
		const files = this.uploads.take();
		this.send(files.length === 0 ? { body: text } : { kind: 'file', attachments: files.map((f) => f.id), files, body: text });
	}

	// --- actions ---

	#askForPerson() {
		if (this.asking || !['new', 'bot', 'deferred'].includes(this.#state())) return;
		if (this.away) {
			this.#leave();
			return;
		}
		this.asking = true;
		this.#ask();
		this.composer.focus();
		this.#render();
	}

	async #ask() {
		if (await this.#begun('customer.human.failed')) {
			if (['bot', 'deferred'].includes(this.conversation.state)) await this.#handoff();
		} else if (this.connection.ready) {
			this.asking = false;
		}
		this.#render();
	}

	// Whether there is a chat: it begins now, if it has not begun. A refusal is told, and what to do about it.
	async #begun(failed) {
		if (!this.fresh) return Boolean(this.conversation);
		try {
			await this.#open();
			return true;
		} catch (err) {
			if (nobody(err)) this.#leave(nobody(err));
			else if (err.code !== 'lost') this.view.notice(err.code === 'rate_limited' ? limited(err.retryMs) : t(failed), true);
			return false;
		}
	}

	async #handoff() {
		const c = this.conversation;
		try {
			const reply = await this.connection.request('conv.handoff', { c: c.id, d: {} });
			c.setHead(reply.d.head);
		} catch (err) {
			if (c !== this.conversation || err.code === 'lost') return; // asked again after the next welcome
			if (err.code === 'unknown_type') { // a server that leaves it to its bot
				this.send({ body: t('customer.human'), payload: person });
				return;
			}
			c.setHead(err.head);
			this.asking = false;
			if (nobody(err)) this.#leave(nobody(err));
			else if (c.state === 'bot') this.view.notice(err.code === 'rate_limited' ? limited(err.retryMs) : t('customer.human.failed'), true);
		}
		this.#render();
	}

	// A message can be left: what was not sent for want of a person goes into it.
	#leave(refused = '') {
		this.noPerson = refused || this.noPerson;
		const unsent = refused ? this.#outbox()?.recall().map((b) => b.body) ?? [] : [];
		const { name, email } = this.answers?.fields ?? {};
		if (this.leaving && unsent.length === 0) return;
		this.leaving = true;
		this.leaveForm.open({ name, email, body: unsent.join('\n') });
		this.#render();
		if (this.#visible) this.leaveForm.focus();
	}

	#stay() {
		this.leaving = false;
		this.noPerson = '';
		this.leaveForm?.close();
	}

	#back() {
		this.#stay();
		this.#render();
		this.composer.focus();
	}

	async #leaveMessage({ name, email, body }) {
		this.leaveForm.setBusy(true);
		this.leaveId ??= uuid(); // of this message, however often it is sent
		try {
			const reply = await this.connection.request('conv.leave', {
				d: { client_id: this.leaveId, email, body, page: this.visit.page, ...(name && { name }), ...this.answers },
			});
			this.leaveId = null;
			this.leaveForm.clear();
			this.#stay();
			this.#show(reply.d.head);
		} catch (err) {
			this.leaveForm.setBusy(false);
			this.leaveForm.setError(err.code === 'rate_limited' ? limited(err.retryMs) : t(err.code === 'conflict' ? 'leave.taken' : 'leave.failed'));
		}
		this.#render();
	}

	#startAgain() {
		this.storage.set(this.overKey, this.conversation.id);
		this.#begin();
		this.composer.focus();
	}

	async #end() {
		this.view.menu(false);
		const yes = await ask({ title: t('customer.end.title'), body: t('customer.end.body'), confirm: t('customer.end') });
		if (!yes || !this.conversation) return;
		try {
			await this.conversation.close('customer left');
		} catch {
			this.view.notice(t('customer.end.failed'), true);
		}
	}

	async #rate(score, comment) {
		const { id } = this.conversation;
		await this.connection.request('conv.rate', { c: id, d: { score, ...(comment && { comment }) } });
		this.rated.set(id, score);
	}

	// --- view ---

	#state() {
		if (this.asksFirst) return 'prechat';
		return this.fresh ? 'new' : this.conversation?.state || 'connecting';
	}

	#render() {
		const c = this.conversation;
		const state = this.#state();
		const alone = state === 'new' && !this.bot && Boolean(this.away); // there is nothing but the form
		if (alone && !this.leaving) this.#leave();
		if (this.leaving) this.leaveForm.draw(awayWords(this.away, this.noPerson), !alone);
		this.view.draw({
			state, ready: this.connection.ready, offline: this.connection.status.offline, phase: this.connection.status.phase, owner: c ? c.head?.owner : this.bot, online: c?.online ?? null,
			position: c?.position ?? 0, estimate: c?.estimate ?? 0, asking: Boolean(this.asking), away: this.away, leaving: this.leaving, replyTo: (this.site?.answers && c?.head?.reply_to) || '', unknownSite: Boolean(this.unknownSite), siteName: this.siteName, logo: this.site?.logo ?? null, empty: this.#empty(state),
		});
		this.composer.setEnabled(!this.leaving && !['closed', 'connecting', 'prechat'].includes(state));
		byId('rating').hidden = !(state === 'closed' && this.site?.rate);
		this.mailChat.offer(state === 'closed' && this.site?.mail ? c.id : '');
		if (state === 'closed' && this.site?.rate) this.rating.ask(c.id, this.rated.get(c.id));
		this.alerts.setWords(`${this.siteName} · ${t('customer.title')}`, t('customer.new'));
		if (state !== this.told) this.host?.send('state', { state });
		this.told = state;
	}

	#empty(state) {
		if (state === 'prechat' || this.conversation?.log.events.length > 0 || this.beginning?.empty === false) return '';
		if (state === 'new') return this.unsent.items.length > 0 ? '' : this.invited || this.site?.greeting || t('customer.greeting');
		const failed = this.connection.status.attempts > 0;
		return t(this.unknownSite ? 'customer.unknownSite' : failed ? 'customer.unavailable' : 'customer.opening');
	}

	#relabel() {
		translate();
		this.list.relabel();
		this.composer.refresh();
		this.banner.update();
		if (this.asksFirst) this.prechat.show(this.site, true);
		if (this.leaving) this.leaveForm.open();
		this.rating.draw();
		this.mailChat.draw();
		this.tray.relabel();
		this.#render();
	}
}

// The conversation to show: the one on screen while it is open, else the newest open one, else the latest.
function pick(heads, current) {
	const open = heads.filter((h) => h.state !== 'closed');
	return open.find((h) => h.id === current) ?? open.at(-1) ?? heads.find((h) => h.id === current) ?? heads.at(-1);
}
