import test from 'node:test';
import assert from 'node:assert/strict';
import { chooses, opensFirst } from '../static/js/core/choices.js';

class Select extends EventTarget {
	opened = 0;
	open = false;
	matches(selector) {
		assert.equal(selector, ':open');
		return this.open;
	}
	showPicker() { this.opened++; }
	press(key, more = {}) {
		const e = Object.assign(new Event('keydown', { cancelable: true }), { key, ...more });
		this.dispatchEvent(e);
		return e.defaultPrevented;
	}
}

test('keys that would choose open the list instead', () => {
	const select = opensFirst(new Select());
	for (const key of ['ArrowDown', 'ArrowUp', 'End', 'm', '明']) {
		assert.equal(chooses(key), true, key);
		assert.equal(select.press(key), true, key);
	}
	assert.equal(select.opened, 5);
});

test('all others do what they always do', () => {
	const select = opensFirst(new Select());
	for (const key of ['Tab', 'Enter', ' ', 'Escape', 'Shift', 'F4']) assert.equal(select.press(key), false, key);
	assert.equal(select.press('ArrowDown', { altKey: true }), false);
	assert.equal(select.press('r', { ctrlKey: true }), false);
	assert.equal(select.opened, 0);
});

test('a list that is open is gone through', () => {
	const select = opensFirst(Object.assign(new Select(), { open: true }));
	assert.equal(select.press('ArrowDown'), false);
	assert.equal(select.opened, 0);
});

test('a browser that cannot open it, or tell, keeps its own way', () => {
	const unable = opensFirst(Object.assign(new Select(), { showPicker: undefined }));
	assert.equal(unable.press('ArrowDown'), false);
	const silent = opensFirst(Object.assign(new Select(), { matches() { throw new SyntaxError('no such selector'); } }));
	assert.equal(silent.press('ArrowDown'), false);
	assert.equal(silent.opened, 0);
});
