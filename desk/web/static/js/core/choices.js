// Selects whose choice acts at once.

const keys = ['ArrowDown', 'ArrowUp', 'ArrowLeft', 'ArrowRight', 'Home', 'End', 'PageDown', 'PageUp'];

/** Whether a key chooses another option of a select that is closed. Pure. */
export const chooses = (key) => keys.includes(key) || ([...key].length === 1 && key !== ' ');

// Whether the list of a select is open; undefined in a browser that cannot tell.
function isOpen(select) {
	try {
		return select.matches(':open');
	} catch {
		return undefined;
	}
}

/**
 * Makes the keys that would choose another option open the select instead, so that somebody who goes down the list does
 * not do everything on the way. A browser that cannot open it, or tell whether it is open, keeps its own way.
 * @param {HTMLSelectElement} select
 * @returns {HTMLSelectElement}
 */
export function opensFirst(select) {
	select.addEventListener('keydown', (e) => {
		if (!select.showPicker || isOpen(select) !== false || e.ctrlKey || e.metaKey || e.altKey || !chooses(e.key)) return;
		e.preventDefault();
		select.showPicker();
	});
	return select;
}
