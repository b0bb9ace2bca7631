// One conversation in the console: header, messages, and below them what can
// be done now: take it, write, note, or read that somebody else has it.

import { drawFiles } from '../core/attachments.js';
import { el, icon, setAttr, setText } from '../core/dom.js';
import { CannedMenu } from './canned-menu.js';
import { ChatFiles } from './chat-files.js';
import { describe, stateText } from './chat-words.js';
import { chunkSize } from '../core/chunks.js';
import { Composer } from '../core/composer.js';
import { ComposerModes } from './composer-modes.js';
import { initials, MessageList } from '../core/message-list.js';
import { secondsLeft } from './offers.js';
import { StaffLines } from './staff-lines.js';
import { number, t } from '../core/i18n.js';

export class ChatView {
	/**
	 * @param {object} o
	 * @param {import('../core/conversation.js').Conversation} o.conversation
	 * @param {import('./staff.js').Staff} o.staff
	 * @param {() => {name: string, given: string, online: boolean|null}} o.contact
	 * @param {() => {agent: object, expires: number}|undefined} o.offer the offer this agent made of the chat
	 * @param {() => number} o.now the server's time
	 * @param {number} o.limit characters of one message
	 * @param {import('../core/attachments.js').FileLinks} o.links addresses of files
	 * @param {object} o.on take, takeOver, transfer, giveBack, close, reopen, back, next, details, draft, scrolled, canned, notice: functions of the console
	 */
	constructor({ conversation, staff, contact, offer, now, limit, links, on }) {
		Object.assign(this, { conversation, staff, contact, offer, now, on });
		this.agentId = staff.me.id;
		this.error = '';
		this.busy = '';
		this.#build();
		this.lines = new StaffLines({
			events: () => conversation.log.events,
			onFold: (first) => this.#folded(first),
		});
		this.list = new MessageList({
			host: this.messages,
			mine: (from) => from.kind === 'agent' && from.id === this.agentId,
			describe: (ev) => describe(ev, this.agentId),
			nameOf: (from) => this.#nameOf(from),
			draw: (ev) => this.lines.draw(ev),
			onTop: () => this.#older(),
			onView: () => on.scrolled(),
			attachments: (m) => (m.files?.length > 0 ? drawFiles(m.files, links) : null),
			onRetry: (id) => conversation.outbox.retry(id),
			onDiscard: (id) => conversation.outbox.discard(id),
		});
		this.lines.refresh();
		for (const ev of conversation.log.events) this.list.append(ev);
		this.list.setPeer(conversation.peer);
		this.list.setPending(conversation.outbox.items);
		this.#compose(limit);
		this.relabel();
	}

	/** Called for every change of the conversation. */
	changed(what, ev) {
		if (what === 'event') {
			this.list.append(ev);
			if (ev.t === 'ev.state' && this.lines.refresh()) this.list.redraw();
		}
		if (what === 'receipt') this.list.setPeer(this.conversation.peer);
		if (what === 'file') this.list.redraw();
		if (what === 'outbox') this.list.setPending(this.conversation.outbox.items);
		if (what === 'typing') this.list.setTyping(this.conversation.typingName && this.contact().name);
		this.render();
	}

	/** Shows a problem above the message box; '' removes it. */
	setError(text) {
		this.error = text;
		this.render();
	}

	/** Names the command that is under way; '' for none. */
	setBusy(what) {
		this.busy = what;
		this.render();
	}

	/** The conversation can be answered by this agent now. */
	get writable() {
		const { head } = this.conversation;
		return head?.state === 'assigned' && head.owner?.id === this.agentId && this.staff.can('serve');
	}

	/** Notes can be written: into own and unowned chats by those who serve, into others' by permission. */
	get notable() {
		const { head } = this.conversation;
		if (!head?.state) return false;
		if (this.writable) return true;
		const unowned = ['queued', 'deferred', 'closed'].includes(head.state);
		return this.staff.can('whisper') || (unowned && this.staff.can('serve'));
	}

