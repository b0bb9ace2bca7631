import test from 'node:test';
import assert from 'node:assert/strict';
import { Inbox } from '../static/js/console/inbox.js';
import { snoozeTimes } from '../static/js/console/snooze-field.js';

const mine = (id, o = {}) => ({ id, state: 'assigned', rev: 1, epoch: 1, last: 1, opened: 1, owner: { id: 'me' }, contact: { name: id }, ...o });

test('a chat that is put aside is under Snoozed until it is back, and counts as mine again then', () => {
	const told = [];
	const inbox = new Inbox('me', { onMine: (r) => told.push(r.id) });
	inbox.replace({ rows: [mine('a'), mine('b', { snoozed: 30, waiting: 9 }), mine('c', { snoozed: 20 })] });
	const ids = () => [inbox.mine(), inbox.snoozed(), inbox.others()].map((rows) => rows.map((r) => r.id).join());
	assert.deepEqual(ids(), ['a', 'c,b', '']);
	assert.equal(inbox.waitingSince(inbox.rows.get('b')), 0);
	inbox.apply(mine('a', { last: 2, snoozed: 10 }));
	assert.deepEqual(ids(), ['', 'a,c,b', '']);
	assert.deepEqual(told, []);
	inbox.apply(mine('b', { last: 2, waiting: 9 }));
	assert.deepEqual(ids(), ['b', 'a,c', '']);
	assert.deepEqual(told, ['b']);
	assert.ok(inbox.waitingSince(inbox.rows.get('b')) > 0);
	inbox.applyHead({ id: 'c', state: 'assigned', rev: 2, epoch: 2, owner: { id: 'me' } });
	assert.deepEqual(ids(), ['b,c', 'a', '']);
});

test('mornings are days of the calendar, and Monday is a day to come', () => {
	for (let day = 1; day <= 14; day++) {
		const now = new Date(2026, 2, 20 + day, 23, 30); // over a change of the clock in many zones
		const times = snoozeTimes(now.getTime());
		const tomorrow = new Date(times.tomorrow);
		const monday = new Date(times.monday);
		assert.equal(tomorrow.getHours(), 9);
		assert.equal(tomorrow.getDate(), new Date(2026, 2, 21 + day).getDate());
		assert.deepEqual([monday.getDay(), monday.getHours(), monday.getMinutes()], [1, 9, 0]);
		assert.ok(monday > now && monday - now < 7.5 * 86_400_000);
	}
});
