// The chats of the wall as rows of the list, for who may read them. Pure.

/**
 * @param {{agents: {id: string, name: string, chats: {id: string, contact: string, since: number, waiting?: number}[]}[]}} wall
 * @returns {object[]} rows of revision 0: whatever else is known of them is newer
 */
export function rowsOfWall({ agents = [] }) {
	return agents.flatMap((a) => a.chats.map((chat) => ({
		id: chat.id, state: 'assigned', rev: 0, epoch: 0, last: 0, opened: chat.since, at: chat.since,
		owner: { kind: 'agent', id: a.id, name: a.name }, contact: { name: chat.contact }, preview: '',
		...(chat.waiting > 0 && { since: chat.waiting }),
	})));
}
