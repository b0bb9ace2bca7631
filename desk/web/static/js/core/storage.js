// Storage that survives being blocked: localStorage, else sessionStorage, else
// memory. `persistent` tells the page whether it has to warn the user.

const probe = 'desk.probe';

function usable(area) {
	try {
		area.setItem(probe, '1');
		area.removeItem(probe);
		return true;
	} catch {
		return false;
	}
}

/** A Storage by its name, null when it is blocked. */
export function areaOf(name) {
	try {
		return globalThis[name] ?? null; // the getter itself throws when storage is blocked
	} catch {
		return null;
	}
}

/** A Storage-like object that keeps its values in memory. */
export class MemoryArea {
	constructor() { this.map = new Map(); }
	get length() { return this.map.size; }
	key(i) { return [...this.map.keys()][i] ?? null; }
	getItem(k) { return this.map.get(k) ?? null; }
	setItem(k, v) { this.map.set(k, String(v)); }
	removeItem(k) { this.map.delete(k); }
}

export class SafeStorage {
	/** @param {Storage[]} [areas] in order of preference; the tests pass their own */
	constructor(areas = [areaOf('localStorage'), areaOf('sessionStorage')]) {
		const area = areas.find((a) => a && usable(a));
		this.persistent = Boolean(area);
		this.area = area ?? new MemoryArea();
		this.overflow = new Map(); // values that did not fit (quota)
	}

	/** The parsed value, or fallback when there is none or it is unreadable. */
	get(key, fallback = null) {
		if (this.overflow.has(key)) return this.overflow.get(key);
		try {
			const raw = this.area.getItem(key);
			return raw === null ? fallback : JSON.parse(raw);
		} catch {
			return fallback;
		}
	}

	/** Stores a JSON value. Returns false when it is kept in memory only. */
	set(key, value) {
		try {
			this.area.setItem(key, JSON.stringify(value));
			this.overflow.delete(key);
			return this.persistent;
		} catch {
			this.overflow.set(key, value);
			return false;
		}
	}

	remove(key) {
		this.overflow.delete(key);
		try {
			this.area.removeItem(key);
		} catch { /* blocked since the start-up check: nothing is stored there */ }
	}

	/** All keys that begin with prefix. */
	keys(prefix) {
		const found = new Set([...this.overflow.keys()].filter((k) => k.startsWith(prefix)));
		try {
			for (let i = 0; i < this.area.length; i++) {
				const key = this.area.key(i);
				if (key?.startsWith(prefix)) found.add(key);
			}
		} catch { /* as above */ }
		return [...found];
	}
}

/** A random UUID (version 4), also where crypto.randomUUID needs HTTPS. */
export function uuid() {
	if (crypto.randomUUID) return crypto.randomUUID();
	const b = crypto.getRandomValues(new Uint8Array(16));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	const hex = [...b].map((x) => x.toString(16).padStart(2, '0')).join('');
	return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
