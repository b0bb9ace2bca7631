// The fixed parts of the customer page: header and menu, queue card, closed
// card, notices. It draws a model and reports what is pressed.

import { addShapes, byId, el, icon, setAttr, setText } from '../core/dom.js';
import { initials } from '../core/message-draw.js';
import { awayWords } from './leave.js';
import { estimate, nameOf, place } from './words.js';
import { locale, locales, setLocale, t } from '../core/i18n.js';

addShapes({
	star: ['M10 3.2l2.1 4.3 4.7.7-3.4 3.3.8 4.7-4.2-2.2-4.2 2.2.8-4.7L3.2 8.2l4.7-.7z'],
});

const ids = ['frame', 'logo', 'avatar', 'who', 'dot', 'substate', 'empty', 'prechat', 'human', 'human-button', 'queue', 'queue-position', 'queue-estimate', 'leave', 'away', 'away-title', 'away-hint', 'away-leave', 'composer', 'closed', 'again',
	'end', 'menu', 'menu-button', 'minimise', 'site-name', 'language', 'sound', 'notice', 'notice-text'];

export class CustomerView {
	/**
	 * @param {object} on human, leave, again, end, minimise, sound: called when pressed
	 * @param {boolean} embedded whether the page is a frame of the widget
	 */
	constructor(on, embedded) {
		this.nodes = Object.fromEntries(ids.map((id) => [id, byId(id)]));
		this.on = on;
		const n = this.nodes;
		byId('send').append(icon('send'));
		byId('notice-close').append(icon('close'));
		byId('queue-icon').append(icon('clock'));
		n['menu-button'].append(icon('menu'));
		n.logo.addEventListener('error', () => {
			n.logo.hidden = true;
			n.avatar.hidden = false;
		});
		n.minimise.append(icon('down'));
		n.minimise.hidden = !embedded;
		setAttr(document.documentElement, 'data-embedded', embedded);
		n['human-button'].append(icon('person'), el('span'));
		for (const [tag, name] of Object.entries(locales)) n.language.append(el('option', { value: tag, text: name, lang: tag }));
		n.language.addEventListener('change', () => setLocale(n.language.value));
		n.sound.addEventListener('change', () => on.sound(n.sound.checked));
		n['menu-button'].addEventListener('click', () => this.menu(n.menu.hidden));
		n.minimise.addEventListener('click', () => on.minimise());
		byId('notice-close').addEventListener('click', () => { n.notice.hidden = true; });
		n['human-button'].addEventListener('click', () => on.human());
		n['away-leave'].addEventListener('click', () => on.leave());
		n.again.addEventListener('click', () => on.again());
		n.end.addEventListener('click', () => on.end());
		document.addEventListener('pointerdown', (e) => {
			if (!n.menu.contains(e.target) && !n['menu-button'].contains(e.target)) this.menu(false);
		});
		document.addEventListener('keydown', (e) => this.#escape(e));
		n.menu.addEventListener('focusout', (e) => {
			if (e.relatedTarget && !n.menu.contains(e.relatedTarget) && e.relatedTarget !== n['menu-button']) this.menu(false);
		});
	}

	menu(open) {
		this.nodes.menu.hidden = !open;
		setAttr(this.nodes['menu-button'], 'aria-expanded', String(open));
		if (open) this.nodes.language.focus();
	}

	/** Says something about the page itself; 'error' for what went wrong. */
	notice(text, error = false) {
		setText(this.nodes['notice-text'], text);
		this.nodes.notice.classList.toggle('error', error);
		this.nodes.notice.hidden = text === '';
	}

	/** Something that cannot be undone by writing on. */
	setSound(on) {
		this.nodes.sound.checked = on;
	}

	/**
	 * @param {object} m
	 * @param {string} m.state connecting, prechat, new (it begins with the first message), bot, queued, assigned, deferred (a message was left), closed
	 * @param {boolean} m.ready connected
	 * @param {boolean} m.offline the browser says that there is no network; the connection may not have noticed
	 * @param {string} m.phase of the connection
	 * @param {object} [m.owner]
	 * @param {boolean|null} m.online the agent's presence, null when unknown
	 * @param {number} m.position @param {number} m.estimate
	 * @param {boolean} m.asking a person has been asked for
	 * @param {object|null} m.away why nobody is there
	 * @param {boolean} m.leaving the form for a message is open
	 * @param {string} m.replyTo where answers to a left message go
	 * @param {boolean} m.unknownSite
	 * @param {string} m.siteName
	 * @param {{at: string, width: number, height: number}|null} m.logo
	 * @param {string} m.empty what to say in place of messages, '' for nothing
	 */
	draw(m) {
		const n = this.nodes;
		setAttr(n.frame, 'data-state', m.state);
		setAttr(n.frame, 'data-connection', m.phase);
		n.language.value = locale();
		this.#header(m);
		n.prechat.hidden = m.state !== 'prechat';
		n.leave.hidden = !m.leaving;
		n.human.hidden = m.leaving || (m.state !== 'bot' && !(m.state === 'new' && m.owner) && !(m.state === 'deferred' && !m.away));
		n['human-button'].disabled = m.asking;
		setText(n['human-button'].lastChild, t(m.asking ? 'customer.human.sent' : 'customer.human'));
		n.queue.hidden = m.leaving || m.state !== 'queued';
		if (m.state === 'queued') {
			setText(n['queue-position'], place(m.position));
			setText(n['queue-estimate'], [estimate(m.estimate), t('customer.queue.hint')].filter(Boolean).join(' '));
		}
		setAttr(n.queue, 'data-position', m.position || null);
		this.#away(m);
		n.composer.hidden = m.leaving || m.state === 'closed' || m.state === 'prechat' || m.unknownSite;
		n.closed.hidden = m.state !== 'closed';
		n.end.disabled = !['bot', 'queued', 'assigned', 'deferred'].includes(m.state);
		n.empty.hidden = m.empty === '';
		setText(n.empty, m.empty);
	}

	// Nobody is there for who waits, or a message was left.
	#away(m) {
		const n = this.nodes;
		const left = m.state === 'deferred';
		n.away.hidden = m.leaving || !(left || (m.state === 'queued' && m.away));
		n['away-leave'].hidden = left;
		if (n.away.hidden) return;
		setText(n['away-title'], left ? t('deferred.title') : awayWords(m.away));
		setText(n['away-hint'], left ? (m.replyTo ? t('deferred.to', { email: m.replyTo }) : t('deferred.here')) : t('away.keep'));
	}

