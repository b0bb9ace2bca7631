// The search over all that the agent may read: a field in the top bar, and below it what was
// found. It has a request of its own: however long it takes, the chats go on.

import { byId, el, onFocusLeft, setAttr, setChildren, setText } from '../core/dom.js';
import { Panel } from './panel.js';
import { drawPanelState } from './panel-view.js';
import { moment, t } from '../core/i18n.js';

const pause = 250; // ms after the last key until the question goes out
const shortest = 2; // characters

export class SearchPanel {
	/**
	 * @param {object} o
	 * @param {(q: string, cursor: string) => Promise<{hits: object[], cursor: string}>} o.fetch
	 * @param {() => boolean} o.everything whether chats of others are searched, too
	 * @param {(hit: object) => void} o.onOpen
	 */
	constructor({ fetch, everything, onOpen }) {
		Object.assign(this, { fetch, everything, onOpen });
		this.field = byId('search');
		this.box = byId('search-box');
		this.state = el('div');
		this.list = el('ul', { class: 'hits plain', data: { testid: 'hits' } });
		this.more = el('button', { type: 'button', class: 'button small', data: { testid: 'search-more' }, on: { click: () => this.#more() } });
		this.box.append(this.list, this.state, this.more); // what is being fetched comes below what is there, which stays in its place
		this.hits = [];
		this.cursor = '';
		this.panel = new Panel({ onChange: () => this.#draw() });
		this.field.addEventListener('input', () => this.#typed());
		this.field.addEventListener('keydown', (e) => this.#key(e));
		this.box.addEventListener('keydown', (e) => this.#key(e));
		this.field.addEventListener('focus', () => this.#show(this.panel.state !== 'idle'));
		onFocusLeft([this.field, this.box], () => this.#show(false));
		document.addEventListener('pointerdown', (e) => {
			if (!this.box.contains(e.target) && e.target !== this.field) this.#show(false);
		});
		this.relabel();
	}

	focus() {
		this.field.focus();
		this.field.select();
	}

	close() {
		this.#show(false);
	}

	/** Says what is searched; the rights may have changed. */
	name() {
		const label = t(this.everything() ? 'search.all' : 'search.own');
		setAttr(this.field, 'placeholder', label);
		setAttr(this.field, 'aria-label', label);
	}

	relabel() {
		this.name();
		setText(this.more, t('search.more'));
		setAttr(this.list, 'aria-label', t('search.results'));
		this.nodes = new WeakMap(); // hit -> its row
		this.#draw();
	}

	#show(open) {
		this.box.hidden = !open;
		setAttr(this.field, 'aria-expanded', String(open));
	}

	#typed() {
		clearTimeout(this.timer);
		const q = this.field.value.trim();
		if ([...q].length < shortest) {
			this.panel.reset();
			this.#show(false);
			return;
		}
		this.timer = setTimeout(() => this.#ask(q), pause);
	}

	#ask(q) {
		this.q = q;
		this.hits = [];
		this.cursor = '';
		this.#show(true);
		this.panel.load(() => this.#page(q, ''));
	}

	async #page(q, cursor) {
		const { hits, cursor: next } = await this.fetch(q, cursor);
		return { q, after: cursor, hits, cursor: next };
	}

	#more() {
		const { q, cursor } = this;
		this.panel.load(() => this.#page(q, cursor));
	}

	#draw() {
		const { state, value } = this.panel;
		if (state === 'ready' && value !== this.taken && value.q === this.q) {
			this.taken = value;
			this.hits = value.after ? [...this.hits, ...value.hits] : value.hits;
			this.cursor = value.cursor;
		}
		if (state === 'idle') this.hits = [];
		const none = state === 'ready' && this.hits.length === 0 && !this.cursor;
		drawPanelState(this.state, this.panel, { empty: none ? t(this.everything() ? 'search.none' : 'search.none.own') : '' });
		const focused = [...this.list.querySelectorAll('button')].indexOf(document.activeElement);
		for (const h of this.hits) if (!this.nodes.has(h)) this.nodes.set(h, this.#hit(h));
		setChildren(this.list, this.hits.map((h) => this.nodes.get(h)));
		if (focused >= 0) this.list.querySelectorAll('button')[focused]?.focus();
		this.more.hidden = !this.cursor;
		this.more.disabled = state === 'loading';
	}

	#hit(h) {
		const from = h.from?.kind === 'customer' ? h.contact?.name : h.from?.name;
		return el('li', {}, el('button', {
			type: 'button', class: 'hit', data: { testid: 'hit', c: h.c, s: h.s },
			on: {
				click: () => {
					this.#show(false);
					this.onOpen(h);
				},
			},
		},
		el('span', { class: 'hit-name', text: h.contact?.name || t('who.customer') }),
		el('span', { class: 'hit-time', text: moment(h.time) }),
		el('span', { class: 'hit-text', dir: 'auto' }, from && el('b', { text: `${from}: ` }), h.snippet),
		el('span', { class: 'hit-state', text: t(`console.state.${['bot', 'queued', 'deferred', 'closed'].includes(h.state) ? h.state : 'open'}`) })));
	}

	// Arrow keys go through the results, Enter in the field asks at once.
	#key(e) {
		if (e.isComposing) return;
		const buttons = [...this.list.querySelectorAll('button')];
		const at = buttons.indexOf(document.activeElement);
		switch (e.key) {
		case 'ArrowDown':
			(buttons[at + 1] ?? buttons.at(-1))?.focus();
			break;
		case 'ArrowUp':
			(at > 0 ? buttons[at - 1] : this.field).focus();
			break;
		case 'Escape':
			if (this.box.hidden) return;
			this.#show(false);
			this.field.focus();
			break;
		case 'Enter':
			if (e.target !== this.field) return;
			clearTimeout(this.timer);
			if ([...this.field.value.trim()].length >= shortest) this.#ask(this.field.value.trim());
			break;
		default:
			return;
		}
		e.preventDefault();
		e.stopPropagation();
	}
}
