// Time for deadlines: it goes on when the device has slept, and does not go
// back when somebody sets the clock.

const step = 1000; // ms; less is the difference between two clocks

/**
 * @param {() => number} wall what the device says
 * @param {() => number} running what only ever goes on, and may stand still while the device sleeps
 * @returns {() => number} whole milliseconds, as the protocol has them, at first those of wall
 */
export function steady(wall = () => Date.now(), running = () => performance.now()) {
	let [w, r] = [wall(), running()];
	let at = w;
	return () => {
		const [slept, ran] = [wall() - w, running() - r];
		[w, r] = [w + slept, r + ran];
		at += slept > ran + step ? slept : Math.max(ran, 0);
		return Math.floor(at);
	};
}

/** The one that the page uses. */
export const now = steady();
