import test from 'node:test';
import assert from 'node:assert/strict';
import { charted, figures, pairs, periods, placeOf, shift, shown } from '../static/js/wall/report-figures.js';

const zone = process.env.TZ;
const inZone = (name, f) => {
	process.env.TZ = name;
	try {
		f();
	} finally {
		if (zone === undefined) delete process.env.TZ;
		else process.env.TZ = zone;
	}
};

const row = (key, more = {}) => ({ ...pairs('site', [], [{ key }])[0].row, ...more });

test('the period before has as many days and ends where this one begins, also when the clocks change', () => {
	const hours = ({ from, to }) => (to - from) / 3_600_000;
	inZone('Europe/Berlin', () => {
		const p = periods('2026-03-29', '2026-03-29');
		assert.deepEqual([hours(p.now), hours(p.before), p.before.to === p.now.from, p.days], [23, 24, true, ['2026-03-29']]);
		const autumn = periods('2026-10-25', '2026-10-26');
		assert.deepEqual([hours(autumn.now), hours(autumn.before), autumn.before.to === autumn.now.from], [49, 48, true]);
		const year = periods('2026-01-01', '2026-12-31');
		assert.deepEqual([year.days.length, hours(year.now), new Set(year.days).size], [365, 365 * 24, 365]);
	});
	inZone('Asia/Kathmandu', () => assert.equal(new Date(periods('2026-05-02', '2026-05-03').now.from).toISOString(), '2026-05-01T18:15:00.000Z'));
	inZone('America/St_Johns', () => assert.equal(hours(periods('2026-03-02', '2026-03-08').now), 7 * 24 - 1));
	inZone('Pacific/Apia', () => assert.ok(periods('2011-12-28', '2011-12-31').now.to > periods('2011-12-28', '2011-12-31').now.from));
});

test('what is no period is none', () => {
	for (const [first, last] of [['', '2026-01-01'], ['2026-01-02', '2026-01-01'], ['2026-01-01', ''], ['x', 'y'], ['2024-01-01', '2025-02-05']]) assert.equal(periods(first, last), null, `${first} ${last}`);
	assert.equal(periods('2024-01-01', '2025-02-03').days.length, 400);
	assert.equal(shift('2024-02-28', 2), '2024-03-01');
});

test('the time zone goes by its name, and by its offset where it has none that a server knows', () => {
	assert.deepEqual(placeOf('Europe/Berlin', 0), { zone: 'Europe/Berlin' });
	assert.deepEqual(placeOf('America/Argentina/Buenos_Aires', 0), { zone: 'America/Argentina/Buenos_Aires' });
	assert.deepEqual(placeOf('UTC', 0), { zone: 'UTC' });
	inZone('Asia/Kathmandu', () => {
		for (const name of [undefined, '', '+05:45', 'Etc/Unknown', '../x']) assert.deepEqual(placeOf(name, Date.UTC(2026, 4, 1)), { offset: '20700000' }, name);
	});
});

test('each day and each hour has a row beside that of the period before', () => {
	const days = ['2026-03-01', '2026-03-02'];
	const list = pairs('day', [row('2026-03-02', { opened: 3 })], [row('2026-02-27', { opened: 5 })], days);
	assert.deepEqual(list.map((p) => [p.row.key, p.row.opened, p.before.opened]), [['2026-03-01', 0, 5], ['2026-03-02', 3, 0]]);
	const hours = pairs('hour', [row('09', { opened: 1 })], [row('23', { opened: 2 })]);
	assert.deepEqual([hours.length, hours[0].row.key, hours[9].row.opened, hours[23].before.opened], [24, '00', 1, 2]);
});

test('who was there only before has a row, and what belongs to no agent has none among agents', () => {
	const list = pairs('agent', [row('', { opened: 9 }), row('a', { name: 'Ann', closed: 1 })], [row('b', { name: 'Ben', closed: 2 })]);
	assert.deepEqual(list.map((p) => [p.row.key, p.row.name, p.row.closed, p.before.closed]), [['a', 'Ann', 1, 0], ['b', 'Ben', 0, 2]]);
	assert.equal(pairs('site', [row('')], []).length, 1);
});

test('a number without anything behind it is none, not zero', () => {
	for (const name of ['left', 'wait', 'first', 'intime', 'handle', 'rating', 'pleased', 'contained']) assert.equal(figures[name].value(row('x')), null, name);
	const full = row('x', { arrived: 4, abandoned: 1, targeted: 8, within: 6, rated: 4, score: 3.5, scores: [1, 0, 0, 1, 2], contained: 3, handoff: 1 });
	assert.deepEqual(['left', 'intime', 'rating', 'pleased', 'contained'].map((name) => figures[name].value(full)), [0.25, 0.75, 3.5, 0.75, 0.75]);
});

test('agents have no numbers of all chats, and targets are shown where there are some', () => {
	assert.ok(shown('day', false, { targeted: 1 }).includes('intime') && !shown('day', false, { targeted: 0 }).includes('intime'));
	for (const names of [shown('agent', false, { targeted: 0 }), shown('day', true, { targeted: 0 })]) assert.ok(!names.includes('opened') && !names.includes('contained') && names.includes('handled'));
});

test('a chart keeps the order of time and otherwise shows the largest', () => {
	const list = Array.from({ length: 30 }, (_, i) => ({ row: row(String(i), { opened: i }), before: row(String(i)) }));
	assert.equal(charted('day', list, 'opened'), list);
	assert.deepEqual(charted('tag', list, 'opened').map((p) => p.row.opened), Array.from({ length: 16 }, (_, i) => 29 - i));
});
