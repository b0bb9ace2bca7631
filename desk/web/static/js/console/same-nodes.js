// Lists that are drawn again and again: what says the same keeps its node, and so the focus and a press that has begun.

import { setChildren } from '../core/dom.js';

export class SameNodes {
	/** @param {HTMLElement} host */
	constructor(host) {
		this.host = host;
		this.nodes = new Map(); // by what they show
	}

	/**
	 * Shows items; those that say the same as another are one.
	 * @param {any[]} items
	 * @param {(item: any) => Node|Node[]} make its nodes
	 */
	draw(items, make) {
		const kept = this.nodes;
		this.nodes = new Map(items.map((item) => JSON.stringify(item)).map((key, i) => [key, kept.get(key) ?? make(items[i])]));
		setChildren(this.host, [...this.nodes.values()].flat());
	}
}
