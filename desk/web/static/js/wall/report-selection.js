// What a report is about, as the address of its page keeps it: a bookmark of
// the page shows the same report again. Pure, no page.

import { shift } from './report-figures.js';

/** The filters, in the order of their fields. */
export const filters = ['site', 'group', 'agent', 'tag'];
const fields = ['from', 'to', 'by', ...filters];

/**
 * What the address says, and for what it leaves out the last seven days by day.
 * @param {string} search of the address
 * @param {string} today as YYYY-MM-DD
 * @returns {Object<string, string>} a text for each field
 */
export function selectionOf(search, today) {
	const given = new URLSearchParams(search);
	const usual = { from: shift(today, -6), to: today, by: 'day' };
	return Object.fromEntries(fields.map((name) => [name, given.get(name) ?? usual[name] ?? '']));
}

/** The other way round: the address's part for a selection. */
export function searchOf(selection) {
	return `?${new URLSearchParams(fields.filter((name) => selection[name]).map((name) => [name, selection[name]]))}`;
}

/** What the server is asked besides the period: filters that are set. */
export function filterOf(selection) {
	return Object.fromEntries(filters.map((name) => [name, (selection[name] ?? '').trim()]).filter(([, value]) => value));
}