	/** A file's state has changed. */
	redraw() {
		this.list.redraw();
	}

	/** Lets go of what goes on by itself. */
	dispose() {
		this.files.dispose();
		this.node.remove();
	}

	/** Puts the focus where the work is. */
	focus() {
		if (!this.form.hidden) this.composer.focus();
		else if (!this.takeBar.hidden && !this.takeButton.disabled) this.takeButton.focus();
		else this.list.scroller.focus();
	}

	/** The N key: to the note mode and back. */
	note() {
		if (this.notable) this.#mode(!this.modes.note);
	}

	/** The / key: canned replies. */
	openCanned() {
		if (this.form.hidden) return;
		this.composer.focus();
		this.menu.start();
	}

	/** Brings event s on screen, fetching what lies between. */
	async reveal(s) {
		const { log } = this.conversation;
		await log.fill();
		for (let first = -1; log.first >= s && log.first !== first;) {
			first = log.first;
			await this.#older(first - s + chunkSize);
		}
		if (this.lines.reveal(s)) this.list.redraw();
		this.list.reveal(s);
	}

	/** The element came on screen again. */
	shown() {
		this.composer.refresh();
		if (this.list.atBottom) this.list.toBottom();
	}

	relabel() {
		const label = (node, key, shortcut = '') => {
			setAttr(node, 'aria-label', t(key));
			setAttr(node, 'title', shortcut ? `${t(key)} (${shortcut})` : t(key));
		};
		label(this.back, 'console.back');
		label(this.details, 'console.details');
		label(this.transferButton, 'transfer.title', 'T');
		label(this.returnButton, 'return.title');
		setText(this.closeButton.lastChild, t('console.close'));
		setAttr(this.closeButton, 'aria-label', t('console.close'));
		setAttr(this.closeButton, 'title', `${t('console.close')} (E)`);
		setText(this.takeText, t('console.take.hint'));
		setText(this.nextButton, t('console.next'));
		setText(this.overButton, t('console.takeOver'));
		setText(this.reopenButton, t('console.reopen'));
		setText(this.answerTab, t('composer.mode.answer'));
		for (const b of [this.noteTab, ...this.noteButtons]) setText(b, t('composer.mode.note'));
		setAttr(this.noteTab, 'title', `${t('composer.mode.note')} (N)`);
		setAttr(this.modeBar, 'aria-label', t('composer.mode'));
		label(this.cannedButton, 'canned.label', '/');
		label(this.attachButton, 'file.attach');
		this.files.relabel();
		this.list.relabel();
		this.composer.refresh();
		this.render();
	}

	render() {
		const { head } = this.conversation;
		const { name, online } = this.contact();
		setText(this.title, name);
		setText(this.avatar, initials(name));
		setAttr(this.dot, 'data-on', String(online === true));
		setText(this.subtitle, stateText(head, this.agentId));
		const state = head?.state ?? '';
		setAttr(this.node, 'data-state', state);
		const forced = state === 'assigned' && !this.writable && this.staff.can('override');
		for (const b of [this.closeButton, this.transferButton, this.returnButton]) b.hidden = !this.writable && !forced;
		this.returnButton.hidden = !this.writable;
		this.#renderComposer();
		const waits = state === 'queued' || state === 'deferred';
		this.takeBar.hidden = !waits || !this.staff.can('serve');
		this.takeButton.disabled = this.busy === 'take';
		setText(this.takeButton, t(this.busy === 'take' ? 'console.take.busy' : 'console.take'));
		const other = !this.writable && !waits && state !== '';
		this.otherBar.hidden = !other;
		this.overButton.hidden = !((state === 'assigned' && this.staff.can('override')) || (state === 'bot' && this.staff.can('serve')));
		this.overButton.disabled = this.busy === 'take';
		this.reopenButton.hidden = state !== 'closed' || !this.staff.can('serve');
		if (other) setText(this.otherText, state === 'closed' ? t('console.closed') : state === 'bot' ? t('console.with.bot') : t('console.with.other', { name: head.owner?.name ?? '' }));
		this.#renderOffer();
		this.errorNode.hidden = this.error === '';
		setText(this.errorNode, this.error);
	}

