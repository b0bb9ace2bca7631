// The lines of the customer card about the chat: only what the server has said,
// never what this page happens to have loaded.

import { stateText } from './chat-words.js';
import { localeName, moment, t } from '../core/i18n.js';

/**
 * @param {{contact: {online: boolean|null}, head: object|null, row: object|undefined}} chat
 * @param {string} agentId who reads it
 * @returns {[string, string][]} keys of the labels, and values; lines without a value are left out
 */
export function factsOf({ contact, head, row }, agentId) {
	return [
		['card.presence', contact.online === null ? '' : t(contact.online ? 'card.presence.yes' : 'card.presence.no')],
		['card.state', stateText(head, agentId)],
		['card.site', row?.site ?? ''],
		['card.locale', row?.locale ? localeName(row.locale) : ''],
		['card.opened', head?.opened ? moment(head.opened) : ''],
		['card.queued', head?.queued ? moment(head.queued) : ''],
	].filter(([, value]) => value !== '');
}
