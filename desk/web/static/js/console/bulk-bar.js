// The bar above a list in which several chats are changed at once.

import { Bulk, most } from './bulk.js';
import { opensFirst } from '../core/choices.js';
import { ask, askText } from '../core/dialog.js';
import { el, setChildren, setText } from '../core/dom.js';
import { number, plural, t } from '../core/i18n.js';

export class BulkBar {
	/**
	 * @param {object} o
	 * @param {(type: string, d: object, c?: string) => Promise<object>} o.request
	 * @param {import('./staff.js').Staff} o.staff
	 * @param {() => string[]} o.listed the chats of the list, from top to bottom
	 * @param {(id: string, tags: string[]) => void} o.onTags
	 * @param {() => void} o.onChange the list has to be drawn
	 */
	constructor({ request, staff, listed, onTags, onChange }) {
		Object.assign(this, { request, staff, listed, onTags });
		this.bulk = new Bulk({ onChange: () => {
			this.draw();
			onChange();
		} });
		const button = (name, click, kind = 'button small') => el('button', { type: 'button', class: kind, data: { testid: `bulk-${name}` }, on: { click } });
		this.begin = button('begin', () => this.bulk.choose(true), 'link-button');
		this.count = el('span', { role: 'status', data: { testid: 'bulk-count' } });
		this.all = button('all', () => this.bulk.only(this.listed(), true), 'link-button');
		this.tag = button('tag', () => this.#tag());
		this.close = button('close', () => this.#close());
		this.assign = opensFirst(el('select', { class: 'select', data: { testid: 'bulk-assign' }, on: { change: () => this.#assign() } }));
		this.end = button('end', () => this.bulk.choose(false));
		this.tools = el('div', { class: 'bulk-tools', hidden: true }, this.count, this.all, this.tag, this.assign, this.close, this.end);
		this.node = el('div', { class: 'bulk' }, this.begin, this.tools);
		this.relabel();
	}

	/** A chat of the list was pressed. @returns {boolean} whether that has chosen it, and opens nothing */
	pressed(id) {
		if (!this.bulk.on) return false;
		if (!this.bulk.toggle(id)) setText(this.count, t('bulk.most', { n: number(most) }));
		return true;
	}

	/** Whether a chat is chosen; undefined while nothing can be chosen. */
	chosen(id) {
		return this.bulk.on ? this.bulk.chosen.has(id) : undefined;
	}

	/** The list has changed. */
	listChanged() {
		this.bulk.only(this.listed(), false);
		this.draw();
	}

	relabel() {
		for (const name of ['begin', 'all', 'tag', 'close', 'end']) setText(this[name], t(`bulk.${name}`));
		this.draw();
	}

	draw() {
		const { on, running, chosen, told } = this.bulk;
		this.node.hidden = !this.staff.can('serve') || (!on && this.listed().length === 0);
		this.begin.hidden = on;
		this.tools.hidden = !on;
		this.assign.hidden = !this.staff.can('override');
		for (const node of [this.all, this.end]) node.disabled = running;
		for (const node of [this.tag, this.assign, this.close]) node.disabled = running || chosen.size === 0;
		setText(this.count, told ? outcome(told, running) : plural('bulk.count', chosen.size));
		const agents = [...this.staff.agents.values()].filter((a) => a.serves).sort((a, b) => a.name.localeCompare(b.name));
		const key = JSON.stringify([t('bulk.assign'), agents.map((a) => [a.id, a.name])]);
		if (this.assign.dataset.key === key) return;
		this.assign.dataset.key = key;
		setChildren(this.assign, [el('option', { value: '', text: t('bulk.assign') }), ...agents.map((a) => el('option', { value: a.id, text: a.name }))]);
	}

	async #tag() {
		const tag = await askText({ title: plural('bulk.tag.title', this.bulk.chosen.size), body: t('bulk.tag.body'), label: t('archive.tag'), confirm: t('bulk.tag') });
		if (tag) await this.bulk.run(async (c) => this.onTags(c, (await this.request('tag', { add: [tag] }, c)).tags));
	}

	async #assign() {
		const { value: agent } = this.assign;
		const name = this.staff.agents.get(agent)?.name ?? '';
		this.assign.value = '';
		if (!agent) return;
		const title = plural('bulk.assign.title', this.bulk.chosen.size, { name });
		if (await ask({ title, body: t('bulk.assign.body'), confirm: t('bulk.assign.do') })) await this.bulk.run((c) => this.request('assign', { agent }, c));
	}

	async #close() {
		const force = this.staff.can('override');
		if (!await ask({ title: plural('bulk.close.title', this.bulk.chosen.size), body: t('bulk.close.body'), confirm: t('bulk.close') })) return;
		await this.bulk.run((c) => this.request('conv.close', { reason: 'done', ...(force && { force }) }, c));
	}
}

// How a run goes, or has gone.
function outcome({ done, failed, left, why }, running) {
	if (running) return t('bulk.running', { n: number(left) });
	const text = plural('bulk.done', done);
	if (why === 'lost') return `${text} ${plural('bulk.left', left)}`;
	return failed > 0 ? `${text} ${plural('bulk.failed', failed)}` : text;
}
