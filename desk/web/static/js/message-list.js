// The list of messages of one conversation: grouped bubbles, day separators,
// quiet system lines, send states, typing, and a view that stays where the
// reader is. It only ever appends; the event log guarantees the order.

import { el, icon, setAttr, setText } from './dom.js';
import { splitLinks } from './links.js';
import { clock, day, fullTime, plural, t } from './i18n.js';

const nearBottom = 48;
const stateIcons = { pending: 'clock', accepted: 'tick', failed: 'alert', delivered: 'ticks', read: 'ticks' };

/** Text with its links as elements; nothing else in it is ever markup. */
export function renderText(text) {
	const out = document.createDocumentFragment();
	for (const part of splitLinks(text)) {
		if (part.href === undefined) {
			out.append(document.createTextNode(part.text));
			continue;
		}
		out.append(el('a', { href: part.href, target: '_blank', rel: 'noopener noreferrer nofollow', text: part.text }));
	}
	return out;
}

/** One or two letters for an avatar. */
export function initials(name) {
	const words = String(name ?? '').trim().split(/\s+/u).filter(Boolean);
	if (words.length === 0) return '?';
	const first = [...words[0]][0];
	const second = words.length > 1 ? [...words.at(-1)][0] : '';
	return (first + second).toLocaleUpperCase();
}

export class MessageList {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.host an empty element that becomes the scrolling view
	 * @param {(from: object) => boolean} o.mine whether this sender is the reader
	 * @param {(ev: object) => string} o.describe the line of an ev.state, '' for none
	 * @param {(from: object) => string} o.nameOf
	 * @param {(ev: object) => HTMLElement|null|undefined} [o.draw] draws an event in place of the list: an element, null for nothing, undefined to leave it to the list
	 * @param {(button: {label: string, value: string}) => void} [o.onButton] bot buttons work when given
	 * @param {(clientId: string) => void} o.onRetry
	 * @param {(clientId: string) => void} o.onDiscard
	 */
	constructor({ host, mine, describe, nameOf, draw = () => undefined, onButton, onRetry, onDiscard }) {
		Object.assign(this, { host, mine, describe, nameOf, draw, onButton, onRetry, onDiscard });
		this.peer = { delivered: 0, read: 0 };
		this.log = el('div', { class: 'log', role: 'log', aria: { live: 'polite', relevant: 'additions' }, data: { testid: 'log' } });
		this.pendingHost = el('div', { class: 'pending' });
		this.typingNode = el('div', { class: 'typing', data: { testid: 'typing' } },
			el('span', { class: 'dots', aria: { hidden: true } }, el('i'), el('i'), el('i')), el('span', { class: 'typing-text' }));
		this.typingNode.hidden = true;
		this.content = el('div', { class: 'scroll-content' }, this.log, this.pendingHost, this.typingNode);
		this.scroller = el('div', { class: 'scroller', tabindex: '0', role: 'region' }, this.content);
		this.pill = el('button', { class: 'pill', type: 'button', data: { testid: 'new-pill' }, on: { click: () => this.toBottom(true) } });
		this.pill.hidden = true;
		host.classList.add('message-list');
		host.append(this.scroller, this.pill);
		this.stick = true;
		this.unseen = 0;
		this.pending = new Map();
		this.clear();
		this.scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
		this.scroller.addEventListener('click', (e) => this.#tapped(e));
		const watcher = new ResizeObserver(() => {
			this.#resized();
			if (this.stick) this.toBottom();
		});
		watcher.observe(this.scroller);
		watcher.observe(this.content);
		this.relabel();
	}

	/** Forgets everything shown. */
	clear() {
		this.log.replaceChildren();
		this.pendingHost.replaceChildren();
		this.pending.clear();
		this.events = [];
		this.group = null;
		this.lastDay = '';
		this.choices = null;
	}

	/** Appends a durable event. */
	append(ev) {
		this.events.push(ev);
		this.#separator(ev.d.time);
		const own = this.draw(ev);
		if (own !== undefined) this.#foreign(own);
		else if (ev.t === 'ev.msg') this.#message(ev);
		else this.#system(ev);
		if (ev.t === 'ev.msg' && !this.mine(ev.d.from)) this.#countNew();
	}

	/** Shows the unsent messages; each keeps its element while it waits. */
	setPending(items) {
		const wanted = new Set(items.map((i) => i.client_id));
		for (const [id, node] of this.pending) {
			if (wanted.has(id)) continue;
			node.remove();
			this.pending.delete(id);
		}
		let added = false;
		for (const item of items) {
			let node = this.pending.get(item.client_id);
			if (!node) {
				node = this.#bubble({ text: item.body.body, mine: true, clientId: item.client_id, time: item.at, from: 'me', note: item.body.note });
				this.pending.set(item.client_id, node);
				this.pendingHost.append(node);
				this.#useChoice(item.body.payload, item.body.body);
				added = true;
			}
			this.#state(node, viewState(item.state), item.code);
		}
		this.pendingHost.classList.toggle('continues', Boolean(this.group?.mine));
		if (added) this.toBottom();
	}

	/** Shows who is typing; '' for nobody. */
	setTyping(name) {
		const hidden = name === '';
		if (!hidden) setText(this.typingNode.lastChild, t('typing.one', { name }));
		if (this.typingNode.hidden !== hidden) this.typingNode.hidden = hidden;
	}

	/** The conversation left the bot: its buttons no longer do anything. */
	endChoices() {
		this.#useChoice(null, null);
	}

	/** How far the other side has received and read: the marks of the own messages follow. */
	setPeer({ delivered, read }) {
		this.peer = { delivered, read };
		for (const node of this.log.querySelectorAll('.message.mine[data-seq]')) this.#mark(node);
	}

	/** Draws everything again in the current language. */
	relabel() {
		setAttr(this.log, 'aria-label', t('messages.label'));
		setAttr(this.scroller, 'aria-label', t('messages.label'));
		this.redraw();
	}

	/** Draws everything again: what draw() answers has changed. */
	redraw() {
		const { events } = this;
		const unsent = [...this.pending.values()];
		this.log.replaceChildren();
		this.events = [];
		this.group = null;
		this.lastDay = '';
		const { stick, unseen } = this;
		for (const ev of events) this.append(ev);
		for (const node of unsent) this.#state(node, node.dataset.state, node.dataset.code, true);
		this.unseen = unseen;
		this.#showPill();
		if (stick) this.toBottom();
	}

	/** Scrolls to the newest message. */
	toBottom(smooth = false) {
		this.stick = true;
		this.unseen = 0;
		this.#showPill();
		const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
		this.scroller.scrollTo({ top: this.scroller.scrollHeight, behavior: smooth && !calm ? 'smooth' : 'instant' });
	}

	/** True when the reader sees the newest message. */
	get atBottom() {
		return this.stick;
	}

	#separator(time) {
		const key = new Date(time).toDateString();
		if (key === this.lastDay) return;
		this.lastDay = key;
		this.group = null;
		this.log.append(el('div', { class: 'day', role: 'separator' }, el('span', { text: day(time) })));
	}

