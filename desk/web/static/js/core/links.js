// Finds links in plain text. Only http, https, mailto and tel ever become
// links; everything else stays text.

const allowed = new Set(['http:', 'https:', 'mailto:', 'tel:']);
const stop = '\\s<>"\'`，。；：！？、（）《》「」【】“”‘’';
const candidate = new RegExp(
	`(?<![\\w@.+-])(?:https?:\\/\\/[^${stop}]+|www\\.[^${stop}]+\\.[^${stop}]+|mailto:[^${stop}]+|tel:\\+?[\\d().-]+|[\\w.+-]+@[\\w-]+(?:\\.[\\w-]+)+)`,
	'giu',
);

/** Cuts punctuation that ends the sentence rather than the address. */
function trim(match) {
	for (;;) {
		const last = match.at(-1);
		if (/[.,;:!?…]/u.test(last)) {
			match = match.slice(0, -1);
		} else if ((last === ')' && count(match, ')') > count(match, '(')) || (last === ']' && count(match, ']') > count(match, '['))) {
			match = match.slice(0, -1);
		} else {
			return match;
		}
	}
}

function count(text, char) {
	return text.split(char).length - 1;
}

function target(text) {
	let href = text;
	if (/^www\./i.test(text)) href = `https://${text}`;
	else if (!/^(?:https?|mailto|tel):/i.test(text)) href = `mailto:${text}`;
	try {
		const url = new URL(href);
		return allowed.has(url.protocol) ? url.href : null;
	} catch {
		return null;
	}
}

/**
 * Splits text into plain parts and links.
 * @param {string} text
 * @returns {{text: string, href?: string}[]}
 */
export function splitLinks(text) {
	const parts = [];
	let at = 0;
	for (const m of text.matchAll(candidate)) {
		const found = trim(m[0]);
		const href = found && target(found);
		if (!href) continue;
		if (m.index > at) parts.push({ text: text.slice(at, m.index) });
		parts.push({ text: found, href });
		at = m.index + found.length;
	}
	if (at < text.length) parts.push({ text: text.slice(at) });
	return parts;
}
