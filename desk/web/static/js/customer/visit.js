// Where the visitor is: told to the server as it changes, as far as the site keeps it.

const pause = 2_000; // between two pages that are told
const limits = { page: 2000, referrer: 2000, title: 400, zone: 64 };

export class Visit {
	/**
	 * @param {object} o
	 * @param {(what: object) => void} o.tell sends it; may be lost while there is no connection
	 * @param {object} [o.env] now, setTimeout, zone
	 */
	constructor({ tell, env = browserEnv() }) {
		Object.assign(this, { tell, env });
		this.place = null;
		this.kept = 'none'; // what the site keeps, until it has said
		this.last = '';
		this.at = -Infinity;
	}

	/** The visitor is here now. @param {{page: string, title?: string, referrer?: string}} place */
	move(place) {
		this.place = Object.fromEntries(['page', 'title', 'referrer'].map((k) => [k, typeof place[k] === 'string' ? place[k] : '']));
		this.#soon();
	}

	/** A connection has begun, which knows nothing. @param {string} [kept] what the site keeps of visits */
	welcome(kept = 'none') {
		this.kept = kept;
		this.last = '';
		this.at = -Infinity;
		this.#soon();
	}

	/** The address that may be told, '' for none. */
	get page() {
		return this.kept === 'none' || !this.place ? '' : said(this.place, this.kept).page ?? '';
	}

	#soon() {
		if (this.timer !== undefined || !this.place) return;
		const wait = this.at + pause - this.env.now();
		if (wait <= 0) {
			this.#now();
			return;
		}
		this.timer = this.env.setTimeout(() => {
			this.timer = undefined;
			this.#now();
		}, wait);
	}

	#now() {
		if (this.kept === 'none') return;
		const d = said({ ...this.place, zone: this.env.zone() }, this.kept);
		const text = JSON.stringify(d);
		if (text === this.last) return;
		this.last = text;
		this.at = this.env.now();
		this.tell(d);
	}
}

/** What is told of a place; what is too long to be kept is not told. */
export function said({ page = '', title = '', referrer = '', zone = '' }, kept) {
	const d = { page: page.split('#')[0], referrer: referrer.split('#')[0], title: [...title].slice(0, limits.title).join(''), zone };
	if (kept !== 'full') {
		d.page = d.page.split('?')[0];
		d.referrer = d.referrer.split('?')[0];
	}
	return Object.fromEntries(Object.entries(d).filter(([name, text]) => text && new TextEncoder().encode(text).length <= (name === 'title' ? 2000 : limits[name])));
}

function browserEnv() {
	return {
		now: () => performance.now(), setTimeout: (f, ms) => setTimeout(f, ms),
		zone: () => {
			try {
				return Intl.DateTimeFormat().resolvedOptions().timeZone ?? '';
			} catch {
				return '';
			}
		},
	};
}
