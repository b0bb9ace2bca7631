// Files of a chat in the console: what the agent attaches goes up by the
// agent's cookie and leaves with the next answer or note.

import { el } from '../core/dom.js';
import { acceptFiles, FileTray } from '../core/attachments.js';
import { Uploads } from '../core/uploads.js';

export class ChatFiles {
	/**
	 * @param {object} o
	 * @param {string} o.id the conversation
	 * @param {HTMLElement} o.area where files can be dropped
	 * @param {HTMLTextAreaElement} o.field where they can be pasted
	 * @param {HTMLButtonElement} o.button opens the picker
	 * @param {() => boolean} o.may whether something can be written now
	 * @param {() => void} o.onChange
	 * @param {(most: number) => void} o.onTooMany
	 */
	constructor({ id, area, field, button, may, onChange, onTooMany }) {
		this.host = el('div', { class: 'tray', data: { testid: 'tray' } });
		this.input = el('input', { type: 'file', multiple: true, hidden: true, tabindex: '-1', data: { testid: 'file-input' } });
		this.uploads = new Uploads({
			target: (name) => ({ url: `/api/v1/agent/uploads?${new URLSearchParams({ conv: id, name })}`, headers: { 'Content-Type': 'application/octet-stream' } }),
			onChange: () => {
				this.tray?.draw();
				onChange();
			},
		});
		this.tray = new FileTray({ host: this.host, uploads: this.uploads });
		this.tray.draw();
		acceptFiles({ button, input: this.input, field, area }, (files) => {
			if (!may() || files.length === 0) return;
			if (this.uploads.add(files) > 0) onTooMany(this.uploads.most);
			field.focus();
		});
	}

	/** What goes into the outbox for a message with this text. */
	body(text, note) {
		const files = this.uploads.take();
		return {
			body: text, ...(note && { note }),
			...(files.length > 0 && { ...(!note && { kind: 'file' }), attachments: files.map((f) => f.id), files }),
		};
	}

	relabel() {
		this.tray.relabel();
	}

	dispose() {
		this.uploads.clear();
	}
}

/** A file that was being checked is ready or refused: the messages that show it. @returns {boolean} whether there are any */
export function fileChanged(events, file) {
	let found = false;
	for (const ev of events) {
		for (const f of ev.d.files ?? []) {
			if (f.id !== file.id) continue;
			Object.assign(f, file);
			found = true;
		}
	}
	return found;
}
