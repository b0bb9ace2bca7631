import test from 'node:test';
import assert from 'node:assert/strict';
import { fileChanged } from '../static/js/console/chat-files.js';

test('a checked file changes in every message that shows it, and nowhere else', () => {
	const events = [{ d: { files: [{ id: 'a', state: 'checking', name: 'x' }] } }, { d: { body: 'b' } }, { d: { files: [{ id: 'b', state: 'checking' }] } }];
	assert.equal(fileChanged(events, { id: 'a', state: 'ready' }), true);
	assert.deepEqual(events.map((e) => e.d.files?.[0].state), ['ready', undefined, 'checking']);
	assert.equal(events[0].d.files[0].name, 'x');
	assert.equal(fileChanged(events, { id: 'c', state: 'ready' }), false);
});
