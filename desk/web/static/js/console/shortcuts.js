// Which key does what. Pure: the page gives the event, and gets the name of an
// action. Nothing happens while somebody writes, except to leave the field.

const plain = {
	j: 'down', k: 'up', n: 'note', t: 'transfer', e: 'close', o: 'offer', s: 'search', '/': 'canned', '?': 'help', '[': 'list', ']': 'card', Escape: 'leave',
};

/** The keys of the help, with the text that explains each. */
export const shortcuts = [
	[['J', 'K'], 'keys.move'],
	[['Enter'], 'keys.open'],
	[['Ctrl', 'Enter'], 'keys.send'],
	[['Shift', 'Enter'], 'keys.break'],
	[['N'], 'keys.note'],
	[['/'], 'keys.canned'],
	[['T'], 'keys.transfer'],
	[['E'], 'keys.close'],
	[['O'], 'keys.offer'],
	[['S'], 'keys.search'],
	[['[', ']'], 'keys.fold'],
	[['Esc'], 'keys.leave'],
	[['?'], 'keys.help'],
];

/**
 * @param {KeyboardEvent} e
 * @param {{writing: boolean, dialog: boolean}} where writing: the focus is in a field
 * @returns {string} '' for none
 */
export function actionOf(e, { writing, dialog }) {
	if (dialog || e.defaultPrevented || e.isComposing || e.ctrlKey || e.metaKey || e.altKey) return '';
	const action = plain[e.key.length === 1 ? e.key.toLowerCase() : e.key] ?? '';
	return writing && action !== 'leave' ? '' : action;
}
