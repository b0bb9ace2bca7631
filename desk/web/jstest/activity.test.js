import test from 'node:test';
import assert from 'node:assert/strict';
import { followActivity } from '../static/js/console/activity.js';

test('activity is told at once, then at most once a minute, and only while connected', () => {
	const listeners = {};
	const told = [];
	let now = 0;
	const connection = { ready: false, notify: (t) => told.push([t, now]) };
	followActivity(connection, { document: { addEventListener: (name, f) => { listeners[name] = f; } }, now: () => now });
	listeners.pointermove();
	assert.deepEqual(told, []);
	connection.ready = true;
	listeners.keydown();
	for (now = 1_000; now < 60_000; now += 1_000) listeners.pointermove();
	assert.deepEqual(told, [['active', 0]]);
	now = 60_000;
	listeners.pointerdown();
	assert.deepEqual(told, [['active', 0], ['active', 60_000]]);
});
