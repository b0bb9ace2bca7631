// The list and the card can be folded away, so that the chat has all the room.
// The choice is kept for this account in this browser.

import { byId, icon, setAttr } from '../core/dom.js';
import { t } from '../core/i18n.js';

const sides = ['list', 'card'];

export class Folds {
	/**
	 * @param {HTMLElement} app
	 * @param {import('../core/storage.js').SafeStorage} storage
	 * @param {string} agentId
	 */
	constructor(app, storage, agentId) {
		Object.assign(this, { app, storage, key: `desk.folds.${agentId}` });
		const kept = String(storage.get(this.key, ''));
		this.folded = new Set(sides.filter((side) => kept.includes(side)));
		this.buttons = Object.fromEntries(sides.map((side) => [side, byId(`fold-${side}`)]));
		for (const side of sides) {
			this.buttons[side].append(icon(side));
			this.buttons[side].addEventListener('click', () => this.toggle(side));
		}
		this.draw();
	}

	toggle(side) {
		if (!this.folded.delete(side)) this.folded.add(side);
		this.storage.set(this.key, [...this.folded].join(' '));
		this.draw();
	}

	draw() {
		setAttr(this.app, 'data-folded', [...this.folded].join(' ') || null);
		for (const side of sides) {
			setAttr(this.buttons[side], 'aria-pressed', String(!this.folded.has(side)));
			for (const name of ['aria-label', 'title']) setAttr(this.buttons[side], name, t(`folds.${side}`));
		}
	}
}
