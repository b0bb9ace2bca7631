// When to call the agent with a notification or a sound. Pure.

/**
 * @param {object} what
 * @param {'message'|'queue'|'assigned'|'offer'} what.kind
 * @param {boolean} what.hidden the page is not on screen
 * @param {boolean} [what.current] it concerns the chat that is open
 * @param {string} [what.status] the agent's own status
 */
export function callsFor({ kind, hidden, current = false, status = 'online' }) {
	if (kind === 'offer') return { notify: hidden, sound: true };
	if (kind === 'message' || kind === 'assigned') return { notify: hidden, sound: hidden || !current };
	const wanted = status === 'online'; // who is busy or away is not called to the queue
	return { notify: hidden && wanted, sound: wanted };
}
