import test from 'node:test';
import assert from 'node:assert/strict';
import { Receipts } from '../static/js/core/receipts.js';
import { Clock } from './support.js';

function rig() {
	const clock = new Clock();
	const sent = [];
	return { clock, sent, receipts: new Receipts({ send: (d) => sent.push(d), env: clock.env }) };
}

test('many events make one receipt, and what is read was delivered', async () => {
	const { clock, sent, receipts } = rig();
	for (const s of [1, 2, 3]) receipts.delivered(s);
	receipts.read(2);
	await clock.advance(1_000);
	receipts.read(4);
	await clock.advance(1_000);
	assert.deepEqual(sent, [{ delivered: 3, read: 2 }, { delivered: 4, read: 4 }]);
});

test('watermarks only grow, and what the server knows is not told', async () => {
	const { clock, sent, receipts } = rig();
	receipts.known({ delivered: 5, read: 5 });
	receipts.delivered(5);
	receipts.read(3);
	await clock.advance(1_000);
	assert.deepEqual(sent, []);
	receipts.delivered(6);
	receipts.read(1);
	await clock.advance(1_000);
	assert.deepEqual(sent, [{ delivered: 6, read: 3 }]);
});

test('nothing is told after the end', async () => {
	const { clock, sent, receipts } = rig();
	receipts.read(1);
	receipts.dispose();
	receipts.read(2);
	await clock.advance(1_000);
	assert.deepEqual(sent, []);
});
