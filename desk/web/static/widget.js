// Eddy Desk: the chat button for any page.
//   <script src="https://desk.example/widget.js" data-site="demo" async></script>
// Optional: data-side="left", data-color="#0a716c", data-locale="en", "zh-CN" or another language of the desk.
// The chat itself lives in a frame of the desk's origin, which is made when it is opened, or when this visitor has an
// open chat or unread messages. window.EddyDesk: open, close, toggle, identify, logout, on, push. What the site has
// entered for its button and its proactive messages is fetched once a page.
(() => {
	'use strict';
	const script = document.currentScript ?? document.querySelector('script[data-site][src*="widget.js"]');
	const early = window.EddyDesk;
	if (!script || (early && !Array.isArray(early))) return;
	const { site, side, color, locale } = script.dataset;
	if (!site) {
		console.warn('Eddy Desk: the script tag needs data-site="…".');
		return;
	}
	const address = new URL(`widget/${encodeURIComponent(site)}?host=${encodeURIComponent(location.origin)}`, script.src);
	const language = locale ?? (document.documentElement.lang || navigator.language);
	const words = /^zh/i.test(language)
		? { open: '打开聊天', close: '关闭聊天', unread: '打开聊天，{n} 条未读消息', frame: '在线客服', dismiss: '关闭提示' }
		: { open: 'Open chat', close: 'Close chat', unread: 'Open chat, {n} unread', frame: 'Chat', dismiss: 'Close this note' };
	const phone = matchMedia('(max-width: 480px), (max-height: 420px)');

	// --- what is kept in the host page's storage; the frame falls back to its own, then to memory ---
	const prefix = `eddydesk.${site}.`;
	let area = null;
	for (const name of ['localStorage', 'sessionStorage']) {
		try {
			window[name].setItem(prefix + 'probe', '1');
			window[name].removeItem(prefix + 'probe');
			area ??= window[name];
		} catch { /* blocked */ }
	}
	const keys = () => Object.keys(area ?? {}).filter((k) => k.startsWith(prefix));
	const put = (key, value) => {
		try {
			if (value === null) area?.removeItem(prefix + key);
			else area?.setItem(prefix + key, value);
		} catch { /* full: the frame keeps it in memory */ }
	};
	const kept = () => {
		try {
			return JSON.parse(area?.getItem(`${prefix}state`)) ?? {};
		} catch {
			return {};
		}
	};

	const state = { open: false, active: false, unread: 0, ...kept() };
	const remember = () => put('state', JSON.stringify(state));
	let frame = null;
	let ready = false;
	let patience = 0;
	let identity = '';
	let leaving = false;
	let expecting = 0; // a timer: the page will say again who the visitor is
	let look = {}; // what the site has entered for its button

	// --- events ---
	const listeners = new Map();
	const emit = (name, detail) => {
		for (const f of listeners.get(name) ?? []) {
			try {
				f(detail);
			} catch (err) {
				console.error(err);
			}
		}
	};

	// --- drawing ---
	const make = (tag, props, ...children) => {
		const node = Object.assign(document.createElement(tag), props);
		node.append(...children);
		return node;
	};
	const glyph = (...paths) => {
		const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
		svg.setAttribute('viewBox', '0 0 20 20');
		svg.setAttribute('aria-hidden', 'true');
		for (const d of paths) {
			const path = document.createElementNS(svg.namespaceURI, 'path');
			path.setAttribute('d', d);
			svg.append(path);
		}
		return svg;
	};
	const css = `:host { all: initial; position: fixed; z-index: 2147483000; bottom: 0; left: 0; width: 0; height: 0; --left: auto; --right: 20px; }
:host([data-side=left]) { --left: 20px; --right: auto; }
.button { position: fixed; bottom: 20px; left: var(--left); right: var(--right); width: 56px; height: 56px; padding: 0; border: 0; border-radius: 50%; background: var(--accent, #0a716c); color: var(--on, #fff); box-shadow: 0 2px 6px rgb(0 0 0 / 18%), 0 8px 28px rgb(0 0 0 / 18%); cursor: pointer; transition: transform 140ms ease-out; }
.button:hover { transform: scale(1.05); }
button:focus-visible { outline: 3px solid var(--accent, #0a716c); outline-offset: 3px; }
svg { position: absolute; inset: 15px; width: 26px; height: 26px; fill: none; stroke: currentcolor; stroke-width: 1.6; stroke-linecap: round; stroke-linejoin: round; }
button[aria-expanded=false] svg + svg, button[aria-expanded=true] svg:first-child { display: none; }
button[aria-busy=true] svg { animation: wait 1s infinite alternate ease-in-out; }
@keyframes wait { to { opacity: 0.35; } }
.badge { position: absolute; top: -4px; right: -4px; min-width: 22px; height: 22px; box-sizing: border-box; padding: 0 6px; border: 2px solid #fff; border-radius: 11px; background: #b3261e; color: #fff; font: 600 12px/18px system-ui, sans-serif; text-align: center; }
[hidden] { display: none !important; }
.panel { position: fixed; bottom: 88px; left: var(--left); right: var(--right); width: 380px; height: min(620px, calc(100vh - 108px)); border-radius: 14px; overflow: hidden; background: Canvas; color-scheme: light dark; box-shadow: 0 2px 8px rgb(0 0 0 / 14%), 0 16px 48px rgb(0 0 0 / 22%); }
iframe { display: block; width: 100%; height: 100%; border: 0; color-scheme: normal; }
.panel:not(.shown) { visibility: hidden; pointer-events: none; width: 0; height: 0; }
@media (max-width: 480px), (max-height: 420px) { .panel.shown { inset: 0; width: 100%; height: 100%; height: 100dvh; border-radius: 0; } .panel.shown + .button { display: none; } }
.call { position: fixed; bottom: 88px; left: var(--left); right: var(--right); box-sizing: border-box; display: flex; align-items: flex-start; gap: 4px; max-width: min(300px, calc(100vw - 40px)); padding: 6px 6px 6px 14px; border-radius: 14px; background: Canvas; color: CanvasText; color-scheme: light dark; box-shadow: 0 2px 8px rgb(0 0 0 / 14%), 0 8px 28px rgb(0 0 0 / 22%); font: 14px/1.45 system-ui, sans-serif; }
.call button { padding: 6px 0; border: 0; background: none; color: inherit; font: inherit; text-align: start; overflow-wrap: anywhere; cursor: pointer; }
.call .dismiss { flex: none; width: 32px; padding: 6px; border-radius: 8px; text-align: center; }
.call .dismiss:hover { background: rgb(128 128 128 / 20%); }
@media (prefers-reduced-motion: reduce) { button, svg { transition: none !important; animation: none !important; } }
@media print { :host { display: none !important; } }`;

	const badge = make('span', { className: 'badge', hidden: true });
	badge.setAttribute('aria-hidden', 'true');
	const panel = make('div', { className: 'panel' });
	const button = make('button', { className: 'button', type: 'button', onclick: () => api.toggle() },
		glyph('M3.5 5.5A1.5 1.5 0 0 1 5 4h10a1.5 1.5 0 0 1 1.5 1.5v7A1.5 1.5 0 0 1 15 14H9l-3.5 3v-3H5a1.5 1.5 0 0 1-1.5-1.5z'), glyph('M5 8l5 5 5-5'), badge);
	const host = make('div', { id: 'eddy-desk' });
	const root = host.attachShadow({ mode: 'open' });
	try { // a sheet made by script needs no 'unsafe-inline' on the host page
		const sheet = new CSSStyleSheet();
		sheet.replaceSync(css);
		root.adoptedStyleSheets = [sheet];
	} catch {
		root.append(make('style', { textContent: css }));
	}
	const called = make('button', { type: 'button', onclick: () => accept() });
	const dismissed = make('button', { type: 'button', className: 'dismiss', textContent: '✕', onclick: () => quiet() });
	const call = make('div', { className: 'call', role: 'status', hidden: true }, called, dismissed);
	root.append(panel, button, call);

	const draw = () => {
		const shown = state.open && ready;
		panel.classList.toggle('shown', shown);
		button.setAttribute('aria-expanded', String(shown));
		button.setAttribute('aria-busy', String(state.open && !ready));
		button.setAttribute('aria-label', shown ? words.close : state.unread ? words.unread.replace('{n}', state.unread) : words.open);
		call.hidden ||= state.open;
		const left = side ? side === 'left' : look.side ? look.side === 'left' : getComputedStyle(document.documentElement).direction === 'rtl';
		host.dataset.side = left ? 'left' : 'right';
		badge.hidden = shown || !state.unread;
		badge.textContent = state.unread > 99 ? '99+' : state.unread;
		const wanted = color ?? look.color;
		if (!wanted) return;
		const readable = state.accent && state.wanted === wanted; // as the frame made it
		host.style.setProperty('--accent', readable ? state.accent : wanted);
		host.style.setProperty('--on', readable ? state.on : inkOn(wanted));
	};

	// Black or white, whichever can be read on a colour.
	const inkOn = (hex) => {
		const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
		return 0.299 * r + 0.587 * g + 0.114 * b > 150 ? '#061414' : '#fff';
	};

	// --- the frame ---
	const post = (t, more) => frame?.contentWindow?.postMessage({ eddy: 1, t, ...more }, address.origin);

	// Where the visitor is. Pages that change without loading say so to nobody, so they are looked at.
	const place = () => ({ page: location.href, title: document.title, referrer: document.referrer });
	let told = '';
	const tell = () => {
		const now = JSON.stringify(place());
		if (!ready || now === told) return;
		told = now;
		post('page', place());
	};

	const mount = () => {
		if (frame) return;
		// A visitor who was known is asked for first: without the site's word the chat would begin as a stranger's.
		if (state.identified && !identity && !leaving && expecting !== null) {
			expecting ||= setTimeout(() => {
				expecting = null;
				mount();
			}, 5_000);
			return;
		}
		ready = false;
		frame = make('iframe', { title: words.frame, src: address.href });
		panel.append(frame);
		patience = setTimeout(() => {
			unmount();
			state.open = false;
			draw();
			emit('error', { reason: 'The chat could not be loaded.' });
		}, 20_000);
	};

	const unmount = () => {
		clearTimeout(patience);
		frame?.remove();
		frame = null;
		ready = false;
	};

	const received = {
		// The frame has begun: what is kept for it, and what it shall do.
		hello() {
			const store = area && Object.fromEntries(keys().filter((k) => k.startsWith(`${prefix}desk.`)).map((k) => [k.slice(prefix.length), area.getItem(k)]));
			post('init', { store, open: state.open, identity, locale, colour: color, logout: leaving, ...place(), proactive });
		},
		ready({ storage }) {
			clearTimeout(patience);
			ready = true;
			draw();
			if (storage === 'memory') console.warn('Eddy Desk: this browser blocks storage. The chat is forgotten when the page is left.');
			emit('ready', { storage });
			if (state.open) show();
		},
		colour({ accent, on }) {
			Object.assign(state, { accent, on, wanted: color ?? look.color });
			remember();
			draw();
		},
		set({ key, value }) {
			if (/^desk\.[\w.:-]{1,200}$/.test(key) && (value === null || (typeof value === 'string' && value.length < 65_536))) put(key, value);
		},
		unread({ n }) {
			state.unread = Number(n) || 0;
			remember();
			draw();
			emit('unread', { count: state.unread });
		},
		state({ state: now }) {
			state.active = now === 'bot' || now === 'queued' || now === 'assigned' || now === 'deferred';
			remember();
			emit('state', { state: now });
		},
		message({ from }) {
			emit('message', { from });
		},
		close() {
			api.close();
			button.focus();
		},
		bye() { // logged out
			leaving = false;
			unmount();
			draw();
		},
	};

	addEventListener('message', (e) => {
		if (!frame || e.source !== frame.contentWindow || e.origin !== address.origin || e.data?.eddy !== 1) return;
		if (Object.hasOwn(received, e.data.t)) received[e.data.t](e.data);
	});

	const show = () => {
		post('open', { proactive });
		frame.focus();
		emit('open');
	};

	// --- proactive messages: each is shown to a visitor once, and none while there is a chat ---
	const seenKey = `${prefix}invited`;
	const seen = () => (area?.getItem(seenKey) ?? '').split(' ').filter(Boolean);
	let proactive = ''; // the text that the visitor has taken up
	let arrived = Date.now(); // on the page that is looked at
	let at = location.href;

	const scrolled = () => {
		const { scrollHeight, clientHeight, scrollTop } = document.documentElement;
		return scrollHeight > clientHeight ? (100 * (scrollTop + clientHeight)) / scrollHeight : 100;
	};

	const invite = () => {
		if (at !== location.href) [at, arrived] = [location.href, Date.now()];
		if (document.hidden || state.open || state.active || state.unread || !call.hidden) return;
		const known = seen();
		const next = look.proactive.find((v) => !known.includes(v.id) && at.includes(v.page ?? '') && Date.now() - arrived >= (v.after ?? 0) * 1000 && scrolled() >= (v.scroll ?? 0));
		if (!next) return;
		put('invited', [...known, next.id].slice(-50).join(' '));
		look.proactive = look.proactive.filter((v) => v !== next); // also where nothing can be kept
		called.textContent = next.text;
		dismissed.setAttribute('aria-label', words.dismiss);
		call.dir = look.dir ?? '';
		call.hidden = false;
		emit('proactive', { text: next.text });
	};

	const quiet = () => {
		call.hidden = true;
		button.focus();
	};

	const accept = () => {
		proactive = called.textContent;
		call.hidden = true;
		api.open();
	};

	// What the site has entered comes as a script, which the policy of the page allows like this one. Without it the
	// button is as usual.
	const fetchLook = () => {
		const { href } = new URL(`widget/${encodeURIComponent(site)}/look.js?locale=${encodeURIComponent(language)}`, script.src);
		try {
			const policy = window.trustedTypes?.createPolicy('eddy-desk', { createScriptURL: (url) => url });
			document.head.append(make('script', { src: policy?.createScriptURL(href) ?? href, async: true, nonce: script.nonce }));
		} catch { /* the page takes no scripts made by scripts */ }
	};

	const api = {
		open() {
			if (state.open && frame) return;
			state.open = true;
			remember();
			mount();
			draw();
			if (ready) show();
		},
		close() {
			if (!state.open) return;
			state.open = false;
			remember();
			draw();
			post('close');
			emit('close');
		},
		toggle() {
			if (state.open) api.close();
			else api.open();
		},
		/** Says who the visitor is: a token signed by the site's own server. '' says that it is nobody in particular. */
		identify(token) {
			identity = String(token ?? '');
			state.identified = identity !== '';
			remember();
			post('identify', { identity });
			if (expecting) {
				clearTimeout(expecting);
				expecting = null;
				mount();
			}
		},
		/** Forgets the visitor in this browser. */
		logout() {
			identity = '';
			for (const k of keys()) area.removeItem(k);
			Object.assign(state, { open: false, active: false, unread: 0, identified: false });
			clearTimeout(expecting);
			leaving = true;
			if (frame) post('logout');
			else if (area) leaving = false; // nothing is kept elsewhere
			else mount();
			draw();
			emit('close');
		},
		/** Calls f for every event of that name; returns a function that ends it. */
		on(name, f) {
			if (!listeners.has(name)) listeners.set(name, new Set());
			listeners.get(name).add(f);
			return () => listeners.get(name).delete(f);
		},
		/** Takes what the site has entered for its button; the desk's own script calls it, once. */
		furnish(entered) {
			look = entered;
			Object.assign(words, look.words);
			draw();
			if (look.proactive?.length > 0) setInterval(invite, 1_000);
		},
		/** Calls f with this object; so do the functions that were pushed to window.EddyDesk before the script came. */
		push(f) {
			f(api);
		},
	};

	window.EddyDesk = api;
	setInterval(tell, 1_000);
	const begin = () => {
		document.body.append(host);
		if (phone.matches) state.open = false; // it would cover the page that was asked for
		if (state.open || state.active || state.unread) mount();
		draw();
		fetchLook();
		for (const f of early ?? []) api.push(f);
	};
	if (document.body) begin();
	else addEventListener('DOMContentLoaded', begin);
})();
