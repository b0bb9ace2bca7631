// The way to the server: a WebSocket, or long polls in a network where
// WebSockets do not come through. The tab remembers that, and looks from time
// to time whether a WebSocket has a way by now.

const subprotocol = 'im.v1.json';
const patience = 2; // attempts in a row that come to nothing, before the other way is tried
const doubt = 6; // the same for a way that was good
const soon = 5_000; // ms until a WebSocket is looked for: the server may just have been away
const later = 600_000; // and after that; doubles up to
const latest = 3_600_000;
const probeTimeout = 10_000;
const key = 'desk.way';

export class Way {
	/** @param {object} env WebSocket, setTimeout, clearTimeout; polls, fetch, task and memory (see SafeStorage) if there may be polls */
	constructor(env, poll = '/api/v1/poll') {
		Object.assign(this, { env, poll, failures: 0 });
		this.wait = env.memory?.get(key) ?? 0; // ms until a WebSocket is looked for
		this.polls = this.wait > 0;
		this.proven = this.polls; // this way has led to the server in this network
	}

	/** Loads what the present way needs, before dial. */
	async ready() {
		if (this.polls) this.PollSocket ??= (await this.env.polls()).PollSocket;
	}

	/** A socket of the present way. */
	dial(url) {
		return this.polls ? new this.PollSocket(this.poll, this.env) : new this.env.WebSocket(url, subprotocol);
	}

	/** The server has welcomed us. Returns the ms until probe is to be called, 0 = never. */
	up() {
		this.failures = 0;
		this.proven = true;
		if (!this.polls) return 0;
		this.#remember(this.wait || soon);
		return this.wait;
	}

	/** An attempt has come to nothing, without a word of the server. silent: although a WebSocket was open. */
	failed(silent) {
		if (!this.env.polls) return;
		const enough = this.proven ? doubt : patience;
		this.failures += silent && !this.polls ? patience : 1;
		if (this.failures < enough) return;
		Object.assign(this, { failures: 0, proven: false, polls: !this.polls });
	}

	/** This may be another network. */
	moved() {
		this.proven = false;
		this.failures = 0;
	}

	/** Looks whether a WebSocket carries messages both ways, and if so makes it the way. */
	async probe(url) {
		const works = await this.#echo(url);
		if (!works) {
			this.#remember(this.wait < later ? later : Math.min(2 * this.wait, latest));
			return false;
		}
		this.env.memory?.remove(key);
		Object.assign(this, { polls: false, proven: false, failures: patience - 1 }); // one failure leads back
		return true;
	}

	#remember(wait) {
		this.wait = wait;
		this.env.memory?.set(key, wait);
	}

	// Whatever the server says to a ping before hello is the proof.
	#echo(url) {
		return new Promise((resolve) => {
			const socket = new this.env.WebSocket(url, subprotocol);
			const done = (works) => {
				this.env.clearTimeout(timer);
				socket.onopen = socket.onmessage = socket.onclose = null;
				socket.close(1000, '');
				resolve(works);
			};
			const timer = this.env.setTimeout(() => done(false), probeTimeout);
			socket.onopen = () => socket.send('{"t":"ping","id":"probe","d":{"time":0}}');
			socket.onmessage = () => done(true);
			socket.onclose = () => done(false);
		});
	}
}
