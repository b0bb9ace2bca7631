import test from 'node:test';
import assert from 'node:assert/strict';
import { steady } from '../static/js/core/steady.js';

test('the clock that is set back does not go back, sleep counts, and small differences do not add up', () => {
	let [wall, running] = [1_000_000, 50];
	const now = steady(() => wall, () => running);
	const after = (w, r) => {
		wall += w;
		running += r;
		return now();
	};
	assert.equal(now(), 1_000_000);
	assert.equal(after(100, 100), 1_000_100);
	assert.equal(after(-3_600_000, 100), 1_000_200, 'set back');
	assert.equal(after(100, 100), 1_000_300);
	assert.equal(after(600_000, 20), 1_600_300, 'asleep');
	for (let i = 0; i < 1000; i++) after(1, 0.5);
	assert.equal(now(), 1_600_800, 'rounding');
	assert.equal(after(0, -5), 1_600_800);
});

test('it tells whole milliseconds, and loses no parts of them', () => {
	let ran = 0.7;
	const now = steady(() => 5000 + Math.floor(ran), () => ran);
	const first = now();
	for (let i = 0; i < 1000; i++) {
		ran += 0.3;
		assert.ok(Number.isInteger(now()), `${now()}`);
	}
	assert.ok(Math.abs(now() - first - 300) <= 1, `${now() - first} ms of 300`);
});
