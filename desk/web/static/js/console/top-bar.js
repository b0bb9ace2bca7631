// The bar above the panes: own status and capacity, quality of the connection,
// and the menu. Below it, until answered, the question whether to be called.

import { opensFirst } from '../core/choices.js';
import { byId, el, icon, onFocusLeft, setAttr, setText } from '../core/dom.js';
import { begin, signOnWords } from './sign-on.js';
import { factorDialog } from './factor-view.js';
import { initials } from '../core/message-list.js';
import { number, t } from '../core/i18n.js';

const statuses = ['online', 'busy', 'away', 'finishing', 'offline'];

export class TopBar {
	/**
	 * @param {object} o
	 * @param {import('./staff.js').Staff} o.staff
	 * @param {import('../core/connection.js').Connection} o.connection
	 * @param {import('./alerts.js').Alerts} o.alerts
	 * @param {import('./push.js').Push} o.push
	 * @param {object} o.on status(status), takeChats(on), keys(), password(), sessions(), logout(), notice(text): functions of the console
	 */
	constructor({ staff, connection, alerts, push, on }) {
		Object.assign(this, { staff, connection, alerts, push, on });
		this.select = opensFirst(byId('status'));
		this.menu = byId('menu');
		this.button = byId('menu-button');
		byId('help').append(icon('help'));
		byId('help').addEventListener('click', () => on.keys());
		byId('take-chats').addEventListener('click', () => (staff.noChats() === 'choice' ? on.takeChats(true) : on.status('online')));
		for (const status of statuses) this.select.append(el('option', { value: status }));
		this.select.addEventListener('change', () => on.status(this.select.value));
		this.#buildMenu();
		this.#askForAlerts();
		this.relabel();
	}

	relabel() {
		setText(byId('me-name'), this.staff.me.name);
		setText(byId('me-avatar'), initials(this.staff.me.name));
		for (const option of this.select.options) setText(option, t(`status.${option.value}`));
		for (const [node, key] of this.texts) setText(node, t(key));
		setText(byId('alerts-ask-text'), t(this.push.possible ? 'alerts.ask.push' : 'alerts.ask'));
		this.render();
		this.quality();
	}

	/** Draws status and capacity. */
	render() {
		const { status } = this.staff;
		byId('alerts-ask').hidden = this.alerts.asked || !status || !this.staff.can('serve');
		byId('status-box').hidden = !status || !this.staff.can('serve');
		byId('menu-wall').hidden = !this.staff.can('view_wall');
		byId('menu-contacts').hidden = !this.staff.can('read_others');
		byId('menu-reports').hidden = !byId('menu-wall').hidden; // the wall leads to them, too
		byId('menu-admin').hidden = !this.staff.can('manage');
		this.takes.parentElement.hidden = !this.staff.can('serve') || status?.capacity === 0; // there before the status has come: an open menu must not move
		this.takes.disabled = !status;
		this.takes.checked = status?.accepting !== false;
		const why = this.staff.noChats();
		byId('no-chats').hidden = why === '';
		byId('take-chats').hidden = why === 'capacity';
		setText(byId('take-chats'), t(why === 'choice' ? 'chats.take' : 'chats.back'));
		setText(byId('no-chats-text'), why && t(`chats.none.${why}`));
		if (!status) return;
		const shown = statuses.includes(status.status) ? status.status : 'away';
		if (document.activeElement !== this.select || !this.changing) this.select.value = shown;
		setAttr(byId('status-dot'), 'data-on', shown === 'online' ? 'true' : shown === 'busy' || shown === 'finishing' ? 'waiting' : 'false');
		const known = status.capacity > 0;
		byId('capacity').hidden = !known;
		if (!known) return;
		setText(byId('capacity-text'), `${number(status.active ?? 0)}/${number(status.capacity)}`);
		setAttr(byId('capacity'), 'title', t('capacity.label', { active: number(status.active ?? 0), capacity: number(status.capacity) }));
		setAttr(byId('capacity'), 'data-full', status.active >= status.capacity ? 'true' : null);
	}

	/** Draws the quality of the connection from the measured round trip. */
	quality() {
		const { phase, rtt } = this.connection.status;
		const grade = rtt === null ? 'measuring' : rtt < 300 ? 'good' : rtt < 1_000 ? 'fair' : 'poor';
		const ready = phase === 'ready';
		setAttr(byId('quality-dot'), 'data-on', !ready ? 'bad' : grade === 'fair' || grade === 'poor' ? 'waiting' : 'true');
		setText(byId('quality-text'), ready ? t(`console.quality.${grade}`, { n: number(rtt ?? 0) }) : t('console.quality.down'));
	}

