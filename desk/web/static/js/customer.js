// Starts the customer page: at /chat/<site> on its own, at /widget/<site> in the frame of the widget.

import './customer/texts.js';
import { CustomerPage } from './customer/app.js';
import { FrameHost } from './customer/frame-host.js';
import { matching, offerLanguages, setLocale } from './core/i18n.js';
import { SafeStorage } from './core/storage.js';

const site = decodeURIComponent(location.pathname.split('/').filter(Boolean).at(-1) ?? '');
const languages = offerLanguages(JSON.parse(document.querySelector('meta[name=languages]')?.content || '{}'));
const met = await FrameHost.meet();
await languages;

if (met) {
	const { host, init } = met;
	const area = host.area(init.store);
	const own = new SafeStorage();
	const storage = area ? new SafeStorage([area]) : own;
	if (init.locale && own.get('desk.locale') === null) await setLocale(matching(init.locale), false);
	const page = new CustomerPage({ site, storage, host, place: { page: init.page ?? host.origin, title: init.title, referrer: init.referrer }, identity: init.identity ?? '', colour: init.colour });
	const logout = () => {
		page.logout();
		host.send('bye');
	};
	Object.assign(host.on, { open: ({ proactive }) => page.shown(proactive), page: (place) => page.visit.move(place), identify: ({ identity }) => page.identify(identity), logout });
	if (init.logout) {
		for (const key of storage.keys('desk.')) storage.remove(key);
		host.send('bye');
	} else {
		page.start();
		page.invited = init.proactive ?? '';
		host.send('ready', { storage: area ? 'host' : own.persistent ? 'frame' : 'memory' });
	}
} else {
	new CustomerPage({ site, storage: new SafeStorage(), place: { page: location.href, referrer: document.referrer } }).start();
}
