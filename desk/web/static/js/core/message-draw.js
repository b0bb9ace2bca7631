// How the entries of a conversation look: bubbles in groups, send states,
// system lines, days, the bot's buttons. It makes elements and decides nothing.

import { el, icon, setAttr } from './dom.js';
import { splitLinks } from './links.js';
import { clock, day, fullTime, plural, t } from './i18n.js';

const stateIcons = { pending: 'clock', accepted: 'tick', failed: 'alert', delivered: 'ticks', read: 'ticks' };
const known = ['not_sent', 'too_large', 'closed', 'forbidden', 'conflict', 'blocked'];
const hopeless = new Set(['closed', 'too_large', 'blocked']);

/** Text with its links as elements; nothing else in it is ever markup. */
export function renderText(text) {
	const out = document.createDocumentFragment();
	for (const part of splitLinks(text)) {
		if (part.href === undefined) {
			out.append(document.createTextNode(part.text));
			continue;
		}
		out.append(el('a', { href: part.href, target: '_blank', rel: 'noopener noreferrer nofollow', text: part.text }));
	}
	return out;
}

/** One or two letters for an avatar. */
export function initials(name) {
	const words = String(name ?? '').trim().split(/\s+/u).filter(Boolean);
	if (words.length === 0) return '?';
	const first = [...words[0]][0];
	const second = words.length > 1 ? [...words.at(-1)][0] : '';
	return (first + second).toLocaleUpperCase();
}

export function dayLine(time) {
	return el('div', { class: 'day', role: 'separator' }, el('span', { text: day(time) }));
}

export function systemLine(text, ev) {
	return el('div', { class: 'system', data: { testid: 'system', event: ev.d.event ?? ev.d.payload ?? '' } },
		el('span', { text }), el('time', { class: 'when', datetime: new Date(ev.d.time).toISOString(), text: clock(ev.d.time) }));
}

const openLines = 3; // system lines in a row that are all shown

/** Folds the system lines at the end of host when there are many: all but the last go into one that can be opened. */
export function fold(host) {
	const last = host.lastElementChild;
	const run = [];
	for (let n = last; n?.classList.contains('system'); n = n.previousElementSibling) run.unshift(n);
	const before = run[0]?.previousElementSibling;
	const box = before?.classList.contains('system-run') ? before : null;
	if (run.length <= (box ? 1 : openLines)) return;
	const details = box ?? el('details', { class: 'system-run', data: { testid: 'system-run' } }, el('summary'));
	if (!box) host.insertBefore(details, run[0]);
	details.append(...run.slice(0, -1));
	details.firstChild.textContent = plural('messages.events', details.children.length - 1);
}

/**
 * A group of messages of one sender.
 * @returns {{node: HTMLElement, body: HTMLElement}}
 */
export function groupOf(d, { mine, same, name }) {
	const note = d.kind === 'note';
	const body = el('div', { class: 'group-body' });
	if (note && !same) body.append(el('div', { class: 'sender note-label', text: t('messages.note', { name: mine ? t('messages.you') : name }) }));
	else if (!mine && !same) body.append(el('div', { class: 'sender', text: name }));
	else body.append(el('span', { class: 'sr-only', text: mine ? t('messages.you') : name }));
	const avatar = !mine && el('span', { class: `avatar small ${d.from.kind}`, aria: { hidden: true } },
		d.from.kind === 'bot' ? icon('bot') : initials(name));
	return { node: el('div', { class: `group ${mine ? 'mine' : 'theirs'}${same ? ' same' : ''}` }, avatar, body), body };
}

/**
 * One message.
 * @param {{text: string, mine: boolean, clientId?: string, time: number, from: string, note?: boolean, generated?: boolean, files?: Node|null}} m generated: a language model has written it
 */
export function bubble({ text, mine, clientId, time, from, note, generated, files }) {
	return el('div', { class: `message ${mine ? 'mine' : 'theirs'}${note ? ' note' : ''}`, data: { testid: note ? 'note' : 'message', from, ...(clientId && { clientId }) } },
		el('div', { class: 'line' },
			el('div', { class: `bubble${files && !text ? ' only-files' : ''}`, dir: 'auto' }, files,
				el('span', { data: { testid: 'message-text' } }, renderText(text ?? ''))),
			mine && el('span', { class: 'state', data: { testid: 'message-state' } }),
			el('time', { class: 'when', datetime: new Date(time).toISOString(), title: fullTime(time), text: clock(time) })),
		generated && el('div', { class: 'generated', data: { testid: 'generated' }, text: t('messages.generated') }));
}

/** Shows the send state of an own message; the words again when forced. */
export function setState(node, state, code = '', { force = false, onRetry, onDiscard }) {
	if (!force && node.dataset.state === state && (node.dataset.code ?? '') === (code ?? '')) return;
	node.dataset.state = state;
	node.dataset.code = code ?? '';
	setMark(node, state, true);
	node.querySelector('.failure')?.remove();
	if (state === 'failed') node.append(failure(node.dataset.clientId, code, onRetry, onDiscard));
}

/** One tick, two, or two filled: sent, delivered, read. Nobody but staff reads a note. */
export function markAsRead(node, { delivered, read }) {
	if (node.dataset.state !== 'accepted' || node.classList.contains('note')) return;
	const seq = Number(node.dataset.seq);
	setMark(node, seq <= read ? 'read' : seq <= delivered ? 'delivered' : 'accepted');
}

function setMark(node, state, force = false) {
	const mark = node.querySelector('.state');
	if (!force && mark.dataset.state === state) return;
	mark.dataset.state = state;
	mark.replaceChildren(icon(stateIcons[state]), el('span', { class: 'sr-only', text: t(`state.${state}`) }));
	setAttr(mark, 'title', t(`state.${state}`));
}

function failure(id, code, onRetry, onDiscard) {
	const button = (key, testid, f) => el('button', { type: 'button', class: 'link-button', text: t(key), data: { testid }, on: { click: f } });
	return el('div', { class: 'failure', role: 'status' },
		el('span', { text: t(`failed.${known.includes(code) ? code : 'other'}`) }),
		!hopeless.has(code) && button('retry', 'message-retry', () => onRetry(id)),
		button('discard', 'message-discard', () => onDiscard(id)));
}

/** The bot's buttons; without onButton they are only shown. */
export function choicesOf(buttons, onButton) {
	const node = el('div', { class: 'choices', data: { testid: 'choices' } });
	for (const b of buttons) {
		node.append(el('button', {
			type: 'button', class: 'choice', dir: 'auto', text: b.label, disabled: !onButton, data: { testid: 'choice', value: b.value },
			on: { click: () => onButton?.(b) },
		}));
	}
	return node;
}

/** They work once: the one that was used stays marked. */
export function endChoices(node, { value, label }) {
	for (const b of node.children) {
		b.disabled = true;
		const chosen = value !== null && value !== undefined ? b.dataset.value === value : b.textContent === label;
		if (chosen) b.setAttribute('aria-pressed', 'true');
	}
}
