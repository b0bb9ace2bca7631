// How the customer page says what happens in a conversation.

import { number, plural, t } from '../core/i18n.js';

const sendsWithin = 100_000; // later than that a message is given up, and its writer is asked

/** The name of a participant. */
export function nameOf(from) {
	if (from.name) return from.name;
	return t(from.kind === 'bot' ? 'who.bot' : from.kind === 'agent' ? 'who.agent' : 'messages.you');
}

/** The place in the queue. */
export function place(n) {
	if (!n) return t('customer.queue.unknown');
	return n === 1 ? t('customer.queue.next') : t('customer.queue.position', { n: number(n) });
}

/** When somebody will come, as far as that is known; '' when it is not. */
export function estimate(ms) {
	if (!(ms > 0)) return '';
	return ms < 60_000 ? t('customer.estimate.soon') : plural('customer.estimate', Math.round(ms / 60_000));
}

/** What a visitor is told whose network has begun as many chats as it may: what to do, and when. */
export function limited(ms, keepsTrying = false) {
	return `${t('limited')} ${plural(keepsTrying && ms < sendsWithin ? 'limited.send' : 'limited.again', Math.ceil(ms / 60_000))}`;
}

/** The line of a state change or of a notice, '' for none. */
export function describe(ev) {
	if (ev.t === 'ev.msg') return ev.d.payload === 'idle_warning' ? t('event.idle') : ev.d.body ?? '';
	const by = ev.d.by?.kind;
	switch (ev.d.event) {
	case 'handoff':
		return t(by === 'customer' ? 'event.handoff.me' : 'event.handoff.other');
	case 'deferred':
		return t(by === 'customer' ? 'event.left' : 'event.deferred');
	case 'returned':
	case 'reopened':
		return t(ev.d.state === 'deferred' ? 'event.deferred' : `event.${ev.d.event}`);
	case 'taken':
	case 'assigned':
	case 'transferred':
		if (!ev.d.owner) return t(ev.d.state === 'deferred' ? 'event.deferred' : 'event.returned');
		return t('event.taken.other', { name: nameOf({ kind: 'agent', name: ev.d.owner?.name }) });
	case 'closed':
		if (by === 'customer') return t('event.closed.me');
		return by === 'agent' ? t('event.closed.agent', { name: nameOf(ev.d.by) }) : t('event.closed.other');
	}
	return '';
}
