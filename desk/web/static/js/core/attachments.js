// The files of messages: images with their place kept, everything else as a
// line to be opened. Addresses are asked for in batches and hold for a while.

import './file-texts.js';
import { addShapes, el, icon, setAttr, setText } from './dom.js';
import { number, t } from './i18n.js';
import { largestFile } from './uploads.js';

addShapes({
	clip: ['M15.5 9.5l-5.6 5.6a3.4 3.4 0 0 1-4.8-4.8l6.2-6.2a2.3 2.3 0 0 1 3.2 3.2l-6 6a1.1 1.1 0 0 1-1.6-1.6l5.3-5.3'],
	file: ['M5.5 3h6l4 4v9.5a.5.5 0 0 1-.5.5H5.5a.5.5 0 0 1-.5-.5v-13a.5.5 0 0 1 .5-.5z', 'M11.5 3v4h4'],
});

const batch = 20; // ids of one question
const largest = 240; // px of an image's longer side
const shown = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** Bytes in words. */
export function sizeOf(bytes) {
	const [unit, by] = bytes < 1024 ? ['B', 1] : bytes < 1 << 20 ? ['KB', 1024] : ['MB', 1 << 20];
	return `${number(Math.round((bytes / by) * 10) / 10)} ${unit}`;
}

/** The size at which an image is shown. */
export function fit(w, h) {
	const by = Math.min(1, largest / Math.max(w, h));
	return [Math.max(1, Math.round(w * by)), Math.max(1, Math.round(h * by))];
}

/** Addresses of files, while they hold. */
export class FileLinks {
	/**
	 * @param {(ids: string[]) => Promise<{links: Object<string, string>, expires_ms: number}>} ask
	 * @param {object} [env] now, setTimeout
	 */
	constructor(ask, env = { now: () => Date.now(), setTimeout: (f, ms) => setTimeout(f, ms) }) {
		Object.assign(this, { ask, env, known: new Map(), waiting: new Map(), timer: null });
	}

	/** @returns {Promise<string>} '' when there is none */
	get(id) {
		const held = this.known.get(id);
		if (held && held.until > this.env.now()) return Promise.resolve(held.url);
		return new Promise((resolve) => {
			if (!this.waiting.has(id)) this.waiting.set(id, []);
			this.waiting.get(id).push(resolve);
			this.timer ??= this.env.setTimeout(() => this.#fetch(), 30);
		});
	}

	async #fetch() {
		this.timer = null;
		const asked = [...this.waiting].slice(0, batch);
		for (const [id] of asked) this.waiting.delete(id);
		if (this.waiting.size > 0) this.timer = this.env.setTimeout(() => this.#fetch(), 30);
		let links = {};
		try {
			const answer = await this.ask(asked.map(([id]) => id));
			links = answer.links ?? {};
			const until = this.env.now() + 0.8 * answer.expires_ms;
			for (const [id, url] of Object.entries(links)) this.known.set(id, { url, until });
		} catch { /* asked again when the file is drawn or pressed again */ }
		for (const [id, resolvers] of asked) for (const f of resolvers) f(links[id] ?? '');
	}
}

/** Draws the files of a message. */
export function drawFiles(files, links) {
	return el('span', { class: 'files' }, files.map((f) => (f.state === 'ready' && shown.has(f.type) && f.w > 0 && f.h > 0 ? image(f, links) : line(f, links))));
}

function image(f, links) {
	const [width, height] = fit(f.w, f.h);
	const img = el('img', { width, height, alt: f.name, data: { testid: 'file-image' } });
	const link = opener(f, links, 'file-image');
	link.append(img);
	links.get(f.id).then((url) => {
		if (!url) return;
		img.src = url;
		link.href = url;
	});
	return link;
}

function line(f, links) {
	const words = f.state === 'checking' ? t('file.checking') : f.state === 'refused' ? t('file.refused') : sizeOf(f.size);
	const children = [icon('file'), el('span', { class: 'file-name', text: f.name }), el('span', { class: 'file-size', text: words })];
	if (f.state !== 'ready') return el('span', { class: 'file', data: { testid: 'file', state: f.state } }, children);
	const link = opener(f, links, 'file');
	link.dataset.state = f.state;
	link.append(...children);
	return link;
}

// An address is fetched when it is needed and again when it no longer holds.
function opener(f, links, kind) {
	const link = el('a', { class: kind, href: '#', target: '_blank', rel: 'noopener noreferrer', aria: { label: t('file.open', { name: f.name }) }, data: { testid: kind } });
	link.addEventListener('click', async (e) => {
		const held = links.known.get(f.id);
		if (held && held.until > links.env.now() && link.href === new URL(held.url, location.href).href) return;
		e.preventDefault();
		const url = await links.get(f.id);
		if (!url) return;
		link.href = url;
		link.click();
	});
	return link;
}

/** The files that go with the next message, above the message box. */
export class FileTray {
	/**
	 * @param {object} o
	 * @param {HTMLElement} o.host an empty element
	 * @param {import('./uploads.js').Uploads} o.uploads
	 */
	constructor({ host, uploads }) {
		Object.assign(this, { host, uploads, nodes: new Map() });
	}

