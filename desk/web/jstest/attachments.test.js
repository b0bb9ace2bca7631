import test from 'node:test';
import assert from 'node:assert/strict';
import { FileLinks, fit, sizeOf } from '../static/js/core/attachments.js';
import { Clock } from './support.js';

test('addresses are asked for together, kept while they hold, and asked for again', async () => {
	const clock = new Clock();
	const asked = [];
	const links = new FileLinks(async (ids) => {
		asked.push(ids);
		return { links: Object.fromEntries(ids.filter((i) => i !== 'none').map((i) => [i, `/files/${i}?n=${asked.length}`])), expires_ms: 1000 };
	}, clock.env);
	const both = Promise.all([links.get('a'), links.get('b'), links.get('a'), links.get('none')]);
	await clock.advance(100);
	assert.deepEqual(await both, ['/files/a?n=1', '/files/b?n=1', '/files/a?n=1', '']);
	assert.deepEqual(asked, [['a', 'b', 'none']]);
	assert.equal(await links.get('a'), '/files/a?n=1');
	await clock.advance(1000);
	const again = links.get('a');
	await clock.advance(100);
	assert.equal(await again, '/files/a?n=2');
});

test('many are asked for in turns, and a failed question may be repeated', async () => {
	const clock = new Clock();
	let fail = true;
	const sizes = [];
	const links = new FileLinks(async (ids) => {
		if (fail) throw new Error('lost');
		sizes.push(ids.length);
		return { links: Object.fromEntries(ids.map((i) => [i, `/${i}`])), expires_ms: 1000 };
	}, clock.env);
	const lost = links.get('1');
	await clock.advance(100);
	assert.equal(await lost, '');
	fail = false;
	const all = Promise.all(Array.from({ length: 45 }, (_, i) => links.get(String(i))));
	await clock.advance(1000);
	assert.equal((await all).filter(Boolean).length, 45);
	assert.deepEqual(sizes, [20, 20, 5]);
});

test('sizes in words and on the screen', () => {
	assert.deepEqual([0, 999, 1024, 1536, 1 << 20, 20 << 20].map(sizeOf), ['0 B', '999 B', '1 KB', '1.5 KB', '1 MB', '20 MB']);
	assert.deepEqual(fit(640, 480), [240, 180]);
	assert.deepEqual(fit(100, 50), [100, 50]);
	assert.deepEqual(fit(10000, 1), [240, 1]);
});
