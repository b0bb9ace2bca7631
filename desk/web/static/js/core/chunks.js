// What of a long list of events belongs together: chunks by number, days,
// senders, and what became of a bot's buttons. Pure, so that it can be tested.

export const chunkSize = 50;

/** The chunk of an event; numbers begin at 1. */
export function chunkOf(ev) {
	return Math.floor((ev.s - 1) / chunkSize);
}

/** The indexes [from, to) of a chunk's events; events are without holes. */
export function rangeOf(key, events) {
	if (events.length === 0) return [0, 0];
	const at = (s) => Math.min(events.length, Math.max(0, s - events[0].s));
	return [at(key * chunkSize + 1), at((key + 1) * chunkSize + 1)];
}

/** The number after which a reader who wants about `count` of `last` events begins: a chunk's end. */
export function beginning(last, count) {
	return Math.max(0, Math.floor((last - count) / chunkSize) * chunkSize);
}

export function dayOf(ev) {
	return new Date(ev.d.time).toDateString();
}

/** Who says it: messages of one sender stand together, notes apart. */
export function senderOf(d) {
	return `${d.from.kind}/${d.from.id ?? ''}/${d.kind === 'note' ? 'note' : ''}`;
}

/**
 * What became of the buttons of the message at this index.
 * @returns {null|{value: string|null, label: string|null}} null while they can be used, else which one was
 */
export function fateOfButtons(events, index) {
	for (let i = index + 1; i < events.length; i++) {
		const { t, d } = events[i];
		if (t === 'ev.state' && d.state !== 'bot') return { value: null, label: null };
		if (t !== 'ev.msg') continue;
		if (d.from.kind === 'customer') return { value: d.payload ?? null, label: d.body };
		if (d.buttons?.length) return { value: null, label: null };
	}
	return null;
}
