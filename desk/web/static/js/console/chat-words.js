// What the console says about the state of a conversation and its events.

import './routing-texts.js';
import { t } from '../core/i18n.js';

/** The state of a conversation in words. */
export function stateText(head, agentId) {
	if (!head?.state) return t('messages.loading');
	if (head.state !== 'assigned') return t(`console.state.${head.state}`);
	return head.owner?.id === agentId ? t('console.state.mine') : t('console.state.assigned', { name: head.owner?.name ?? '' });
}

/** The line of an ev.state or of a notice, '' for none. */
export function describe(ev, agentId) {
	if (ev.t === 'ev.msg') {
		if (ev.d.payload === 'idle_warning') return t('console.event.idle');
		const text = ev.d.body ?? '';
		return ev.d.from?.id ? t('console.event.program', { name: ev.d.from.name ?? '', text }) : t('console.event.notice', { text });
	}
	const { by, owner, was, event, reason } = ev.d;
	const mine = by?.kind === 'agent' && by.id === agentId;
	switch (event) {
	case 'opened':
		return t('event.opened');
	case 'handoff':
		return t(by?.kind === 'customer' ? 'event.handoff.customer' : 'event.handoff.other');
	case 'deferred':
		return t(by?.kind === 'customer' ? 'console.event.left' : 'console.event.deferred');
	case 'transferred':
		if (!owner) return t(ev.d.state === 'deferred' ? 'console.event.deferred' : 'console.event.toQueue');
		return t('console.event.transferred', { from: nameOf(was, agentId), to: nameOf(owner, agentId) });
	case 'returned':
		return reason === 'agent_away' ? t('routing.event.away', { name: nameOf(was, agentId) }) : t('event.returned');
	case 'reopened':
		return t(ev.d.state === 'deferred' ? 'console.event.deferred' : 'event.reopened');
	case 'taken':
	case 'assigned':
		if (!owner) return t('event.returned');
		return owner.id === agentId ? t('event.taken.me') : t('event.taken.other', { name: owner.name ?? '' });
	case 'closed':
		if (reason === 'abandoned' || ev.d.abandoned) return t('console.event.abandoned');
		if (mine) return t('event.closed.me');
		if (by?.kind === 'agent') return t('event.closed.agent', { name: by.name });
		return t(by?.kind === 'customer' ? 'event.closed.customer' : 'event.closed.other');
	}
	return '';
}

function nameOf(party, agentId) {
	if (!party) return t('console.nobody');
	return party.id === agentId ? t('messages.you') : party.name || t(party.kind === 'bot' ? 'who.bot' : 'who.agent');
}