	#renderComposer() {
		const { writable, notable } = this;
		const on = this.modes.note ? notable : writable;
		this.form.hidden = !on;
		this.answerTab.hidden = !writable;
		for (const b of this.noteButtons) b.hidden = !notable || on;
		setAttr(this.answerTab, 'aria-pressed', String(!this.modes.note));
		setAttr(this.noteTab, 'aria-pressed', String(this.modes.note));
		this.form.classList.toggle('noting', this.modes.note);
		setAttr(this.field, 'aria-label', t(this.modes.note ? 'composer.note' : 'composer.label'));
		setAttr(this.field, 'placeholder', t(this.modes.note ? 'composer.note' : 'composer.placeholder'));
		const send = t(this.modes.note ? 'composer.note.send' : 'composer.send');
		setAttr(this.send, 'aria-label', send);
		setAttr(this.send, 'title', send);
		this.composer.setEnabled(on);
	}

	#renderOffer() {
		const offer = this.writable ? this.offer() : undefined;
		this.offerBar.hidden = !offer;
		if (offer) setText(this.offerText, t('offer.waiting', { name: offer.agent?.name ?? '', n: number(secondsLeft(offer.expires, this.now())) }));
	}

	async #older(count = 2 * chunkSize) {
		if (this.conversation.log.first === 0) return;
		const events = await this.conversation.older(count);
		if (events.length === 0) return;
		const news = this.lines.refresh();
		this.list.prepend(events);
		if (news) this.list.redraw();
	}

	// The button that was pressed is drawn anew: the focus goes to its successor.
	#folded(first) {
		const focused = this.messages.contains(document.activeElement);
		this.list.redraw();
		if (!focused) return;
		const at = this.lines.stretches.findIndex((s) => s.first === first);
		(this.messages.querySelectorAll('.fold-button')[at] ?? this.list.scroller).focus();
	}

	#nameOf(from) {
		if (from.kind === 'customer') return this.contact().name || from.name || t('who.customer');
		return from.name || t(from.kind === 'bot' ? 'who.bot' : 'who.agent');
	}

	#compose(limit) {
		const { conversation, on } = this;
		const noteKey = `${conversation.draftKey}.note`;
		const drafts = {
			answer: conversation.draft,
			note: {
				get: () => conversation.storage.get(noteKey, ''),
				set: (text) => (text ? conversation.storage.set(noteKey, text) : conversation.storage.remove(noteKey)),
			},
		};
		this.files = new ChatFiles({
			id: conversation.id, area: this.node, field: this.field, button: this.attachButton, may: () => !this.form.hidden,
			onChange: () => this.composer?.filesChanged(), onTooMany: (n) => on.notice(t('file.tooMany', { n: number(n) })),
		});
		this.form.append(this.files.input);
		this.modeBar.after(this.files.host);
		this.composer = new Composer({
			files: this.files.uploads,
			form: this.form, field: this.field, button: this.send, counter: this.counter, limit, draft: drafts.answer,
			onSend: (text) => {
				conversation.outbox.add(this.files.body(text, this.modes.note));
				on.draft();
			},
			onTyping: (isOn) => { if (!this.modes?.note) conversation.sendTyping(isOn); },
		});
		this.modes = new ComposerModes({ composer: this.composer, drafts, onChange: () => this.render() });
		this.menu = new CannedMenu({
			host: this.cannedHost, field: this.field, fetch: on.canned,
			values: () => ({ name: this.contact().given, agent: this.staff.me.name }),
		});
		this.form.addEventListener('keydown', (e) => {
			if (e.target !== this.field || !this.menu.key(e)) return;
			e.preventDefault();
			e.stopPropagation();
		}, { capture: true });
		this.field.addEventListener('input', () => on.draft());
		this.answerTab.addEventListener('click', () => this.#mode(false));
		this.noteTab.addEventListener('click', () => this.#mode(this.writable || !this.modes.note));
	}

	#mode(note) {
		this.modes.set(note);
		this.focus();
	}

	#build() {
		const { on } = this;
		const iconButton = (name, cls, testid, f) => el('button', { type: 'button', class: `icon-button ${cls}`, data: { testid }, on: { click: f } }, icon(name));
		const button = (cls, testid, f) => el('button', { type: 'button', class: `button ${cls}`, data: { testid }, on: { click: f } });
		this.back = iconButton('back', 'chat-back', 'back', () => on.back());
		this.details = iconButton('info', 'chat-details', 'details', () => on.details());
		this.transferButton = iconButton('transfer', 'chat-action', 'transfer', () => on.transfer());
		this.returnButton = iconButton('giveback', 'chat-action', 'return', () => on.giveBack());
		this.avatar = el('span', { class: 'avatar', aria: { hidden: true } });
		this.title = el('h2', { data: { testid: 'chat-title' } });
		this.dot = el('span', { class: 'dot' });
		this.subtitle = el('span', { data: { testid: 'chat-state' } });
		this.closeButton = el('button', { type: 'button', class: 'button small chat-close', data: { testid: 'close-chat' }, on: { click: () => on.close() } }, icon('tick'), el('span'));
		this.messages = el('div');
		this.errorNode = el('div', { class: 'chat-error', role: 'status', data: { testid: 'chat-error' } });
		this.takeText = el('p');
		this.takeButton = button('primary', 'take', () => on.take());
		this.noteButtons = [button('', 'add-note', () => this.note()), button('', 'add-note', () => this.note())];
		this.takeBar = el('div', { class: 'bar take' }, this.takeText, el('div', { class: 'bar-buttons' }, this.noteButtons[0], this.takeButton));
		this.otherText = el('p', { data: { testid: 'chat-closed' } });
		this.overButton = button('', 'take-over', () => on.takeOver());
		this.reopenButton = button('', 'reopen', () => on.reopen());
		this.nextButton = button('', 'next-chat', () => on.next());
		this.otherBar = el('div', { class: 'bar' }, this.otherText, el('div', { class: 'bar-buttons' }, this.noteButtons[1], this.overButton, this.reopenButton, this.nextButton));
		this.offerText = el('p', { data: { testid: 'offer-waiting' } });
		this.offerBar = el('div', { class: 'bar offer-bar' }, icon('transfer'), this.offerText);
		this.#buildForm();
		this.node = el('div', { class: 'chat-view', data: { testid: 'chat', id: this.conversation.id } },
			el('header', { class: 'chat-head' }, this.back, this.avatar,
				el('div', { class: 'chat-head-text' }, this.title, el('p', {}, this.dot, this.subtitle)),
				this.transferButton, this.returnButton, this.closeButton, this.details),
			this.messages, this.errorNode, this.offerBar, this.takeBar, this.otherBar, this.form);
	}

	#buildForm() {
		const tab = (testid) => el('button', { type: 'button', class: 'mode', data: { testid } });
		this.answerTab = tab('mode-answer');
		this.noteTab = tab('mode-note');
		this.cannedButton = el('button', { type: 'button', class: 'icon-button small', data: { testid: 'canned-open' }, on: { click: () => this.openCanned() } }, icon('canned'));
		this.attachButton = el('button', { type: 'button', class: 'icon-button small', data: { testid: 'attach' } });
		this.modeBar = el('div', { class: 'modes', role: 'group' }, this.answerTab, this.noteTab, el('span', { class: 'spacer' }), this.attachButton, this.cannedButton);
		this.cannedHost = el('div');
		this.field = el('textarea', { rows: '1', enterkeyhint: 'send', data: { testid: 'composer' } });
		this.send = el('button', { type: 'submit', class: 'send-button', data: { testid: 'send' } }, icon('send'));
		this.counter = el('div', { class: 'counter', role: 'status', data: { testid: 'counter' } });
		this.form = el('form', { class: 'composer', autocomplete: 'off' }, this.cannedHost, this.modeBar, this.field, this.send, this.counter);
	}
}
