import test from 'node:test';
import assert from 'node:assert/strict';
import { changeOf, keyOf, rowsOf } from '../static/js/console/attributes.js';

test('only what changed is sent, and what was removed as empty', () => {
	const before = { email: 'a@b.c', plan: 'gold', city: 'Bern' };
	assert.deepEqual(rowsOf(before).map((r) => r.key), ['city', 'email', 'plan']);
	const rows = [{ key: 'email', value: ' a@b.c ' }, { key: 'plan', value: 'silver' }, { key: 'Order No', value: '7' }, { key: '', value: '' }];
	assert.deepEqual(changeOf(before, rows), { change: { plan: 'silver', order_no: '7', city: '' }, bad: '' });
	assert.deepEqual(changeOf({}, []), { change: {}, bad: '' });
	assert.deepEqual(changeOf(undefined, [{ key: 'a', value: '1' }]), { change: { a: '1' }, bad: '' });
});

test('a name that cannot be used is told', () => {
	for (const key of ['naïve', 'a/b', 'x'.repeat(41)]) assert.equal(changeOf({}, [{ key, value: 'v' }]).bad, key);
	assert.equal(changeOf({}, [{ key: '', value: 'orphan' }]).bad, 'orphan');
	assert.equal(keyOf('  Account Manager '), 'account_manager');
});
