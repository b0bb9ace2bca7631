import test from 'node:test';
import assert from 'node:assert/strict';
import { Backoff, closeClass } from '../static/js/core/backoff.js';

test('delays grow to the cap with full jitter', () => {
	const b = new Backoff({ random: () => 1 });
	assert.deepEqual(Array.from({ length: 9 }, () => b.next()), [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
	const low = new Backoff({ random: () => 0 });
	low.next();
	assert.equal(low.next(), 0);
});

test('what the server asks for is a floor under the delay, never instead of it', () => {
	const b = new Backoff({ random: () => 1 });
	assert.deepEqual(Array.from({ length: 3 }, () => b.next(20)), [520, 1020, 2020]);
	assert.equal(new Backoff({ random: () => 0 }).next(700), 700);
	assert.equal(b.next(-300), 4000);
	b.reset();
	assert.equal(b.next(12_000), 12_500);
});

test('only a connection that was up for 60 s resets the delays', () => {
	const b = new Backoff({ random: () => 1 });
	b.next();
	b.next();
	b.up(0);
	b.down(59_999);
	assert.equal(b.next(), 2000);
	b.up(100_000);
	b.down(160_000);
	assert.equal(b.next(), 500);
});

test('close codes fall into their classes', () => {
	for (const code of [1001, 1012, 4000]) assert.equal(closeClass(code), 'draining');
	for (const code of [0, 1006, 1011, 4008, 4013, 4029]) assert.equal(closeClass(code), 'retry');
	for (const code of [4100, 4101, 4102, 4103, 4109, 4110]) assert.equal(closeClass(code), 'final');
});
