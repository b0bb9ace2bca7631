// What a panel shows while it has no answer: a skeleton, an error with retry,
// that it is not there, or that there is nothing.

import { el } from '../core/dom.js';
import { t } from '../core/i18n.js';

/**
 * @param {HTMLElement} host
 * @param {import('./panel.js').Panel} panel
 * @param {{empty?: string, rows?: number}} o empty: the text when there is nothing; rows of the skeleton
 */
export function drawPanelState(host, panel, { empty = '', rows = 3 } = {}) {
	const key = `${panel.state} ${panel.code} ${empty} ${document.documentElement.lang}`;
	if (host.dataset.key === key) return;
	host.dataset.key = key;
	host.dataset.state = panel.state;
	switch (panel.state) {
	case 'loading':
		host.replaceChildren(el('div', { class: 'skeleton', role: 'status', aria: { label: t('panel.loading') }, data: { testid: 'panel-loading' } },
			...Array.from({ length: rows }, () => el('i'))));
		return;
	case 'error':
		host.replaceChildren(el('div', { class: 'panel-error', role: 'status', data: { testid: 'panel-error' } },
			el('span', { text: t(words(panel.code)) }),
			el('button', { type: 'button', class: 'link-button', text: t('retry'), data: { testid: 'panel-retry' }, on: { click: () => panel.retry() } })));
		return;
	case 'absent':
		host.replaceChildren(el('p', { class: 'panel-empty', text: t('panel.absent') }));
		return;
	}
	host.replaceChildren(...(empty ? [el('p', { class: 'panel-empty', role: 'status', text: empty })] : []));
}

function words(code) {
	if (code === 'timeout') return 'panel.timeout';
	if (code === 'lost') return 'panel.lost';
	if (code === 'busy' || code === 'rate_limited') return 'panel.busy';
	return code === 'forbidden' ? 'panel.forbidden' : 'panel.error';
}
