// Canned replies: where the "/" stands, and the variables of a reply. Pure.

/**
 * The word that looks for a canned reply: "/" at the beginning or behind white
 * space, up to the caret.
 * @returns {{query: string, start: number}|null} start: index of the slash
 */
export function slashQuery(text, caret) {
	const m = /(?:^|\s)\/([^\s/]*)$/u.exec(text.slice(0, caret));
	return m ? { query: m[1], start: caret - m[1].length - 1 } : null;
}

/** The text with {name}, {agent} … replaced; what is not known stays as it is. */
export function fillIn(body, values) {
	return body.replace(/\{(\w+)\}/g, (whole, name) => values[name.toLowerCase()] ?? whole);
}

/** Puts a reply where the slash word stands. @returns {{text: string, caret: number}} */
export function insertReply(text, { start, caret, body }) {
	return { text: text.slice(0, start) + body + text.slice(caret), caret: start + body.length };
}

/** The first line of a reply, for the list. */
export function firstLine(body) {
	return body.split('\n', 1)[0];
}
