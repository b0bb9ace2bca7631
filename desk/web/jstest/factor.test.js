import test from 'node:test';
import assert from 'node:assert/strict';
import { Factor } from '../static/js/console/factor.js';
import { deferred, settle } from './support.js';

function rig(...answers) {
	const asked = [];
	let changes = 0;
	const factor = new Factor({
		onChange: () => changes++,
		call: async (method, path, body) => {
			asked.push([method, path.replace('/api/v1/agent/factor', ''), body]);
			const answer = await answers.shift();
			if (answer instanceof Error) throw answer;
			return answer;
		},
	});
	return { factor, asked, changes: () => changes };
}

const refused = (status, reason = '') => Object.assign(new Error(), { status, reason });
const offer = { secret: 'ABCD', uri: 'otpauth:', qr: 'data:' };

test('it is set up with the secret that was offered, and shows the recovery codes', async () => {
	const { factor, asked } = rig(offer, refused(403, 'second_factor_wrong'), refused(403), refused(0), { recovery: ['a', 'b'] });
	await factor.load();
	assert.equal(factor.state, 'off');
	for (const want of ['factor.wrong', 'password.wrong', 'login.unreachable']) {
		await factor.setUp('pw', '123456');
		assert.deepEqual([factor.state, factor.error], ['off', want]);
	}
	await factor.setUp('pw', '123456');
	assert.deepEqual([factor.state, factor.error, factor.codes], ['codes', '', ['a', 'b']]);
	assert.deepEqual(asked.at(-1), ['POST', '', { password: 'pw', code: '123456', secret: 'ABCD' }]);
});

test('one that is on is renewed and turned off', async () => {
	const { factor, asked } = rig({ since: 5, recovery: 7 }, { recovery: ['c'] }, null);
	await factor.load();
	assert.deepEqual([factor.state, factor.since, factor.recovery, factor.offer], ['on', 5, 7, null]);
	await factor.renew('pw', '1');
	assert.deepEqual([factor.state, factor.codes], ['codes', ['c']]);
	await factor.remove('pw', '2');
	assert.equal(factor.state, 'removed');
	assert.deepEqual(asked.slice(1).map((a) => a[1]), ['/recovery', '/remove']);
});

test('a change in another tab is shown as it is now', async () => {
	const { factor } = rig(offer, refused(409), { since: 5, recovery: 10 });
	await factor.load();
	await factor.setUp('pw', '1');
	assert.deepEqual([factor.state, factor.error, factor.busy], ['on', 'factor.changed', false]);
});

test('one question at a time, and one that is not answered can be asked again', async () => {
	const first = deferred();
	const { factor, asked, changes } = rig(first.promise, offer);
	factor.load();
	factor.load();
	await settle();
	assert.deepEqual([asked.length, factor.busy, changes()], [1, true, 1]);
	first.resolve(refused(0));
	await settle();
	assert.deepEqual([factor.state, factor.error], ['absent', 'login.unreachable']);
	await factor.load();
	assert.equal(factor.state, 'off');
});