	draw() {
		const { items } = this.uploads;
		for (const [key, node] of this.nodes) {
			if (items.some((i) => i.key === key)) continue;
			node.remove();
			this.nodes.delete(key);
		}
		for (const item of items) {
			if (!this.nodes.has(item.key)) {
				this.nodes.set(item.key, this.#chip(item));
				this.host.append(this.nodes.get(item.key));
			}
			this.#show(this.nodes.get(item.key), item);
		}
		this.host.hidden = items.length === 0;
	}

	/** Draws everything again in the current language. */
	relabel() {
		this.nodes.clear();
		this.host.replaceChildren();
		this.draw();
	}

	#chip(item) {
		return el('div', { class: 'chip', data: { testid: 'upload' } },
			icon('file'), el('span', { class: 'file-name', text: item.name, title: item.name }), el('span', { class: 'file-size' }),
			el('progress', { max: '1', aria: { label: item.name } }),
			el('button', { type: 'button', class: 'link-button', text: t('retry'), on: { click: () => this.uploads.retry(item.key) } }),
			el('button', { type: 'button', class: 'icon-button', aria: { label: t('file.cancel', { name: item.name }) }, data: { testid: 'upload-cancel' }, on: { click: () => this.uploads.cancel(item.key) } }, icon('close')));
	}

	#show(node, item) {
		const [, , words, bar, again] = node.children;
		setAttr(node, 'data-state', item.state);
		const failed = item.state === 'failed';
		setText(words, failed ? t(item.code === 'too_large' ? 'file.tooLarge' : item.retryMs > 0 ? 'file.failed' : 'file.notTaken', { size: sizeOf(largestFile) }) : sizeOf(item.size));
		setAttr(words, 'role', failed ? 'status' : null);
		bar.hidden = item.state !== 'sending' && item.state !== 'waiting';
		bar.value = item.share;
		again.hidden = !failed || item.retryMs === 0;
	}
}

/** Lets files in by the button, by pasting and by dropping them anywhere on the area. */
export function acceptFiles({ button, input, field, area }, onFiles) {
	button.append(icon('clip'));
	button.addEventListener('click', () => input.click());
	input.addEventListener('change', () => {
		onFiles([...input.files]);
		input.value = '';
	});
	field.addEventListener('paste', (e) => {
		if (e.clipboardData.files.length === 0) return;
		e.preventDefault();
		onFiles([...e.clipboardData.files]);
	});
	const carries = (e) => e.dataTransfer?.types.includes('Files');
	area.addEventListener('dragover', (e) => {
		if (!carries(e)) return;
		e.preventDefault();
		area.classList.add('dropping');
	});
	area.addEventListener('dragleave', (e) => {
		if (!area.contains(e.relatedTarget)) area.classList.remove('dropping');
	});
	area.addEventListener('drop', (e) => {
		area.classList.remove('dropping');
		if (!carries(e)) return;
		e.preventDefault();
		onFiles([...e.dataTransfer.files]);
	});
}
