// The end of a session: asked for when something unsent would be lost.

import { call } from '../core/api.js';
import { ask } from '../core/dialog.js';
import { t } from '../core/i18n.js';

/**
 * Logs out and forgets what this browser keeps of the agent.
 * @param {object} o
 * @param {import('../core/storage.js').SafeStorage} o.storage
 * @param {string} o.scope
 * @param {() => void} o.onLeaving the server is being told: what its answer ends is no surprise
 * @returns {Promise<''|'stay'|'failed'>} '' when it is done
 */
export async function logout({ storage, scope, onLeaving }) {
	const kept = [`desk.outbox.${scope}.`, `desk.draft.${scope}.`].flatMap((p) => storage.keys(p));
	if (kept.length > 0) {
		const yes = await ask({ title: t('console.logout.title'), body: t('console.logout.body'), confirm: t('console.logout') });
		if (!yes) return 'stay';
	}
	onLeaving();
	try {
		await call('POST', '/api/v1/agent/logout');
	} catch (err) {
		if (err.status !== 401) return 'failed';
	}
	for (const key of kept) storage.remove(key);
	return '';
}