	// What the page drew itself; it ends a group of messages.
	#foreign(node) {
		if (!node) return;
		this.group = null;
		this.log.append(node);
	}

	#system(ev) {
		const text = this.describe(ev);
		this.group = null;
		if (!text) return;
		this.log.append(el('div', { class: 'system', data: { testid: 'system', event: ev.d.event } },
			el('span', { text }), el('time', { class: 'when', datetime: new Date(ev.d.time).toISOString(), text: clock(ev.d.time) })));
	}

	#message(ev) {
		const { d } = ev;
		const mine = this.mine(d.from);
		const waiting = d.client_id && this.pending.get(d.client_id);
		const node = waiting ?? this.#bubble({ text: d.body, mine, clientId: d.client_id, time: d.time, from: mine ? 'me' : d.from.kind, note: d.kind === 'note' });
		if (waiting) this.pending.delete(d.client_id);
		node.dataset.seq = String(ev.s);
		if (mine) this.#state(node, 'accepted');
		if (mine) this.#mark(node);
		this.#groupFor(d, mine).body.append(node);
		if (d.from.kind === 'customer') this.#useChoice(d.payload, d.body);
		if (d.buttons?.length) this.#offer(d.buttons);
	}

	// Messages of one sender within one minute share a group.
	#groupFor(d, mine) {
		const minute = Math.floor(d.time / 60_000);
		const note = d.kind === 'note';
		const sender = `${d.from.kind}/${d.from.id ?? ''}/${note ? 'note' : ''}`;
		const key = `${sender}/${minute}`;
		if (this.group?.key === key) return this.group;
		const sameSender = this.group?.sender === sender;
		const name = this.nameOf(d.from);
		const body = el('div', { class: 'group-body' });
		if (note && !sameSender) body.append(el('div', { class: 'sender note-label', text: t('messages.note', { name: mine ? t('messages.you') : name }) }));
		else if (!mine && !sameSender) body.append(el('div', { class: 'sender', text: name }));
		else body.append(el('span', { class: 'sr-only', text: mine ? t('messages.you') : name }));
		const avatar = !mine && el('span', { class: `avatar small ${d.from.kind}`, aria: { hidden: true } },
			d.from.kind === 'bot' ? icon('bot') : initials(name));
		const node = el('div', { class: `group ${mine ? 'mine' : 'theirs'}${sameSender ? ' same' : ''}` }, avatar, body);
		this.log.append(node);
		this.group = { key, sender, mine, body };
		return this.group;
	}

	#bubble({ text, mine, clientId, time, from, note }) {
		return el('div', { class: `message ${mine ? 'mine' : 'theirs'}${note ? ' note' : ''}`, data: { testid: note ? 'note' : 'message', from, ...(clientId && { clientId }) } },
			el('div', { class: 'line' },
				el('div', { class: 'bubble', dir: 'auto', data: { testid: 'message-text' } }, renderText(text)),
				mine && el('span', { class: 'state', data: { testid: 'message-state' } }),
				el('time', { class: 'when', datetime: new Date(time).toISOString(), title: fullTime(time), text: clock(time) })));
	}

	#state(node, state, code = '', force = false) {
		if (!force && node.dataset.state === state && (node.dataset.code ?? '') === (code ?? '')) return;
		node.dataset.state = state;
		node.dataset.code = code ?? '';
		const mark = node.querySelector('.state');
		mark.dataset.state = state;
		mark.replaceChildren(icon(stateIcons[state]), el('span', { class: 'sr-only', text: t(`state.${state}`) }));
		setAttr(mark, 'title', t(`state.${state}`));
		node.querySelector('.failure')?.remove();
		if (state === 'failed') node.append(this.#failure(node, code));
	}

	// One tick, two, or two filled: sent, delivered, read. Nobody but staff reads a note.
	#mark(node) {
		if (node.dataset.state !== 'accepted' || node.classList.contains('note')) return;
		const seq = Number(node.dataset.seq);
		const { delivered, read } = this.peer;
		const state = seq <= read ? 'read' : seq <= delivered ? 'delivered' : 'accepted';
		const mark = node.querySelector('.state');
		if (mark.dataset.state === state) return;
		mark.dataset.state = state;
		mark.replaceChildren(icon(stateIcons[state]), el('span', { class: 'sr-only', text: t(`state.${state}`) }));
		setAttr(mark, 'title', t(`state.${state}`));
	}

	#failure(node, code) {
		const id = node.dataset.clientId;
		const known = ['not_sent', 'too_large', 'closed', 'forbidden', 'conflict', 'blocked'];
		const button = (key, testid, f) => el('button', { type: 'button', class: 'link-button', text: t(key), data: { testid }, on: { click: f } });
		return el('div', { class: 'failure', role: 'alert' },
			el('span', { text: t(`failed.${known.includes(code) ? code : 'other'}`) }),
			code !== 'closed' && code !== 'too_large' && button('retry', 'message-retry', () => this.onRetry(id)),
			button('discard', 'message-discard', () => this.onDiscard(id)));
	}

	// The bot's buttons stand under its last message and work once.
	#offer(buttons) {
		this.#useChoice(null, null);
		const node = el('div', { class: 'choices', data: { testid: 'choices' } });
		for (const b of buttons) {
			node.append(el('button', {
				type: 'button', class: 'choice', text: b.label, disabled: !this.onButton, data: { testid: 'choice', value: b.value },
				on: { click: () => this.onButton(b) },
			}));
		}
		this.group.body.append(node);
		this.choices = node;
	}

	#useChoice(value, label) {
		if (!this.choices) return;
		for (const b of this.choices.children) {
			b.disabled = true;
			const chosen = value !== null && value !== undefined ? b.dataset.value === value : b.textContent === label;
			if (chosen) b.setAttribute('aria-pressed', 'true');
		}
		this.choices = null;
	}

	// A reader at the bottom stays there: the size observer scrolls once per
	// frame, however many messages came.
	#countNew() {
		if (this.stick) return;
		this.unseen++;
		this.#showPill();
	}

	// True when the view or its content has another size than at the last call.
	#resized() {
		const { scrollHeight, clientHeight, clientWidth } = this.scroller;
		const size = `${scrollHeight} ${clientHeight} ${clientWidth}`;
		const changed = size !== this.size;
		this.size = size;
		return changed;
	}

	#scrolled() {
		const { scrollTop, scrollHeight, clientHeight } = this.scroller;
		if (clientHeight === 0) return; // not on screen
		if (this.#resized() && this.stick) {
			this.toBottom(); // the layout moved the view, not the reader
			return;
		}
		this.stick = scrollHeight - scrollTop - clientHeight < nearBottom;
		if (this.stick) this.unseen = 0;
		this.#showPill();
	}

	#showPill() {
		this.pill.hidden = this.stick;
		if (this.stick) return;
		this.pill.classList.toggle('quiet', this.unseen === 0);
		const text = this.unseen > 0 ? plural('messages.new', this.unseen) : '';
		if (this.pill.dataset.text === text && this.pill.firstChild) return;
		this.pill.dataset.text = text;
		setAttr(this.pill, 'aria-label', text || t('messages.bottom'));
		this.pill.replaceChildren(icon('down'), el('span', { text }));
	}

	// Times show on hover; a tap on a bubble does the same on touch screens.
	#tapped(e) {
		const message = e.target.closest?.('.message');
		if (!message || e.target.closest('a, button')) return;
		const shown = this.scroller.querySelector('.message.show-time');
		shown?.classList.remove('show-time');
		if (shown !== message) message.classList.add('show-time');
	}
}

function viewState(state) {
	if (state === 'failed') return 'failed';
	return state === 'acked' ? 'accepted' : 'pending';
}
