import test from 'node:test';
import assert from 'node:assert/strict';
import { queryOf } from '../static/js/console/archive-query.js';

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

test('a day is from midnight to midnight of the reader, also when the clock changes', () => {
	const hours = (day) => {
		const { filter } = queryOf({ from: day, to: day });
		return [new Date(filter.from).toISOString(), (filter.to - filter.from) / 3_600_000];
	};
	inZone('Europe/Berlin', () => {
		assert.deepEqual(hours('2026-07-01'), ['2026-06-30T22:00:00.000Z', 24]);
		assert.deepEqual(hours('2026-03-29'), ['2026-03-28T23:00:00.000Z', 23]);
		assert.deepEqual(hours('2026-10-25'), ['2026-10-24T22:00:00.000Z', 25]);
		assert.deepEqual(hours('2026-12-31'), ['2026-12-30T23:00:00.000Z', 24]);
	});
	inZone('Asia/Shanghai', () => assert.deepEqual(hours('2026-01-01'), ['2025-12-31T16:00:00.000Z', 24]));
	inZone('America/St_Johns', () => assert.deepEqual(hours('2026-03-08'), ['2026-03-08T03:30:00.000Z', 23]));
});

test('a day that begins at one, because midnight does not exist, is whole', () => {
	inZone('America/Santiago', () => {
		const { filter } = queryOf({ from: '2026-09-06', to: '2026-09-06' });
		assert.equal(filter.from, queryOf({ to: '2026-09-05' }).filter.to);
		assert.equal((filter.to - filter.from) / 3_600_000, 23);
	});
});

test('days follow each other without a gap', () => {
	for (const name of ['Europe/Berlin', 'Asia/Kolkata', 'America/New_York', 'Pacific/Apia']) {
		inZone(name, () => {
			for (const [day, next] of [['2026-03-07', '2026-03-08'], ['2026-03-28', '2026-03-29'], ['2026-10-31', '2026-11-01'], ['2026-02-28', '2026-03-01']]) {
				assert.equal(queryOf({ to: day }).filter.to, queryOf({ from: next }).filter.from, `${name} ${day}`);
			}
		});
	}
});

test('only what is filled in is asked for', () => {
	assert.deepEqual(queryOf({}), { q: '', filter: {}, bad: false });
	assert.deepEqual(queryOf({ state: '', words: ' a  b ', tag: ' ', agent: 'x', group: '', site: 'shop' }), { q: 'a  b', filter: { agent: 'x', site: 'shop' }, bad: false });
	assert.deepEqual(queryOf({ state: 'closed', tag: ' VIP ' }), { q: '', filter: { state: 'closed', tag: 'VIP' }, bad: false });
});

test('a rating is asked for by its worst and its best score', () => {
	const filter = (rating) => queryOf({ rating }).filter;
	assert.deepEqual([filter('low'), filter('rated'), filter(''), filter('x')], [{ score_from: 1, score_to: 2 }, { score_from: 1, score_to: 5 }, {}, {}]);
});

test('a last day before the first is refused, the same day is not', () => {
	assert.equal(queryOf({ from: '2026-11-02', to: '2026-11-01' }).bad, true);
	assert.equal(queryOf({ from: '2026-11-02', to: '2026-11-02' }).bad, false);
});

test('a year that is being typed asks for nothing that the server refuses', () => {
	const { filter } = queryOf({ from: '0002-11-16', to: '0002-11-17' });
	assert.ok(filter.from >= 0 && filter.to > 0);
});
