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

/**
 * The text with {name}, {agent} … replaced. Of {name|there} the words behind the line are taken when the value is
 * empty; an empty one without such words goes, with the blank before it, or the comma behind it at the beginning of a
 * line. A variable that is not known stays as it is.
 * @param {string} body
 * @param {Object<string, string>} values
 */
export function fillIn(body, values) {
	const none = (name) => values[name.toLowerCase()] === '';
	return body
		.replace(/^\{(\w+)\|?\}[,，]?[ \t]*/gm, (whole, name) => (none(name) ? '' : whole))
		.replace(/([ \t]*)\{(\w+)(?:\|([^{}\n]*))?\}/g, (whole, gap, name, instead = '') => {
			const value = values[name.toLowerCase()];
			if (value === undefined) return whole;
			return value || instead ? gap + (value || instead) : '';
		});
}

/** The name that a customer has given, '' for one that the server has made from the customer's id. */
export function givenName({ id = '', name = '' }) {
	return id === '' || name === `Visitor ${id.slice(-4).toUpperCase()}` ? '' : name;
}

/** Puts a reply where the slash word stands. @returns {{text: string, caret: number}} */
export function insertReply(text, { start, caret, body }) {
	return { text: text.slice(0, start) + body + text.slice(caret), caret: start + body.length };
}

/** The first line of a reply, for the list. */
export function firstLine(body) {
	return body.split('\n', 1)[0];
}
