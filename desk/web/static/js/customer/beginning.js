// A chat that has not begun: what the bot says first is on the screen, and
// nothing is on the server. The chat begins with what the visitor does first.

/**
 * The events with which a chat with this bot begins.
 * @param {{id: string, name: string, greeting: {body: string, buttons?: object[]}[]}|null} bot as the welcome names it
 * @param {number} time
 */
export function firstEvents(bot, time) {
	if (!bot?.greeting?.length) return [];
	const from = { kind: 'bot', id: bot.id, name: bot.name };
	const opened = { t: 'ev.state', s: 1, d: { event: 'opened', state: 'bot', time } };
	return [opened, ...bot.greeting.map((m, i) => ({ t: 'ev.msg', s: i + 2, d: { kind: 'text', from, time, ...m } }))];
}

export class Beginning {
	/**
	 * @param {{append: (ev: object) => void, clear: () => void}} list
	 * @param {object|null} bot
	 */
	constructor(list, bot, time = Date.now()) {
		this.list = list;
		this.drawn = firstEvents(bot, time);
		for (const ev of this.drawn) list.append(ev);
	}

	get empty() {
		return this.drawn.length === 0;
	}

	/**
	 * Takes the next event of the chat, which has begun.
	 * @param {object} ev
	 * @param {object[]} events those of the chat so far
	 * @returns {boolean} whether it is on the screen already
	 */
	shows(ev, events) {
		const expected = this.drawn.shift();
		if (!expected) return false;
		if (expected.t === ev.t && expected.s === ev.s && expected.d.state === ev.d.state && expected.d.body === ev.d.body) return true;
		this.drawn = []; // it began in another way
		this.list.clear();
		for (const before of events) {
			if (before !== ev) this.list.append(before);
		}
		return false;
	}
}
