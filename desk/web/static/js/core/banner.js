// The connection banner: shown only when it matters.

import { el, icon, setText } from './dom.js';
import { t, number } from './i18n.js';
import { now } from './steady.js';

const patience = 700; // a reconnect faster than this is not worth a word
const slowAfter = 4_000;

export class Banner {
	/**
	 * @param {HTMLElement} host an empty element
	 * @param {import('./connection.js').Connection} connection
	 */
	constructor(host, connection) {
		this.host = host;
		this.connection = connection;
		this.text = el('span', { class: 'banner-text', role: 'status', aria: { live: 'polite' } });
		this.countdown = el('span', { class: 'banner-countdown', aria: { hidden: true } });
		this.button = el('button', { type: 'button', class: 'link-button', data: { testid: 'banner-retry' }, on: { click: () => connection.tryNow() } });
		this.wasReady = false;
		this.downSince = now();
		host.classList.add('banner');
		host.dataset.testid = 'banner';
		host.append(icon('alert'), this.text, this.countdown, this.button);
		host.hidden = true;
		setInterval(() => this.update(), 250);
	}

	/** What to show: '' | 'offline' | 'draining' | 'reconnecting' | 'connecting' | 'slow' | 'stopped' */
	state() {
		const s = this.connection.status;
		if (s.phase === 'ready') {
			this.wasReady = true;
			this.downSince = 0;
			if (s.offline) return 'offline';
			return this.connection.oldestWait() > slowAfter ? 'slow' : '';
		}
		if (s.phase === 'stopped') return s.code ? 'stopped' : '';
		this.downSince ||= now();
		if (now() - this.downSince < patience) return '';
		if (s.offline) return 'offline';
		if (s.draining) return 'draining';
		return this.wasReady || s.attempts > 0 ? 'reconnecting' : 'connecting';
	}

	update() {
		const state = this.state();
		const { phase, retryAt, code } = this.connection.status;
		this.host.hidden = state === '';
		this.host.dataset.state = state;
		if (state === '') {
			setText(this.text, '');
			return;
		}
		const key = state === 'stopped' ? (code === 4103 ? 'blocked' : code === 4110 ? 'sessions' : 'stopped') : state;
		setText(this.text, t(`banner.${key}`));
		const left = Math.ceil((retryAt - now()) / 1000);
		const counting = phase === 'waiting' && left > 0;
		setText(this.countdown, counting ? t('banner.retryIn', { n: number(left) }) : phase === 'connecting' && state !== 'connecting' ? t('banner.trying') : '');
		setText(this.button, t('banner.tryNow'));
		this.button.hidden = !counting;
	}
}
