// The list of messages of one conversation, in a view that stays where the
// reader is. Events come in order (the event log sees to that), at the end or
// as earlier ones before the first. However many there are, only a window of
// chunks around the reader is in the document.

import { el, icon, setAttr, setText } from './dom.js';
import { plural, t } from './i18n.js';
import { Announcer } from './announcer.js';
import { chunkOf, dayOf, fateOfButtons, rangeOf, senderOf } from './chunks.js';
import { bubble, choicesOf, dayLine, endChoices, fold, groupOf, markAsRead, setState, systemLine } from './message-draw.js';

export { initials, renderText } from './message-draw.js';

const nearBottom = 48;
const reach = 800; // px beyond the view that are drawn ahead
const maxChunks = 6; // in the document, beyond what the view needs

export class MessageList {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.host an empty element that becomes the scrolling view
	 * @param {(from: object) => boolean} o.mine whether this sender is the reader
	 * @param {(ev: object) => string} o.describe the line of an ev.state or of a notice, '' for none
	 * @param {(from: object) => string} o.nameOf
	 * @param {(ev: object) => HTMLElement|null|undefined} [o.draw] draws an event in place of the list: an element, null for nothing, undefined to leave it to the list
	 * @param {(button: {label: string, value: string}) => void} [o.onButton] bot buttons work when given
	 * @param {(button: {label: string, value: string}) => boolean} [o.offers] which of the bot's buttons are drawn, all by default
	 * @param {(clientId: string) => void} o.onRetry
	 * @param {(clientId: string) => void} o.onDiscard
	 * @param {() => void} [o.onTop] the reader is near the earliest event: prepend() what came before it, if anything
	 * @param {() => void} [o.onView] the reader has moved, or news are on screen
	 * @param {(message: object, mine: boolean) => Node|null} [o.attachments] draws the files of a message (ev.d or an unsent item's body)
	 */
	constructor({ host, mine, describe, nameOf, draw = () => undefined, onButton, offers = () => true, onRetry, onDiscard, onTop = () => {}, onView = () => {}, attachments = () => null }) {
		Object.assign(this, { host, mine, describe, nameOf, draw, onButton, offers, onRetry, onDiscard, onTop, onView, attachments });
		this.peer = { delivered: 0, read: 0 };
		// What is new is said by the announcer: older messages that are drawn while scrolling are not news.
		this.log = el('div', { class: 'log', role: 'log', aria: { live: 'off' }, data: { testid: 'log' } });
		this.announcer = new Announcer((n) => plural('messages.new', n));
		this.pendingHost = el('div', { class: 'pending' });
		this.typingNode = el('div', { class: 'typing', data: { testid: 'typing' } },
			el('span', { class: 'dots', aria: { hidden: true } }, el('i'), el('i'), el('i')), el('span', { class: 'typing-text' }));
		this.typingNode.hidden = true;
		this.partialNode = el('div', { class: 'partial', aria: { live: 'off' }, data: { testid: 'partial' } });
		this.partialNode.hidden = true;
		this.content = el('div', { class: 'scroll-content' }, this.log, this.pendingHost, this.partialNode, this.typingNode);
		this.scroller = el('div', { class: 'scroller', tabindex: '0', role: 'region' }, this.content);
		this.pill = el('button', { class: 'pill', type: 'button', data: { testid: 'new-pill' }, on: { click: () => this.toBottom(true) } });
		this.pill.hidden = true;
		host.classList.add('message-list');
		host.append(this.scroller, this.pill, this.announcer.node);
		this.stick = true;
		this.unseen = 0;
		this.pending = new Map();
		this.clear();
		this.scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true });
		this.scroller.addEventListener('click', (e) => this.#tapped(e));
		const watcher = new ResizeObserver(() => {
			this.#resized();
			if (this.stick) this.toBottom();
			this.#fill();
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
		this.chunks = []; // in the document: {key, node}
		this.cursor = null; // where the last chunk goes on
		this.choices = null; // buttons that can be used
		this.#setTail(true);
		this.announcer.clear();
	}

	/** Appends a durable event. */
	append(ev) {
		this.events.push(ev);
		const key = chunkOf(ev);
		if (this.tail && this.chunks.at(-1)?.key !== key) {
			if (!this.stick && this.chunks.length >= 2 * maxChunks) this.#setTail(false); // the reader is far above
			else this.#add(key);
		} else if (this.tail) {
			this.#draw(this.cursor, this.events.length - 1);
		}
		if (this.stick && this.chunks.length > maxChunks) this.#drop(0);
		if (ev.t === 'ev.msg' && ev.d.from.kind === 'customer') this.#useChoice(ev.d.payload, ev.d.body);
		if (ev.t === 'ev.state' && ev.d.state !== 'bot') this.#useChoice(null, null);
		this.#news(ev);
	}

	/** Puts earlier events before those held; the view does not move. */
	prepend(events) {
		if (events.length === 0) return;
		this.events = [...events, ...this.events];
		if (this.chunks.length > 0) this.chunks[0].stale = true; // its first event now has one before it
		this.#fill();
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
				const { body } = item;
				node = bubble({ text: body.body, mine: true, clientId: item.client_id, time: item.at, from: 'me', note: body.note, files: this.attachments(body, true) });
				this.pending.set(item.client_id, node);
				this.pendingHost.append(node);
				this.#useChoice(body.payload, body.body);
				added = true;
			}
			setState(node, viewState(item.state), item.code, this);
		}
		this.pendingHost.classList.toggle('continues', Boolean(this.cursor?.group?.mine));
		if (added) this.toBottom();
	}

