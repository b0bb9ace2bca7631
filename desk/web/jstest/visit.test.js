import test from 'node:test';
import assert from 'node:assert/strict';
import { said, Visit } from '../static/js/customer/visit.js';
import { Clock } from './support.js';

const place = { page: 'https://shop.example/cart?order=7#token', title: 'Cart', referrer: 'https://search.example/?q=shoes' };

function visit() {
	const clock = new Clock();
	const told = [];
	return { clock, told, v: new Visit({ tell: (d) => told.push(d), env: { ...clock.env, zone: () => 'Europe/Berlin' } }) };
}

test('a page says no more than the site keeps', () => {
	const basic = { page: 'https://shop.example/cart', referrer: 'https://search.example/', title: 'Cart', zone: 'Europe/Berlin' };
	assert.deepEqual(said({ ...place, zone: 'Europe/Berlin' }, 'basic'), basic);
	assert.deepEqual(said({ ...place, zone: 'Europe/Berlin' }, 'full'), { ...basic, page: 'https://shop.example/cart?order=7', referrer: place.referrer });
	assert.deepEqual(said({ page: `https://x/${'a'.repeat(2000)}`, title: 'é'.repeat(500) }, 'full'), { title: 'é'.repeat(400) });
});

test('each connection is told once, and each change, not faster than every two seconds', async () => {
	const { clock, told, v } = visit();
	v.move(place);
	assert.equal(told.length, 0, 'before the site has said what it keeps');
	v.welcome('basic');
	assert.deepEqual(told.map((d) => d.page), ['https://shop.example/cart']);
	v.move({ ...place, page: 'https://shop.example/cart?order=8' });
	await clock.advance(10_000);
	assert.equal(told.length, 1, 'nothing new that is kept');
	for (const name of ['a', 'b', 'c']) v.move({ page: `https://shop.example/${name}` });
	assert.equal(told.at(-1).page, 'https://shop.example/a');
	await clock.advance(10_000);
	assert.deepEqual(told.slice(2).map((d) => d.page), ['https://shop.example/c']);
	v.welcome('basic');
	assert.equal(told.length, 4);
});

test('where nothing is kept nothing is told', async () => {
	const { clock, told, v } = visit();
	v.welcome('none');
	v.move(place);
	await clock.advance(10_000);
	v.welcome(undefined);
	assert.deepEqual(told, []);
});
