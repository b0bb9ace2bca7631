// Full-jitter exponential back-off: base 0.5 s, cap 30 s,
// forgotten after a connection that stayed up for 60 s.

export class Backoff {
	/**
	 * @param {{base?: number, cap?: number, stable?: number, random?: () => number}} [options] times in ms
	 */
	constructor({ base = 500, cap = 30_000, stable = 60_000, random = Math.random } = {}) {
		this.base = base;
		this.cap = cap;
		this.stable = stable;
		this.random = random;
		this.attempt = 0;
		this.upSince = null;
	}

	/**
	 * Delay in ms before the next attempt: a random part of a ceiling that grows, on top of what the server asked for.
	 * @param {number} [floor] ms that the server asked for
	 */
	next(floor = 0) {
		const ceiling = Math.min(this.cap, this.base * 2 ** Math.min(this.attempt, 20));
		this.attempt++;
		return Math.max(floor, 0) + Math.round(this.random() * ceiling);
	}

	/** An attempt has succeeded: the delays begin anew. */
	reset() {
		this.attempt = 0;
	}

	/** The session is up (now: ms). */
	up(now) {
		this.upSince = now;
	}

	/** The connection ended (now: ms). */
	down(now) {
		if (this.upSince !== null && now - this.upSince >= this.stable) this.reset();
		this.upSince = null;
	}
}

/** What a WebSocket close code asks of the client. */
export function closeClass(code) {
	if (code === 4000 || code === 1001 || code === 1012) return 'draining';
	if (code >= 4100 && code <= 4199) return 'final';
	return 'retry';
}
