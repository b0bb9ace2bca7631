import test from 'node:test';
import assert from 'node:assert/strict';
import { actionOf, shortcuts } from '../static/js/console/shortcuts.js';
import { texts } from '../static/js/core/i18n.js';
import '../static/js/console/texts.js';
import '../static/js/console/list-texts.js';

const key = (k, o = {}) => ({ key: k, ...o });
const free = { writing: false, dialog: false };

test('keys act outside of fields, in either case', () => {
	const wanted = { j: 'down', K: 'up', n: 'note', T: 'transfer', e: 'close', '/': 'canned', '?': 'help', o: 'offer', s: 'search', '[': 'list', ']': 'card', Escape: 'leave' };
	for (const [k, action] of Object.entries(wanted)) assert.equal(actionOf(key(k), free), action, k);
	for (const k of ['Enter', 'x', 'Tab', 'ArrowDown']) assert.equal(actionOf(key(k), free), '', k);
});

test('who writes is left alone, except for Escape', () => {
	for (const k of ['j', 'k', 'n', 't', 'e', '/', '?', 's']) assert.equal(actionOf(key(k), { writing: true, dialog: false }), '', k);
	assert.equal(actionOf(key('Escape'), { writing: true, dialog: false }), 'leave');
	assert.equal(actionOf(key('e'), { writing: false, dialog: true }), '');
	for (const o of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }, { isComposing: true }, { defaultPrevented: true }]) assert.equal(actionOf(key('e', o), free), '');
});

test('every key of the help has its words', () => {
	for (const [, text] of shortcuts) for (const tag of Object.keys(texts)) assert.ok(texts[tag][text], `${tag} ${text}`);
});
