// The list pane. Rows keep their place while the pointer is over the list:
// what leaves stays greyed, what is new waits or comes at the end, and the
// true order is shown when the pointer leaves.

import { el, setAttr, setText } from './dom.js';
import { initials } from './message-list.js';

/**
 * @typedef {{id: string, name: string, preview: string, draft: boolean, wait: string, waitLabel: string, level: string, unread: number, unreadLabel: string, online: boolean, current: boolean, gone: string}} RowModel
 */
export class RowList {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.area what the pointer must leave before rows move
	 * @param {HTMLElement} o.mine
	 * @param {HTMLElement} o.queue
	 * @param {(id: string) => void} o.onOpen
	 * @param {(id: string) => string} o.goneText why a row is no longer in its section
	 */
	constructor({ area, mine, queue, onOpen, goneText }) {
		Object.assign(this, { onOpen, goneText });
		this.sections = {
			mine: { host: mine, order: [], nodes: new Map(), growsAtEnd: false },
			queue: { host: queue, order: [], nodes: new Map(), growsAtEnd: true },
		};
		this.frozen = false;
		this.models = { mine: [], queue: [] };
		area.addEventListener('pointerenter', (e) => {
			if (e.pointerType !== 'touch') this.frozen = true;
		});
		area.addEventListener('pointerleave', () => {
			this.frozen = false;
			this.update(this.models);
		});
	}

	/** @param {{mine: RowModel[], queue: RowModel[]}} models */
	update(models) {
		this.models = models;
		for (const name of ['mine', 'queue']) this.#section(this.sections[name], models[name], name);
	}

	/** All row elements from top to bottom. */
	elements() {
		return [...this.sections.mine.host.children, ...this.sections.queue.host.children];
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

	#section(section, models, name) {
		const byId = new Map(models.map((m) => [m.id, m]));
		section.order = this.frozen ? frozenOrder(section, models) : models.map((m) => m.id);
		const nodes = section.order.map((id) => {
			const node = section.nodes.get(id) ?? this.#row(id, name);
			section.nodes.set(id, node);
			this.#draw(node, byId.get(id));
			return node;
		});
		for (const id of section.nodes.keys()) {
			if (!section.order.includes(id)) section.nodes.delete(id);
		}
		place(section.host, nodes);
	}

	#row(id, section) {
		return el('button', { type: 'button', class: 'row', data: { testid: section === 'mine' ? 'mine-row' : 'queue-row', id }, on: { click: () => this.onOpen(id) } },
			el('span', { class: 'row-avatar', aria: { hidden: true } }, el('span', { class: 'avatar' }), el('span', { class: 'dot' })),
			el('span', { class: 'row-name' }),
			el('span', { class: 'row-wait', data: { testid: 'row-wait' } }),
			el('span', { class: 'row-preview', data: { testid: 'row-preview' } }),
			el('span', { class: 'row-unread', data: { testid: 'row-unread' } }));
	}

	#draw(node, m) {
		const [avatar, name, wait, preview, unread] = node.children;
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
		unread.hidden = m.unread === 0;
		setText(unread, String(m.unread));
		setAttr(unread, 'aria-label', m.unreadLabel);
		setAttr(node, 'aria-current', m.current ? 'true' : null);
	}
}

// The queue is the last section, so new rows can come at its end; a new row in
// the upper section would push the queue down and waits.
function frozenOrder(section, models) {
	if (!section.growsAtEnd) return section.order;
	const kept = new Set(section.order);
	return [...section.order, ...models.map((m) => m.id).filter((id) => !kept.has(id))];
}

// Puts nodes in order and moves only those that are out of place; a moved row keeps the focus.
function place(host, nodes) {
	const focused = document.activeElement;
	nodes.forEach((node, i) => {
		if (host.children[i] !== node) host.insertBefore(node, host.children[i] ?? null);
	});
	while (host.children.length > nodes.length) host.lastElementChild.remove();
	if (focused !== document.activeElement && host.contains(focused)) focused.focus();
}
