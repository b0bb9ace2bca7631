// One conversation in the console: header, messages, and below them what can
// be done now: take it, write, or read that somebody else has it.

import { el, icon, setAttr, setText } from './dom.js';
import { Composer } from './composer.js';
import { initials, MessageList } from './message-list.js';
import { t } from './i18n.js';

export class ChatView {
	/**
	 * @param {object} o
	 * @param {import('./conversation.js').Conversation} o.conversation
	 * @param {string} o.agentId
	 * @param {() => {name: string, online: boolean|null}} o.contact
	 * @param {number} o.limit characters of one message
	 * @param {object} o.on take, close, back, details, next, typing, draft: functions of the console
	 */
	constructor({ conversation, agentId, contact, limit, on }) {
		Object.assign(this, { conversation, agentId, contact, on });
		this.error = '';
		this.taking = false;
		this.#build();
		this.list = new MessageList({
			host: this.messages,
			mine: (from) => from.kind === 'agent' && from.id === agentId,
			describe: (ev) => describe(ev, agentId),
			nameOf: (from) => this.#nameOf(from),
			onRetry: (id) => conversation.outbox.retry(id),
			onDiscard: (id) => conversation.outbox.discard(id),
		});
		for (const ev of conversation.log.events) this.list.append(ev);
		this.list.setPending(conversation.outbox.items);
		this.composer = new Composer({
			form: this.form, field: this.field, button: this.send, counter: this.counter, limit, draft: conversation.draft,
			onSend: (text) => {
				conversation.outbox.add({ body: text });
				on.draft();
			},
			onTyping: (isOn) => conversation.sendTyping(isOn),
		});
		this.field.addEventListener('input', () => on.draft());
		this.list.scroller.addEventListener('scroll', () => on.scrolled(), { passive: true });
		this.relabel();
	}

	/** Called for every change of the conversation. */
	changed(what, ev) {
		if (what === 'event') this.list.append(ev);
		if (what === 'outbox') this.list.setPending(this.conversation.outbox.items);
		if (what === 'typing') this.list.setTyping(this.conversation.typingName && this.contact().name);
		this.render();
	}

	/** Shows a problem above the message box; '' removes it. */
	setError(text) {
		this.error = text;
		this.render();
	}

	setTaking(taking) {
		this.taking = taking;
		this.render();
	}

	/** The conversation can be answered by this agent now. */
	get writable() {
		const { head } = this.conversation;
		return head?.state === 'assigned' && head.owner?.id === this.agentId;
	}

	/** Puts the focus where the work is. */
	focus() {
		if (this.writable) this.composer.focus();
		else if (!this.takeBar.hidden) this.takeButton.focus();
		else this.list.scroller.focus();
	}

	/** The element came on screen again. */
	shown() {
		this.composer.refresh();
		if (this.list.atBottom) this.list.toBottom();
	}

	relabel() {
		const label = (node, key) => {
			setAttr(node, 'aria-label', t(key));
			setAttr(node, 'title', t(key));
		};
		label(this.back, 'console.back');
		label(this.details, 'console.details');
		setText(this.closeButton, t('console.close'));
		setAttr(this.closeButton, 'title', `${t('console.close')} (E)`);
		setText(this.takeText, t('console.take.hint'));
		setText(this.nextButton, t('console.next'));
		setAttr(this.field, 'aria-label', t('composer.label'));
		setAttr(this.field, 'placeholder', t('composer.placeholder'));
		label(this.send, 'composer.send');
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
		this.closeButton.hidden = !this.writable;
		this.form.hidden = !this.writable;
		this.composer.setEnabled(this.writable);
		this.takeBar.hidden = state !== 'queued';
		this.takeButton.disabled = this.taking;
		setText(this.takeButton, t(this.taking ? 'console.take.busy' : 'console.take'));
		const other = !this.writable && state !== 'queued' && state !== '';
		this.otherBar.hidden = !other;
		if (other) setText(this.otherText, state === 'closed' ? t('console.closed') : state === 'bot' ? t('console.with.bot') : t('console.with.other', { name: head.owner?.name ?? '' }));
		this.errorNode.hidden = this.error === '';
		setText(this.errorNode, this.error);
	}

