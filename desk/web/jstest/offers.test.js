import test from 'node:test';
import assert from 'node:assert/strict';
import { Offers, secondsLeft } from '../static/js/console/offers.js';

const offer = (c, expires, rev = 1) => ({ t: 'ev.offer', c, d: { from: { name: 'Lin' }, note: 'n', expires, row: { id: c, rev } } });

test('offers wait in the order they run out, and run out', () => {
	const offers = new Offers();
	offers.offered(offer('a', 900));
	offers.offered(offer('b', 500));
	assert.deepEqual(offers.list().map((o) => o.c), ['b', 'a']);
	assert.equal(offers.expire(499), false);
	assert.equal(offers.expire(500), true);
	assert.deepEqual(offers.list().map((o) => o.c), ['a']);
	assert.deepEqual([secondsLeft(900, 500), secondsLeft(900, 899), secondsLeft(900, 901)], [1, 1, 0]);
});

test('an offer ends with any change of the chat', () => {
	const offers = new Offers();
	offers.offered(offer('a', 900, 3));
	offers.headChanged({ id: 'a', rev: 3, state: 'assigned', owner: { id: 'lin' } });
	assert.equal(offers.list().length, 1);
	offers.headChanged({ id: 'a', rev: 4, state: 'closed' });
	assert.equal(offers.list().length, 0);
	offers.made('m', { agent: { name: 'Lin' }, expires: 900 });
	offers.headChanged({ id: 'm', rev: 10, state: 'assigned', owner: { id: 'lin' } });
	offers.expire(10_899);
	assert.equal(offers.outgoing.has('m'), true, 'its end has not been told yet');
	offers.expire(10_900);
	assert.equal(offers.outgoing.has('m'), false);
});

test('the end of an offer tells whose it was', () => {
	const offers = new Offers();
	offers.made('m', { agent: { name: 'Lin' }, expires: 900 });
	assert.equal(offers.ended({ c: 'm', d: { result: 'declined' } }).agent.name, 'Lin');
	offers.offered(offer('a', 900));
	assert.equal(offers.ended({ c: 'a', d: { result: 'cancelled' } }), null);
	assert.equal(offers.list().length, 0);
	offers.offered(offer('a', 900));
	offers.clear();
	assert.equal(offers.list().length, 0);
});
