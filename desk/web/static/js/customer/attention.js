// How a page that nobody looks at says that there is news: the title, and a
// short sound for those who want one.

import { number } from '../core/i18n.js';

const blinkEvery = 1_200;

export class Attention {
	/**
	 * @param {object} o
	 * @param {import('../core/storage.js').SafeStorage} o.storage
	 * @param {object} [o.env] document, setInterval, clearInterval, calm (no motion wanted), beep
	 */
	constructor({ storage, env = browserEnv() }) {
		Object.assign(this, { storage, env, unread: 0, title: '', word: '', timer: null, odd: false });
		this.sound = storage.get('desk.sound', false) === true;
	}

	setSound(on) {
		this.sound = on;
		this.storage.set('desk.sound', on);
		if (on) this.env.beep(); // so that it is known, and allowed by the browser
	}

	/** @param {string} title of the page @param {string} word what alternates with it */
	setWords(title, word) {
		Object.assign(this, { title, word });
		this.#draw();
	}

	/** How many messages wait to be seen. */
	setUnread(n) {
		if (n === this.unread) return;
		this.unread = n;
		const blinking = n > 0 && !this.env.calm();
		if (blinking && this.timer === null) this.timer = this.env.setInterval(() => this.#blink(), blinkEvery);
		if (!blinking && this.timer !== null) {
			this.env.clearInterval(this.timer);
			this.timer = null;
		}
		this.odd = false;
		this.#draw();
	}

	/** A message has come that its reader may not be looking at. */
	ring() {
		if (this.sound) this.env.beep();
	}

	#blink() {
		this.odd = !this.odd;
		this.#draw();
	}

	#draw() {
		const counted = this.unread > 0 ? `(${number(this.unread)}) ` : '';
		this.env.document.title = counted + (this.odd ? this.word : this.title);
	}
}

// Two short, soft tones; nothing is loaded for it.
function beep() {
	try {
		beep.audio ??= new AudioContext();
		const { audio } = beep;
		audio.resume();
		for (const [pitch, at] of [[660, 0], [880, 0.12]]) {
			const start = audio.currentTime + at;
			const tone = new OscillatorNode(audio, { frequency: pitch });
			const volume = new GainNode(audio, { gain: 0 });
			volume.gain.linearRampToValueAtTime(0.08, start + 0.02);
			volume.gain.exponentialRampToValueAtTime(0.001, start + 0.2);
			tone.connect(volume).connect(audio.destination);
			tone.start(start);
			tone.stop(start + 0.25);
		}
	} catch { /* no sound on this device */ }
}

function browserEnv() {
	return {
		document,
		setInterval: (f, ms) => setInterval(f, ms),
		clearInterval: (id) => clearInterval(id),
		calm: () => matchMedia('(prefers-reduced-motion: reduce)').matches,
		beep,
	};
}
