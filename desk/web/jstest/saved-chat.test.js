import test from 'node:test';
import assert from 'node:assert/strict';
import '../static/js/console/texts.js';
import { entriesOf, jsonOf, readAll, textOf } from '../static/js/console/saved-chat.js';
import { fullTime, setLocale } from '../static/js/core/i18n.js';

setLocale('en');
const at = 1_700_000_000_000;
const said = (s, from, body, more = {}) => ({ t: 'ev.msg', s, d: { kind: 'text', from, body, time: at, ...more } });
const ann = { kind: 'customer', id: 'c1', name: 'Visitor 1' };
const lin = { kind: 'agent', id: 'a1', name: 'Lin' };
const events = [
	{ t: 'ev.state', s: 1, d: { event: 'opened', state: 'bot', time: at } },
	said(2, ann, 'a\nb', { files: [{ id: 'f', name: 'x.png' }] }),
	said(3, lin, 'c'),
	said(4, lin, 'a difficult one', { kind: 'note' }),
	said(5, lin, '', { kind: 'note', payload: 'priority:high' }),
	{ t: 'ev.state', s: 6, d: { event: 'unknown', state: 'bot', time: at } },
];

test('all pages are read, each event once', async () => {
	const asked = [];
	const fetch = async (after, limit) => {
		asked.push(after);
		assert.ok(limit <= 200);
		return { events: events.filter((ev) => ev.s >= after).slice(0, 3), more: after < 4 };
	};
	assert.deepEqual(await readAll(fetch), { events, cut: false });
	assert.deepEqual(asked, [0, 3, 5]);
	assert.deepEqual(await readAll(fetch, 2), { events: events.slice(0, 2), cut: true });
	assert.deepEqual(await readAll(fetch, 6), { events, cut: false });
});

test('a page that says that there is more and brings nothing is the last', async () => {
	assert.deepEqual(await readAll(async () => ({ events: [], more: true })), { events: [], cut: false });
});

test('a failed page fails the whole, so that nobody takes a part for it', async () => {
	await assert.rejects(readAll(async (after) => {
		if (after > 0) throw new Error('gone');
		return { events: [events[0]], more: true };
	}), /gone/);
});

test('what was said has its speaker, what has happened a line, and what has no words is left out', () => {
	const got = entriesOf(events, 'Ann');
	assert.deepEqual(got.map((e) => e.line ?? e.name), ['Chat started', 'Ann', 'Lin', 'Lin (note)', 'Lin set the priority: High']);
	assert.deepEqual([got[1].text, got[1].files], ['a\nb', ['File: x.png']]);
});

test('text and JSON', () => {
	const time = fullTime(at);
	const chat = { id: 'c', contact: 'Ann', events: events.slice(0, 3), cut: true };
	assert.equal(textOf(chat), `Chat with Ann, ${time}\n\nOnly the first 3 entries are here.\n\n— ${time}: Chat started\n\n${time}, Ann:\na\nb\nFile: x.png\n\n${time}, Lin:\nc\n`);
	assert.deepEqual(JSON.parse(jsonOf(chat)), chat);
});
