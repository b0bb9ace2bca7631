import test from 'node:test';
import assert from 'node:assert/strict';
import { botStretches, stretchOf } from '../static/js/console/transcript.js';

const story = (...lines) => lines.map(([t, d], i) => ({ t: `ev.${t}`, s: i + 1, d }));
const state = (s) => ['state', { state: s }];
const says = (kind, body, o = {}) => ['msg', { from: { kind }, body, ...o }];

test('the talk with the bot ends where people take over', () => {
	const events = story(state('bot'), says('bot', 'Hi'), says('customer', 'Where is my order?'), says('bot', 'Which?'), state('queued'), says('customer', 'Hello?'));
	assert.deepEqual(botStretches(events), [{ first: 1, last: 4, messages: 3, asked: 'Where is my order?' }]);
	assert.equal(stretchOf(botStretches(events), 4).first, 1);
	assert.equal(stretchOf(botStretches(events), 5), undefined);
});

test('a talk that goes on, or in which nothing was said, is not folded', () => {
	assert.deepEqual(botStretches(story(state('bot'), says('bot', 'Hi'))), []);
	assert.deepEqual(botStretches(story(state('bot'), state('queued'), says('customer', 'Hi'))), []);
	assert.deepEqual(botStretches(story(state('queued'), says('customer', 'Hi'), state('assigned'))), []);
});

test('each talk is a stretch of its own, notes do not count, and a log may begin in the middle', () => {
	const events = story(says('bot', 'cut off'), state('queued'), state('closed'), state('bot'), says('bot', 'Back?'), ['msg', { from: { kind: 'agent' }, kind: 'note', body: 'hm' }], state('assigned'));
	assert.deepEqual(botStretches(events), [{ first: 4, last: 5, messages: 1, asked: '' }]);
});
