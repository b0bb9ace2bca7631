// Rows of a form that are added, moved and removed without asking the server,
// which does the same for a browser without scripts.

/** A name, id or button value of a row, with the number i: "rules[2].name" becomes "rules[i].name". */
export function renamed(value, list, i) {
	return value.replace(new RegExp(`(?<![\\w.])${list}\\[(?:\\d+|#)\\]`, 'g'), `${list}[${i}]`);
}

/** What a button asks for: {list, at, what}, at is NaN for a new row; null for other buttons. */
export function orderOf(value) {
	const m = /^(\w+)(?:\[(\d+)\])?\.(add|up|down|remove)$/.exec(value);
	return m && { list: m[1], at: m[2] === undefined ? NaN : Number(m[2]), what: m[3] };
}

/** The place that a row moves to in a list of n, or -1 when it stays where it is. */
export function placeAfter({ at, what }, n) {
	const to = what === 'up' ? at - 1 : at + 1;
	return to >= 0 && to < n ? to : -1;
}

const named = ['name', 'id', 'for', 'aria-describedby', 'data-testid'];

function renumber(host) {
	const list = host.dataset.rows;
	[...host.children].forEach((row, i) => {
		for (const node of row.querySelectorAll('*')) {
			for (const a of named) {
				if (node.hasAttribute(a)) node.setAttribute(a, renamed(node.getAttribute(a), list, i));
			}
			if (node.localName === 'button') node.value = renamed(node.value, list, i);
		}
	});
}

function obey(form, button, order) {
	const host = form.querySelector(`[data-rows="${order.list}"]`);
	const rows = host.children;
	const row = rows[order.at];
	let focus = button;
	if (order.what === 'add') {
		host.append(form.querySelector(`[data-row-for="${order.list}"]`).content.cloneNode(true));
		focus = host.lastElementChild.querySelector('input');
	} else if (order.what === 'remove') {
		row.remove();
		focus = form.querySelector(`button[value="${order.list}.add"]`);
	} else {
		const to = placeAfter(order, rows.length);
		if (to < 0) return;
		if (order.what === 'up') rows[to].before(row);
		else rows[to].after(row);
	}
	renumber(host);
	focus.focus();
}

const form = globalThis.document?.querySelector?.('#rules-form'); // none where the functions are tested
form?.addEventListener('click', (e) => {
	const button = e.target.closest('button[name="do"]');
	const order = button && orderOf(button.value);
	if (!order) return;
	e.preventDefault();
	obey(form, button, order);
});
