// The lines of the customer card about the chat: only what the server has said,
// never what this page happens to have loaded.

import { stateText } from './chat-words.js';
import { localeName, moment, t } from '../core/i18n.js';

/**
 * @param {{contact: {online: boolean|null}, head: object|null, row: object|undefined}} chat
 * @param {object|undefined} past the chat in the history of its customer
 * @param {string} agentId who reads it
 * @returns {[string, string, string?][]} keys of the labels, values and links; lines without a value are left out
 */
export function factsOf({ contact, head, row = undefined }, past, agentId) {
	const { site = '', locale = '' } = row ?? past ?? {};
	return [
		['card.presence', contact.online === null ? '' : t(contact.online ? 'card.presence.yes' : 'card.presence.no')],
		['card.state', stateText(head, agentId)],
		['card.site', site],
		['card.page', ...linkTo(past?.page)],
		['card.locale', locale && localeName(locale)],
		['card.reply_to', row?.reply_to ?? past?.reply_to ?? ''],
		['card.opened', head?.opened ? moment(head.opened) : ''],
		['card.queued', head?.queued ? moment(head.queued) : ''],
	].filter(([, value]) => value !== '');
}

// The address is the customer's word: a link only to the web, with the host that it really leads to; anything else is text.
function linkTo(address = '') {
	try {
		const url = new URL(address);
		if (url.protocol === 'https:' || url.protocol === 'http:') return [url.host + url.pathname, url.href];
	} catch { /* no address */ }
	return [address];
}
