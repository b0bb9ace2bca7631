// Makes a tab of each part of a long form.

import { el, setAttr } from '../core/dom.js';

const steps = { ArrowRight: 1, ArrowLeft: -1 };

/**
 * The number of the tab that a key leads to, undefined for another key. Pure.
 * @param {string} key @param {number} at @param {number} count @param {boolean} rtl
 */
export function tabAfter(key, at, count, rtl = false) {
	if (key === 'Home') return 0;
	if (key === 'End') return count - 1;
	return key in steps ? (at + (rtl ? -steps[key] : steps[key]) + count) % count : undefined;
}

/** The tab that is shown first: one with a mistake, else the one that was shown last. Pure. */
export function firstTab(bad, last) {
	const at = bad.indexOf(true);
	if (at >= 0) return at;
	return last >= 0 && last < bad.length ? last : 0;
}

/** @param {HTMLFormElement} form data-tabs names the tabs together, data-wrong says that a tab has a mistake */
export function makeTabs(form) {
	const list = el('div', { class: 'tabs', role: 'tablist', aria: { label: form.dataset.tabs } });
	const tabs = [...form.querySelectorAll(':scope > .part')].map((part, i) => tabOf(form, part, i));
	const key = `eddy.tab:${location.pathname}`;
	const show = (at) => {
		tabs.forEach(({ tab, panel }, i) => {
			setAttr(tab, 'aria-selected', String(i === at));
			setAttr(tab, 'tabindex', i === at ? '0' : '-1');
			panel.hidden = i !== at;
		});
		sessionStorage.setItem(key, at);
	};
	tabs[0].panel.before(list);
	list.append(...tabs.map(({ tab }) => tab));
	list.addEventListener('click', (e) => {
		const at = tabs.findIndex(({ tab }) => tab.contains(e.target));
		if (at >= 0) show(at);
	});
	list.addEventListener('keydown', (e) => {
		const next = tabAfter(e.key, tabs.findIndex(({ tab }) => tab === e.target), tabs.length, getComputedStyle(list).direction === 'rtl');
		if (next === undefined) return;
		e.preventDefault();
		show(next);
		tabs[next].tab.focus();
	});
	show(firstTab(tabs.map(({ bad }) => bad), Number(sessionStorage.getItem(key) ?? -1)));
}

// The tab of a part, which is its panel.
function tabOf(form, panel, i) {
	const head = panel.querySelector('h2');
	const bad = panel.querySelector('.bad') !== null;
	const tab = el('button', { type: 'button', class: bad ? 'tab bad' : 'tab', role: 'tab', id: `tab-${i}`, aria: { controls: `panel-${i}` }, data: { testid: `tab-${i}` } },
		el('span', { text: head.textContent }), bad && el('span', { class: 'sr-only', text: ` ${form.dataset.wrong}` }));
	head.hidden = true;
	panel.id = `panel-${i}`;
	setAttr(panel, 'role', 'tabpanel');
	setAttr(panel, 'aria-labelledby', tab.id);
	return { tab, panel, bad };
}
