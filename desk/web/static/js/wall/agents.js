// The agents on the wall: one card each, kept while the agent is there so that
// what has the focus keeps it.

import { opensFirst } from '../core/choices.js';
import { el, setAttr, setChildren, setText } from '../core/dom.js';
import { number, t, waited } from '../core/i18n.js';

/** How urgent a wait is: '' | 'amber' | 'red'. */
export function level(ms) {
	if (ms >= 180_000) return 'red';
	return ms >= 60_000 ? 'amber' : '';
}

/** The initials of a name. */
export function initials(name) {
	const words = name.trim().split(/\s+/);
	const first = (w) => [...w][0] ?? '';
	return (words.length > 1 ? first(words[0]) + first(words.at(-1)) : first(words[0])).toUpperCase();
}

const statuses = ['online', 'busy', 'away', 'finishing', 'offline'];
const dots = { online: 'true', busy: 'waiting', away: 'waiting', finishing: 'waiting', offline: 'false' };

/** A link to a conversation in the console, with how long its customer waits. */
export class ChatLink {
	constructor(chat) {
		this.name = el('span', { class: 'who' });
		this.wait = el('span', { class: 'wait' });
		this.link = el('a', { href: `/console#c=${encodeURIComponent(chat.id)}`, data: { testid: 'chat-link' } }, this.name, this.wait);
		this.node = el('li', {}, this.link);
	}

	update(chat, ms, urgency = level(ms)) {
		setText(this.name, chat.contact);
		setText(this.wait, ms > 0 ? waited(ms) : '');
		this.wait.dataset.level = urgency;
		setAttr(this.link, 'title', t('wall.agent.chat', { name: chat.contact }));
	}
}

/** Keeps one object for each item of a list, by id. */
export class Keyed {
	constructor(parent, make) {
		this.parent = parent;
		this.make = make;
		this.items = new Map();
	}

	update(list, show) {
		const next = new Map();
		for (const item of list) {
			const kept = this.items.get(item.id) ?? this.make(item);
			show(kept, item);
			next.set(item.id, kept);
		}
		this.items = next;
		setChildren(this.parent, [...next.values()].map((k) => k.node));
	}
}

export class AgentCard {
	/**
	 * @param {object} agent
	 * @param {object} o
	 * @param {boolean} o.force whether status and logins may be changed
	 * @param {(agent: object, status: string) => void} o.onStatus
	 * @param {(agent: object) => void} o.onLogout
	 */
	constructor(agent, { force, onStatus, onLogout }) {
		this.avatar = el('span', { class: 'avatar small agent', aria: { hidden: 'true' } });
		this.name = el('span', { class: 'agent-name' });
		this.role = el('span', {});
		this.label = el('span', {});
		this.nameText = el('b', {});
		this.name.append(this.nameText, this.role);
		this.dot = el('span', { class: 'dot', aria: { hidden: 'true' } });
		this.statusText = el('span', { data: { testid: 'agent-status' } });
		this.fill = el('div', { class: 'load-fill' });
		this.load = el('span', { data: { testid: 'agent-load' } });
		this.chats = el('ul', { class: 'chats' });
		this.links = new Keyed(this.chats, (c) => new ChatLink(c));
		this.idle = el('p', { class: 'panel-empty' });
		this.node = el('li', { class: 'agent', data: { testid: 'agent', agent: agent.id } },
			el('div', { class: 'agent-top' }, this.avatar, this.name, el('span', { class: 'agent-status' }, this.dot, this.statusText)),
			el('div', { class: 'load' }, el('div', { class: 'load-bar', aria: { hidden: 'true' } }, this.fill), this.load),
			this.chats, this.idle);
		if (!force) return;
		this.select = opensFirst(el('select', { class: 'select', data: { testid: 'force-status' }, on: { change: () => onStatus(this.agent, this.select.value) } },
			...statuses.map((s) => el('option', { value: s }))));
		this.logout = el('button', { type: 'button', class: 'button small', data: { testid: 'force-logout' }, on: { click: () => onLogout(this.agent) } });
		this.node.append(el('div', { class: 'agent-actions' }, this.select, this.logout));
	}

	update(agent, now) {
		this.agent = agent;
		this.node.dataset.status = agent.status;
		setText(this.avatar, initials(agent.name));
		setText(this.nameText, agent.name);
		setText(this.role, t(`wall.role.${agent.role}`));
		this.dot.dataset.on = dots[agent.status] ?? 'false';
		const closed = agent.status === 'online' && !(agent.accepting && agent.capacity > 0);
		setText(this.statusText, t(`wall.status.${agent.status}`) + (closed ? ` · ${t('wall.agent.closedTo')}` : ''));
		const full = agent.active > 0 && agent.active >= agent.capacity;
		this.fill.style.width = `${full ? 100 : (100 * agent.active) / Math.max(agent.capacity, 1)}%`;
		this.fill.dataset.full = String(full);
		setText(this.load, t('wall.agent.load', { active: number(agent.active), capacity: number(agent.capacity) }));
		this.links.update(agent.chats, (link, chat) => link.update(chat, chat.waiting ? now - chat.waiting : 0));
		this.chats.hidden = agent.chats.length === 0;
		this.idle.hidden = agent.chats.length > 0;
		setText(this.idle, t('wall.agent.idle'));
		if (this.select) this.#actions(agent);
	}

	#actions(agent) {
		for (const option of this.select.options) setText(option, t(`wall.status.${option.value}`));
		if (document.activeElement !== this.select) this.select.value = agent.status;
		setAttr(this.select, 'aria-label', t('wall.agent.status', { name: agent.name }));
		setText(this.logout, t('wall.agent.logout'));
		this.logout.disabled = !agent.online;
	}
}
