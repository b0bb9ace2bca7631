// Asks before a page is left with something that was entered and not saved.

/**
 * @param {HTMLFormElement} form with data-entered, it has come back from the server and is not saved
 * @param {Window} [page]
 */
export function guard(form, page = window) {
	const entered = () => new URLSearchParams([...new FormData(form)].map(([field, value]) => [field, value.name ?? value])).toString(); // a file is its name
	const saved = form.hasAttribute('data-entered') ? null : entered();
	let sent = false;
	form.addEventListener('submit', () => { sent = true; });
	page.addEventListener('pageshow', (e) => { sent &&= !e.persisted; }); // back again
	page.addEventListener('beforeunload', (e) => {
		if (!sent && entered() !== saved) e.preventDefault();
	});
}
