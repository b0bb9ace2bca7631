// The attributes of a contact as they are edited: rows of name and value, and
// the change that the server is asked for. Pure.

export const maxAttributes = 32;
const keyForm = /^[a-z0-9_.-]{1,40}$/;

/** Attributes as rows in a steady order. @returns {{key: string, value: string}[]} */
export function rowsOf(attributes) {
	return Object.entries(attributes ?? {}).map(([key, value]) => ({ key, value: String(value) })).sort((a, b) => (a.key < b.key ? -1 : 1));
}

/** A name as the server takes it: lower case, no blanks. */
export function keyOf(text) {
	return text.trim().toLowerCase().replace(/\s+/g, '_');
}

/**
 * What is to be changed: set names carry their value, removed ones "".
 * @returns {{change: Object<string, string>, bad: string}} bad: a name that cannot be used, '' for none
 */
export function changeOf(before, rows) {
	const change = {};
	const wanted = {};
	for (const row of rows) {
		const key = keyOf(row.key);
		const value = row.value.trim();
		if (!key && !value) continue;
		if (!keyForm.test(key)) return { change: {}, bad: row.key.trim() || row.value.trim() };
		wanted[key] = value;
	}
	for (const [key, value] of Object.entries(wanted)) {
		if (String(before?.[key] ?? '') !== value) change[key] = value;
	}
	for (const key of Object.keys(before ?? {})) {
		if (!(key in wanted)) change[key] = '';
	}
	return { change, bad: '' };
}
