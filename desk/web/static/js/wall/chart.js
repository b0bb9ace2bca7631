// A small chart: bars as SVG, and the same numbers as a table behind it.

import { el } from '../core/dom.js';
import { t } from '../core/i18n.js';

const ns = 'http://www.w3.org/2000/svg';
const height = 112;
const left = 40; // room for the scale
const bottom = 16; // and for the times

function shape(tag, attributes, text) {
	const node = document.createElementNS(ns, tag);
	for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
	if (text !== undefined) node.textContent = text;
	return node;
}

/** The smallest pleasant number that is not below n. */
export function ceiling(n, steps = [1, 2, 5]) {
	for (let unit = 1; ; unit *= 10) {
		for (const step of steps) if (step * unit >= n) return step * unit;
	}
}

/** The ceiling of a duration in ms: whole seconds, minutes or hours that are easy to read. */
export function ceilingTime(ms) {
	const seconds = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400];
	return 1000 * (seconds.find((s) => s * 1000 >= ms) ?? 3600 * ceiling(ms / 3_600_000));
}

/**
 * Sums minutes into bars of five.
 * @param {{at: number, arrived: number, left: number, waited: number}[]} minutes
 * @param {number} now
 */
export function bars(minutes, now) {
	const five = 300_000;
	const end = Math.floor(now / five) * five;
	const all = Array.from({ length: 12 }, (_, i) => ({ at: end - (11 - i) * five, arrived: 0, left: 0, waited: 0 }));
	for (const m of minutes) {
		const bar = all[Math.floor((m.at - all[0].at) / five)];
		if (!bar) continue;
		bar.arrived += m.arrived;
		bar.left += m.left;
		bar.waited += m.waited;
	}
	return all;
}

/**
 * Draws a chart into a figure.
 * @param {HTMLElement} figure
 * @param {object} o
 * @param {string} o.title
 * @param {string} o.summary in words, also for those who do not see the bars
 * @param {{label: string, mark?: string, value: number|null, before?: number|null, slow?: boolean}[]} o.bars mark is the label below the bar, if it is another
 * @param {(value: number) => string} o.show
 * @param {(n: number) => number} o.scale the top of the scale for the largest value
 * @param {string} o.first the head of the labels
 * @param {string} [o.then] the head of the values before, which are outlined
 */
export function draw(figure, { title, summary, bars: list, show, scale, first, then }) {
	const width = Math.max(240, figure.clientWidth);
	const key = JSON.stringify([title, summary, width, list]);
	if (figure.dataset.drawn === key) return;
	figure.dataset.drawn = key;
	const open = figure.querySelector('details')?.open ?? false;
	const top = scale(Math.max(1, ...list.map((b) => Math.max(b.value ?? 0, b.before ?? 0))));
	const svg = shape('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${title}: ${summary}` });
	const floor = height - bottom;
	const y = (value) => 8 + (floor - 8) * (1 - value / top);
	for (const value of [0, top / 2, top]) {
		svg.append(shape('line', { x1: left, x2: width, y1: y(value), y2: y(value) }));
		if (value !== top / 2) svg.append(shape('text', { x: left - 6, y: y(value) + 3, 'text-anchor': 'end' }, show(value)));
	}
	const step = (width - left) / Math.max(list.length, 1);
	const gap = step > 12 ? 3 : step / 6;
	const every = Math.ceil(48 / step); // labels have room
	const bar = (x, wide, value, kind) => {
		if (value > 0) svg.append(shape('rect', { x, y: Math.min(y(value), floor - 2), width: wide, height: Math.max(floor - y(value), 2), rx: Math.min(2, wide / 2), class: kind }));
	};
	list.forEach((b, i) => {
		const x = left + i * step;
		const wide = (step - 2 * gap) / (then ? 2 : 1);
		if (then) bar(x + gap, wide, b.before, 'before');
		bar(x + gap + (then ? wide : 0), wide, b.value, b.slow ? 'slow' : '');
		if (i % every === 0) svg.append(shape('text', { x: x + gap, y: height - 3 }, cut(b.mark ?? b.label, every * step)));
	});
	const details = el('details', { data: { testid: 'chart-table' } }, el('summary', { text: t('wall.chart.table') }), numbers(list, title, show, first, then));
	details.open = open;
	const focused = figure.contains(document.activeElement);
	figure.replaceChildren(el('figcaption', {}, el('strong', { text: title }), el('span', { text: summary })), svg, details);
	if (focused) details.querySelector('summary').focus();
}

// A text that is about so many pixels wide at most.
function cut(text, room) {
	const chars = [...text];
	const most = Math.max(2, Math.floor(room / 6.5));
	return chars.length > most ? `${chars.slice(0, most - 1).join('')}…` : text;
}

// The same numbers as a table.
function numbers(list, title, show, first, then) {
	const cell = (value) => el('td', { class: 'number', text: value === null ? '–' : show(value) });
	const head = (text) => el('th', { scope: 'col', class: 'number', text });
	return el('table', {},
		el('thead', {}, el('tr', {}, el('th', { scope: 'col', text: first }), head(title), then && head(then))),
		el('tbody', {}, ...list.map((b) => el('tr', {}, el('th', { scope: 'row', text: b.label }), cell(b.value), then && cell(b.before)))));
}
