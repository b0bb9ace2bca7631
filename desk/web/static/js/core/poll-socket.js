// The interface of a WebSocket over HTTP requests, for networks whose proxies
// break WebSockets: see "Long poll" in PROTOCOL.md. The server keeps what was
// not acknowledged and numbers what we send, so every request may be repeated.

const open = 1; // readyState as a WebSocket has it
const closed = 3;
const tries = 4; // of one request, before the session counts as lost
const pause = 1000; // ms between them
const maxBatch = 60_000; // characters of commands that go together

export class PollSocket {
	/**
	 * @param {string} url of the long poll
	 * @param {{fetch: typeof fetch, setTimeout: (f: () => void, ms: number) => unknown, task: () => Promise<void>}} env
	 */
	constructor(url, env) {
		Object.assign(this, { url, env, id: '', readyState: 0, onopen: null, onmessage: null, onclose: null });
		this.ending = new AbortController();
		this.waiting = []; // commands
		this.sending = false;
		this.n = 1; // number of the next request with commands
		this.#run();
	}

	send(text) {
		this.waiting.push(text);
		this.#flush();
	}

	/** Ends the session, and tells the server even if the page goes away. */
	close() {
		if (this.readyState === closed) return;
		this.#end(1000, '');
		this.#leave();
	}

	async #run() {
		try {
			this.id = (await this.#ask('POST', '/open', undefined, 1)).id;
			this.readyState = open;
			this.#tell(() => this.onopen?.());
			for (let after = 0; this.readyState === open;) {
				const { last, events, close } = await this.#ask('GET', `?after=${after}`);
				after = last;
				for (const e of events) {
					this.#tell(() => this.onmessage?.({ data: JSON.stringify(e) }));
					await this.env.task(); // what waits for this message comes before the next one, as with a WebSocket
				}
				if (close) this.#end(close.code, close.reason);
			}
		} catch {
			this.#lost();
		}
	}

	async #flush() {
		if (this.sending || this.readyState !== open) return;
		this.sending = true;
		try {
			while (this.waiting.length && this.readyState === open) {
				let [count, size] = [1, this.waiting[0].length];
				while (count < this.waiting.length && (size += this.waiting[count].length) <= maxBatch) count++;
				await this.#ask('POST', `?n=${this.n}`, `[${this.waiting.splice(0, count).join(',')}]`);
				this.n++;
			}
		} catch {
			this.#lost();
		}
		this.sending = false;
	}

	// One request, repeated while it fails on the way.
	async #ask(method, rest, body, left = tries) {
		for (;;) {
			let refused = null;
			try {
				const r = await this.#fetch(method, rest, body, { signal: this.ending.signal });
				if (r.ok) return await r.json();
				if (r.status < 500) refused = new Error(`HTTP ${r.status}`);
			} catch { /* cut: below */ }
			if (refused || --left <= 0 || this.readyState === closed) throw refused ?? new Error('lost');
			await new Promise((resolve) => this.env.setTimeout(resolve, pause));
		}
	}

	#leave() {
		if (this.id) this.#fetch('POST', '/close', undefined, { keepalive: true }).catch(() => {});
	}

	#fetch(method, rest, body, options) {
		const headers = { 'Content-Type': 'application/json', ...(this.id && { Authorization: `Bearer ${this.id}` }) };
		return this.env.fetch(this.url + rest, { method, headers, body, credentials: 'same-origin', cache: 'no-store', ...options });
	}

	#lost() {
		if (this.readyState === closed) return;
		this.#end(1006, '');
		this.#leave();
	}

	#end(code, reason) {
		if (this.readyState === closed) return;
		this.readyState = closed;
		this.ending.abort();
		this.#tell(() => this.onclose?.({ code, reason }));
	}

	// A mistake of the page does not end the session.
	#tell(f) {
		try {
			f();
		} catch (err) {
			globalThis.reportError?.(err);
		}
	}
}
