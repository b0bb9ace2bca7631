// The small customer card beside a chat.

import { el, icon, setChildren } from './dom.js';
import { stateText } from './chat-view.js';
import { initials } from './message-list.js';
import { moment, number, t } from './i18n.js';

/**
 * Draws the card.
 * @param {HTMLElement} host
 * @param {{name: string, online: boolean|null, conversation: import('./conversation.js').Conversation, agentId: string, onClose: () => void}} o
 */
export function drawCard(host, { name, online, conversation, agentId, onClose }) {
	const { head, log, id } = conversation;
	const messages = log.events.filter((ev) => ev.t === 'ev.msg').length;
	const asked = log.events.findLast((ev) => ev.t === 'ev.state' && ev.d.state === 'queued')?.d.time ?? head?.queued;
	const facts = [
		['card.presence', online === null ? '' : t(online ? 'card.presence.yes' : 'card.presence.no')],
		['card.state', stateText(head, agentId)],
		['card.opened', head?.opened ? moment(head.opened) : ''],
		['card.queued', asked ? moment(asked) : ''],
		['card.messages', number(messages)],
		['card.id', id],
	].filter(([, value]) => value !== '');
	const key = JSON.stringify([name, facts]);
	if (host.dataset.key === key) return;
	host.dataset.key = key;
	setChildren(host, [
		el('button', { type: 'button', class: 'icon-button card-close', aria: { label: t('close') }, on: { click: onClose } }, icon('close')),
		el('div', { class: 'card-top' }, el('span', { class: 'avatar', aria: { hidden: true }, text: initials(name) }), el('h2', { text: name })),
		el('dl', {}, facts.map(([label, value]) => [el('dt', { text: t(label) }), el('dd', { text: value })]).flat()),
	]);
}
