// The customer card beside a chat: who this is, what is known, tags, earlier
// conversations. It loads by itself and never holds up the chat.

import { el, icon, setAttr, setChildren, setText } from '../core/dom.js';
import { changeOf, maxAttributes, rowsOf } from './attributes.js';
import { CardPerson } from './card-person.js';
import { factsOf, visitOf } from './card-facts.js';
import { OwnInputs, ownRows } from './own-fields.js';
import { Panel } from './panel.js';
import { drawPanelState } from './panel-view.js';
import { PriorityField } from './priority-field.js';
import { SnoozeField } from './snooze-field.js';
import { SameNodes } from './same-nodes.js';
import { forms } from './saved-chat.js';
import { initials } from '../core/message-list.js';
import { moment, number, t } from '../core/i18n.js';

export class CustomerCard {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.host
	 * @param {import('./staff.js').Staff} o.staff
	 * @param {object} o.on fetch(contact), history(contact, cursor), patch(contact, change), tag(c, change), priority(c, priority), snooze(c, until), mail(c), block(card), erase(card), open(row), close(): functions of the console
	 */
	constructor({ host, staff, on }) {
		Object.assign(this, { host, staff, on });
		this.shown = null; // {c, contact} that is drawn
		this.panel = new Panel({ onChange: () => this.#drawContact() });
		this.past = [];
		this.cursor = '';
		this.editing = false;
		this.#build();
	}

	/**
	 * Shows the customer of a conversation.
	 * @param {{c: string, contact: {id?: string, name: string, online: boolean|null}, head: object, row: object|undefined}} now
	 */
	show(now) {
		const other = this.shown?.contact.id !== now.contact.id || (this.shown?.c !== now.c && !now.contact.id);
		this.shown = now;
		if (other) {
			this.editing = false;
			this.past = [];
			this.cursor = '';
			this.panel.reset();
			if (now.contact.id) this.panel.load(() => this.on.fetch(now.contact.id));
		}
		this.#drawFacts();
		this.#drawRating();
		this.#drawTags();
		this.#drawPriority();
	}

	/** The card was changed elsewhere or the connection is back: look again, unless somebody writes in it. */
	renew() {
		const id = this.shown?.contact.id;
		if (id && !this.editing) this.panel.load(() => this.on.fetch(id));
	}

	relabel() {
		const { shown } = this;
		this.host.replaceChildren();
		this.#build();
		if (!shown) return;
		this.#drawFacts();
		this.#drawRating();
		this.#drawTags();
		this.#drawPriority();
		this.#drawContact();
	}

	#build() {
		this.priority = new PriorityField((c, priority) => this.on.priority(c, priority));
		this.snooze = new SnoozeField((c, until) => this.on.snooze(c, until));
		this.avatar = el('span', { class: 'avatar', aria: { hidden: true } });
		this.title = el('h2', { data: { testid: 'card-name' } });
		this.badges = el('div', { class: 'badges' });
		this.facts = el('dl', { class: 'facts', data: { testid: 'card-facts' } });
		this.factList = new SameNodes(this.facts);
		this.rating = el('p', { class: 'card-rating', data: { testid: 'rating' } });
		this.tags = el('div', { class: 'tags', data: { testid: 'tags' } });
		this.tagList = new SameNodes(this.tags);
		this.tagField = el('input', { class: 'input', maxlength: '40', autocomplete: 'off', placeholder: t('tags.add'), aria: { label: t('tags.add') }, data: { testid: 'tag-field' } });
		this.tagError = el('p', { class: 'error-text', role: 'status' });
		this.tagForm = el('form', { class: 'tag-form', on: { submit: (e) => this.#addTag(e) } }, this.tagField, this.tagError);
		this.state = el('div');
		this.attributes = el('div', { class: 'attributes', data: { testid: 'attributes' } });
		this.known = el('dl', { class: 'facts' });
		this.edit = el('button', { type: 'button', class: 'link-button', text: t('card.edit'), data: { testid: 'card-edit' }, on: { click: () => this.#edit(this.panel.value.contact) } });
		this.earlier = el('ul', { class: 'plain past', data: { testid: 'past' } });
		this.pastList = new SameNodes(this.earlier);
		this.more = el('button', { type: 'button', class: 'link-button', text: t('card.past.more'), data: { testid: 'past-more' }, on: { click: () => this.#morePast() } });
		this.block = el('button', { type: 'button', class: 'button small danger', data: { testid: 'block' }, on: { click: () => this.on.block(this.panel.value?.contact ?? {}) } });
		this.person = new CardPerson((contact) => this.on.erase(contact));
		const section = (key, ...nodes) => el('section', { class: 'card-section' }, el('h3', { text: t(key) }), ...nodes);
		this.ratingSection = section('card.rating', this.rating);
		this.mail = el('button', { type: 'button', class: 'button small', text: t('card.mail'), data: { testid: 'mail-chat' }, on: { click: () => this.on.mail(this.shown.c) } });
		this.keeping = Object.keys(forms).map((form) => el('button', { type: 'button', class: 'button small', text: t(`saved.${form}`), data: { testid: `save-${form}` }, on: { click: () => this.#save(form) } }));
		this.pastSection = section('card.past', this.earlier, this.more);
		this.aboutSection = section('card.about', this.attributes);
		setChildren(this.host, [
			el('button', { type: 'button', class: 'icon-button card-close', aria: { label: t('close') }, on: { click: () => this.on.close() } }, icon('close')),
			el('div', { class: 'card-top' }, this.avatar, this.title, this.badges),
			this.facts, this.priority.node, this.snooze.node, this.ratingSection, section('tags.label', this.tags, this.tagForm), this.state, this.aboutSection, section('saved.label', el('div', { class: 'card-buttons' }, this.mail, ...this.keeping)), this.pastSection, this.block, this.person.node,
		]);
	}

	async #save(form) {
		for (const b of this.keeping) b.disabled = true;
		await this.on.save(this.shown.c, this.shown.contact.name, forms[form]);
		for (const b of this.keeping) b.disabled = false;
	}

	#drawFacts() {
		const { contact } = this.shown;
		setText(this.avatar, initials(contact.name));
		setText(this.title, contact.name);
		const facts = factsOf(this.shown, this.past.find((r) => r.id === this.shown.c), this.staff.me.id);
		const got = this.panel.value;
		if (got && got.contact.id === contact.id) facts.push(...visitOf(got, Date.now()));
		this.factList.draw(facts, ([label, value, href]) => [el('dt', { text: t(label) }), el('dd', {}, href ? el('a', { href, title: href, target: '_blank', rel: 'noopener noreferrer nofollow', text: value }) : value)]);
	}

	#drawPriority() {
		const { c, row } = this.shown;
		const others = row?.state === 'assigned' && row.owner?.id !== this.staff.me.id;
		const may = this.staff.can(others ? 'override' : 'serve');
		this.priority.show(c, row, may);
		this.snooze.show(c, row, may);
	}

	// What the customer thought of the chat that is shown.
	#drawRating() {
		const { score, comment } = [this.shown.row, this.past.find((r) => r.id === this.shown.c)].find((r) => r?.score) ?? {};
		this.ratingSection.hidden = !score;
		const key = JSON.stringify([score, comment]);
		if (this.rating.dataset.key === key) return;
		this.rating.dataset.key = key;
		if (!score) return;
		this.rating.replaceChildren(el('span', { class: 'past-score', text: '★'.repeat(score) + '☆'.repeat(5 - score), role: 'img', aria: { label: t('card.score', { n: number(score) }) } }),
			el('span', { class: 'card-comment', dir: 'auto', text: comment ?? '' }));
	}

	// --- tags ---

	#drawTags() {
		const tags = this.shown.row?.tags ?? this.past.find((r) => r.id === this.shown.c)?.tags ?? [];
		const may = this.staff.can('serve');
		this.tagForm.hidden = !may;
		this.tagList.draw(tags.map((tag) => [tag, may, this.shown.c]), ([tag]) => el('span', { class: 'tag', data: { testid: 'tag' } }, el('span', { text: tag }),
			may && el('button', { type: 'button', class: 'tag-remove', aria: { label: t('tags.remove', { tag }) }, on: { click: () => this.#tag({ remove: [tag] }) } }, icon('close'))));
	}

	#addTag(e) {
		e.preventDefault();
		const add = this.tagField.value.split(',').map((s) => s.trim()).filter(Boolean);
		if (add.length > 0) this.#tag({ add });
	}

	async #tag({ add = [], remove = [] }) {
		const { c } = this.shown;
		setText(this.tagError, '');
		try {
			await this.on.tag(c, { add, remove });
			if (this.shown.c === c && add.length > 0) this.tagField.value = '';
		} catch {
			if (this.shown.c === c) setText(this.tagError, t('tags.failed'));
		}
		this.#drawTags();
		if (remove.length > 0) this.tagField.focus();
	}

	// --- the contact and its history ---

	#drawContact() {
		const { panel } = this;
		const has = panel.state === 'ready' || (panel.state === 'loading' && panel.value);
		if (!has || panel.state === 'ready') drawPanelState(this.state, panel, { rows: 4 });
		this.aboutSection.hidden = this.pastSection.hidden = !has;
		this.mail.hidden = !has || !this.staff.can('serve') || !panelEmail(this.panel);
		this.block.hidden = !has || !this.staff.can('block');
		this.person.show(has && this.staff.can('personal') ? panel.value.contact : null);
		setChildren(this.badges, []);
		if (!has) return;
		const { contact, convs, cursor } = panel.value;
		if (panel.state === 'ready' && panel.value !== this.taken) {
			this.taken = panel.value;
			this.past = convs ?? [];
			this.cursor = cursor ?? '';
		}
		const badge = (key, cls) => el('span', { class: `badge ${cls}`, text: t(key) });
		setChildren(this.badges, [contact.verified && badge('card.verified', 'good'), contact.blocked && badge('card.blocked', 'bad')]);
		setText(this.block, t(contact.blocked ? 'block.undo' : 'block.do'));
		if (!this.editing) this.#drawAttributes(contact);
		this.#drawFacts();
		this.#drawRating();
		this.#drawTags();
		this.#drawPast();
	}

	#drawAttributes(contact) {
		const rows = [{ key: t('card.name'), value: contact.name }, ...ownRows(this.panel.value.own, contact.fields), ...rowsOf(contact.attributes)];
		if (contact.external) rows.push({ key: t('card.external'), value: contact.external });
		setChildren(this.known, rows.map((r) => [el('dt', { text: r.key }), el('dd', { text: r.value, dir: 'auto' })]).flat());
		setChildren(this.attributes, [this.known, this.staff.can('serve') && this.edit]);
	}

	#edit(contact) {
		this.editing = true;
		const name = el('input', { class: 'input', maxlength: '80', value: contact.name, aria: { label: t('card.name') }, data: { testid: 'edit-name' } });
		const own = new OwnInputs(this.panel.value.own, contact.fields);
		const list = el('div', { class: 'edit-rows' });
		const addRow = ({ key = '', value = '' } = {}) => {
			const row = el('div', { class: 'edit-row' },
				el('input', { class: 'input', maxlength: '40', value: key, aria: { label: t('card.attribute') }, placeholder: t('card.attribute'), data: { testid: 'edit-key' } }),
				el('input', { class: 'input', maxlength: '500', value, aria: { label: t('card.value') }, placeholder: t('card.value'), data: { testid: 'edit-value' } }));
			list.append(row);
			return row;
		};
		rowsOf(contact.attributes).forEach(addRow);
		const add = el('button', {
			type: 'button', class: 'link-button', text: t('card.attribute.add'), data: { testid: 'edit-add' },
			on: { click: () => list.children.length < maxAttributes && addRow().firstChild.focus() },
		});
		const error = el('p', { class: 'error-text', role: 'status', data: { testid: 'edit-error' } });
		const done = () => {
			this.editing = false;
			this.#drawContact();
			this.attributes.querySelector('button')?.focus();
		};
		const form = el('form', { class: 'edit' }, el('label', { class: 'field' }, el('span', { text: t('card.name') }), name), ...own.nodes, list, add, error,
			el('div', { class: 'dialog-buttons' },
				el('button', { type: 'button', class: 'button small', text: t('cancel'), on: { click: done } }),
				el('button', { type: 'submit', class: 'button small primary', text: t('save'), data: { testid: 'edit-save' } })));
		form.addEventListener('submit', async (e) => {
			e.preventDefault();
			const rows = [...list.children].map((r) => ({ key: r.children[0].value, value: r.children[1].value }));
			const { change, bad } = changeOf(contact.attributes, rows);
			if (bad) {
				setText(error, t('card.attribute.bad', { name: bad }));
				return;
			}
			try {
				const { contact: saved } = await this.on.patch(contact.id, { name: name.value.trim(), attributes: change, fields: own.change() });
				this.panel.value = { ...this.panel.value, contact: saved };
				done();
			} catch (err) {
				setText(error, own.refusal(err) || t('card.edit.failed'));
			}
		});
		form.addEventListener('keydown', (e) => {
			if (e.key !== 'Escape') return;
			e.stopPropagation();
			done();
		});
		setChildren(this.attributes, [form]);
		name.focus();
	}

	/** The customer has gone to another page. */
	visited({ contact, visit }) {
		if (this.panel.value?.contact.id !== contact) return;
		this.panel.value = { ...this.panel.value, visit };
		this.#drawFacts();
	}

	/** Takes a changed contact (block). */
	took(contact) {
		if (this.panel.value?.contact.id !== contact.id) return;
		this.panel.value = { ...this.panel.value, contact };
		this.#drawContact();
	}

	#drawPast() {
		const rows = this.past.filter((r) => r.id !== this.shown.c);
		this.pastList.draw(rows.length > 0 ? rows : [null], (r) => (r ? this.#pastRow(r) : el('li', { class: 'panel-empty', text: t('card.past.none') })));
		this.more.hidden = !this.cursor;
		setAttr(this.more, 'disabled', this.panel.state === 'loading');
	}

	#pastRow(r) {
		return el('li', {}, el('button', { type: 'button', class: 'past-row', data: { testid: 'past-row', id: r.id }, on: { click: () => this.on.open(r) } },
			el('span', { class: 'past-date', text: moment(r.opened) }),
			el('span', { class: 'past-score', text: r.score ? '★'.repeat(r.score) : '', aria: { label: r.score ? t('card.score', { n: number(r.score) }) : '' } }),
			el('span', { class: 'past-text', dir: 'auto', text: r.preview || t('console.preview.none') })));
	}

	#morePast() {
		const { cursor, shown } = this;
		const { value } = this.panel;
		this.panel.load(async () => {
			const page = await this.on.history(shown.contact.id, cursor);
			return { ...value, convs: [...this.past, ...page.convs], cursor: page.cursor };
		});
	}
}

const panelEmail = (panel) => panel.value?.contact.attributes?.email;
