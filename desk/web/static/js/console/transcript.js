// What the bot said before people took over: the stretches of a conversation
// that the console folds under one line. Pure.

/**
 * @typedef {{first: number, last: number, messages: number, asked: string}} Stretch
 * first: number of the state event it begins with, last: of its last message; asked: the customer's last words in it
 */

/**
 * The finished stretches in which the bot owned the conversation.
 * @param {object[]} events all events of the conversation, in order
 * @returns {Stretch[]}
 */
export function botStretches(events) {
	const out = [];
	let open = null;
	for (const ev of events) {
		if (ev.t === 'ev.state') {
			if (ev.d.state === 'bot') {
				open ??= { first: ev.s, last: ev.s, messages: 0, asked: '' };
			} else if (open) {
				if (open.messages > 0) out.push(open);
				open = null;
			}
		} else if (open && ev.d.kind !== 'note') {
			open.last = ev.s;
			open.messages++;
			if (ev.d.from.kind === 'customer') open.asked = ev.d.body || open.asked;
		}
	}
	return out;
}

/** The stretch that holds event s, or undefined. */
export function stretchOf(stretches, s) {
	return stretches.find((f) => s >= f.first && s <= f.last);
}