	/** Shows who is typing; '' for nobody. */
	setTyping(name) {
		const hidden = name === '';
		if (!hidden) setText(this.typingNode.lastChild, t('typing.one', { name }));
		if (this.typingNode.hidden !== hidden) this.typingNode.hidden = hidden;
	}

	/** Shows what a bot is writing, until its message comes; null for nothing. */
	setPartial(partial) {
		const hidden = !partial?.text;
		if (!hidden) {
			const node = bubble({ text: partial.text, mine: false, time: Date.now(), from: 'bot', generated: true });
			node.dataset.testid = 'partial-message';
			const group = groupOf({ from: partial.from }, { mine: false, same: false, name: this.nameOf(partial.from) });
			group.body.append(node);
			this.partialNode.replaceChildren(group.node);
		}
		if (this.partialNode.hidden !== hidden) this.partialNode.hidden = hidden;
	}

	/** How far the other side has received and read: the marks of the own messages follow. */
	setPeer({ delivered, read }) {
		this.peer = { delivered, read };
		for (const node of this.log.querySelectorAll('.message.mine[data-seq]')) markAsRead(node, this.peer);
	}

	/** Draws everything again in the current language. */
	relabel() {
		setAttr(this.log, 'aria-label', t('messages.label'));
		setAttr(this.scroller, 'aria-label', t('messages.label'));
		this.redraw();
	}

