// How routing shows in the console: the order of the queue, the marks of a row,
// and the notes that the server adds. Pure, no page.

import './routing-texts.js';
import './snooze-texts.js';
import { fullTime, t } from '../core/i18n.js';

/** The priorities, the first to be served first. */
export const priorities = ['urgent', 'high', 'normal', 'low'];

// What a priority counts as, in milliseconds of waiting more than normal.
const ahead = { urgent: 3_600_000, high: 900_000, low: -900_000 };

/** The time by which the server orders the queue. */
export function turnOf(row) {
	return (row.queued ?? 0) - (ahead[row.priority] ?? 0);
}

/** The marks of a row: its priority unless that is the usual one, and the skills that its agent needs. */
export function routingMarks(row) {
	const out = [];
	if (row.priority in ahead) {
		const priority = t(`priority.${row.priority}`);
		out.push({ text: priority, label: t('priority.mark', { priority }) });
	}
	for (const skill of row.skills ?? []) out.push({ text: skill, label: t('routing.mark.skill', { skill }) });
	return out;
}

/** The line of a note about routing, '' for every other note. */
export function routingNote({ payload = '', from }) {
	const at = payload.indexOf(':');
	const what = payload.slice(0, Math.max(at, 0));
	const rest = payload.slice(at + 1);
	if (what === 'priority' && priorities.includes(rest)) return t('routing.note.priority', { name: from?.name ?? '', priority: t(`priority.${rest}`) });
	if (what === 'relaxed' || what === 'relaxed_nobody') return t(`routing.note.${what}`, { what: rest.replaceAll(',', ', ') });
	if (what === 'snoozed') return t('snooze.note', { name: from?.name ?? '', time: fullTime(Date.parse(rest)) });
	if (what === 'woken') return t(`snooze.note.${rest || 'agent'}`, { name: from?.name ?? '' });
	return '';
}
