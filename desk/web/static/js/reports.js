// Reports: what happened in a period, as a table and as CSV.

import './wall/texts.js';
import { call } from './core/api.js';
import { byId, el, setText } from './core/dom.js';
import { locale, number, t, waited } from './core/i18n.js';
import { languageMenu } from './wall/page-language.js';

const kinds = ['day', 'agent', 'group', 'site'];
const dayMS = 86_400_000;
const state = { rows: null, by: 'day', trouble: null, asked: 0 };

const pad = (n) => String(n).padStart(2, '0');
const isoDay = (d) => `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;

/** Midnight of a date that was entered, in ms; NaN for none. */
function midnight(text, later = 0) {
	const m = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text);
	return m ? new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]) + later).getTime() : NaN;
}

/** The query of what is entered, null when that is no period. */
function query() {
	const from = midnight(byId('from').value);
	const to = midnight(byId('to').value, 1);
	if (!(from < to) || to - from > 400 * dayMS) return null;
	const offset = -new Date(from).getTimezoneOffset() * 60_000;
	return new URLSearchParams({ from: String(from), to: String(to), offset: String(offset), by: byId('by').value });
}

function share(part, whole) {
	return whole ? new Intl.NumberFormat(locale(), { style: 'percent' }).format(part / whole) : '–';
}

const time = (spread) => (spread.n ? waited(spread.median) : '–');

const columns = {
	opened: { who: 'chats', show: (r) => number(r.opened) },
	arrived: { who: 'chats', show: (r) => number(r.arrived) },
	abandoned: { who: 'chats', show: (r) => (r.abandoned ? `${number(r.abandoned)} (${share(r.abandoned, r.arrived)})` : '0') },
	wait: { show: (r) => time(r.wait) },
	first: { show: (r) => time(r.first) },
	handled: { show: (r) => number(r.handle.n) },
	handle: { show: (r) => time(r.handle) },
	closed: { show: (r) => number(r.closed) },
	rating: { show: (r) => (r.rated ? `${new Intl.NumberFormat(locale(), { maximumFractionDigits: 1 }).format(r.score)} (${number(r.rated)})` : '–') },
	contained: { who: 'chats', show: (r) => share(r.contained, r.contained + r.handoff) },
};

async function show() {
	const q = query();
	const asked = ++state.asked;
	state.trouble = q ? null : 'period';
	if (!q) {
		draw();
		return;
	}
	byId('csv').href = `/api/v1/supervisor/reports?${q}&format=csv`;
	try {
		const { rows } = await call('GET', `/api/v1/supervisor/reports?${q}`);
		if (asked !== state.asked) return;
		state.rows = rows;
		state.by = q.get('by');
	} catch (err) {
		if (err.status === 401) location.assign('/console');
		if (asked !== state.asked) return;
		state.trouble = { text: err.message };
	}
	draw();
}

function name(row) {
	if (state.by === 'day') return new Intl.DateTimeFormat(locale(), { dateStyle: 'medium', timeZone: 'UTC' }).format(Date.parse(row.key));
	return row.name || (row.key ? row.key : t('reports.none'));
}

function draw() {
	document.title = `${t('wall.reports')} · Desk`;
	const by = byId('by');
	const chosen = by.value || 'day';
	by.replaceChildren(...kinds.map((k) => el('option', { value: k, text: t(`reports.by.${k}`) })));
	by.value = chosen;
	const line = byId('trouble');
	line.hidden = !state.trouble;
	setText(line, state.trouble ? (state.trouble === 'period' ? t('reports.period') : t('wall.failed', { text: state.trouble.text })) : '');
	if (!state.rows) return;
	const shown = Object.entries(columns).filter(([, c]) => c.who !== 'chats' || state.by !== 'agent');
	const rows = state.by === 'agent' ? state.rows.filter((r) => r.key) : state.rows;
	byId('wrap').hidden = rows.length === 0;
	byId('empty').hidden = rows.length > 0;
	byId('head').replaceChildren(el('tr', {}, el('th', { scope: 'col', text: t(`reports.by.${state.by}`) }),
		...shown.map(([key]) => el('th', { scope: 'col', class: 'number', text: t(`reports.${key}`) }))));
	byId('rows').replaceChildren(...rows.map((r) => el('tr', { data: { testid: 'report-row' } }, el('th', { scope: 'row', text: name(r) }),
		...shown.map(([key, c]) => el('td', { class: 'number', data: { column: key }, text: c.show(r) })))));
}

byId('to').value = isoDay(new Date());
byId('from').value = isoDay(new Date(Date.now() - 6 * dayMS));
languageMenu('language', draw);
byId('form').addEventListener('submit', (e) => {
	e.preventDefault();
	show();
});
byId('by').addEventListener('change', show);
show();
