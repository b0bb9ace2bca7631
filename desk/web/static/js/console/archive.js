// The lists that are not live, in the place of the live ones: closed chats, and
// all that the agent may read, by filters. They change when they are asked for
// again; only what is known anew of a chat in them is shown at once.

import { byId, el, setAttr, setChildren, setText } from '../core/dom.js';
import { queryOf, ratings } from './archive-query.js';
import { BulkBar } from './bulk-bar.js';
import { Panel } from './panel.js';
import { drawPanelState } from './panel-view.js';
import { SavedFilters } from './saved-filters.js';
import { plural, t } from '../core/i18n.js';

const pause = 250; // ms after the last key until the question goes out
const pages = 5; // that are asked for at once while nothing is in them
const tabs = ['open', 'closed', 'all'];
const dated = ['from', 'to']; // fields that a saved filter leaves out: a day is soon long ago

export class Archive {
	/**
	 * @param {object} o
	 * @param {(type: string, d: object, c?: string) => Promise<object>} o.request
	 * @param {import('./staff.js').Staff} o.staff
	 * @param {() => void} o.onChange the list has to be drawn
	 */
	constructor({ request, staff, onChange }) {
		Object.assign(this, { request, staff, onChange });
		this.tab = 'open';
		this.rows = new Map(); // id -> row as in history; of a search with `hit`
		this.cursor = '';
		this.panel = new Panel({ onChange: () => this.#draw() });
		this.buttons = Object.fromEntries(tabs.map((tab) => [tab, byId(`list-${tab}`)]));
		for (const tab of tabs) this.buttons[tab].addEventListener('click', () => this.show(tab));
		this.bulk = new BulkBar({ request, staff, listed: () => [...this.rows.keys()], onTags: (id, tags) => this.learn(id, { tags }), onChange });
		this.saved = new SavedFilters({
			values: () => Object.fromEntries(Object.entries(this.fields).filter(([name]) => !dated.includes(name)).map(([name, { value }]) => [name, value])),
			onChoose: (fields) => {
				for (const [name, field] of Object.entries(this.fields)) if (!dated.includes(name)) field.value = fields[name] ?? '';
				this.#ask();
			},
		});
		this.#build();
		this.relabel();
	}

	/** The live lists are hidden. */
	get shown() {
		return this.tab !== 'open';
	}

	/** Shows the live lists ('open') or one of these. */
	show(tab) {
		this.tab = tab;
		for (const name of tabs) setAttr(this.buttons[name], 'aria-pressed', String(name === tab));
		byId('live').hidden = this.shown;
		byId('archive-section').hidden = !this.shown;
		this.fields.state.parentNode.hidden = tab !== 'all';
		this.bulk.bulk.choose(false);
		if (!this.shown) {
			this.panel.reset();
			this.#take([], '');
		} else {
			this.#ask();
			this.#directory();
			this.saved.load();
		}
		this.onChange();
	}

	/** The permissions may have changed. */
	rights() {
		const all = this.staff.can('read_others');
		this.buttons.all.hidden = !all;
		if (!all && this.tab === 'all') this.show('open');
	}

	/** Something is known anew of a chat: a row, or a part of one. */
	learn(id, news) {
		const held = this.rows.get(id);
		if (held) this.rows.set(id, { ...held, ...news });
	}

	/** These chats are no more. */
	forget(ids) {
		for (const id of ids) this.rows.delete(id);
	}

	relabel() {
		for (const tab of tabs) setText(this.buttons[tab], t(`archive.${tab}`));
		for (const [name, field] of Object.entries(this.fields)) setText(field.parentNode.firstChild, t(`archive.${name}`));
		for (const o of this.fields.state.options) setText(o, t(`archive.state.${o.value || 'any'}`));
		for (const o of this.fields.rating.options) setText(o, t(`archive.rating.${o.value || 'any'}`));
		this.fields.words.placeholder = t('archive.words.hint');
		setText(this.summary, t('archive.filters'));
		setText(this.clear, t('archive.clear'));
		setText(this.more, t('archive.more'));
		this.bulk.relabel();
		this.saved.relabel();
		this.#options();
		this.#draw();
	}

	#build() {
		const field = (name, node) => {
			Object.assign(node, { name, className: node.tagName === 'SELECT' ? 'select' : 'input' });
			node.dataset.testid = `archive-${name}`;
			this.fields[name] = node;
			return el('label', { class: 'field' }, el('span'), node);
		};
		const input = (type, limit) => el('input', { type, autocomplete: 'off', maxlength: limit });
		this.fields = {};
		const words = field('words', input('search', '200'));
		const rest = [
			field('state', el('select', {}, ...['', 'open', 'queued', 'snoozed', 'deferred', 'closed'].map((value) => el('option', { value })))),
			field('tag', input('text', '40')), ...['agent', 'group', 'site'].map((name) => field(name, el('select'))),
			field('rating', el('select', {}, ...['', ...Object.keys(ratings)].map((value) => el('option', { value })))),
			field('from', input('date')), field('to', input('date')),
		];
		this.summary = el('summary');
		this.clear = el('button', { type: 'reset', class: 'link-button', data: { testid: 'archive-clear' } });
		this.error = el('p', { class: 'error-text', role: 'status', data: { testid: 'archive-error' } });
		const soon = () => {
			this.saved.changed();
			clearTimeout(this.timer);
			this.timer = setTimeout(() => this.#ask(false), pause);
		};
		this.form = el('form', { class: 'archive-form', role: 'search', on: { input: soon, change: soon, reset: soon, submit: (e) => {
			e.preventDefault();
			this.#ask();
		} } }, words, el('details', { data: { testid: 'archive-filters' } }, this.summary, el('div', { class: 'archive-filters' }, ...rest, this.clear), this.saved.node), this.error);
		this.count = el('p', { class: 'rows-empty', role: 'status', data: { testid: 'archive-count' } });
		this.state = el('div');
		this.more = el('button', { type: 'button', class: 'button small archive-more', data: { testid: 'archive-more' }, on: { click: () => this.#load(this.query, this.cursor) } });
		byId('archive-section').prepend(this.form, this.count, this.bulk.node);
		byId('archive-section').append(this.state, this.more); // what is being fetched comes below what is there
	}

	// Who and what can be chosen.
	async #directory() {
		try {
			this.staff.directory(await this.request('agents', {}));
			this.#options();
		} catch { /* the next time */ }
	}

	#options() {
		const { agent, group, site } = this.fields;
		const sorted = (list) => list.sort((a, b) => a.name.localeCompare(b.name));
		const fill = (select, choices, least) => {
			const { value } = select;
			setChildren(select, [{ id: '', name: t('archive.any') }, ...choices].map((c) => el('option', { value: c.id, text: c.name })));
			select.value = choices.some((c) => c.id === value) ? value : '';
			select.parentNode.hidden = choices.length < least;
		};
		fill(agent, sorted([...this.staff.agents.values()]), 1);
		fill(group, sorted(this.staff.groups.filter((g) => g.id)), 1);
		fill(site, this.staff.sites.map((key) => ({ id: key, name: key })), 2);
	}

	// Asks what the fields say; what was asked already only if it shall be asked again.
	#ask(again = true) {
		clearTimeout(this.timer);
		const values = Object.fromEntries(Object.entries(this.fields).map(([name, { value }]) => [name, value]));
		const query = queryOf({ ...values, state: this.tab === 'closed' ? 'closed' : values.state });
		if (!again && JSON.stringify(query) === JSON.stringify(this.query)) return;
		this.query = query;
		setText(this.error, query.bad ? t('archive.bad') : '');
		this.#take([], '');
		if (query.bad) this.panel.reset();
		else this.#load(query, '');
	}

	#load(query, after) {
		this.panel.load(async () => {
			const page = { query, rows: [], cursor: after };
			for (let i = 0; i < pages && page.rows.length === 0 && (i === 0 || page.cursor); i++) {
				const { rows, cursor } = await this.#page(query, page.cursor);
				page.rows = rows.filter((r) => !after || !this.rows.has(r.id));
				page.cursor = cursor;
			}
			return page;
		});
	}

	// One page of chats; with words, of those in which they were found.
	async #page({ q, filter }, cursor) {
		if (!q) {
			const { convs, cursor: next } = await this.request('history', { in: filter, cursor });
			return { rows: convs, cursor: next };
		}
		const { hits, cursor: next } = await this.request('search', { q, in: filter, cursor, limit: 20 });
		return { rows: hits.map((hit) => ({ id: hit.c, state: hit.state, contact: hit.contact, opened: hit.time, hit })), cursor: next };
	}

	#take(rows, cursor) {
		this.rows = new Map(rows.map((r) => [r.id, r]));
		this.cursor = cursor;
	}

	#draw() {
		const { state, value } = this.panel;
		if (state === 'ready' && value !== this.taken && value.query === this.query && this.shown) {
			this.taken = value;
			const news = value.rows.filter((r, i) => !this.rows.has(r.id) && value.rows.findIndex((x) => x.id === r.id) === i);
			this.#take([...this.rows.values(), ...news], value.cursor);
		}
		const none = state === 'ready' && this.rows.size === 0;
		drawPanelState(this.state, this.panel, { empty: none ? t(this.cursor ? 'archive.none.yet' : 'archive.none') : '' });
		setText(this.count, state === 'ready' && !none ? plural(this.cursor ? 'archive.count.more' : 'archive.count', this.rows.size) : '');
		this.bulk.listChanged();
		this.more.hidden = !this.cursor;
		this.more.disabled = state === 'loading';
		this.onChange();
	}
}
