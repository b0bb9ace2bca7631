// The question behind a list of the archive: what the fields of its form mean
// to the server. Pure, no page.

/** The ratings that can be chosen, each with its worst and its best score. */
export const ratings = { low: [1, 2], middle: [3, 3], high: [4, 5], rated: [1, 5] };

/**
 * @param {Object<string, string>} fields state, words, tag, agent, group, site, rating, from, to; days as YYYY-MM-DD
 * @returns {{q: string, filter: object, bad: boolean}} bad: the last day is before the first
 */
export function queryOf({ words = '', tag = '', rating = '', from = '', to = '', ...ids }) {
	const filter = {};
	for (const name of ['state', 'agent', 'group', 'site']) if (ids[name]) filter[name] = ids[name];
	if (tag.trim()) filter.tag = tag.trim();
	const [least, most] = ratings[rating] ?? [];
	if (least) Object.assign(filter, { score_from: least, score_to: most });
	if (from) filter.from = Math.max(midnight(from, 0), 0);
	if (to) filter.to = Math.max(midnight(to, 1), 1);
	return { q: words.trim(), filter, bad: Boolean(from && to) && filter.to <= filter.from };
}

// The beginning of a day, or of one that many days later, in the reader's time zone: days do not all have 24 hours.
function midnight(day, later) {
	const [y, m, d] = day.split('-').map(Number);
	return new Date(y, m - 1, d + later).getTime();
}
