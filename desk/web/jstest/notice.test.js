import test from 'node:test';
import assert from 'node:assert/strict';
import { Notice } from '../static/js/console/notice.js';
import { Clock } from './support.js';

class Node extends EventTarget {
	hidden = true;
	textContent = '';
	classes = new Set();
	classList = { toggle: (name, on) => (on ? this.classes.add(name) : this.classes.delete(name)) };
}

function rig() {
	const clock = new Clock();
	const [host, text, button] = [new Node(), new Node(), new Node()];
	return { clock, host, text, button, notice: new Notice({ host, text, button, env: clock.env }) };
}

test('a notice goes by itself, ten seconds after its last words', async () => {
	const { clock, host, text, notice } = rig();
	notice.show('one', true);
	assert.deepEqual([host.hidden, text.textContent, [...host.classes]], [false, 'one', ['error']]);
	await clock.advance(9_999);
	notice.show('two');
	assert.deepEqual([text.textContent, [...host.classes]], ['two', []]);
	await clock.advance(9_999);
	assert.equal(host.hidden, false);
	await clock.advance(1);
	assert.equal(host.hidden, true);
});

test('it waits for who points at it, and goes when it is closed', async () => {
	const { clock, host, button, notice } = rig();
	notice.show('one');
	host.dispatchEvent(new Event('pointerenter'));
	await clock.advance(60_000);
	assert.equal(host.hidden, false);
	host.dispatchEvent(new Event('pointerleave'));
	await clock.advance(10_000);
	assert.equal(host.hidden, true);
	notice.show('two');
	button.dispatchEvent(new Event('click'));
	assert.equal(host.hidden, true);
	assert.equal(clock.timers.size, 0);
});
