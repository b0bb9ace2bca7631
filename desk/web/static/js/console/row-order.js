// The order of the list's rows. The row under the pointer stays in its place,
// and with it the rows above, while the pointer moves and for a moment after:
// what has left stays there, what is new comes below or waits. Pure, no page.

const holdFor = 2_000; // ms after the pointer's last move

export class RowOrder {
	/**
	 * @param {object} o
	 * @param {string[]} o.sections names, from top to bottom
	 * @param {string} o.eager the section into which new rows always come
	 * @param {() => void} o.onFree no row is held any more
	 * @param {object} [o.env] setTimeout, clearTimeout
	 */
	constructor({ sections, eager, onFree, env = { setTimeout: (f, ms) => setTimeout(f, ms), clearTimeout: (t) => clearTimeout(t) } }) {
		Object.assign(this, { sections, eager, onFree, env });
		this.shown = Object.fromEntries(sections.map((name) => [name, []]));
		this.held = null; // {section, id} of the row under the pointer
	}

	/**
	 * The pointer has moved on this row.
	 * @param {string} section
	 * @param {string} id
	 * @param {boolean} [pressed] a button or a finger is down: the row stays until it is not
	 */
	hold(section, id, pressed = false) {
		this.env.clearTimeout(this.timer);
		this.held = { section, id };
		if (!pressed) this.timer = this.env.setTimeout(() => this.free(), holdFor);
	}

	/** The pointer is on no row. */
	free() {
		if (!this.held) return;
		this.env.clearTimeout(this.timer);
		this.held = null;
		this.onFree();
	}

	/**
	 * Takes the rows that there are, in their true order.
	 * @param {Object<string, string[]>} wanted ids by section
	 * @returns {Object<string, string[]>} ids by section, as they are to be shown
	 */
	update(wanted) {
		const { held } = this;
		const at = held ? this.shown[held.section].indexOf(held.id) : -1;
		const section = at < 0 ? -1 : this.sections.indexOf(held.section);
		this.sections.forEach((name, i) => {
			const kept = i < section ? this.shown[name] : i === section ? this.shown[name].slice(0, at + 1) : [];
			const news = i < section && name !== this.eager ? [] : wanted[name].filter((id) => !kept.includes(id));
			this.shown[name] = [...kept, ...news];
		});
		return this.shown;
	}
}
