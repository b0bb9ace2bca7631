// Everything that is stored about a customer: to hand out, and to delete.

import { el, setAttr, setText } from '../core/dom.js';
import { t } from '../core/i18n.js';

export class CardPerson {
	/** @param {(contact: object) => void} onErase */
	constructor(onErase) {
		this.link = el('a', { class: 'button small', download: '', data: { testid: 'person-export' } });
		this.erase = el('button', { type: 'button', class: 'button small danger', data: { testid: 'person-erase' }, on: { click: () => onErase(this.contact) } });
		this.node = el('div', { class: 'card-person' }, this.link, this.erase);
		this.show(null);
	}

	/** @param {object|null} contact null: nothing may be done */
	show(contact) {
		this.contact = contact;
		this.node.hidden = !contact;
		setText(this.link, t('person.export'));
		setText(this.erase, t('person.erase'));
		setAttr(this.link, 'href', contact && `/api/v1/agent/contacts/${encodeURIComponent(contact.id)}/export`);
	}
}

/** Removes what this browser keeps of a conversation: drafts, unsent messages, marks. */
export function forgetChat(storage, id) {
	for (const key of storage.keys('desk.')) if (key.split('.').includes(id)) storage.remove(key);
}
