// The lines of the customer card about the chat: only what the server has said,
// never what this page happens to have loaded.

import { stateText } from './chat-words.js';
import './own-texts.js';
import { locale, localeName, moment, regionName, t } from '../core/i18n.js';

/**
 * @param {{contact: {online: boolean|null}, head: object|null, row: object|undefined}} chat
 * @param {object|undefined} past the chat in the history of its customer
 * @param {string} agentId who reads it
 * @returns {[string, string, string?][]} keys of the labels, values and links; lines without a value are left out
 */
export function factsOf({ contact, head, row = undefined }, past, agentId) {
	const { site = '', locale: language = '' } = row ?? past ?? {};
	return [
		['card.presence', contact.online === null ? '' : t(contact.online ? 'card.presence.yes' : 'card.presence.no')],
		['card.state', stateText(head, agentId)],
		['card.site', site],
		['card.page', ...linkTo(past?.page)],
		['card.locale', language && localeName(language)],
		['card.reply_to', row?.reply_to ?? past?.reply_to ?? ''],
		['card.opened', head?.opened ? moment(head.opened) : ''],
		['card.queued', head?.queued ? moment(head.queued) : ''],
	].filter(([, value]) => value !== '');
}

/**
 * The lines about the visit and the visits before.
 * @param {{contact: {created: number}, visit?: object, chats?: number}} got the answer to contact.get
 * @param {number} now
 * @returns {[string, string, string?][]} as factsOf
 */
export function visitOf({ contact, visit = {}, chats = 0 }, now) {
	return [
		['card.now', ...linkTo(visit.page)],
		['card.title', visit.title ?? ''],
		['card.referrer', ...linkTo(visit.referrer)],
		['card.browser', visit.browser ?? ''],
		['card.zone', localTime(visit.zone, now)],
		['card.place', placeName(visit)],
		['card.first', contact.created ? moment(contact.created) : ''],
		['card.before', String(Math.max(chats - 1, 0))],
	].filter(([, value]) => value !== '');
}

/** City and country in the language in use. @param {{country?: string, city?: string}} visit */
export function placeName({ country = '', city = '' }) {
	if (!/^[A-Z]{2}$/.test(country)) return city;
	return [city, regionName(country)].filter(Boolean).join(', ');
}

// The time of day where the customer is; the name of the zone is the customer's word.
function localTime(timeZone, now) {
	if (!timeZone) return '';
	try {
		return `${new Intl.DateTimeFormat(locale(), { hour: '2-digit', minute: '2-digit', timeZone }).format(now)} (${timeZone})`;
	} catch {
		return '';
	}
}

// The address is the customer's word: a link only to the web, with the host that it really leads to; anything else is text.
function linkTo(address = '') {
	try {
		const url = new URL(address);
		if (url.protocol === 'https:' || url.protocol === 'http:') return [url.host + url.pathname, url.href];
	} catch { /* no address */ }
	return [address];
}
