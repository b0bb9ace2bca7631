// The widget's frame and the page that holds it: messages with checked origins
// in both directions. The page's address comes from the loader (?host=…); the
// server's frame-ancestors decides which pages may hold the frame at all.

// A page without our loader never answers. One that is busy with scripts of its own answers late, and without its answer a
// visitor who was here before would be a stranger. The loader itself gives up after 20 s.
const patience = 15_000;

/** A Storage-like object over what the host page keeps; reads are local, writes are sent. */
export class HostArea {
	/**
	 * @param {Object<string, string>} values
	 * @param {(key: string, value: string|null) => void} write
	 */
	constructor(values, write) {
		this.map = new Map(Object.entries(values).filter(([, v]) => typeof v === 'string'));
		this.write = write;
	}

	get length() { return this.map.size; }
	key(i) { return [...this.map.keys()][i] ?? null; }
	getItem(k) { return this.map.get(k) ?? null; }
	setItem(k, v) {
		this.map.set(k, String(v));
		this.write(k, String(v));
	}
	removeItem(k) {
		if (this.map.delete(k)) this.write(k, null);
	}
}

export class FrameHost {
	/**
	 * @param {Window} win this window
	 * @param {string} origin of the page that holds it
	 */
	constructor(win, origin) {
		Object.assign(this, { win, origin, on: {}, open: false });
		win.addEventListener('message', (e) => {
			if (e.source !== win.parent || e.origin !== origin || e.data?.eddy !== 1) return;
			if (e.data.t === 'open' || e.data.t === 'close') this.open = e.data.t === 'open';
			this.on[e.data.t]?.(e.data);
		});
	}

	send(t, more = {}) {
		this.win.parent.postMessage({ eddy: 1, t, ...more }, this.origin);
	}

	/** Where the visitor's things are kept: with the host page if it can, null otherwise. */
	area(store) {
		return store && typeof store === 'object' ? new HostArea(store, (key, value) => this.send('set', { key, value })) : null;
	}

	/**
	 * Meets the page that holds this one.
	 * @returns {Promise<{host: FrameHost, init: object}|null>} null on a page of its own, or when nobody answers
	 */
	static meet(win = window, setTimer = setTimeout) {
		if (win.parent === win) return Promise.resolve(null);
		let origin;
		try {
			({ origin } = new URL(new URL(win.location.href).searchParams.get('host') ?? ''));
		} catch {
			return Promise.resolve(null);
		}
		if (origin === 'null') return Promise.resolve(null);
		const host = new FrameHost(win, origin);
		return new Promise((resolve) => {
			host.on.init = (init) => {
				host.open = init.open === true;
				resolve({ host, init });
			};
			setTimer(() => resolve(null), patience);
			host.send('hello');
		});
	}
}
