// Where to send a chat: the colleagues and groups with what they can take now,
// as long as the dialog is open. Colleagues change live; groups are asked for
// again every few seconds.

import { el, setAttr, setChildren, setText } from '../core/dom.js';
import { free, takesChats } from './staff.js';
import { Panel } from './panel.js';
import { drawPanelState } from './panel-view.js';
import { localeName, number, plural, t, waited } from '../core/i18n.js';

const renewEvery = 10_000;

/**
 * @param {object} o
 * @param {import('./staff.js').Staff} o.staff
 * @param {() => Promise<object>} o.fetch asks for `agents` and keeps the answer in staff
 * @param {(listener: () => void) => (() => void)} o.follow calls when staff changed; returns how to stop
 * @param {(target: {agent?: string, group?: string}, note: string, force: boolean) => Promise<void>} o.send rejects with the words to show
 */
export function transferDialog({ staff, fetch, follow, send }) {
	new TransferDialog({ staff, fetch, follow, send }).show();
}

class TransferDialog {
	constructor({ staff, fetch, follow, send }) {
		Object.assign(this, { staff, fetch, send });
		this.target = null;
		this.nodes = new Map();
		this.panel = new Panel({ onChange: () => this.#draw() });
		this.search = el('input', { type: 'search', class: 'input', autocomplete: 'off', placeholder: t('transfer.search'), aria: { label: t('transfer.search') }, data: { testid: 'transfer-search' }, on: { input: () => this.#draw() } });
		this.state = el('div');
		this.agents = el('div', { class: 'targets', role: 'radiogroup', aria: { label: t('transfer.agents') } });
		this.groups = el('div', { class: 'targets', role: 'radiogroup', aria: { label: t('transfer.groups') } });
		this.groupsTitle = el('h3', { text: t('transfer.groups') });
		this.note = el('textarea', { rows: '2', class: 'input', maxlength: '8000', aria: { label: t('transfer.note') }, placeholder: t('transfer.note'), data: { testid: 'transfer-note' } });
		this.force = el('input', { type: 'checkbox', data: { testid: 'transfer-force' } });
		this.forceRow = staff.can('override') && el('label', { class: 'check' }, this.force, el('span', { text: t('transfer.force') }));
		this.error = el('p', { class: 'error-text', role: 'status', data: { testid: 'transfer-error' } });
		this.submit = el('button', { type: 'submit', class: 'button primary', text: t('transfer.send'), disabled: true, data: { testid: 'transfer-send' } });
		const cancel = el('button', { type: 'button', class: 'button', text: t('cancel'), data: { testid: 'dialog-cancel' }, on: { click: () => this.dialog.close() } });
		this.dialog = el('dialog', { class: 'wide', aria: { label: t('transfer.title') }, data: { testid: 'transfer-dialog' } },
			el('form', { method: 'dialog', on: { submit: (e) => this.#submit(e) } },
				el('h2', { text: t('transfer.title') }), this.search, this.state,
				el('div', { class: 'targets-scroll' }, this.agents, this.groupsTitle, this.groups),
				this.note, this.forceRow, this.error, el('div', { class: 'dialog-buttons' }, cancel, this.submit)));
		const stop = follow(() => this.#draw());
		const timer = setInterval(() => this.panel.load(this.fetch), renewEvery);
		this.dialog.addEventListener('close', () => {
			stop();
			clearInterval(timer);
			this.dialog.remove();
		});
	}

	show() {
		document.body.append(this.dialog);
		this.dialog.showModal();
		this.panel.load(this.fetch);
		this.search.focus();
	}

	#draw() {
		const query = this.search.value.trim();
		const agents = this.staff.colleagues(query, localeName);
		const groups = this.staff.groups.filter((g) => g.id && g.name.toLocaleLowerCase().includes(query.toLocaleLowerCase()));
		const known = this.staff.agents.size > 0;
		if (!(known && this.panel.state === 'loading')) {
			const none = query ? agents.length + groups.length === 0 && t('transfer.none') : agents.length === 0 && t('transfer.nobody');
			drawPanelState(this.state, this.panel, { empty: (this.panel.state === 'ready' && none) || '' });
		}
		const { target } = this;
		if (target && ![...agents, ...groups].some((x) => x.id === (target.agent ?? target.group))) this.#choose(null); // gone meanwhile, or looked for another
		setChildren(this.agents, agents.map((a) => this.#row('agent', a.id, a.name, a)));
		setChildren(this.groups, groups.map((g) => this.#row('group', g.id, g.name, g)));
		this.groupsTitle.hidden = groups.length === 0;
	}

	// One row per target for as long as the dialog lives: what changes is its text, so the choice and the focus stay.
	#row(kind, id, name, state) {
		const key = `${kind}/${id}`;
		let row = this.nodes.get(key);
		if (!row) {
			const radio = el('input', { type: 'radio', name: 'target', value: key, data: { testid: `transfer-${kind}`, id }, on: { change: () => this.#choose({ [kind]: id }) } });
			row = el('label', { class: 'target' }, radio, el('span', { class: 'dot' }), el('span', { class: 'target-name' }, el('span'), el('span', { class: 'target-knows', data: { testid: 'target-knows' } })), el('span', { class: 'target-state', data: { testid: 'target-state' } }));
			this.nodes.set(key, row);
		}
		setAttr(row.children[1], 'data-on', kind === 'group' ? String(state.online > 0) : !free(state) && state.online !== false && state.status !== 'offline' ? 'waiting' : String(free(state)));
		const [label, knows] = row.children[2].children;
		setText(label, name);
		setText(knows, knowledge(state));
		setText(row.lastChild, kind === 'group' ? groupWords(state) : agentWords(state));
		return row;
	}

	#choose(target) {
		this.target = target;
		this.submit.disabled = !target;
		if (!target) for (const row of this.nodes.values()) row.firstChild.checked = false;
		setText(this.error, '');
	}

	async #submit(e) {
		e.preventDefault();
		if (!this.target || this.sending) return;
		this.sending = this.submit.disabled = true;
		try {
			await this.send(this.target, this.note.value.trim(), this.force.checked);
			this.dialog.close();
		} catch (err) {
			setText(this.error, err.message);
		}
		this.sending = false;
		this.submit.disabled = !this.target;
	}
}

/** The skills of an agent and the languages that it says it speaks, in words. */
export function knowledge({ skills = [], languages = [] }) {
	return [skills.join(', '), languages.map(localeName).join(', ')].filter(Boolean).join(' · ');
}

/** How much an agent can take, in words. */
export function agentWords(a) {
	const load = a.capacity > 0 ? t('capacity', { active: number(a.active ?? 0), capacity: number(a.capacity) }) : '';
	const state = t(`status.${a.online === false ? 'offline' : known(a.status)}`);
	const extra = takesChats(a) ? load : t('chats.none.colleague');
	return extra ? `${state} · ${extra}` : state;
}

function known(status) {
	return ['online', 'busy', 'away', 'finishing'].includes(status) ? status : 'offline';
}

/** Who waits in a group and who is there, in words. */
export function groupWords(g) {
	const parts = [plural('transfer.group.online', g.online ?? 0), plural('transfer.group.waiting', g.waiting ?? 0)];
	if (g.longest > 0) parts.push(t('transfer.group.longest', { time: waited(g.longest) }));
	return parts.join(' · ');
}

/**
 * Gives a chat back to the queue, with a note and the sight of who is there.
 * @param {object} o as transferDialog; send(note)
 */
export function returnDialog({ staff, fetch, follow, send }) {
	const panel = new Panel({ onChange: () => draw() });
	const state = el('div');
	const lines = el('ul', { class: 'plain', data: { testid: 'return-groups' } });
	const note = el('textarea', { rows: '2', class: 'input', maxlength: '8000', aria: { label: t('transfer.note') }, placeholder: t('transfer.note'), data: { testid: 'return-note' } });
	const error = el('p', { class: 'error-text', role: 'status' });
	const submit = el('button', { type: 'submit', class: 'button primary', text: t('return.send'), data: { testid: 'return-send' } });
	const dialog = el('dialog', { aria: { label: t('return.title') }, data: { testid: 'return-dialog' } });
	const draw = () => {
		const people = staff.colleagues().filter(free).length;
		drawPanelState(state, panel, { rows: 1 });
		const groups = staff.groups.map((g) => el('li', {}, el('strong', { text: g.name || t('transfer.group.default') }), ` ${groupWords(g)}`));
		lines.replaceChildren(...(groups.length > 0 ? groups : panel.state === 'ready' ? [el('li', { text: plural('return.free', people) })] : []));
	};
	const form = el('form', { method: 'dialog' }, el('h2', { text: t('return.title') }), el('p', { text: t('return.body') }), state, lines, note, error,
		el('div', { class: 'dialog-buttons' }, el('button', { type: 'button', class: 'button', text: t('cancel'), on: { click: () => dialog.close() } }), submit));
	form.addEventListener('submit', async (e) => {
		e.preventDefault();
		submit.disabled = true;
		try {
			await send(note.value.trim());
			dialog.close();
		} catch (err) {
			setText(error, err.message);
		}
		submit.disabled = false;
	});
	dialog.append(form);
	const stop = follow(draw);
	dialog.addEventListener('close', () => {
		stop();
		dialog.remove();
	});
	document.body.append(dialog);
	dialog.showModal();
	panel.load(fetch);
	note.focus();
}
