import test from 'node:test';
import assert from 'node:assert/strict';
import '../static/js/console/texts.js';
import { forgetChat } from '../static/js/console/card-person.js';
import { Inbox } from '../static/js/console/inbox.js';
import { MemoryArea, SafeStorage } from '../static/js/core/storage.js';

test('of a chat that is no more nothing stays in the browser, and all of the others', () => {
	const storage = new SafeStorage([new MemoryArea()]);
	for (const key of ['desk.draft.agent.a1.c1', 'desk.draft.agent.a1.c1.note', 'desk.outbox.agent.a1.c1.m1', 'desk.draft.agent.a1.c11', 'desk.read.a1']) storage.set(key, 'x');
	forgetChat(storage, 'c1');
	assert.deepEqual(storage.keys('desk.').sort(), ['desk.draft.agent.a1.c11', 'desk.read.a1']);
});

test('the lists drop the rows of a customer whose data were deleted', () => {
	const inbox = new Inbox('a1');
	inbox.replace({ rows: ['c1', 'c2'].map((id) => ({ id, state: 'queued', rev: 1, last: 1, opened: 1, queued: 1 })) });
	inbox.forget(['c1']);
	assert.deepEqual(inbox.queue().map((r) => r.id), ['c2']);
});
