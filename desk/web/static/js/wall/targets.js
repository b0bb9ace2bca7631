// The targets of the groups for first answers: how urgent a wait is by them, and
// what there is to warn of. Pure, no page.

import { level } from './agents.js';

/** How urgent a wait is: amber from half of the group's target, red beyond it; without one as everywhere. */
export function levelOf(ms, target) {
	if (!target) return level(ms);
	if (ms > target.in) return 'red';
	return ms * 2 >= target.in ? 'amber' : '';
}

/** @returns {Map<string, object>} the targets by the id of their group */
export function targetsOf(data) {
	return new Map((data.targets ?? []).map((target) => [target.group, target]));
}

/** The share of the last hour's first answers that was in time, null for none. */
export function inTime(target) {
	return target.answered ? target.within / target.answered : null;
}

/**
 * What there is to warn of, in the order of the groups.
 * @returns {{id: string, name: string, why: string, level: string, target: object}[]} why: waiting, share, or was (nobody waits too long any more, a moment ago somebody did)
 */
export function warningsOf(data) {
	const names = new Map(data.groups.map((g) => [g.id, g.name]));
	return (data.targets ?? []).flatMap((target) => target.warnings.map((warning) => {
		const why = warning === 'waiting' && target.late === 0 ? 'was' : warning;
		return { id: `${target.group} ${warning}`, name: names.get(target.group) ?? '', why, level: why === 'waiting' ? 'red' : 'amber', target };
	}));
}
