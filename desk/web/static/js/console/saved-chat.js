// A chat to keep: as text, as JSON or on paper. It is read from the server once more, from its beginning, because a view
// holds only a part, and so it says what this reader may see.

import './saved-texts.js';
import { describe } from './chat-words.js';
import { el } from '../core/dom.js';
import { fullTime, number, t } from '../core/i18n.js';
import { routingNote } from './routing.js';

export const mostEvents = 20_000; // of one saved chat
const pageSize = 200;

/**
 * Reads a chat from its beginning.
 * @param {(after: number, limit: number) => Promise<{events: object[], more: boolean}>} fetch one page
 * @returns {Promise<{events: object[], cut: boolean}>} cut: there are more than most
 */
export async function readAll(fetch, most = mostEvents) {
	const events = [];
	for (let more = true, after = 0; more; after = events.at(-1)?.s ?? 0) {
		const page = await fetch(after, pageSize);
		const news = page.events.filter((ev) => ev.s > after);
		events.push(...news);
		more = page.more && news.length > 0;
		if (events.length >= most) return { events: events.slice(0, most), cut: more || events.length > most };
	}
	return { events, cut: false };
}

/**
 * What a reader sees of the events: {time, line} of what has happened, {time, name, text, files} of what was said.
 * @param {object[]} events
 * @param {string} contact the customer's name
 */
export function entriesOf(events, contact) {
	return events.map((ev) => {
		const { time, from, kind, body = '', files = [] } = ev.d;
		if (ev.t === 'ev.state' || kind === 'notice') return { time, line: describe(ev, '') };
		const line = kind === 'note' && (ev.d.payload === 'discarded' ? t('console.event.discarded', { text: body }) : routingNote(ev.d));
		if (line) return { time, line };
		const name = from.kind === 'customer' ? contact : from.name || t(from.kind === 'bot' ? 'who.bot' : 'who.agent');
		return { time, name: kind === 'note' ? t('saved.note', { name }) : name, text: body, files: files.map((f) => t('saved.file', { name: f.name })) };
	}).filter((e) => e.line !== '');
}

const titleOf = (chat) => t('saved.title', { name: chat.contact, time: fullTime(chat.events[0]?.d.time ?? 0) });
const cutOf = (chat) => (chat.cut ? [t('saved.cut', { n: number(chat.events.length) })] : []);

/** The chat as plain text. */
export function textOf(chat) {
	const entries = entriesOf(chat.events, chat.contact).map((e) => (e.line ? `— ${fullTime(e.time)}: ${e.line}` : [`${fullTime(e.time)}, ${e.name}:`, ...(e.text ? [e.text] : []), ...e.files].join('\n')));
	return `${[titleOf(chat), ...cutOf(chat), ...entries].join('\n\n')}\n`;
}

/** The chat as JSON, with its events as the protocol has them. */
export function jsonOf({ id, contact, events, cut }) {
	return `${JSON.stringify({ id, contact, events: events.map(({ t: type, s, d }) => ({ t: type, s, d })), cut }, null, '\t')}\n`;
}

/** The chat as the element that is printed in place of the page. */
export function paperOf(chat) {
	return el('section', { class: 'paper', data: { testid: 'paper' } }, el('h1', { dir: 'auto', text: titleOf(chat) }), ...cutOf(chat).map((text) => el('p', { text })),
		...entriesOf(chat.events, chat.contact).map((e) => (e.line
			? el('p', { class: 'paper-event', dir: 'auto', text: `${fullTime(e.time)}: ${e.line}` })
			: el('div', { class: 'paper-said' }, el('p', {}, el('strong', { dir: 'auto', text: e.name }), el('span', { text: `, ${fullTime(e.time)}` })), el('p', { dir: 'auto', text: e.text }),
				...e.files.map((text) => el('p', { dir: 'auto', text }))))));
}

/** Saves text as a file of the reader's. */
export function saveFile(name, type, text) {
	const href = URL.createObjectURL(new Blob([text], { type }));
	el('a', { href, download: name }).click();
	setTimeout(() => URL.revokeObjectURL(href), 60_000); // the browser has begun to read it long before
}

/** Prints an element in place of the page. */
export function print(paper) {
	document.querySelector('.paper')?.remove(); // of a browser that does not say when it has printed
	document.body.append(paper);
	addEventListener('afterprint', () => paper.remove(), { once: true });
	globalThis.print();
}

/** What the buttons do, by the name of the form. */
export const forms = {
	text: (chat) => saveFile(`chat-${chat.id}.txt`, 'text/plain;charset=utf-8', textOf(chat)),
	json: (chat) => saveFile(`chat-${chat.id}.json`, 'application/json', jsonOf(chat)),
	print: (chat) => print(paperOf(chat)),
};
