import test from 'node:test';
import assert from 'node:assert/strict';
import { Attention } from '../static/js/customer/attention.js';
import { MemoryArea, SafeStorage } from '../static/js/core/storage.js';

function rig({ calm = false, storage = new SafeStorage([new MemoryArea()]) } = {}) {
	const env = { document: { title: '' }, beeps: 0, timers: new Map(), calm: () => calm };
	env.setInterval = (f) => (env.timers.set(env.timers.size + 1, f), env.timers.size);
	env.clearInterval = (id) => env.timers.delete(id);
	env.beep = () => env.beeps++;
	env.tick = () => [...env.timers.values()].forEach((f) => f());
	const attention = new Attention({ storage, env });
	attention.setWords('Shop · Chat', 'New message');
	return { env, attention, storage };
}

test('the title counts and blinks while something is unread, and stops', () => {
	const { env, attention } = rig();
	assert.equal(env.document.title, 'Shop · Chat');
	attention.setUnread(2);
	assert.equal(env.document.title, '(2) Shop · Chat');
	env.tick();
	assert.equal(env.document.title, '(2) New message');
	env.tick();
	assert.equal(env.document.title, '(2) Shop · Chat');
	env.tick();
	attention.setUnread(3);
	assert.equal(env.document.title, '(3) Shop · Chat');
	assert.equal(env.timers.size, 1);
	attention.setUnread(0);
	assert.equal(env.document.title, 'Shop · Chat');
	assert.equal(env.timers.size, 0);
});

test('nothing blinks for those who want less motion', () => {
	const { env, attention } = rig({ calm: true });
	attention.setUnread(1);
	assert.equal(env.document.title, '(1) Shop · Chat');
	assert.equal(env.timers.size, 0);
});

test('sound is off until it is wanted, and the choice is kept', () => {
	const { env, attention, storage } = rig();
	attention.ring();
	assert.equal(env.beeps, 0);
	attention.setSound(true);
	attention.ring();
	assert.equal(env.beeps, 2);
	assert.equal(rig({ storage }).attention.sound, true);
	attention.setSound(false);
	attention.ring();
	assert.equal(env.beeps, 2);
	assert.equal(rig({ storage }).attention.sound, false);
});
