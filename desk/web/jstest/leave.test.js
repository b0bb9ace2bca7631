import test from 'node:test';
import assert from 'node:assert/strict';
import '../static/js/customer/texts.js';
import { awayWords, nobody } from '../static/js/customer/leave.js';
import { setLocale, texts, upcoming } from '../static/js/core/i18n.js';
import { problems } from '../static/js/customer/fields.js';
import { describe } from '../static/js/customer/words.js';
import { Outbox } from '../static/js/core/outbox.js';
import { SafeStorage } from '../static/js/core/storage.js';
import { Clock, settle } from './support.js';
import { headAfter } from '../static/js/core/eventlog.js';

const now = new Date(2026, 10, 23, 19, 30).getTime();
const later = new Date(2026, 10, 23, 20, 0).getTime();
const tomorrow = new Date(2026, 10, 24, 9, 0).getTime();

test('why nobody is there, and when somebody is, in the language of the page', () => {
	assert.equal(awayWords({ reason: 'hours', opens: later }, '', now), `We are closed now. Open again: ${upcoming(later, now)}.`);
	assert.match(awayWords({ reason: 'hours', opens: tomorrow }, '', now), /Tuesday, November 24.*9:00/);
	assert.doesNotMatch(awayWords({ reason: 'hours', opens: later }, '', now), /Monday/, 'today needs no day');
	assert.equal(awayWords({ reason: 'hours' }, '', now), 'We are closed now.');
	assert.equal(awayWords({ reason: 'hours', opens: now - 1 }, '', now), 'We are closed now.', 'the news that it is open is on its way');
	assert.equal(awayWords({ reason: 'absent' }, '', now), 'Nobody is here to answer at the moment.');
	assert.equal(awayWords(null, 'queue_full', now), 'All lines are busy now.');
	assert.equal(awayWords(null, 'away', now), 'Nobody is here to answer at the moment.');
	assert.equal(awayWords(null, '', now), 'We are here again. You can also ask in the chat.');
	setLocale('zh-CN');
	assert.match(awayWords({ reason: 'hours', opens: tomorrow }, '', now), /11月24日星期二.*09:00|11月24日.*9:00/);
	setLocale('en');
});

test('which refusals mean that a message can be left', () => {
	assert.equal(nobody({ code: 'busy', reason: 'away' }), 'away');
	assert.equal(nobody({ code: 'busy', reason: 'queue_full' }), 'queue_full');
	for (const err of [{ code: 'busy' }, { code: 'rate_limited', reason: 'chats' }, { code: 'lost' }]) assert.equal(nobody(err), '');
});

test('a message needs an address and a text, each within its limit', () => {
	const fields = [{ name: 'name', type: 'text', limit: 100 }, { name: 'email', type: 'email', required: true, limit: 254 }, { name: 'body', type: 'area', required: true, limit: 8000 }];
	assert.deepEqual(problems(fields, {}), { email: 'required', body: 'required' });
	assert.deepEqual(problems(fields, { email: 'ann', body: '字'.repeat(8000), name: 'x'.repeat(101) }), { email: 'email', name: 'long' });
	assert.deepEqual(problems(fields, { email: `${'a'.repeat(250)}@b.cd`, body: '字'.repeat(8001) }), { email: 'long', body: 'long' });
});

test('what was written before nobody was there goes into the message', async () => {
	const clock = new Clock();
	let refused;
	const outbox = new Outbox({
		scope: 'x', storage: new SafeStorage(), env: { ...clock.env, random: () => 0 }, onAck: () => {}, onChange: () => {},
		send: async () => {
			refused = outbox.recall();
			throw Object.assign(new Error('busy'), { code: 'busy', retryMs: 30_000 });
		},
	});
	outbox.add({ body: 'hello' });
	outbox.add({ body: 'is anybody there?' });
	outbox.setOpen(true);
	await settle();
	assert.deepEqual(refused, [{ body: 'hello' }, { body: 'is anybody there?' }]);
	assert.deepEqual(outbox.items, []);
	refused = null;
	await clock.advance(60_000);
	assert.equal(refused, null, 'it is not sent again');
});

test('lines and heads of a left message', () => {
	const ev = (event, by, state = 'deferred') => ({ t: 'ev.state', c: 'c', d: { event, state, by: { kind: by }, rev: 2, time: 5 } });
	assert.equal(describe(ev('deferred', 'customer')), texts.en['event.left']);
	for (const e of [ev('deferred', 'system'), ev('returned', 'agent'), ev('reopened', 'agent'), ev('transferred', 'agent')]) assert.equal(describe(e), texts.en['event.deferred']);
	assert.equal(describe(ev('returned', 'agent', 'queued')), texts.en['event.returned']);
	const head = headAfter({ id: 'c', state: 'queued', rev: 1, queued: 3, reply_to: 'ann@example.com' }, ev('deferred', 'system'));
	assert.deepEqual([head.state, head.queued, head.reply_to], ['deferred', undefined, 'ann@example.com']);
});