	/** Closes the menu; true when it was open. */
	close() {
		if (this.menu.hidden) return false;
		this.#open(false);
		this.button.focus();
		return true;
	}

	#open(open) {
		this.menu.hidden = !open;
		setAttr(this.button, 'aria-expanded', String(open));
		if (!open) return;
		this.#drawAlerts();
		this.menu.querySelector('input, select, button, a')?.focus();
	}

	#buildMenu() {
		this.texts = [];
		const item = (key, name, testid, f) => {
			const text = el('span');
			this.texts.push([text, key]);
			return el('button', { type: 'button', class: 'menu-item', data: { testid }, on: { click: () => { this.#open(false); f(); } } }, icon(name), text);
		};
		const check = (key, testid, f) => {
			const text = el('span');
			this.texts.push([text, key]);
			const input = el('input', { type: 'checkbox', data: { testid }, on: { change: () => f(input.checked) } });
			byId('menu-checks').append(el('label', { class: 'check' }, input, text));
			return input;
		};
		this.takes = check('chats.takes', 'takes-chats', (on) => this.on.takeChats(on));
		this.sound = check('alerts.sound', 'alerts-sound', (on) => {
			this.alerts.setSound(on);
			this.render();
		});
		this.notify = check('alerts.notify', 'alerts-notify', async (on) => {
			await this.alerts.setNotifications(on);
			this.push.follow();
			this.#drawAlerts();
			this.render();
		});
		this.closed = check('alerts.push', 'alerts-push', (on) => this.#setPush(on));
		this.denied = el('p', { class: 'quiet small' });
		const test = el('button', { type: 'button', class: 'menu-item', data: { testid: 'alerts-test' }, on: { click: () => this.alerts.play() } });
		this.texts.push([test, 'alerts.test']);
		byId('menu-checks').append(this.denied, test);
		byId('menu-items').append(
			item('password.title', 'key', 'menu-password', () => this.on.password()),
			item('factor.title', 'shield', 'menu-factor', () => factorDialog(this.staff.me.login, this.on.notice)),
			item('sessions.title', 'devices', 'menu-sessions', () => this.on.sessions()),
			item('console.logout', 'exit', 'logout', () => this.on.logout()));
		if (this.staff.me.connect) byId('menu-items').prepend(item('sso.connect', 'key', 'menu-sso', () => begin({ connect: true }).catch((err) => this.on.notice(t(signOnWords(err)), true))));
		this.button.addEventListener('click', () => this.#open(this.menu.hidden));
		onFocusLeft([this.menu, this.button], () => this.#open(false));
		document.addEventListener('pointerdown', (e) => {
			if (!this.menu.hidden && !this.menu.contains(e.target) && !this.button.contains(e.target)) this.#open(false);
		});
	}

	// Both are off until the agent wants them; what was answered is kept by account and browser.
	#askForAlerts() {
		byId('alerts-ask-test').addEventListener('click', () => this.alerts.play());
		byId('alerts-ask-later').addEventListener('click', () => {
			this.alerts.leave();
			this.render();
		});
		byId('alerts-ask-on').addEventListener('click', async () => {
			this.alerts.setSound(true);
			this.render();
			await (this.push.possible ? this.alerts.setPush(true) : this.alerts.setNotifications(true));
			this.push.follow();
			const { notifications } = this.alerts;
			if (notifications !== 'on') this.on.notice(t(`alerts.${notifications}`));
		});
	}

	async #setPush(on) {
		await this.alerts.setPush(on);
		this.#drawAlerts();
		this.render();
		if (!await this.push.follow() && this.alerts.push) {
			await this.alerts.setPush(false);
			this.#drawAlerts();
			this.on.notice(t('alerts.push.failed'), true);
		}
	}

	#drawAlerts() {
		this.sound.checked = this.alerts.sound;
		const state = this.alerts.notifications;
		this.notify.checked = state === 'on';
		this.notify.disabled = state === 'denied' || state === 'absent';
		this.closed.parentElement.hidden = !this.push.possible || !this.staff.can('serve');
		this.closed.checked = this.alerts.push;
		this.closed.disabled = this.notify.disabled;
		this.denied.hidden = !this.notify.disabled;
		setText(this.denied, this.notify.disabled ? t(`alerts.${state}`) : '');
	}
}
