// What a report shows: its period and the one before, its rows beside those of
// then, and its numbers. Pure, no page.

const dayMS = 86_400_000;
const maxDays = 400;

/** Midnight of a day as YYYY-MM-DD, or of one that many days later, in the reader's time zone; NaN for none. */
export function midnight(text, later = 0) {
	const m = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text);
	return m ? new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]) + later).getTime() : NaN;
}

/** A day that many days later: days are counted by the calendar, whatever the clocks do. */
export function shift(day, days) {
	return new Date(Date.parse(day) + days * dayMS).toISOString().slice(0, 10);
}

/**
 * The period of two days, both included, and the one of as many days before it.
 * @returns {{days: string[], now: object, before: object}|null} null when that is no period; from and to in ms
 */
export function periods(first, last) {
	if (!(midnight(first) <= midnight(last))) return null;
	const n = Math.round((Date.parse(last) - Date.parse(first)) / dayMS) + 1;
	if (n > maxDays || Number.isNaN(n)) return null;
	const span = (a, b) => ({ from: Math.max(midnight(a), 0), to: midnight(b, 1) });
	const days = Array.from({ length: n }, (_, i) => shift(first, i));
	return { days, now: span(first, last), before: span(shift(first, -n), shift(first, -1)) };
}

/** How the server is told the reader's time zone: by its name if there is one, else by how far it is ahead of UTC. */
export function placeOf(zone, at) {
	if (/^[A-Za-z]+(\/[A-Za-z0-9_+-]+)+$/.test(zone ?? '') && zone !== 'Etc/Unknown' || zone === 'UTC') return { zone };
	return { offset: String(-new Date(at).getTimezoneOffset() * 60_000) };
}

const none = { n: 0, mean: 0, median: 0, p90: 0 };
const empty = (key) => ({
	key, name: '', opened: 0, arrived: 0, abandoned: 0, closed: 0, contained: 0, handoff: 0, rated: 0, score: 0, scores: [0, 0, 0, 0, 0], targeted: 0, within: 0, wait: none, first: none, handle: none,
});

/**
 * The rows of a report, each with that of the period before: of the day as many days ago, of the same hour, of the same agent. Every day and
 * every hour has a row.
 * @returns {{row: object, before: object}[]}
 */
export function pairs(by, rows, before, days = []) {
	const now = new Map(rows.map((r) => [r.key, r]));
	const then = new Map(before.map((r) => [r.key, r]));
	const pair = (key, old) => ({ row: now.get(key) ?? empty(key), before: then.get(old) ?? empty(old) });
	if (by === 'day') return days.map((day) => pair(day, shift(day, -days.length)));
	if (by === 'hour') return Array.from({ length: 24 }, (_, h) => String(h).padStart(2, '0')).map((key) => pair(key, key));
	const gone = before.filter((r) => !now.has(r.key)).map((r) => ({ row: { ...empty(r.key), name: r.name }, before: r }));
	return [...rows.map((r) => pair(r.key, r.key)), ...gone].filter(({ row }) => by !== 'agent' || row.key);
}

const part = (n, of) => (of ? n / of : null);
const median = (spread) => (spread.n ? spread.median : null);

/**
 * The numbers of a row. value is null where there is none, kind says how it is shown. Those of all chats are of no agent.
 */
export const figures = {
	opened: { all: true, kind: 'count', value: (r) => r.opened },
	arrived: { all: true, kind: 'count', value: (r) => r.arrived },
	abandoned: { all: true, kind: 'count', value: (r) => r.abandoned },
	left: { all: true, kind: 'share', value: (r) => part(r.abandoned, r.arrived) },
	wait: { kind: 'time', value: (r) => median(r.wait) },
	first: { kind: 'time', value: (r) => median(r.first) },
	intime: { kind: 'share', value: (r) => part(r.within, r.targeted) },
	handled: { kind: 'count', value: (r) => r.handle.n },
	handle: { kind: 'time', value: (r) => median(r.handle) },
	closed: { kind: 'count', value: (r) => r.closed },
	rated: { kind: 'count', value: (r) => r.rated },
	rating: { kind: 'score', value: (r) => (r.rated ? r.score : null) },
	pleased: { kind: 'share', value: (r) => part(r.scores[3] + r.scores[4], r.scores.reduce((a, b) => a + b, 0)) },
	contained: { all: true, kind: 'share', value: (r) => part(r.contained, r.contained + r.handoff) },
};

/** The names of the numbers that a report has: those of all chats are not in one of agents, and targets only where there are some. */
export function shown(by, own, total) {
	return Object.keys(figures).filter((name) => !(figures[name].all && (own || by === 'agent')) && (name !== 'intime' || total.targeted > 0));
}

/** The pairs that a chart has room for: all that are in order of time, else those with most chats. */
export function charted(by, list, name, most = 16) {
	if (by === 'day' || by === 'hour') return list;
	const value = (p) => figures[name].value(p.row) ?? 0;
	return [...list].sort((a, b) => value(b) - value(a)).slice(0, most);
}
