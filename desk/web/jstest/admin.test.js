import test from 'node:test';
import assert from 'node:assert/strict';
import { adapted } from '../static/js/admin/preview.js';
import { tooLarge } from '../static/js/admin/logo.js';
import { firstTab, tabAfter } from '../static/js/admin/tabs.js';
import { guard } from '../static/js/admin/unsaved.js';

test('arrows go round the tabs, in the direction of the writing', () => {
	assert.deepEqual(['ArrowRight', 'ArrowLeft', 'Home', 'End', 'x'].map((key) => tabAfter(key, 0, 6)), [1, 5, 0, 5, undefined]);
	assert.equal(tabAfter('ArrowRight', 5, 6), 0);
	assert.equal(tabAfter('ArrowRight', 0, 6, true), 5);
	assert.equal(tabAfter('ArrowLeft', 0, 6, true), 1);
});

test('a mistake is shown first, else what was shown last', () => {
	assert.equal(firstTab([false, false, true, true], 1), 2);
	assert.equal(firstTab([false, false, false], 2), 2);
	for (const last of [-1, 3, NaN]) assert.equal(firstTab([false, false, false], last), 0);
});

test('a colour that cannot be read says what is shown in its place', () => {
	assert.equal(adapted('#0a716c'), null);
	assert.equal(adapted('#0A716C'), null);
	for (const none of ['', 'red', '#fff']) assert.equal(adapted(none), null);
	assert.equal(adapted('#ffff00').ratio, '1.0');
	assert.match(adapted('#ffff00').shown, /^#[0-9a-f]{6}$/);
});

test('a logo that is too large says how large it is', () => {
	const words = 'at most 10, the file has {size}';
	assert.equal(tooLarge(undefined, 10, words), '');
	assert.equal(tooLarge({ size: 10 }, 10, words), '');
	assert.equal(tooLarge({ size: 11 }, 10, words), 'at most 10, the file has 11');
});

test('what is entered and not saved is asked for, and nothing else', () => {
	const fields = [['name', 'Shop']];
	globalThis.FormData = class { *[Symbol.iterator]() { yield* fields; } };
	for (const entered of [false, true]) {
		const form = Object.assign(new EventTarget(), { hasAttribute: () => entered });
		const page = new EventTarget();
		fields[0][1] = 'Shop';
		guard(form, page);
		const asks = () => !page.dispatchEvent(new Event('beforeunload', { cancelable: true }));
		assert.equal(asks(), entered, 'as it came');
		fields[0][1] = 'Other';
		assert.equal(asks(), true, 'changed');
		form.dispatchEvent(new Event('submit'));
		assert.equal(asks(), false, 'sent');
		page.dispatchEvent(new Event('pageshow')); // of the first load, which a press can be ahead of
		assert.equal(asks(), false, 'still sent');
		page.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: true }));
		assert.equal(asks(), true, 'back again');
		fields[0][1] = 'Shop';
		assert.equal(asks(), entered, 'changed back');
		fields[0][1] = new File(['x'], '');
		guard(form, page);
		form.dispatchEvent(new Event('submit'));
		page.dispatchEvent(Object.assign(new Event('pageshow'), { persisted: true }));
		fields[0][1] = new File(['x'], 'logo.png');
		assert.equal(asks(), true, 'a file is chosen');
	}
});
