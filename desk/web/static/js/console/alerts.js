// Notifications of the desktop and a short tone, both only when the agent has
// asked for them. The tone is made here: no file, no request.

import { callsFor } from './alert-rules.js';

const oneEvery = 3_000; // ms between two tones
const tooLate = 1_000; // ms after which a tone says nothing any more

export class Alerts {
	/**
	 * @param {object} o
	 * @param {import('../core/storage.js').SafeStorage} o.storage
	 * @param {string} o.agentId
	 * @param {(c: string) => void} o.onOpen
	 * @param {(title: string, options: object) => void} o.show shows a notification where pages may not
	 */
	constructor({ storage, agentId, onOpen, show }) {
		Object.assign(this, { storage, onOpen, show });
		this.key = `desk.alerts.${agentId}`;
		const kept = storage.get(this.key, null);
		this.asked = kept !== null; // this agent has said in this browser what is wanted
		this.wanted = { sound: false, notify: false, push: false, ...kept };
		this.soundedAt = 0;
	}

	/** 'on', 'off', 'denied' (by the browser) or 'absent'. */
	get notifications() {
		if (!('Notification' in globalThis)) return 'absent';
		if (Notification.permission === 'denied') return 'denied';
		return this.wanted.notify && Notification.permission === 'granted' ? 'on' : 'off';
	}

	/** Whether the agent wants to be called while no console is open. */
	get push() {
		return this.wanted.push && this.notifications === 'on';
	}

	get sound() {
		return this.wanted.sound;
	}

	/** The agent wants things to stay as they are. */
	leave() {
		this.#keep({});
	}

	setSound(on) {
		this.#keep({ sound: on });
		if (on) this.play();
	}

	/** Turns notifications on, asking the browser if need be, or off. */
	async setNotifications(on) {
		if (on && this.notifications !== 'absent' && Notification.permission !== 'granted') await Notification.requestPermission();
		this.#keep({ notify: on && globalThis.Notification?.permission === 'granted' });
	}

	/** Turns calls while no console is open on, asking the browser if need be, or off. */
	async setPush(on) {
		if (on) await this.setNotifications(true);
		this.#keep({ push: on && this.notifications === 'on' });
	}

	/**
	 * Something happened.
	 * @param {{kind: 'message'|'queue'|'assigned'|'offer', c: string, title: string, body: string, current?: boolean, status?: string}} what
	 */
	call(what) {
		const { notify, sound } = callsFor({ ...what, hidden: document.hidden || !document.hasFocus() });
		if (sound && this.sound && Date.now() - this.soundedAt >= oneEvery) this.play();
		if (!notify || this.notifications !== 'on') return;
		try {
			const n = new Notification(what.title, { body: what.body, tag: `desk.${what.c}` });
			n.onclick = () => {
				window.focus();
				n.close();
				this.onOpen(what.c);
			};
		} catch { // some browsers allow notifications from workers only
			this.show(what.title, { body: what.body, tag: `desk.${what.c}`, data: { c: what.c } });
		}
	}

	/** Plays the tone, wanted or not: to hear whether it can be heard. */
	play() {
		const wanted = this.soundedAt = Date.now();
		try {
			this.audio ??= new AudioContext();
			// The browser keeps it asleep until the first click or key on the page.
			this.audio.resume().then(() => { if (Date.now() - wanted < tooLate) tone(this.audio); }, () => {});
		} catch { /* no audio device */ }
	}

	#keep(change) {
		this.asked = true;
		this.wanted = { ...this.wanted, ...change };
		this.storage.set(this.key, this.wanted);
	}
}

function tone(audio) {
	const at = audio.currentTime;
	const gain = audio.createGain();
	gain.gain.setValueAtTime(0.0001, at);
	gain.gain.exponentialRampToValueAtTime(0.12, at + 0.02);
	gain.gain.exponentialRampToValueAtTime(0.0001, at + 0.35);
	gain.connect(audio.destination);
	for (const [frequency, from] of [[660, 0], [880, 0.12]]) {
		const voice = audio.createOscillator();
		voice.frequency.value = frequency;
		voice.connect(gain);
		voice.start(at + from);
		voice.stop(at + 0.36);
	}
}
