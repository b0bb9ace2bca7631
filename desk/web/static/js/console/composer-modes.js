// The message box of a chat has two modes, an answer and a note, with a draft
// each. A note stays a note until the agent says otherwise: nothing meant for
// colleagues goes to the customer because a mode ended by itself.

export class ComposerModes {
	/**
	 * @param {object} o
	 * @param {import('../core/composer.js').Composer} o.composer
	 * @param {{answer: {get: Function, set: Function}, note: {get: Function, set: Function}}} o.drafts
	 * @param {() => void} o.onChange
	 */
	constructor({ composer, drafts, onChange }) {
		Object.assign(this, { composer, drafts, onChange });
		this.note = false;
	}

	/** Goes to the note mode or back. */
	set(note) {
		if (this.note === note) return;
		this.note = note;
		this.composer.wanted = false; // what was to be sent in the other mode is not
		this.composer.draft = note ? this.drafts.note : this.drafts.answer;
		this.composer.restore();
		this.onChange();
	}

	toggle() {
		this.set(!this.note);
	}
}
