// The rows of the list pane. The row under the pointer, or under a finger, keeps
// its place while that moves and for a moment after: see row-order.js.

import { el, setAttr, setChildren, setText } from '../core/dom.js';
import { initials } from '../core/message-list.js';
import { RowOrder } from './row-order.js';

/**
 * @typedef {{id: string, name: string, preview: string, draft: boolean, wait: string, waitLabel: string, level: string, unread: number, unreadLabel: string, online: boolean, current: boolean, chosen?: boolean, marks: {text: string, label: string}[]}} RowModel
 */
export class RowList {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.area holds the hosts
	 * @param {Object<string, HTMLElement>} o.hosts by section, from top to bottom
	 * @param {string} o.eager the section into which new rows always come
	 * @param {(id: string) => void} o.onOpen
	 * @param {(id: string) => string} o.goneText why a row is no longer in its section
	 */
	constructor({ area, hosts, eager, onOpen, goneText }) {
		Object.assign(this, { onOpen, goneText });
		const names = Object.keys(hosts);
		this.sections = Object.fromEntries(names.map((name) => [name, { host: hosts[name], nodes: new Map() }]));
		this.order = new RowOrder({ sections: names, eager, onFree: () => this.update(this.models) });
		const pointed = (e) => {
			const row = e.target.closest('.row');
			const section = row && names.find((name) => hosts[name].contains(row));
			if (section) this.order.hold(section, row.dataset.id, e.buttons !== 0);
			else this.order.free();
		};
		for (const name of ['pointermove', 'pointerdown', 'pointerup', 'pointercancel']) area.addEventListener(name, pointed);
		area.addEventListener('pointerleave', (e) => {
			if (e.pointerType !== 'touch') this.order.free(); // a finger has left when its click comes
		});
	}

	/** @param {Object<string, RowModel[]>} models by section */
	update(models) {
		this.models = models;
		const order = this.order.update(Object.fromEntries(Object.entries(models).map(([name, rows]) => [name, rows.map((m) => m.id)])));
		for (const [name, ids] of Object.entries(order)) this.#section(this.sections[name], ids, models[name], name);
	}

	/** All row elements from top to bottom. */
	elements() {
		return Object.values(this.sections).flatMap((s) => (s.host.closest('[hidden]') ? [] : [...s.host.children]));
	}

	/** Moves the focus by one row, beginning at the current one. */
	move(step) {
		const rows = this.elements();
		if (rows.length === 0) return;
		let at = rows.indexOf(document.activeElement);
		if (at < 0) at = rows.findIndex((r) => r.getAttribute('aria-current') === 'true');
		const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step));
		rows[next].focus();
	}

	/** Focuses a row; false when it is not in the list. */
	focus(id) {
		const node = this.elements().find((r) => r.dataset.id === id);
		node?.focus();
		return Boolean(node);
	}

	#section(section, ids, models, name) {
		const byId = new Map(models.map((m) => [m.id, m]));
		const nodes = ids.map((id) => {
			const node = section.nodes.get(id) ?? this.#row(id, name);
			section.nodes.set(id, node);
			this.#draw(node, byId.get(id));
			return node;
		});
		for (const id of section.nodes.keys()) {
			if (!ids.includes(id)) section.nodes.delete(id);
		}
		place(section.host, nodes);
	}

	#row(id, section) {
		return el('button', { type: 'button', class: 'row', data: { testid: `${section}-row`, id }, on: { click: () => this.onOpen(id) } },
			el('span', { class: 'row-avatar', aria: { hidden: true } }, el('span', { class: 'avatar' }), el('span', { class: 'dot' })),
			el('span', { class: 'row-name' }),
			el('span', { class: 'row-wait', data: { testid: 'row-wait' } }),
			el('span', { class: 'row-preview', data: { testid: 'row-preview' } }),
			el('span', { class: 'row-marks', data: { testid: 'row-marks' } }),
			el('span', { class: 'row-unread', data: { testid: 'row-unread' } }));
	}

	#draw(node, m) {
		const [avatar, name, wait, preview, marks, unread] = node.children;
		node.classList.toggle('gone', !m);
		if (!m) {
			setText(preview, this.goneText(node.dataset.id));
			setText(wait, '');
			unread.hidden = true;
			return;
		}
		setText(avatar.firstChild, initials(m.name));
		setAttr(avatar.lastChild, 'data-on', String(m.online));
		setText(name, m.name);
		setText(wait, m.wait);
		setAttr(wait, 'aria-label', m.waitLabel || null);
		setAttr(wait, 'data-level', m.level);
		setText(preview, m.preview);
		preview.classList.toggle('draft', m.draft);
		drawMarks(marks, m.marks);
		unread.hidden = m.unread === 0;
		setText(unread, String(m.unread));
		setAttr(unread, 'aria-label', m.unreadLabel);
		setAttr(node, 'aria-current', m.current ? 'true' : null);
		setAttr(node, 'aria-pressed', m.chosen === undefined ? null : String(m.chosen));
	}
}

// Where the chat comes from and which language it is in.
function drawMarks(host, marks) {
	setChildren(host, marks.map((m, i) => {
		const node = host.children[i] ?? el('span', { class: 'mark' });
		setText(node, m.text);
		setAttr(node, 'title', m.label);
		setAttr(node, 'aria-label', m.label);
		return node;
	}));
}

// Puts nodes in order; a row that is moved keeps the focus.
function place(host, nodes) {
	const focused = document.activeElement;
	setChildren(host, nodes);
	if (focused !== document.activeElement && host.contains(focused)) focused.focus();
}
