import test from 'node:test';
import assert from 'node:assert/strict';
import { Bulk, most } from '../static/js/console/bulk.js';

const failure = (code, retryMs) => Object.assign(new Error(code), { code, retryMs });

test('one command for each chosen chat, one after another; what has failed stays chosen', async () => {
	let under = 0;
	const asked = [];
	const b = new Bulk({ onChange: () => {} });
	b.choose(true);
	for (const id of ['a', 'b', 'c', 'b', 'd']) b.toggle(id); // b is taken out again
	await b.run(async (id) => {
		assert.equal(++under, 1, 'two at once');
		asked.push(id);
		b.toggle(id); // nothing can be chosen meanwhile
		await Promise.resolve();
		under--;
		if (id === 'c') throw failure('forbidden');
	});
	assert.deepEqual([asked, [...b.chosen], b.told], [['a', 'c', 'd'], ['c'], { done: 2, failed: 1, left: 0, why: 'forbidden' }]);
	b.choose(false);
	assert.deepEqual([b.on, b.chosen.size, b.told], [false, 0, null]);
	await b.run(() => assert.fail('nothing is chosen'));
});

test('a server that is busy is asked again after the time it names, but not for ever', async () => {
	const waits = [];
	const b = new Bulk({ onChange: () => {}, wait: async (ms) => { waits.push(ms); } });
	b.choose(true);
	b.toggle('a');
	b.toggle('b');
	let first = true;
	await b.run(async (id) => {
		if (id === 'a' && !first) return;
		first = false;
		throw failure(id === 'a' ? 'rate_limited' : 'busy', id === 'a' ? 700 : 0);
	});
	assert.deepEqual(waits, [700, 1000, 1000, 1000, 1000]);
	assert.deepEqual([[...b.chosen], b.told.done, b.told.failed], [['b'], 1, 1]);
});

test('a lost connection ends it, and says how many are left', async () => {
	const b = new Bulk({ onChange: () => {} });
	b.choose(true);
	for (const id of ['a', 'b', 'c']) b.toggle(id);
	await b.run(async (id) => {
		if (id === 'b') throw failure('lost');
	});
	assert.deepEqual([[...b.chosen], b.told], [['b', 'c'], { done: 1, failed: 0, left: 2, why: 'lost' }]);
});

test('at most so many are chosen, and only those that are listed', () => {
	const ids = Array.from({ length: most + 5 }, (_, i) => `c${i}`);
	const b = new Bulk({ onChange: () => {} });
	b.choose(true);
	b.only(ids, true);
	assert.equal(b.chosen.size, most);
	assert.equal(b.toggle('one more'), false);
	b.only(['c1', 'x'], false);
	assert.deepEqual([...b.chosen], ['c1']);
});
