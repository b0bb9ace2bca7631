import test from 'node:test';
import assert from 'node:assert/strict';
import { callsFor } from '../static/js/console/alert-rules.js';

test('who looks at the page is not notified, who is busy is not called to the queue', () => {
	assert.deepEqual(callsFor({ kind: 'offer', hidden: false }), { notify: false, sound: true });
	assert.deepEqual(callsFor({ kind: 'offer', hidden: true, status: 'away' }), { notify: true, sound: true });
	assert.deepEqual(callsFor({ kind: 'message', hidden: false, current: true }), { notify: false, sound: false });
	assert.deepEqual(callsFor({ kind: 'message', hidden: false, current: false }), { notify: false, sound: true });
	assert.deepEqual(callsFor({ kind: 'message', hidden: true, current: true }), { notify: true, sound: true });
	assert.deepEqual(callsFor({ kind: 'assigned', hidden: false, current: false, status: 'busy' }), { notify: false, sound: true });
	assert.deepEqual(callsFor({ kind: 'assigned', hidden: true }), { notify: true, sound: true });
	assert.deepEqual(callsFor({ kind: 'queue', hidden: true, status: 'online' }), { notify: true, sound: true });
	assert.deepEqual(callsFor({ kind: 'queue', hidden: true, status: 'busy' }), { notify: false, sound: false });
});
