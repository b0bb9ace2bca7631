// DOM helpers. Everything on the pages is built with these: text always
// becomes a text node, so nothing that a person typed is ever parsed as HTML.

/**
 * Makes an element.
 * @param {string} tag
 * @param {Object<string, any>} [props] class, text, data, aria, on, hidden, disabled, or any attribute
 * @param {...(Node|string|null|undefined|false)} children
 * @returns {HTMLElement}
 */
export function el(tag, props = {}, ...children) {
	const node = document.createElement(tag);
	for (const [key, value] of Object.entries(props)) setProp(node, key, value);
	append(node, children);
	return node;
}

function setProp(node, key, value) {
	if (value === undefined || value === null || value === false) return;
	switch (key) {
	case 'class': node.className = value; return;
	case 'text': node.textContent = value; return;
	case 'data': Object.assign(node.dataset, value); return;
	case 'aria':
		for (const [name, v] of Object.entries(value)) node.setAttribute(`aria-${name}`, String(v));
		return;
	case 'on':
		for (const [name, listener] of Object.entries(value)) node.addEventListener(name, listener);
		return;
	}
	if (/^on/i.test(key) || key === 'style') throw new Error(`dom: attribute ${key} is not allowed`);
	node.setAttribute(key, value === true ? '' : String(value));
}

function append(node, children) {
	for (const child of children.flat()) {
		if (child === undefined || child === null || child === false) continue;
		node.append(child);
	}
}

/**
 * Gives node these children, and moves only those that are out of place: what
 * leaves the document for a moment loses the focus and a press that has begun.
 */
export function setChildren(node, children) {
	const wanted = children.filter(Boolean);
	const kept = new Set(wanted);
	for (const child of [...node.childNodes]) if (!kept.has(child)) child.remove();
	wanted.forEach((child, i) => {
		if (node.childNodes[i] !== child) node.insertBefore(child, node.childNodes[i] ?? null);
	});
}

/** Sets text only when it differs, so that live regions stay quiet. */
export function setText(node, text) {
	if (node.textContent !== text) node.textContent = text;
}

/** Sets or removes an attribute only when it differs. */
export function setAttr(node, name, value) {
	if (value === null || value === undefined || value === false) {
		if (node.hasAttribute(name)) node.removeAttribute(name);
		return;
	}
	const text = value === true ? '' : String(value);
	if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** The element of the page with this id; a page without it is broken. */
export function byId(id) {
	const node = document.getElementById(id);
	if (!node) throw new Error(`dom: no element with id ${id}`);
	return node;
}

/** Calls f when the focus goes from these nodes, which belong together, to another place on the page. */
export function onFocusLeft(nodes, f) {
	for (const node of nodes) {
		node.addEventListener('focusout', (e) => {
			if (e.relatedTarget && !nodes.some((n) => n.contains(e.relatedTarget))) f();
		});
	}
}

const shapes = {
	send: ['M4 10h11', 'M10.5 5l5 5-5 5'],
	person: ['M10 10a3.25 3.25 0 1 0 0-6.5 3.25 3.25 0 0 0 0 6.5z', 'M3.75 17c.6-3.2 3.1-5 6.25-5s5.65 1.8 6.25 5'],
	bot: ['M5 7.5h10a1.5 1.5 0 0 1 1.5 1.5v5.5A1.5 1.5 0 0 1 15 16H5a1.5 1.5 0 0 1-1.5-1.5V9A1.5 1.5 0 0 1 5 7.5z', 'M10 7.5V4.5', 'M7.5 11v1.5', 'M12.5 11v1.5'],
	clock: ['M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14z', 'M10 6v4l2.5 1.8'],
	tick: ['M4 10.5l4 4 8-9'],
	ticks: ['M1.5 10.5l4 4 8-9', 'M10 14l.6.6 8-9'],
	alert: ['M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14z', 'M10 6.5v4.2', 'M10 13.3v.2'],
	menu: ['M10 5.2a.7.7 0 1 0 0-1.4.7.7 0 0 0 0 1.4z', 'M10 10.7a.7.7 0 1 0 0-1.4.7.7 0 0 0 0 1.4z', 'M10 16.2a.7.7 0 1 0 0-1.4.7.7 0 0 0 0 1.4z'],
	down: ['M5 8l5 5 5-5'],
	back: ['M12.5 4.5L7 10l5.5 5.5'],
	close: ['M5 5l10 10', 'M15 5L5 15'],
	globe: ['M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14z', 'M3 10h14', 'M10 3c2.3 2.1 3.3 4.5 3.3 7s-1 4.9-3.3 7c-2.3-2.1-3.3-4.5-3.3-7s1-4.9 3.3-7z'],
	info: ['M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14z', 'M10 9.2v4.3', 'M10 6.4v.2'],
	exit: ['M8 3.5H4.5v13H8', 'M12 6.5l3.5 3.5-3.5 3.5', 'M15.5 10H8'],
	help: ['M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14z', 'M7.8 8c.1-1.3 1-2 2.2-2 1.3 0 2.2.8 2.2 1.9 0 1.6-2.1 1.7-2.1 3.3', 'M10.1 13.6v.2'],
	chat: ['M3.5 5.5A1.5 1.5 0 0 1 5 4h10a1.5 1.5 0 0 1 1.5 1.5v7A1.5 1.5 0 0 1 15 14H9l-3.5 3v-3H5a1.5 1.5 0 0 1-1.5-1.5z'],
	inbox: ['M3.5 11L5.5 4.5h9L16.5 11v4.5h-13z', 'M3.5 11h3.7l1 2h3.6l1-2h3.7'],
};

/** Adds shapes that only one page needs: {name: [path, …]}. */
export function addShapes(more) {
	Object.assign(shapes, more);
}

/**
 * An icon as inline SVG: 20 px grid, one stroke width (set in tokens.css).
 * @param {keyof typeof shapes} name
 */
export function icon(name) {
	const ns = 'http://www.w3.org/2000/svg';
	const svg = document.createElementNS(ns, 'svg');
	svg.setAttribute('viewBox', '0 0 20 20');
	svg.setAttribute('class', 'icon');
	svg.setAttribute('aria-hidden', 'true');
	for (const d of shapes[name]) {
		const path = document.createElementNS(ns, 'path');
		path.setAttribute('d', d);
		svg.append(path);
	}
	return svg;
}
