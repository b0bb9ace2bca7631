// The priority of a chat on the customer card.

import { opensFirst } from '../core/choices.js';
import { el, setText } from '../core/dom.js';
import { priorities } from './routing.js';
import { t } from '../core/i18n.js';

export class PriorityField {
	/** @param {(c: string, priority: string) => Promise<void>} set */
	constructor(set) {
		this.c = '';
		this.select = opensFirst(el('select', { class: 'select', aria: { label: t('priority.label') }, data: { testid: 'priority' } },
			...priorities.map((p) => el('option', { value: p, text: t(`priority.${p}`) }))));
		this.error = el('p', { class: 'error-text', role: 'status' });
		this.node = el('section', { class: 'card-section card-field' }, el('h3', { text: t('priority.label') }), this.select, this.error);
		this.select.addEventListener('change', async () => {
			const { c } = this;
			setText(this.error, '');
			this.wanted = this.select.value;
			try {
				await set(c, this.wanted);
			} catch {
				if (this.c === c) setText(this.error, t('priority.failed'));
				this.wanted = '';
				this.#draw();
			}
		});
	}

	/**
	 * Shows the priority of a chat.
	 * @param {string} c
	 * @param {object|undefined} row
	 * @param {boolean} may whether this agent may change it
	 */
	show(c, row, may) {
		if (this.c !== c) {
			this.wanted = '';
			setText(this.error, '');
		}
		this.c = c;
		this.row = row;
		this.node.hidden = !may || !row || row.state === 'closed';
		if (this.wanted === (row?.priority ?? 'normal')) this.wanted = '';
		this.#draw();
	}

	// What was chosen stays until the row says so, too.
	#draw() {
		this.select.value = this.wanted || (this.row?.priority ?? 'normal');
	}
}