	/** Draws everything again: what draw() answers has changed. */
	redraw() {
		const anchor = this.#anchor();
		const keys = this.chunks.map((c) => c.key);
		this.chunks = [];
		this.choices = null;
		this.log.replaceChildren();
		for (const key of keys) this.#add(key);
		for (const node of this.pending.values()) setState(node, node.dataset.state, node.dataset.code, { ...this.#buttons(), force: true });
		this.#showPill();
		if (this.stick) this.toBottom();
		else this.#hold(anchor);
	}

	/** Scrolls to the newest message. */
	toBottom(smooth = false) {
		if (!this.tail) this.#toTail();
		this.stick = true;
		this.unseen = 0;
		this.#showPill();
		const calm = matchMedia('(prefers-reduced-motion: reduce)').matches;
		this.scroller.scrollTo({ top: this.scroller.scrollHeight, behavior: smooth && !calm ? 'smooth' : 'instant' });
	}

	/** Brings an event that is held into the middle of the view and marks it; false when it is not held or not drawn. */
	reveal(s) {
		const ev = this.events[s - (this.events[0]?.s ?? 0)];
		if (!ev) return false;
		const key = chunkOf(ev);
		const last = chunkOf(this.events.at(-1));
		if (!this.chunks.some((c) => c.key === key)) {
			this.log.replaceChildren();
			this.chunks = [];
			for (let k = Math.max(chunkOf(this.events[0]), key - 1); k <= Math.min(last, key + 1); k++) this.#add(k);
			this.#setTail(this.chunks.at(-1).key === last);
		}
		const node = this.log.querySelector(`[data-at="${s}"]`);
		if (!node) return false;
		this.stick = false;
		const folded = node.closest('details');
		if (folded) folded.open = true;
		node.scrollIntoView({ block: 'center' });
		node.classList.add('found');
		node.addEventListener('animationend', () => node.classList.remove('found'), { once: true });
		return true;
	}

	/** True when the reader sees the newest message. */
	get atBottom() {
		return this.stick;
	}

	#buttons() {
		return { onRetry: this.onRetry, onDiscard: this.onDiscard };
	}

	// --- drawing ---

	// How an event stands to the one before it: the day, and the sender of a message that goes on.
	#before(index) {
		const ev = this.events[index - 1];
		if (!ev) return { lastDay: '', sender: '', group: null };
		const goesOn = ev.t === 'ev.msg' && ev.d.kind !== 'notice' && this.draw(ev) === undefined;
		return { lastDay: dayOf(ev), sender: goesOn ? senderOf(ev.d) : '', group: null };
	}

