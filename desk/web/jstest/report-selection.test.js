import test from 'node:test';
import assert from 'node:assert/strict';
import { filterOf, searchOf, selectionOf } from '../static/js/wall/report-selection.js';

const usual = { from: '2026-02-24', to: '2026-03-02', by: 'day', site: '', group: '', agent: '', tag: '' };

test('an address without a selection has the last seven days by day', () => {
	for (const search of ['', '?', '?other=1']) assert.deepEqual(selectionOf(search, '2026-03-02'), usual, search);
});

test('a selection is the same again after it was an address', () => {
	for (const part of [{}, { by: 'tag', tag: 'a&b=c, ü+ #1' }, { from: '2025-01-01', to: '2025-12-31', by: 'hour', site: 's', group: 'g', agent: 'a', tag: 'vip' }, { from: 'x', by: 'moon' }]) {
		const selection = { ...usual, ...part };
		assert.deepEqual(selectionOf(searchOf(selection), '1999-01-01'), selection);
	}
});

test('the server is asked for the filters that are set, and for no others', () => {
	assert.deepEqual(filterOf({ ...usual, site: 's', tag: '  vip ' }), { site: 's', tag: 'vip' });
	assert.deepEqual(filterOf({ ...usual, tag: '  ' }), {});
});
