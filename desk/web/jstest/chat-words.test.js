import test from 'node:test';
import assert from 'node:assert/strict';
import '../static/js/console/texts.js';
import { describe } from '../static/js/console/chat-words.js';

const notice = (d) => describe({ t: 'ev.msg', d: { kind: 'notice', ...d } }, 'me');

test('a notice of a program names it, one of the server does not', () => {
	assert.equal(notice({ from: { kind: 'system', id: 'k', name: 'Shop' }, body: 'It has left.' }), 'Shop (program): It has left.');
	assert.equal(notice({ from: { kind: 'system', name: 'system' }, body: 'Hello' }), 'Notice of the system: Hello');
	assert.match(notice({ from: { kind: 'system' }, body: 'x', payload: 'idle_warning' }), /^(?!.*Notice)/u);
});

test('a chat that comes back says why, where its agent was away', () => {
	const returned = (d) => describe({ t: 'ev.state', d: { event: 'returned', by: { kind: 'system' }, was: { kind: 'agent', id: 'a', name: 'Lin' }, ...d } }, 'me');
	assert.equal(returned({ reason: 'agent_away' }), 'Lin was away: the chat is waiting again, at its old place.');
	assert.equal(returned({ reason: 'no_answer' }), 'Back in the queue');
});
