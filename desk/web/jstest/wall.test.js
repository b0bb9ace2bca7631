import test from 'node:test';
import assert from 'node:assert/strict';
import { Clock, deferred, settle } from './support.js';
import { bars, ceiling, ceilingTime } from '../static/js/wall/chart.js';
import { Poll } from '../static/js/wall/poll.js';
import { initials, level } from '../static/js/wall/agents.js';
import { inTime, levelOf, targetsOf, warningsOf } from '../static/js/wall/targets.js';

function polling(ask, extra = {}) {
	const clock = new Clock();
	const seen = { answers: [], errors: [], hidden: false, asked: 0 };
	const env = { ...clock.env, hidden: () => seen.hidden, random: () => 1 };
	const poll = new Poll({
		every: 2_000, env,
		ask: () => { seen.asked++; return ask(); },
		onAnswer: (a) => seen.answers.push(a),
		onError: (err, at) => { seen.errors.push([err.message, at - clock.time]); return extra.goOn ?? true; },
	});
	return { clock, seen, poll };
}

test('asks at an even pace, one question at a time', async () => {
	let answer = deferred();
	const { clock, seen, poll } = polling(() => answer.promise);
	poll.now();
	poll.now();
	await clock.advance(60_000);
	assert.equal(seen.asked, 1);
	answer.resolve('a');
	await settle();
	answer = deferred();
	answer.resolve('b');
	await clock.advance(2_000);
	assert.deepEqual([seen.asked, seen.answers], [2, ['a', 'b']]);
});

test('backs off while it fails, minds the server’s advice, and recovers', async () => {
	const errors = [new Error('1'), new Error('2'), Object.assign(new Error('3'), { retryMs: 20_000 })];
	const { clock, seen, poll } = polling(() => (errors.length ? Promise.reject(errors.shift()) : Promise.resolve('ok')));
	poll.now();
	await settle();
	assert.deepEqual(seen.errors, [['1', 1_000]]);
	await clock.advance(1_000);
	assert.deepEqual(seen.errors[1], ['2', 2_000]);
	await clock.advance(2_000);
	assert.deepEqual(seen.errors[2], ['3', 24_000]);
	await clock.advance(24_000);
	assert.deepEqual(seen.answers, ['ok']);
	await clock.advance(2_000);
	assert.equal(seen.answers.length, 2);
});

test('ends when told so', async () => {
	const { clock, seen, poll } = polling(() => Promise.reject(new Error('no')), { goOn: false });
	poll.now();
	await clock.advance(100_000);
	assert.equal(seen.asked, 1);
});

test('rests while nobody looks, and asks at once when somebody does', async () => {
	const { clock, seen, poll } = polling(() => Promise.resolve('x'));
	poll.now();
	await settle();
	seen.hidden = true;
	await clock.advance(60_000);
	assert.equal(seen.asked, 1);
	poll.shown();
	await settle();
	assert.equal(seen.asked, 1);
	seen.hidden = false;
	poll.shown();
	await settle();
	assert.equal(seen.asked, 2);
	await clock.advance(2_000);
	assert.equal(seen.asked, 3);
});

test('minutes become twelve bars of five that end now', () => {
	const now = Date.UTC(2026, 10, 22, 12, 3, 30);
	const at = (minute) => Date.UTC(2026, 10, 22, 12, minute);
	const list = bars([
		{ at: at(-56), arrived: 9, left: 0, waited: 0 }, // too old
		{ at: at(-55), arrived: 1, left: 0, waited: 0 },
		{ at: at(0), arrived: 2, left: 1, waited: 500 }, { at: at(3), arrived: 3, left: 2, waited: 100 },
		{ at: at(5), arrived: 9, left: 0, waited: 0 }, // not yet
	], now);
	assert.equal(list.length, 12);
	assert.deepEqual(list[0], { at: at(-55), arrived: 1, left: 0, waited: 0 });
	assert.deepEqual(list[11], { at: at(0), arrived: 5, left: 3, waited: 600 });
});

test('scales end at pleasant numbers', () => {
	assert.deepEqual([1, 2, 3, 6, 11, 21, 99, 101].map((n) => ceiling(n)), [1, 2, 5, 10, 20, 50, 100, 200]);
	assert.deepEqual([1, 10_000, 10_001, 59_000, 61_000, 3_600_001, 20_000_000].map(ceilingTime), [10_000, 10_000, 30_000, 60_000, 120_000, 7_200_000, 36_000_000]);
});

test('waits and names', () => {
	assert.deepEqual([0, 59_999, 60_000, 179_999, 180_000].map(level), ['', '', 'amber', 'amber', 'red']);
	assert.deepEqual(['Lin Wei', 'lin', '王小明', ' Ada  B. Lovelace ', ''].map(initials), ['LW', 'L', '王', 'AL', '']);
});

test('a wait is as urgent as the group’s target says', () => {
	const target = { in: 30_000 };
	assert.deepEqual([0, 14_999, 15_000, 30_000, 30_001].map((ms) => levelOf(ms, target)), ['', '', 'amber', 'amber', 'red']);
	assert.deepEqual([59_999, 60_000, 180_000].map((ms) => levelOf(ms, undefined)), ['', 'amber', 'red']);
});

test('warnings name their groups in order, and say when it is over for the moment', () => {
	const target = (group, more) => ({ group, in: 30_000, percent: 80, late: 0, answered: 0, within: 0, warnings: [], ...more });
	const data = {
		groups: [{ id: '', name: '' }, { id: 'a', name: 'Ann’s' }, { id: 'b', name: 'B' }],
		targets: [target('a', { late: 2, answered: 8, within: 5, warnings: ['waiting', 'share'] }), target('b', { warnings: ['waiting'] }), target('c')],
	};
	assert.deepEqual(warningsOf(data).map((w) => [w.name, w.why, w.level, w.target.late]), [['Ann’s', 'waiting', 'red', 2], ['Ann’s', 'share', 'amber', 2], ['B', 'was', 'amber', 0]]);
	assert.equal(new Set(warningsOf(data).map((w) => w.id)).size, 3);
	assert.deepEqual([inTime(data.targets[0]), inTime(data.targets[1])], [0.625, null]);
	assert.deepEqual(warningsOf({ groups: [] }), []); // of an older server
	assert.equal(targetsOf(data).get('a').late, 2);
});
