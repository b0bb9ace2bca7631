// Helpers of the unit tests: a clock under control and a scripted socket.

globalThis.crypto ??= (await import('node:crypto')).webcrypto; // global since node 19

/** Timers that run only when the test moves the clock. */
export class Clock {
	constructor(start = 1_000_000) {
		this.time = start;
		this.timers = new Map();
		this.next = 1;
		this.env = {
			now: () => this.time,
			setTimeout: (f, ms) => {
				const id = this.next++;
				this.timers.set(id, { f, at: this.time + ms });
				return id;
			},
			clearTimeout: (id) => this.timers.delete(id),
		};
	}

	/** Moves the clock and runs what is due, in order. */
	async advance(ms) {
		const end = this.time + ms;
		for (;;) {
			await settle();
			const due = [...this.timers].filter(([, t]) => t.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
			if (!due) break;
			this.timers.delete(due[0]);
			this.time = due[1].at;
			due[1].f();
		}
		this.time = end;
		await settle();
	}
}

/** Lets pending promise reactions run. */
export async function settle() {
	for (let i = 0; i < 20; i++) await Promise.resolve();
}

/** A promise with its resolve and reject outside. */
export function deferred() {
	const d = {};
	d.promise = new Promise((resolve, reject) => Object.assign(d, { resolve, reject }));
	return d;
}

/** A WebSocket that the test plays. */
export function socketClass() {
	return class FakeSocket {
		static all = [];
		static get last() { return this.all.at(-1); }
		constructor(url, protocol) {
			Object.assign(this, { url, protocol, sent: [], closed: null, readyState: 0 });
			FakeSocket.all.push(this);
		}
		send(text) {
			if (this.readyState !== 1) throw new Error(`send in state ${this.readyState}`);
			this.sent.push(JSON.parse(text));
		}
		close(code) { this.closed = code; }
		open() {
			this.readyState = 1;
			this.onopen();
		}
		receive(frame) { this.onmessage({ data: JSON.stringify(frame) }); }
		drop(code = 1006, reason = '') { this.onclose({ code, reason }); }
		/** Answers the hello. */
		welcome(d = {}) {
			this.open();
			this.receive({ t: 'welcome', re: this.sent[0].id, d });
		}
	};
}
