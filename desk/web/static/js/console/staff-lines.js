// The lines of a chat that only staff see: the bot's talk folded under one
// line, and answers of the bot that came too late.

import { el, icon } from '../core/dom.js';
import { routingNote } from './routing.js';
import { botStretches, stretchOf } from './transcript.js';
import { clock, plural, t } from '../core/i18n.js';

export class StaffLines {
	/**
	 * @param {object} o
	 * @param {() => object[]} o.events all events of the conversation
	 * @param {(first: number) => void} o.onFold the stretch that begins there was folded or unfolded: draw again
	 */
	constructor({ events, onFold }) {
		Object.assign(this, { events, onFold });
		this.stretches = [];
		this.open = new Set(); // first numbers of unfolded stretches
	}

	/** Looks for finished talks of the bot; true when there is a new one to fold. */
	refresh() {
		const found = botStretches(this.events());
		const news = found.length !== this.stretches.length;
		this.stretches = found;
		return news;
	}

	/** Unfolds what hides event s. Returns whether that changed anything. */
	reveal(s) {
		const stretch = stretchOf(this.stretches, s);
		if (!stretch || this.open.has(stretch.first)) return false;
		this.open.add(stretch.first);
		return true;
	}

	/** The draw hook of the message list. */
	draw(ev) {
		const stretch = stretchOf(this.stretches, ev.s);
		if (stretch?.first === ev.s) return this.#fold(stretch, ev);
		if (stretch && !this.open.has(stretch.first)) return null;
		if (ev.t !== 'ev.msg') return undefined;
		if (ev.d.kind !== 'note') return undefined;
		if (ev.d.payload === 'discarded') return line(t('console.event.discarded', { text: ev.d.body }), ev);
		const text = routingNote(ev.d);
		return text ? line(text, ev) : undefined;
	}

	#fold(stretch, ev) {
		const open = this.open.has(stretch.first);
		const count = plural('console.fold', stretch.messages);
		const summary = stretch.asked ? t('console.fold.asked', { count, text: stretch.asked }) : count;
		return el('div', { class: 'fold', data: { testid: 'bot-fold' } },
			el('button', {
				type: 'button', class: 'fold-button', data: { testid: 'bot-fold-button' }, aria: { expanded: open },
				on: {
					click: () => {
						if (!this.open.delete(stretch.first)) this.open.add(stretch.first);
						this.onFold(stretch.first);
					},
				},
			}, icon('bot'), el('span', { class: 'fold-text', text: summary }), el('span', { class: 'fold-action', text: t(open ? 'console.fold.hide' : 'console.fold.show') })),
			el('time', { class: 'when', datetime: new Date(ev.d.time).toISOString(), text: clock(ev.d.time) }));
	}
}

function line(text, ev) {
	return el('div', { class: 'system', data: { testid: 'system', event: ev.d.payload || ev.d.kind } },
		el('span', { text }), el('time', { class: 'when', datetime: new Date(ev.d.time).toISOString(), text: clock(ev.d.time) }));
}
