// The cards of chats that colleagues offer: accept, decline, and the seconds
// that are left. They come without taking the focus.

import { el, setChildren, setText } from '../core/dom.js';
import { secondsLeft } from './offers.js';
import { number, t } from '../core/i18n.js';

export class OffersView {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.host
	 * @param {import('./offers.js').Offers} o.offers
	 * @param {(c: string, accept: boolean) => void} o.onAnswer
	 * @param {() => number} o.now the server's time
	 */
	constructor({ host, offers, onAnswer, now }) {
		Object.assign(this, { host, offers, onAnswer, now });
		this.nodes = new Map();
	}

	render() {
		const list = this.offers.list();
		for (const c of this.nodes.keys()) {
			if (!this.offers.incoming.has(c)) this.nodes.delete(c);
		}
		setChildren(this.host, list.map((o) => this.#card(o)));
		this.host.hidden = list.length === 0;
	}

	/** Goes to the offer that came first. */
	focus() {
		this.host.querySelector('.button.primary')?.focus();
	}

	relabel() {
		this.nodes.clear();
		this.render();
	}

	#card(o) {
		let node = this.nodes.get(o.c);
		if (!node) {
			const button = (accept) => el('button', {
				type: 'button', class: accept ? 'button primary small' : 'button small', text: t(accept ? 'offer.accept' : 'offer.decline'),
				data: { testid: accept ? 'offer-accept' : 'offer-decline' }, on: { click: () => this.onAnswer(o.c, accept) },
			});
			const customer = o.row?.contact?.name || t('who.customer');
			node = el('section', { class: 'offer', aria: { label: t('offer.label', { name: o.from?.name ?? '' }) }, data: { testid: 'offer', id: o.c } },
				el('p', { class: 'offer-title', text: t('offer.title', { from: o.from?.name ?? t('who.agent'), name: customer }) }),
				o.row?.preview && el('p', { class: 'offer-preview', dir: 'auto', text: o.row.preview }),
				o.note && el('p', { class: 'offer-note', dir: 'auto', text: o.note }),
				el('p', { class: 'error-text', data: { testid: 'offer-error' } }),
				el('div', { class: 'offer-buttons' }, el('span', { class: 'offer-left', aria: { hidden: true }, data: { testid: 'offer-left' } }), button(false), button(true)));
			this.nodes.set(o.c, node);
		}
		const error = node.querySelector('.error-text');
		error.hidden = !o.error;
		setText(error, o.error);
		setText(node.querySelector('.offer-left'), t('offer.left', { n: number(secondsLeft(o.expires, this.now())) }));
		for (const b of node.querySelectorAll('button')) b.disabled = o.busy;
		return node;
	}
}
