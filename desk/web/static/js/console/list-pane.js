// The list pane: turns the inbox into rows with words, and draws the sections.

import { Archive } from './archive.js';
import { byId, setAttr, setText } from '../core/dom.js';
import { urgency } from './inbox.js';
import { routingMarks } from './routing.js';
import { RowList } from './row-list.js';
import { fullTime, localeMark, localeName, number, plural, stamp, t, waited } from '../core/i18n.js';

export class ListPane {
	/**
	 * @param {object} o
	 * @param {import('./inbox.js').Inbox} o.inbox
	 * @param {object} o.of contact(id), draft(id), unread(row), current(): what the console knows of a conversation
	 * @param {object} o.app request(type, d), staff, draw(): what the console has
	 * @param {(row: {c: string, contact?: object, s?: number}) => void} o.onOpen s: the message that was found
	 */
	constructor({ inbox, of, app, onOpen }) {
		Object.assign(this, { inbox, of });
		this.archive = new Archive({ request: app.request, staff: app.staff, onChange: app.draw });
		this.rows = new RowList({
			area: byId('list'), hosts: { mine: byId('mine'), queue: byId('queue'), messages: byId('left'), snoozed: byId('snoozed'), all: byId('all'), archive: byId('archive') }, eager: 'mine',
			onOpen: (id) => (this.archive.shown && this.archive.bulk.pressed(id)) || onOpen({ c: id, contact: this.archive.rows.get(id)?.contact, ...this.archive.rows.get(id)?.hit }), goneText: (id) => this.#goneText(id),
		});
	}

	/** What is known of a conversation, also of one that is not in the live lists. */
	row(id) {
		return this.inbox.rows.get(id) ?? this.archive.rows.get(id);
	}

	/** Takes the tags of a conversation. */
	setTags(id, tags) {
		this.inbox.setTags(id, tags);
		this.archive.learn(id, { tags });
	}

	/** Draws the sections. @returns {{waiting: number, unread: number, mine: number}} */
	draw(now) {
		const { inbox } = this;
		const mine = inbox.mine();
		const queue = inbox.queue();
		const all = inbox.all ? inbox.others() : [];
		byId('all-section').hidden = byId('all').hidden = !inbox.all;
		this.sites = new Set([...inbox.rows.values()].map((r) => r.site).filter(Boolean));
		const model = (r) => this.#model(r, now);
		const messages = inbox.messages();
		const left = messages.length + inbox.beyondLeft;
		byId('left-section').hidden = left === 0;
		setText(byId('left-count'), number(left));
		byId('left-more').hidden = inbox.beyondLeft === 0;
		setText(byId('left-more'), t('console.queue.more', { n: number(inbox.beyondLeft) }));
		const snoozed = inbox.snoozed();
		byId('snoozed-section').hidden = snoozed.length === 0;
		setText(byId('snoozed-count'), number(snoozed.length));
		this.rows.update({ mine: mine.map(model), queue: queue.map(model), messages: messages.map((r) => this.#leftMessage(r, now)), snoozed: snoozed.map((r) => this.#snoozed(r, now)), all: all.map(model), archive: [...this.archive.rows.values()].map((r) => this.#found(r)) });
		const waiting = queue.length + inbox.beyond;
		setText(byId('mine-count'), number(mine.length));
		setText(byId('queue-count'), number(waiting));
		setText(byId('all-count'), number(all.length));
		setAttr(byId('queue-count'), 'data-level', queue.length > 0 ? urgency(now - Math.min(...queue.map((r) => inbox.waitingSince(r)))) : '');
		byId('mine-empty').hidden = mine.length > 0;
		byId('queue-empty').hidden = waiting > 0;
		byId('all-empty').hidden = !inbox.all || all.length > 0;
		byId('queue-more').hidden = inbox.beyond === 0;
		setText(byId('queue-more'), t('console.queue.more', { n: number(inbox.beyond) }));
		this.#announce(waiting);
		return { waiting, mine: mine.length, unread: mine.reduce((sum, r) => sum + this.of.unread(r), 0) };
	}

	#model(row, now) {
		const since = this.inbox.waitingSince(row);
		const wait = since ? waited(now - since) : '';
		const current = row.id === this.of.current();
		const draft = current ? '' : this.of.draft(row.id);
		const unread = row.state === 'queued' || !this.inbox.isMine(row) ? 0 : this.of.unread(row);
		const { name, online } = this.of.contact(row.id);
		return {
			id: row.id, name, online: online === true, current, unread,
			preview: draft ? t('console.draft', { text: draft }) : preview(row, this.inbox.isMine(row)),
			draft: Boolean(draft),
			wait, waitLabel: wait && t('console.waiting', { time: wait }), level: since ? urgency(now - since) : '',
			unreadLabel: t('console.unread', { n: number(unread) }),
			marks: marks(row, this.sites.size > 1),
		};
	}

	// A left message says when it was left, and where the answer goes; nobody waits by the minute.
	#leftMessage(row, now) {
		const { since = row.at } = row;
		const model = this.#model(row, now);
		const lines = [row.reply_to, model.preview.replace(/\s+/g, ' ')].filter(Boolean).join('\n');
		return { ...model, preview: lines, wait: stamp(since), waitLabel: t('console.left.since', { time: fullTime(since) }), level: '' };
	}

	// A chat that is put aside says until when.
	#snoozed(row, now) {
		return { ...this.#model(row, now), wait: stamp(row.snoozed), waitLabel: t('snooze.mark', { time: fullTime(row.snoozed) }), level: '' };
	}

	// A row of a list that is not live: when it began, and what was found or said last.
	#found(row) {
		const { hit } = row;
		const at = hit?.time ?? row.opened;
		const { name, online } = { name: '', ...row.contact };
		const by = hit?.from.kind === 'customer' ? name : hit?.from.name;
		return {
			id: row.id, name: name || t('who.customer'), online: online === true, current: row.id === this.of.current(), unread: 0, unreadLabel: '',
			preview: hit ? t('archive.hit', { name: by ?? '', text: hit.snippet }) : preview(row, this.inbox.isMine(row)), draft: false,
			wait: stamp(at), waitLabel: t(hit ? 'archive.said' : 'archive.began', { time: fullTime(at) }), level: '',
			marks: [this.archive.tab === 'all' && stateMark(row.state), row.score > 0 && scoreMark(row)].filter(Boolean), chosen: this.archive.bulk.chosen(row.id),
		};
	}

