import test from 'node:test';
import assert from 'node:assert/strict';
import { FrameHost } from '../static/js/customer/frame-host.js';
import { SafeStorage } from '../static/js/core/storage.js';
import { settle } from './support.js';

function frame(search) {
	const parent = { sent: [], postMessage(data, origin) { this.sent.push({ data, origin }); } };
	const listeners = [];
	const win = { parent, location: { href: `https://desk.example/widget/demo${search}` }, addEventListener: (_, f) => listeners.push(f) };
	const timers = [];
	return { parent, win, timers, setTimer: (f) => timers.push(f), receive: (e) => listeners.forEach((f) => f({ source: parent, origin: 'https://shop.example', ...e })) };
}

const search = `?host=${encodeURIComponent('https://shop.example')}`;

test('the frame greets its page by its exact origin and takes the answer of no other', async () => {
	const f = frame(search);
	let met = null;
	FrameHost.meet(f.win, f.setTimer).then((m) => { met = m; });
	assert.deepEqual(f.parent.sent, [{ data: { eddy: 1, t: 'hello' }, origin: 'https://shop.example' }]);
	f.receive({ origin: 'https://evil.example', data: { eddy: 1, t: 'init', open: true } });
	f.receive({ source: {}, data: { eddy: 1, t: 'init', open: true } });
	f.receive({ data: { t: 'init', open: true } });
	f.receive({ data: null });
	f.receive({ data: { eddy: 1, t: 'toString' } });
	await settle();
	assert.equal(met, null);
	f.receive({ data: { eddy: 1, t: 'init', open: true, store: { 'desk.token.demo': '"t"' } } });
	await settle();
	assert.equal(met.host.open, true);
	assert.equal(met.init.open, true);
});

test('a page of its own, a page without our loader and a page without an origin are no hosts', async () => {
	const own = frame(search);
	own.win.parent = own.win;
	assert.equal(await FrameHost.meet(own.win, own.setTimer), null);
	for (const bad of ['', '?host=', '?host=nonsense', '?host=data:text/html,x', '?host=javascript:1']) {
		assert.equal(await FrameHost.meet(frame(bad).win, () => {}), null, bad);
	}
	const silent = frame(search);
	const meeting = FrameHost.meet(silent.win, silent.setTimer);
	silent.timers.forEach((f) => f());
	assert.equal(await meeting, null);
});

test('a page that is busy for a while is waited for, but not as long as the loader waits for the frame', () => {
	const f = frame(search);
	let patience;
	FrameHost.meet(f.win, (_, ms) => { patience = ms; });
	assert.ok(patience >= 10_000 && patience < 20_000, `${patience} ms`);
});

test('what is kept with the host is read at once and written by message', async () => {
	const f = frame(search);
	const meeting = FrameHost.meet(f.win, f.setTimer);
	f.receive({ data: { eddy: 1, t: 'init', open: false, store: { 'desk.token.demo': '"t"', 'desk.bad': 7 } } });
	const { host, init } = await meeting;
	const storage = new SafeStorage([host.area(init.store)]);
	assert.equal(storage.persistent, true);
	assert.equal(storage.get('desk.token.demo'), 't');
	assert.equal(storage.get('desk.bad', 'none'), 'none');
	storage.set('desk.sound', true);
	storage.remove('desk.token.demo');
	storage.remove('desk.token.demo');
	const told = f.parent.sent.filter((m) => m.data.t === 'set' && !m.data.key.includes('probe')).map((m) => [m.data.key, m.data.value]);
	assert.deepEqual(told, [['desk.sound', 'true'], ['desk.token.demo', null]]);
	assert.deepEqual(storage.keys('desk.'), ['desk.sound']);
	assert.equal(host.area(null), null);
});

test('the frame knows whether it is seen', async () => {
	const f = frame(search);
	const meeting = FrameHost.meet(f.win, f.setTimer);
	f.receive({ data: { eddy: 1, t: 'init', open: false, store: null } });
	const { host } = await meeting;
	const heard = [];
	host.on.open = () => heard.push(host.open);
	f.receive({ data: { eddy: 1, t: 'open' } });
	f.receive({ data: { eddy: 1, t: 'close' } });
	assert.deepEqual(heard, [true]);
	assert.equal(host.open, false);
});
