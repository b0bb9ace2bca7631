// The console's service worker: it shows what the server calls an agent to
// while no console is open. It keeps nothing and answers no request, so that
// no page is ever an old one.

const icon = '/assets/app-192.png';
const badge = '/assets/badge.png';
const console_ = '/console';

/** What a call says. One that cannot be read is shown all the same: browsers want to see something for each. */
function said(event) {
	try {
		const { title, body, lang, c } = event.data.json();
		if (typeof title === 'string' && title !== '') return { title, body: String(body ?? ''), lang: String(lang ?? ''), c: String(c ?? '') };
	} catch { /* no call of this server */ }
	return { title: 'Desk', body: '', lang: '', c: '' };
}

addEventListener('install', () => { skipWaiting(); });

// A call takes the place of the one before, which it counts in.
addEventListener('push', (event) => {
	const { title, body, lang, c } = said(event);
	event.waitUntil(registration.showNotification(title, { body, lang, icon, badge, tag: 'desk.call', renotify: true, data: { c } }));
});

// Leads to the console: one that is open, or a new one.
addEventListener('notificationclick', (event) => {
	event.notification.close();
	const c = event.notification.data?.c ?? '';
	event.waitUntil((async () => {
		const open = (await clients.matchAll({ type: 'window', includeUncontrolled: true })).find((w) => new URL(w.url).pathname === console_);
		if (!open) {
			await clients.openWindow(c ? `${console_}#c=${encodeURIComponent(c)}` : console_);
			return;
		}
		if (c) open.postMessage({ open: c });
		await open.focus();
	})());
});

// The browser has changed its subscription by itself. The console that is
// opened next would tell the server, too.
addEventListener('pushsubscriptionchange', (event) => {
	event.waitUntil((async () => {
		const options = event.oldSubscription?.options;
		const fresh = event.newSubscription ?? (options && await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: options.applicationServerKey }));
		if (!fresh) return;
		await fetch('/api/v1/agent/push', { method: 'POST', credentials: 'same-origin', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(fresh) });
	})());
});
