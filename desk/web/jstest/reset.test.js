import test from 'node:test';
import assert from 'node:assert/strict';
import { texts } from '../static/js/core/i18n.js';
import '../static/js/reset/texts.js';
import { Reset } from '../static/js/reset/flow.js';

function page(token, answers = {}) {
	const asked = [];
	const flow = new Reset({
		token,
		onChange: () => {},
		call: async (method, path, body) => {
			asked.push([`${method} ${path}`, body]);
			const answer = answers[`${method} ${path}`] ?? null;
			if (answer instanceof Error) throw answer;
			return answer;
		},
	});
	return { flow, asked };
}

const failure = (status, retryMs = 0) => Object.assign(new Error('no'), { status, retryMs });
const known = 'GET /api/v1/agent/reset';
const ask = 'POST /api/v1/agent/reset';
const set = 'POST /api/v1/agent/reset/password';

test('without mail the page says so, and asks for nothing', async () => {
	const { flow } = page('', { [known]: { mail: false } });
	assert.equal(flow.state, 'loading');
	await flow.start();
	assert.equal(flow.state, 'off');
});

test('a login is sent once, and the answer says nothing of the account', async () => {
	const { flow, asked } = page('', { [known]: { mail: true } });
	await flow.start();
	await flow.ask('  ');
	assert.deepEqual([flow.state, flow.error], ['ask', 'reset.empty']);
	await Promise.all([flow.ask('lin'), flow.ask('lin')]);
	assert.deepEqual([flow.state, flow.error], ['asked', '']);
	assert.deepEqual(asked.slice(1), [[ask, { login: 'lin' }]]);
});

test('the link of a mail sets a password, which is entered twice', async () => {
	const { flow, asked } = page('secret');
	await flow.start();
	assert.equal(flow.state, 'set');
	for (const [password, again, error] of [['short', 'short', 'reset.weak'], ['密码密码密码密码密', '密码密码密码密码密', 'reset.weak'], ['long enough', 'long enouhg', 'reset.differ']]) {
		await flow.set(password, again);
		assert.deepEqual([flow.state, flow.error], ['set', error]);
	}
	assert.deepEqual(asked, []);
	await flow.set('long enough', 'long enough');
	assert.deepEqual([flow.state, flow.error], ['done', '']);
	assert.deepEqual(asked, [[set, { token: 'secret', password: 'long enough' }]]);
});

test('what the server refuses is told, and can be tried again', async () => {
	for (const [status, state, error] of [[404, 'gone', ''], [422, 'set', 'reset.weak'], [503, 'set', 'reset.failed'], [0, 'set', 'reset.unreachable']]) {
		const { flow } = page('secret', { [set]: failure(status) });
		await flow.set('long enough', 'long enough');
		assert.deepEqual([flow.state, flow.error, flow.busy], [state, error, false]);
	}
	for (const [status, state, error] of [[409, 'off', ''], [429, 'ask', 'reset.limited'], [500, 'ask', 'reset.failed']]) {
		const { flow } = page('', { [known]: { mail: true }, [ask]: failure(status, 2_500) });
		await flow.start();
		await flow.ask('lin');
		assert.deepEqual([flow.state, flow.error], [state, error]);
		assert.equal(flow.wait, 3);
	}
});

test('every state and every error has its words in both languages', () => {
	for (const tag of ['en', 'zh-CN']) {
		for (const key of ['loading', 'off', 'ask', 'asked', 'set', 'done', 'gone', 'empty', 'differ', 'weak', 'limited', 'unreachable', 'failed']) {
			assert.ok(texts[tag][`reset.${key}`], `${tag} reset.${key}`);
		}
	}
});
