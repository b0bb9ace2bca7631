// The text that a bot is writing now. Its pieces are numbered from 0; one that
// is missed makes the rest useless, and the complete message comes in any case.

/**
 * What is shown after a piece, null for nothing.
 * @param {{turn: string, n: number, text: string, from: object}|null} held
 * @param {{turn: string, n: number, text: string, from: object}} piece
 */
export function withPiece(held, piece) {
	const { turn, n, text, from } = piece;
	if (n === 0) return { turn, n, text, from };
	if (held?.turn !== turn || n !== held.n + 1) return null;
	return { ...held, n, text: held.text + text };
}

/** Whether an event ends what is being written: the message itself, or a change of the owner. */
export function endsPartial(ev) {
	return ev.t === 'ev.state' || ev.d.from.kind === 'bot';
}
