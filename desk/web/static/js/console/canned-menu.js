// The list of canned replies above the message box: it opens with "/", the
// arrow keys choose, Enter or Tab inserts, Escape closes. The focus stays in
// the field.

import { el, setAttr, setChildren, setText } from '../core/dom.js';
import { fillIn, firstLine, insertReply, slashQuery } from './canned.js';
import { Panel } from './panel.js';
import { drawPanelState } from './panel-view.js';
import { locale, t } from '../core/i18n.js';

let made = 0;

export class CannedMenu {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.host an empty element above the field
	 * @param {HTMLTextAreaElement} o.field
	 * @param {(q: string, locale: string) => Promise<{items: object[]}>} o.fetch
	 * @param {() => Object<string, string>} o.values of the variables
	 */
	constructor({ host, field, fetch, values }) {
		Object.assign(this, { host, field, fetch, values });
		this.id = `canned-${++made}`;
		this.items = [];
		this.at = 0;
		this.chosen = ''; // id of the reply that the arrows or the pointer have gone to since the last letter
		this.taking = false; // Enter was pressed before the answer came
		this.nodes = new Map(); // by id
		this.panel = new Panel({ onChange: () => this.#draw() });
		this.list = el('div', { class: 'canned-list', role: 'listbox', id: this.id, data: { testid: 'canned-list' } });
		this.preview = el('div', { class: 'canned-preview', dir: 'auto', data: { testid: 'canned-preview' } });
		this.state = el('div', { class: 'canned-state' });
		host.classList.add('canned');
		host.dataset.testid = 'canned';
		host.append(this.state, el('div', { class: 'canned-body' }, this.list, this.preview));
		host.hidden = true;
		field.addEventListener('input', () => this.#look());
		field.addEventListener('blur', () => this.close());
		host.addEventListener('pointerdown', (e) => e.preventDefault()); // the focus stays in the field
	}

	get isOpen() {
		return !this.host.hidden;
	}

	/** Begins a search as if "/" had been typed. */
	start() {
		const { field } = this;
		field.focus();
		const before = field.value.slice(0, field.selectionStart);
		const gap = before === '' || /\s$/.test(before) ? '' : ' ';
		field.setRangeText(`${gap}/`, field.selectionStart, field.selectionEnd, 'end');
		field.dispatchEvent(new Event('input', { bubbles: true }));
	}

	close() {
		if (!this.isOpen) return;
		this.host.hidden = true;
		Object.assign(this, { word: null, items: [], chosen: '', taking: false });
		this.panel.reset();
		for (const name of ['aria-activedescendant', 'aria-controls']) setAttr(this.field, name, null);
	}

	/** Takes a key of the field while the list is open; true when it was used. */
	key(e) {
		if (!this.isOpen || e.isComposing) return false;
		switch (e.key) {
		case 'ArrowDown': this.#move(1); return true;
		case 'ArrowUp': this.#move(-1); return true;
		case 'Escape': this.dismissed = this.word?.start; this.close(); return true;
		case 'Enter':
		case 'Tab':
			if (e.shiftKey || e.ctrlKey) return false;
			if (this.panel.state === 'loading' && !this.chosen) this.taking = true; // what comes for these letters, not what stands there for others
			else if (this.items[this.at]) this.#insert(this.items[this.at]);
			else return false;
			return true;
		}
		return false;
	}

	// What stands before the caret decides.
	#look() {
		const word = slashQuery(this.field.value, this.field.selectionStart);
		if (!word || word.start === this.dismissed) {
			if (!word) this.dismissed = undefined;
			this.close();
			return;
		}
		const same = this.isOpen && this.word?.query === word.query;
		this.word = word;
		if (same) return;
		Object.assign(this, { chosen: '', taking: false });
		this.host.hidden = false;
		setAttr(this.field, 'aria-controls', this.id);
		this.panel.load(() => this.fetch(word.query, locale()));
	}

	#move(step) {
		if (this.items.length === 0) return;
		this.#choose((this.at + step + this.items.length) % this.items.length);
	}

	// What somebody has gone to stays chosen when the list comes anew.
	#choose(at) {
		this.at = at;
		this.chosen = this.items[at].id;
		this.#mark();
	}

	#insert(item) {
		const { start } = this.word;
		const { text, caret } = insertReply(this.field.value, { start, caret: this.field.selectionStart, body: fillIn(item.body, this.values()) });
		this.close();
		this.field.value = text;
		this.field.setSelectionRange(caret, caret);
		this.field.dispatchEvent(new Event('input', { bubbles: true }));
		this.field.focus();
	}

	#draw() {
		if (!this.isOpen) return;
		const { state, value } = this.panel;
		drawPanelState(this.state, this.panel, { empty: value?.items?.length === 0 ? t('canned.none') : '', rows: 3 });
		if (state === 'loading' && this.items.length > 0) return; // the old list stays until the new one is here
		this.items = state === 'ready' ? value.items : [];
		this.at = Math.max(0, this.items.findIndex(({ id }) => id === this.chosen));
		setAttr(this.list, 'aria-label', t('canned.label'));
		const kept = this.nodes;
		this.nodes = new Map(this.items.map((item) => [item.id, kept.get(item.id) ?? this.#row(item.id)]));
		setChildren(this.list, [...this.nodes.values()]);
		this.items.forEach((item, i) => {
			const node = this.list.children[i];
			setAttr(node, 'id', `${this.id}-${i}`);
			setText(node.firstChild, `/${item.short}`);
			setText(node.lastChild, item.title || firstLine(item.body));
		});
		this.#mark();
		if (!this.taking || state === 'loading') return;
		this.taking = false;
		if (this.items.length > 0) this.#insert(this.items[this.at]);
	}

	// One row per reply for as long as it is listed, so that a press outlasts a list that comes anew.
	#row(id) {
		const at = () => this.items.findIndex((item) => item.id === id);
		return el('div', {
			class: 'canned-item', role: 'option', data: { testid: 'canned-item' },
			on: { click: () => this.#insert(this.items[at()]), pointermove: () => { if (this.at !== at()) this.#choose(at()); } },
		}, el('span', { class: 'canned-short' }), el('span', { class: 'canned-title' }));
	}

	#mark() {
		[...this.list.children].forEach((node, i) => setAttr(node, 'aria-selected', String(i === this.at)));
		const node = this.list.children[this.at];
		setAttr(this.field, 'aria-activedescendant', node?.id);
		node?.scrollIntoView({ block: 'nearest' });
		const item = this.items[this.at];
		this.preview.hidden = !item;
		setText(this.preview, item ? fillIn(item.body, this.values()) : '');
	}
}
