import test from 'node:test';
import assert from 'node:assert/strict';
import { Panel } from '../static/js/console/panel.js';
import { Clock, deferred, settle } from './support.js';

function rig() {
	const clock = new Clock();
	const states = [];
	const panel = new Panel({ onChange: () => states.push(panel.state), env: clock.env });
	return { clock, states, panel };
}

test('an answer is shown, an error can be tried again', async () => {
	const { panel, states } = rig();
	let fail = true;
	panel.load(async () => {
		if (fail) throw Object.assign(new Error(), { code: 'busy' });
		return { n: 1 };
	});
	await settle();
	assert.deepEqual([panel.state, panel.code], ['error', 'busy']);
	fail = false;
	panel.retry();
	await settle();
	assert.deepEqual([panel.state, panel.value], ['ready', { n: 1 }]);
	assert.deepEqual(states, ['loading', 'error', 'loading', 'ready']);
});

test('one request at a time, and the newest question wins', async () => {
	const { panel } = rig();
	const asked = [];
	const answers = {};
	const ask = (q) => () => {
		asked.push(q);
		answers[q] = deferred();
		return answers[q].promise;
	};
	panel.load(ask('a'));
	panel.load(ask('b'));
	panel.load(ask('c'));
	assert.deepEqual(asked, ['a']);
	answers.a.resolve('A');
	await settle();
	assert.deepEqual(asked, ['a', 'c'], 'b was never asked');
	assert.equal(panel.state, 'loading');
	answers.c.resolve('C');
	await settle();
	assert.deepEqual([panel.state, panel.value], ['ready', 'C']);
});

test('a question that hangs is given up, and the next one goes out', async () => {
	const { panel, clock } = rig();
	panel.load(() => new Promise(() => {}));
	await clock.advance(9_999);
	assert.equal(panel.state, 'loading');
	await clock.advance(1);
	assert.deepEqual([panel.state, panel.code], ['error', 'timeout']);
	panel.load(() => new Promise(() => {}));
	panel.load(async () => 'late');
	await clock.advance(10_000);
	assert.deepEqual([panel.state, panel.value], ['ready', 'late']);
});

test('what was reset is not shown, and what the server does not have is absent', async () => {
	const { panel } = rig();
	const answer = deferred();
	panel.load(() => answer.promise);
	panel.reset();
	answer.resolve('old');
	await settle();
	assert.deepEqual([panel.state, panel.value], ['idle', null]);
	panel.load(async () => { throw Object.assign(new Error(), { code: 'unknown_type' }); });
	await settle();
	assert.equal(panel.state, 'absent');
});
