// What the customer card asks the server.

import { ask, askText } from '../core/dialog.js';
import { call } from '../core/api.js';
import { readAll } from './saved-chat.js';
import { t } from '../core/i18n.js';

/**
 * @param {object} app request(type, d, c), chats, list, notice(text, error), draw(), open(id), current(), took(contact), close(): what the console has
 * @returns {object} the functions of a CustomerCard
 */
export function cardCommands(app) {
	const { request, chats, list } = app;
	return {
		fetch: (contact) => request('contact.get', { contact }),
		history: (contact, cursor) => request('history', { contact, cursor }),
		tag: async (c, change) => list.setTags(c, (await request('tag', change, c)).tags),
		priority: (c, priority) => request('priority', { priority }, c),
		snooze: (c, until) => request('snooze', { until }, c),
		close: () => app.close(),
		mail: async (c) => {
			try {
				await call('POST', `/api/v1/agent/conversations/${c}/transcript`, {});
				app.notice(t('card.mail.sent'));
			} catch (err) {
				app.notice(t(err.reason === 'mail_off' ? 'card.mail.off' : 'card.mail.failed'), true);
			}
		},
		save: async (c, contact, form) => {
			try {
				form({ id: c, contact, ...await readAll((after, limit) => request('sync', { after, limit }, c)) });
			} catch {
				app.notice(t('saved.failed'), true);
			}
		},
		open: (row) => {
			chats.learn(row.id, row.contact ?? chats.names.get(app.current()));
			app.open(row.id);
		},
		patch: async (contact, change) => {
			const d = await request('contact.patch', { contact, ...change });
			for (const [id, known] of chats.names) {
				if (known.id !== contact) continue;
				chats.learn(id, { name: d.contact.name });
				chats.views.get(id)?.relabel(); // the name stands above messages, too
			}
			app.draw();
			return d;
		},
		block: async (contact) => {
			if (!contact.id) return;
			let reason = '';
			if (!contact.blocked) {
				reason = await askText({ title: t('block.title', { name: contact.name }), body: t('block.body'), label: t('block.reason'), confirm: t('block.do') });
				if (reason === null) return;
			}
			try {
				app.took((await request('contact.block', { contact: contact.id, blocked: !contact.blocked, reason })).contact);
			} catch {
				app.notice(t('block.failed'), true);
			}
		},
		erase: async ({ id, name }) => {
			if (!await ask({ title: t('person.erase.title', { name }), body: t('person.erase.body'), confirm: t('person.erase') })) return;
			try {
				await request('contact.erase', { contact: id });
				app.notice(t('person.erase.done'));
			} catch {
				app.notice(t('person.erase.failed'), true);
			}
		},
	};
}