	// The logo takes its place before it has come. Without it the header is that of a site that has none.
	#logo({ logo, siteName }) {
		const n = this.nodes.logo;
		if (!logo || n.getAttribute('src') === logo.at) return;
		for (const [name, to] of Object.entries({ alt: siteName, width: logo.width, height: logo.height, src: logo.at })) setAttr(n, name, to);
		n.hidden = false;
	}

	#header(m) {
		const n = this.nodes;
		this.#logo(m);
		const away = m.online === false;
		const bot = ['bot', nameOf({ kind: 'bot', name: m.owner?.name }), 'true', 'customer.header.bot'];
		const looks = {
			connecting: ['chat', '', 'false', 'customer.header.connecting'],
			prechat: ['chat', '', 'true', 'customer.header.online'],
			new: m.owner ? bot : ['chat', '', 'true', 'customer.header.online'],
			bot,
			queued: ['clock', '', 'waiting', 'customer.header.waiting'],
			assigned: ['', nameOf({ kind: 'agent', name: m.owner?.name }), String(!away), away ? 'customer.header.away' : 'customer.header.online'],
			deferred: ['chat', '', 'false', 'customer.header.deferred'],
			closed: ['chat', '', 'false', 'customer.header.closed'],
		};
		const [glyph, name, on, text] = looks[m.state] ?? looks.connecting;
		setAttr(n.avatar, 'class', `avatar ${m.state === 'assigned' ? 'agent' : m.state === 'queued' ? 'waiting' : ''}`);
		const key = glyph || initials(name);
		if (n.avatar.dataset.key !== key) {
			n.avatar.dataset.key = key;
			n.avatar.replaceChildren(glyph ? icon(glyph) : initials(name));
		}
		n.avatar.hidden = glyph === 'chat' && !n.logo.hidden; // it stands for the site
		setText(n.who, m.unknownSite ? t('customer.title') : name || m.siteName);
		const here = m.ready && !m.offline; // else nobody knows how the other side is
		setAttr(n.dot, 'data-on', here ? on : 'false');
		const words = t(here || m.state === 'closed' ? text : m.offline ? 'customer.header.offline' : 'customer.header.connecting');
		setText(n.substate, m.unknownSite ? '' : name && m.siteName ? `${words} · ${m.siteName}` : words);
		n.dot.hidden = m.unknownSite;
		setText(n['site-name'], m.siteName);
	}

	// Escape closes what is open: the menu first, then the widget.
	#escape(e) {
		const n = this.nodes;
		if (e.key !== 'Escape' || e.isComposing || document.querySelector('dialog[open]')) return;
		if (!n.menu.hidden) {
			this.menu(false);
			n['menu-button'].focus();
		} else if (!n.minimise.hidden) {
			this.on.minimise();
		}
	}
}
