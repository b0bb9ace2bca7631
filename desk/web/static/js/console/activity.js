// Tells the server that somebody works here, so that an agent who has left the
// console open becomes away. Whatever the agent does counts, in every tab.

const tellEvery = 60_000;
const signs = ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchstart'];

/**
 * @param {{ready: boolean, notify: (t: string, frame?: object) => void}} connection
 * @param {object} [env] document, now(): of the page
 */
export function followActivity(connection, env = { document, now: () => Date.now() }) {
	let told = -tellEvery;
	const tell = () => {
		if (!connection.ready || env.now() - told < tellEvery) return;
		told = env.now();
		connection.notify('active', { d: {} });
	};
	for (const sign of signs) env.document.addEventListener(sign, tell, { passive: true, capture: true });
}
