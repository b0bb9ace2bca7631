import test from 'node:test';
import assert from 'node:assert/strict';
import { beginning, chunkOf, chunkSize, fateOfButtons, rangeOf } from '../static/js/core/chunks.js';

const events = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => ({ s: from + i }));

test('every event is in exactly one chunk, wherever the list begins', () => {
	for (const [from, to] of [[1, 1], [1, 50], [1, 51], [51, 200], [101, 101], [1, 2000], [30, 77]]) {
		const all = events(from, to);
		let at = 0;
		for (let key = chunkOf(all[0]); key <= chunkOf(all.at(-1)); key++) {
			const [a, b] = rangeOf(key, all);
			assert.equal(a, at);
			assert.ok(b > a && b - a <= chunkSize);
			assert.ok(all.slice(a, b).every((e) => chunkOf(e) === key));
			at = b;
		}
		assert.equal(at, all.length);
	}
	assert.deepEqual(rangeOf(3, []), [0, 0]);
	assert.deepEqual(rangeOf(0, events(51, 60)), [0, 0]);
});

test('a late reader begins at the end of a chunk', () => {
	assert.equal(beginning(99, 100), 0);
	assert.equal(beginning(150, 100), 50);
	assert.equal(beginning(2049, 100), 1900);
	assert.equal(beginning(0, 100), 0);
});

test('buttons are over with the next answer, the next buttons or the end of the bot', () => {
	const ask = { t: 'ev.msg', d: { from: { kind: 'bot' }, buttons: [{ label: 'A', value: 'a' }] } };
	const bot = { t: 'ev.msg', d: { from: { kind: 'bot' }, body: 'more' } };
	const pressed = { t: 'ev.msg', d: { from: { kind: 'customer' }, body: 'A', payload: 'a' } };
	const typed = { t: 'ev.msg', d: { from: { kind: 'customer' }, body: 'A' } };
	const queued = { t: 'ev.state', d: { state: 'queued' } };
	const still = { t: 'ev.state', d: { state: 'bot' } };
	assert.equal(fateOfButtons([ask, bot, still], 0), null);
	assert.deepEqual(fateOfButtons([ask, bot, pressed, queued], 0), { value: 'a', label: 'A' });
	assert.deepEqual(fateOfButtons([ask, typed], 0), { value: null, label: 'A' });
	assert.deepEqual(fateOfButtons([ask, queued, pressed], 0), { value: null, label: null });
	assert.deepEqual(fateOfButtons([ask, ask], 0), { value: null, label: null });
});
