import test from 'node:test';
import assert from 'node:assert/strict';
import { RowOrder } from '../static/js/console/row-order.js';
import { Clock } from './support.js';

function list() {
	const clock = new Clock();
	const order = new RowOrder({ sections: ['mine', 'queue', 'all'], eager: 'mine', onFree: () => list.freed++, env: clock.env });
	list.freed = 0;
	const show = (mine, queue, all = '') => {
		const ids = order.update({ mine: [...mine], queue: [...queue], all: [...all] });
		return Object.values(ids).map((s) => s.join('')).join(' ').trimEnd();
	};
	return { clock, order, show };
}

test('without a pointer on a row the order is the true one', () => {
	const { order, show } = list();
	assert.equal(show('ab', 'xy'), 'ab xy');
	assert.equal(show('ca', 'yxz', 'q'), 'ca yxz q');
	order.free();
	assert.equal(list.freed, 0, 'nothing was held');
});

test('the row under the pointer stays in its place: what is above stays, what is below goes on', () => {
	const { order, show } = list();
	show('a', 'wxyz', 'qr');
	order.hold('queue', 'x');
	assert.equal(show('a', 'xz', 'r'), 'a wxz r', 'what left above is kept, below it is not');
	assert.equal(show('a', 'vxz', 'sr'), 'a wxvz sr', 'what is new comes below');
	assert.equal(show('a', 'vz', 'sr'), 'a wxvz sr', 'the row itself stays, too');
	order.free();
	assert.equal(list.freed, 1);
	assert.equal(show('a', 'vz', 'sr'), 'a vz sr');
});

test('rows of mine always come in', () => {
	const { order, show } = list();
	show('ab', 'xy', 'q');
	order.hold('queue', 'y');
	assert.equal(show('cab', 'y', 'q'), 'abc xy q', 'behind those that are there');
	order.hold('mine', 'b');
	assert.equal(show('cabd', 'y', 'q'), 'abcd y q');
	order.hold('all', 'q');
	assert.equal(show('cabde', 'yz', 'pq'), 'abcde y qp', 'those of the queue wait for the pointer');
});

test('a pointer that rests holds nothing after two seconds', async () => {
	const { clock, order, show } = list();
	show('', 'xy');
	order.hold('queue', 'y');
	await clock.advance(1_999);
	order.hold('queue', 'y'); // it moves
	await clock.advance(1_999);
	assert.equal(show('x', 'y'), 'x xy');
	assert.equal(list.freed, 0);
	await clock.advance(1);
	assert.equal(list.freed, 1);
	assert.equal(show('x', 'y'), 'x y');
});

test('a row that is pressed stays until it is let go', async () => {
	const { clock, order, show } = list();
	show('', 'xy');
	order.hold('queue', 'y');
	order.hold('queue', 'y', true);
	await clock.advance(60_000);
	assert.equal(show('x', 'y'), 'x xy');
	order.hold('queue', 'y');
	await clock.advance(2_000);
	assert.equal(list.freed, 1);
});

test('a row that is not shown holds nothing', () => {
	const { order, show } = list();
	show('', 'xy');
	order.hold('queue', 'gone');
	assert.equal(show('', 'y'), ' y');
});
