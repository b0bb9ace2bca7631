import test from 'node:test';
import assert from 'node:assert/strict';
import { Inbox } from '../static/js/console/inbox.js';
import { rowsOfWall } from '../static/js/console/wall-rows.js';

test('chats of the wall become rows that anything newer replaces', () => {
	const rows = rowsOfWall({ agents: [{ id: 'a', name: 'Amy', chats: [{ id: 'x', contact: 'Ann', since: 5, waiting: 9 }] }, { id: 'me', name: 'Me', chats: [{ id: 'y', contact: 'Ben', since: 6 }] }] });
	const inbox = new Inbox('me');
	inbox.all = true;
	inbox.apply({ id: 'y', state: 'assigned', rev: 4, last: 9, owner: { id: 'me' }, contact: { name: 'Ben' }, preview: 'kept' });
	inbox.learn(rows);
	assert.deepEqual(inbox.others().map((r) => [r.id, r.owner.name, r.contact.name, inbox.waitingSince(r)]), [['x', 'Amy', 'Ann', 9]]);
	assert.equal(inbox.rows.get('y').preview, 'kept');
	inbox.apply({ id: 'x', state: 'closed', rev: 1, last: 1 });
	assert.deepEqual(inbox.others(), []);
	assert.deepEqual(rowsOfWall({}), []);
});
