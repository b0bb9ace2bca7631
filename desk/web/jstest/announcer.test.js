import test from 'node:test';
import assert from 'node:assert/strict';
import { Clock } from './support.js';

globalThis.document ??= { createElement: () => ({ dataset: {}, attributes: {}, textContent: '', setAttribute(k, v) { this.attributes[k] = v; }, append() {} }) };
const { Announcer } = await import('../static/js/core/announcer.js');

test('few messages are read out, many are counted, the past is silent', async () => {
	const clock = new Clock();
	const a = new Announcer((n) => `${n} new`, clock.env);
	assert.equal(a.node.attributes['aria-live'], 'polite');
	for (let i = 0; i < 40; i++) a.say(`old ${i}`);
	await clock.advance(1_000);
	assert.equal(a.node.textContent, '');
	a.say('Lin: hello');
	assert.equal(a.node.textContent, '');
	await clock.advance(1_000);
	assert.equal(a.node.textContent, 'Lin: hello');
	for (let i = 0; i < 3; i++) a.say(`news ${i}`);
	await clock.advance(1_000);
	assert.equal(a.node.textContent, '3 new');
	a.clear();
	assert.equal(a.node.textContent, '');
	a.say('Eddy: welcome'); // a chat that has just begun
	await clock.advance(1_000);
	assert.equal(a.node.textContent, 'Eddy: welcome');
});