	#draw(cursor, index) {
		const ev = this.events[index];
		const key = dayOf(ev);
		if (key !== cursor.lastDay) {
			Object.assign(cursor, { lastDay: key, group: null, sender: '' });
			cursor.host.append(dayLine(ev.d.time));
		}
		const own = this.draw(ev);
		if (own !== undefined) {
			if (own) this.#line(cursor, own, ev);
		} else if (ev.t === 'ev.msg' && ev.d.kind !== 'notice') {
			this.#message(cursor, ev, index);
		} else {
			const text = this.describe(ev);
			this.#line(cursor, text && systemLine(text, ev), ev);
		}
	}

	// Something across the list; it ends a group of messages. Of many such lines in a row only the last is open.
	#line(cursor, node, ev) {
		Object.assign(cursor, { group: null, sender: '' });
		if (!node) return;
		node.dataset.at = String(ev.s);
		cursor.host.append(node);
		fold(cursor.host);
	}

	// Messages of one sender within one minute share a group.
	#message(cursor, ev, index) {
		const { d } = ev;
		const mine = this.mine(d.from);
		const waiting = d.client_id && this.pending.get(d.client_id);
		const node = waiting ?? bubble({ text: d.body, mine, clientId: d.client_id, time: d.time, from: mine ? 'me' : d.from.kind, note: d.kind === 'note', generated: d.payload === 'generated' && d.from.kind === 'bot', files: this.attachments(d, mine) });
		if (waiting) this.pending.delete(d.client_id);
		node.dataset.seq = node.dataset.at = String(ev.s);
		if (mine) {
			setState(node, 'accepted', '', this);
			markAsRead(node, this.peer);
		}
		const sender = senderOf(d);
		const minute = Math.floor(d.time / 60_000);
		if (cursor.group === null || cursor.sender !== sender || cursor.group.minute !== minute) {
			const group = groupOf(d, { mine, same: cursor.sender === sender, name: this.nameOf(d.from) });
			cursor.host.append(group.node);
			Object.assign(cursor, { sender, group: { ...group, mine, minute } });
		}
		cursor.group.body.append(node);
		if (d.buttons?.length) this.#offer(cursor.group.body, d.buttons, fateOfButtons(this.events, index));
	}

	// The bot's buttons stand under its last message and work once.
	#offer(host, buttons, fate) {
		const node = choicesOf(buttons.filter(this.offers), this.onButton);
		if (node.hasChildNodes()) host.append(node);
		if (fate) {
			endChoices(node, fate);
			return;
		}
		this.#useChoice(null, null);
		this.choices = node;
	}

	#useChoice(value, label) {
		if (this.choices) endChoices(this.choices, { value, label });
		this.choices = null;
	}

	// --- the window ---

	// Whether the newest chunk is in the document, and with it what is not sent yet.
	#setTail(here) {
		this.tail = here;
		this.scroller.classList.toggle('detached', !here);
	}

	// Draws a chunk at the end of the window, or before it.
	#add(key, before = null) {
		const node = el('div', { class: 'chunk' });
		const [from, to] = rangeOf(key, this.events);
		const cursor = { host: node, ...this.#before(from) };
		for (let i = from; i < to; i++) this.#draw(cursor, i);
		this.log.insertBefore(node, before);
		if (before) {
			this.chunks.unshift({ key, node });
		} else {
			this.chunks.push({ key, node });
			this.cursor = cursor;
		}
	}

	#drop(at) {
		this.chunks.splice(at, 1)[0].node.remove();
	}

	#toTail() {
		this.log.replaceChildren();
		this.chunks = [];
		const last = chunkOf(this.events.at(-1));
		for (let key = Math.max(chunkOf(this.events[0]), last - 1); key <= last; key++) this.#add(key);
		this.#setTail(true);
	}

	// Draws what the reader is about to reach and removes what is far away.
	#fill() {
		const { scrollTop, scrollHeight, clientHeight } = this.scroller;
		if (clientHeight === 0 || this.chunks.length === 0) return;
		if (scrollTop < reach) {
			if (this.chunks[0].key > chunkOf(this.events[0]) || this.chunks[0].stale) this.#up();
			else this.onTop();
		} else if (!this.tail && scrollHeight - scrollTop - clientHeight < reach) {
			this.#down();
		}
	}

	#up() {
		const anchor = this.#anchor();
		const [first] = this.chunks;
		if (first.stale) { // with what comes before it, its day may need no line of its own
			this.chunks.shift();
			const next = this.chunks[0]?.node ?? null;
			first.node.remove();
			this.#add(first.key, next);
		}
		if (this.chunks[0].key > chunkOf(this.events[0])) this.#add(this.chunks[0].key - 1, this.chunks[0].node);
		if (this.chunks.length > maxChunks && this.#below(this.chunks.at(-1).node)) {
			this.#drop(-1);
			this.#setTail(false);
		}
		this.#hold(anchor);
	}

	#down() {
		const anchor = this.#anchor();
		this.#add(this.chunks.at(-1).key + 1);
		if (this.chunks.length > maxChunks) this.#drop(0);
		if (this.chunks.at(-1).key === chunkOf(this.events.at(-1))) this.#setTail(true);
		this.#hold(anchor);
	}

	#below(node) {
		return node.getBoundingClientRect().top - this.scroller.getBoundingClientRect().bottom > reach;
	}

	// The entry at the top of the view and its place, so that the view can be held there.
	#anchor() {
		const { top } = this.scroller.getBoundingClientRect();
		for (const node of this.log.querySelectorAll('[data-at]')) {
			const r = node.getBoundingClientRect();
			if (r.bottom > top) return { at: node.dataset.at, place: r.top };
		}
		return null;
	}

	#hold(anchor) {
		const node = anchor && this.log.querySelector(`[data-at="${anchor.at}"]`);
		if (node) this.scroller.scrollTop += node.getBoundingClientRect().top - anchor.place;
		this.#resized();
	}

	// --- the reader ---

	// A reader at the bottom stays there: the size observer scrolls once per
	// frame, however many messages came.
	#news(ev) {
		if (ev.t !== 'ev.msg' || this.mine(ev.d.from)) return;
		this.announcer.say(ev.d.kind === 'notice' ? this.describe(ev) : `${this.nameOf(ev.d.from)}: ${ev.d.body ?? ''}`);
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
		this.stick = this.tail && scrollHeight - scrollTop - clientHeight < nearBottom;
		if (this.stick) this.unseen = 0;
		this.#showPill();
		this.#fill();
		this.onView();
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
