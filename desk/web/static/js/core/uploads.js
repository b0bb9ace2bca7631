// Files on their way to the server: one after the other, with progress, until
// they are sent with a message. Who uploads is the business of its user.

const retryable = new Set(['busy', 'unavailable', 'rate_limited', 'lost']);

/** Bytes of one file; the server says how many it takes. */
export let largestFile = 20 << 20;

/** @param {number} [bytes] */
export function allowFiles(bytes) {
	if (bytes > 0) largestFile = bytes;
}

/**
 * @typedef {{key: number, file: File, name: string, size: number, state: 'waiting'|'sending'|'done'|'failed', share: number, id: string, info: object|null, code: string, retryMs: number}} Upload
 */
export class Uploads {
	/**
	 * @param {object} o
	 * @param {(name: string) => {url: string, headers: Object<string, string>}} o.target
	 * @param {() => void} o.onChange
	 * @param {number} [o.most] files of one message
	 * @param {object} [o.env] XMLHttpRequest, setTimeout
	 */
	constructor({ target, onChange, most = 10, env = globalThis }) {
		Object.assign(this, { target, onChange, most, env, next: 1, running: null });
		/** @type {Upload[]} */
		this.items = [];
	}

	/** Takes files, instead of those that were refused; returns how many there was no room for. */
	add(files) {
		this.#dropRefused();
		const room = Math.max(0, this.most - this.items.length);
		for (const file of [...files].slice(0, room)) {
			const tooLarge = file.size > largestFile;
			this.items.push({ key: this.next++, file, name: file.name || 'file', size: file.size, state: tooLarge ? 'failed' : 'waiting', share: 0, id: '', info: null, code: tooLarge ? 'too_large' : '', retryMs: 0 });
		}
		this.#pump();
		this.onChange();
		return Math.max(0, files.length - room);
	}

	/** Gives a file up, wherever it is. */
	cancel(key) {
		this.items = this.items.filter((i) => i.key !== key);
		if (this.running?.key === key) this.running.request.abort();
		this.onChange();
	}

	retry(key) {
		const item = this.items.find((i) => i.key === key);
		if (item?.state !== 'failed' || item.code === 'too_large') return;
		Object.assign(item, { state: 'waiting', share: 0, code: '' });
		this.#pump();
		this.onChange();
	}

	/** Files that are there or on their way. */
	get pending() {
		return this.items.filter((i) => i.state !== 'failed');
	}

	/** True when nothing is on its way. */
	get settled() {
		return this.items.every((i) => i.state === 'done' || i.state === 'failed');
	}

	/** Takes the files that are there, for a message; those that can be tried again stay. */
	take() {
		this.#dropRefused();
		const done = this.items.filter((i) => i.state === 'done');
		this.items = this.items.filter((i) => i.state !== 'done');
		this.onChange();
		return done.map((i) => i.info);
	}

	/** Another conversation. */
	clear() {
		this.items = [];
		this.running?.request.abort();
		this.onChange();
	}

	// What no attempt will change has been seen when the writer goes on.
	#dropRefused() {
		this.items = this.items.filter((i) => i.state !== 'failed' || i.retryMs > 0);
	}

	#pump() {
		if (this.running) return;
		const item = this.items.find((i) => i.state === 'waiting');
		if (!item) return;
		item.state = 'sending';
		const request = new this.env.XMLHttpRequest();
		this.running = { key: item.key, request };
		const end = () => {
			this.running = null;
			if (item.state === 'sending') Object.assign(item, this.#answer(request));
			this.#pump();
			this.onChange();
		};
		request.upload.onprogress = (e) => {
			item.share = e.lengthComputable ? e.loaded / e.total : 0;
			this.onChange();
		};
		request.onloadend = end;
		const { url, headers } = this.target(item.name);
		request.open('POST', url);
		for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
		request.send(item.file);
	}

	#answer(request) {
		let body = null;
		try {
			body = JSON.parse(request.responseText);
		} catch { /* cut off, or refused before an endpoint saw it */ }
		if (request.status === 201 && body?.id) return { state: 'done', share: 1, id: body.id, info: body };
		const code = body?.code ?? (request.status === 0 ? 'lost' : request.status === 413 ? 'too_large' : 'refused');
		return { state: 'failed', code, retryMs: retryable.has(code) ? body?.retry_ms ?? 1_000 : 0 };
	}
}
