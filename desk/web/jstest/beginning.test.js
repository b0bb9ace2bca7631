import test from 'node:test';
import assert from 'node:assert/strict';
import { Beginning, firstEvents } from '../static/js/customer/beginning.js';

const bot = { id: 'rules', name: 'Eddy', greeting: [{ body: 'Hello!' }, { body: 'Ask me.', buttons: [{ label: 'A person', value: 'human' }] }] };
const opened = (state = 'bot') => ({ t: 'ev.state', s: 1, d: { event: 'opened', state } });
const said = (s, body) => ({ t: 'ev.msg', s, d: { body } });

function list() {
	const shown = [];
	return { shown, append: (ev) => shown.push(ev.d.body ?? ev.d.event), clear: () => { shown.length = 0; } };
}

test('a bot without a greeting, and no bot, leave the page empty', () => {
	for (const none of [null, undefined, { id: 'b', name: 'B', greeting: [] }]) {
		assert.deepEqual(firstEvents(none, 1), []);
		assert.equal(new Beginning(list(), none).empty, true);
	}
});

test('the greeting is drawn as the messages that it will be', () => {
	const events = firstEvents(bot, 7);
	assert.deepEqual(events.map((e) => e.s), [1, 2, 3]);
	assert.deepEqual(events[2].d, { kind: 'text', from: { kind: 'bot', id: 'rules', name: 'Eddy' }, time: 7, body: 'Ask me.', buttons: bot.greeting[1].buttons });
});

test('what is on the screen is not drawn again when the chat begins', () => {
	const l = list();
	const b = new Beginning(l, bot);
	const events = [opened(), said(2, 'Hello!'), said(3, 'Ask me.'), said(4, 'hi')];
	assert.deepEqual(events.map((ev) => b.shows(ev, [])), [true, true, true, false]);
	assert.deepEqual(l.shown, ['opened', 'Hello!', 'Ask me.']);
});

test('a chat that begins in another way replaces what was drawn', () => {
	for (const events of [[opened('queued')], [opened(), said(2, 'Good morning!')], [opened(), said(2, 'hi')]]) {
		const l = list();
		const b = new Beginning(l, bot);
		const held = [];
		for (const ev of events) {
			held.push(ev);
			if (!b.shows(ev, held)) l.append(ev);
		}
		assert.deepEqual(l.shown, events.map((ev) => ev.d.body ?? ev.d.event));
		assert.equal(b.shows(said(3, 'Ask me.'), held), false);
	}
});