	#nameOf(from) {
		if (from.kind === 'customer') return this.contact().name || from.name || t('who.customer');
		return from.name || t(from.kind === 'bot' ? 'who.bot' : 'who.agent');
	}

	#build() {
		const { on } = this;
		const iconButton = (name, cls, testid, f) => el('button', { type: 'button', class: `icon-button ${cls}`, data: { testid }, on: { click: f } }, icon(name));
		this.back = iconButton('back', 'chat-back', 'back', () => on.back());
		this.details = iconButton('info', 'chat-details', 'details', () => on.details());
		this.avatar = el('span', { class: 'avatar', aria: { hidden: true } });
		this.title = el('h2', { data: { testid: 'chat-title' } });
		this.dot = el('span', { class: 'dot' });
		this.subtitle = el('span', { data: { testid: 'chat-state' } });
		this.closeButton = el('button', { type: 'button', class: 'button small', data: { testid: 'close-chat' }, on: { click: () => on.close() } });
		this.messages = el('div');
		this.errorNode = el('div', { class: 'chat-error', role: 'alert', data: { testid: 'chat-error' } });
		this.takeText = el('p');
		this.takeButton = el('button', { type: 'button', class: 'button primary', data: { testid: 'take' }, on: { click: () => on.take() } });
		this.takeBar = el('div', { class: 'bar take' }, this.takeText, this.takeButton);
		this.otherText = el('p', { data: { testid: 'chat-closed' } });
		this.nextButton = el('button', { type: 'button', class: 'button', data: { testid: 'next-chat' }, on: { click: () => on.next() } });
		this.otherBar = el('div', { class: 'bar' }, this.otherText, this.nextButton);
		this.field = el('textarea', { rows: '1', enterkeyhint: 'send', data: { testid: 'composer' } });
		this.send = el('button', { type: 'submit', class: 'send-button', data: { testid: 'send' } }, icon('send'));
		this.counter = el('div', { class: 'counter', role: 'status', data: { testid: 'counter' } });
		this.form = el('form', { class: 'composer', autocomplete: 'off' }, this.field, this.send, this.counter);
		this.node = el('div', { class: 'chat-view', data: { testid: 'chat', id: this.conversation.id } },
			el('header', { class: 'chat-head' }, this.back, this.avatar,
				el('div', { class: 'chat-head-text' }, this.title, el('p', {}, this.dot, this.subtitle)),
				this.closeButton, this.details),
			this.messages, this.errorNode, this.takeBar, this.otherBar, this.form);
	}
}

/** The state of a conversation in words. */
export function stateText(head, agentId) {
	if (!head?.state) return t('messages.loading');
	if (head.state !== 'assigned') return t(`console.state.${head.state}`);
	return head.owner?.id === agentId ? t('console.state.mine') : t('console.state.assigned', { name: head.owner?.name ?? '' });
}

function describe(ev, agentId) {
	const { by, owner, event } = ev.d;
	const mine = by?.kind === 'agent' && by.id === agentId;
	switch (event) {
	case 'opened':
		return t('event.opened');
	case 'handoff':
		return t(by?.kind === 'customer' ? 'event.handoff.customer' : 'event.handoff.other');
	case 'returned':
	case 'reopened':
		return t(`event.${event}`);
	case 'taken':
	case 'assigned':
	case 'transferred':
		if (!owner) return t('event.returned');
		return owner?.id === agentId ? t('event.taken.me') : t('event.taken.other', { name: owner?.name ?? '' });
	case 'closed':
		if (mine) return t('event.closed.me');
		if (by?.kind === 'agent') return t('event.closed.agent', { name: by.name });
		return t(by?.kind === 'customer' ? 'event.closed.customer' : 'event.closed.other');
	}
	return '';
}