	#goneText(id) {
		const row = this.inbox.rows.get(id) ?? this.inbox.left.get(id);
		if (this.inbox.isMine(row)) return t('console.row.yours');
		switch (row?.state) {
		case 'queued': return t('console.row.queued');
		case 'deferred': return t('console.state.deferred');
		case 'assigned': return t('console.row.taken', { name: row.owner?.name ?? '' });
		case 'bot':
		case 'closed': return t(`console.state.${row.state}`);
		}
		return t('console.row.gone');
	}

	#announce(waiting) {
		if (waiting > (this.announced ?? 0)) setText(byId('announce'), plural('console.announce.queued', waiting));
		this.announced = waiting;
	}
}

// What the customer thought of it, with the comment for who points at it or listens.
function scoreMark({ score, comment }) {
	const label = t('card.score', { n: number(score) });
	return { text: `★ ${number(score)}`, label: comment ? `${label}: ${comment}` : label };
}

function stateMark(state) {
	const text = t(`archive.state.${['queued', 'deferred', 'closed'].includes(state) ? state : 'open'}`);
	return { text, label: text };
}

// The channel is told where there is more than one.
function marks(row, channels) {
	const out = routingMarks(row);
	if (row.site && channels) out.push({ text: row.site, label: t('console.mark.site', { site: row.site }) });
	if (row.locale) out.push({ text: localeMark(row.locale), label: t('console.mark.locale', { locale: localeName(row.locale) }) });
	return out;
}

function preview(row, mine) {
	if (!mine && row.state === 'assigned' && row.owner?.name) return row.preview ? t('console.preview.owner', { name: row.owner.name, text: row.preview }) : t('console.state.assigned', { name: row.owner.name });
	if (!row.preview) return t('console.preview.none');
	if (row.preview_from === 'agent') return t('console.preview.you', { text: row.preview });
	return row.preview_from === 'bot' ? t('console.preview.bot', { text: row.preview }) : row.preview;
}
