// Reports: what happened in a period beside the one before, as charts, as a
// table and as CSV, of everything or of a part. The address keeps what is shown.

import './wall/texts.js';
import { call } from './core/api.js';
import { byId, el, setChildren, setText } from './core/dom.js';
import { locale, number, t, waited } from './core/i18n.js';
import { ceiling, ceilingTime, draw as drawChart } from './wall/chart.js';
import { charted, figures, pairs, periods, placeOf, shown } from './wall/report-figures.js';
import { filterOf, filters, searchOf, selectionOf } from './wall/report-selection.js';
import { languageMenu } from './wall/page-language.js';

const kinds = ['day', 'hour', 'agent', 'group', 'site', 'tag'];
const state = { found: null, trouble: null, asked: 0, measure: 'first', choices: null, selection: null };

const pad = (n) => String(n).padStart(2, '0');
const isoDay = (d) => `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function address({ from, to }, { by, ...rest }) {
	return `/api/v1/supervisor/reports?${new URLSearchParams({ from: String(from), to: String(to), by, ...placeOf(zone, from), ...filterOf(rest) })}`;
}

async function show() {
	const selection = Object.fromEntries(Object.keys(state.selection).map((name) => [name, byId(name).value]));
	state.selection = selection;
	history.replaceState(null, '', searchOf(selection));
	const period = periods(selection.from, selection.to);
	const asked = ++state.asked;
	state.trouble = period ? null : 'period';
	byId('csv').hidden = !period;
	if (!period) {
		draw();
		return;
	}
	byId('csv').href = `${address(period.now, selection)}&format=csv`;
	try {
		const [now, before] = await Promise.all([call('GET', address(period.now, selection)), call('GET', address(period.before, selection))]);
		if (asked !== state.asked) return;
		const { by } = selection;
		state.found = { by, period, now, before, own: now.own, filtered: filters.some((name) => selection[name]), pairs: pairs(by, now.rows, before.rows, period.days) };
	} catch (err) {
		if (err.status === 401) location.assign('/console');
		if (asked !== state.asked) return;
		state.trouble = { text: err.message };
	}
	draw();
}

// What can be chosen. Without it the page has the filters of its address only.
async function learn() {
	try {
		state.choices = await call('GET', '/api/v1/supervisor/reports/choices');
	} catch {
		return;
	}
	draw();
}

const ways = {
	count: { show: (n) => number(n), scale: (n) => ceiling(Math.max(n, 4), [2, 4, 10]) },
	share: { show: (n) => new Intl.NumberFormat(locale(), { style: 'percent' }).format(n), scale: () => 1 },
	time: { show: (ms) => waited(ms), scale: ceilingTime },
	score: { show: (n) => new Intl.NumberFormat(locale(), { maximumFractionDigits: 1 }).format(n), scale: () => 5 },
};

const wayOf = (name) => ways[figures[name].kind];

function text(name, row) {
	const value = figures[name].value(row);
	return value === null ? '–' : wayOf(name).show(value);
}

const dayText = (day, style) => new Intl.DateTimeFormat(locale(), { ...style, timeZone: 'UTC' }).format(Date.parse(day));

function label(by, row) {
	if (by === 'day') return dayText(row.key, { dateStyle: 'medium' });
	if (by === 'hour') return `${row.key}:00`;
	return row.name || row.key || t('reports.none');
}

function draw() {
	document.title = `${t('wall.reports')} · Desk`;
	const line = byId('trouble');
	line.hidden = !state.trouble;
	setText(line, state.trouble ? (state.trouble === 'period' ? t('reports.period') : t('wall.failed', { text: state.trouble.text })) : '');
	drawFields();
	const { found } = state;
	if (!found) return;
	byId('wall-link').hidden = found.own;
	if (found.own) setText(byId('lead'), t('reports.own'));
	const nothing = found.now.rows.length === 0 && found.before.rows.length === 0;
	byId('found').hidden = nothing;
	byId('empty').hidden = !nothing;
	setText(byId('empty'), t(found.filtered ? 'reports.empty.part' : 'reports.empty'));
	if (nothing) return;
	const names = shown(found.by, found.own, found.now.total);
	drawTiles(shown('', found.own, found.now.total), found);
	drawCharts(names, found);
	drawTable(names, found);
}

// Puts the options of a field, and keeps what is chosen, even if it is none of them: the server says what is wrong with it.
function drawOptions(name, options) {
	const field = byId(name);
	const chosen = field.options.length ? field.value : state.selection[name];
	if (chosen && !options.some(({ value }) => value === chosen)) options.push({ value: chosen, text: chosen });
	field.replaceChildren(...options.map((o) => el('option', o)));
	field.value = chosen;
}

function drawFields() {
	const { found, choices } = state;
	drawOptions('by', kinds.filter((k) => k !== 'agent' || !found?.own).map((k) => ({ value: k, text: t(`reports.by.${k}`) })));
	for (const name of ['site', 'group', 'agent']) {
		drawOptions(name, [{ value: '', text: t('reports.any') }, ...(choices?.[`${name}s`] ?? []).map((c) => ({ value: c.id, text: c.name }))]);
	}
	byId('agent').parentNode.hidden = Boolean(found?.own);
	byId('tag').placeholder = t('reports.any');
	byId('tags').replaceChildren(...(choices?.tags ?? []).map((value) => el('option', { value })));
}

function drawTiles(names, { now, before }) {
	setChildren(byId('tiles'), names.map((name) => el('li', { class: 'tile', data: { testid: `sum-${name}` } }, el('strong', { text: t(`reports.${name}`) }),
		el('span', { class: 'tile-number', text: text(name, now.total) }), el('span', { text: t('reports.before', { n: text(name, before.total) }) }))));
}

function drawCharts(names, found) {
	const select = byId('measure');
	if (!names.includes(state.measure)) state.measure = names[0];
	select.replaceChildren(...names.map((name) => el('option', { value: name, text: t(`reports.${name}`) })));
	select.value = state.measure;
	const chart = (id, name) => drawChart(byId(id), {
		title: t(`reports.${name}`), first: t(`reports.by.${found.by}`), then: t('reports.before.head'), ...wayOf(name),
		summary: t('reports.chart.sum', { n: text(name, found.now.total), before: text(name, found.before.total) }),
		bars: charted(found.by, found.pairs, name).map(({ row, before }) => ({
			label: label(found.by, row), mark: found.by === 'day' ? dayText(row.key, { month: 'numeric', day: 'numeric' }) : undefined,
			value: figures[name].value(row), before: figures[name].value(before),
		})),
	});
	chart('chart-chats', names.includes('opened') ? 'opened' : 'handled');
	chart('chart-more', state.measure);
	const { days } = found.period;
	setText(byId('legend'), t('reports.legend', { from: dayText(days[0], { dateStyle: 'medium' }), to: dayText(days.at(-1), { dateStyle: 'medium' }), n: number(days.length) }));
}

function drawTable(names, found) {
	const cells = (row, before) => names.map((name) => el('td', { class: 'number', data: { column: name } }, text(name, row), ' ', el('span', { class: 'before', text: t('reports.before', { n: text(name, before) }) })));
	byId('head').replaceChildren(el('tr', {}, el('th', { scope: 'col', text: t(`reports.by.${found.by}`) }),
		...names.map((name) => el('th', { scope: 'col', class: 'number', text: t(`reports.${name}`) }))));
	byId('rows').replaceChildren(...found.pairs.map(({ row, before }) => el('tr', { data: { testid: 'report-row' } }, el('th', { scope: 'row', text: label(found.by, row) }), ...cells(row, before))));
	byId('foot').replaceChildren(el('tr', { data: { testid: 'report-total' } }, el('th', { scope: 'row', text: t('reports.total') }), ...cells(found.now.total, found.before.total)));
}

state.selection = selectionOf(location.search, isoDay(new Date()));
for (const name of ['from', 'to', 'tag']) byId(name).value = state.selection[name];
drawFields();
languageMenu('language', draw);
byId('form').addEventListener('submit', (e) => {
	e.preventDefault();
	show();
});
for (const name of ['by', 'site', 'group', 'agent', 'tag']) byId(name).addEventListener('change', show);
byId('measure').addEventListener('change', () => {
	state.measure = byId('measure').value;
	draw();
});
globalThis.addEventListener('resize', draw);
show();
learn();
