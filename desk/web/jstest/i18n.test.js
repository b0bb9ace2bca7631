import test from 'node:test';
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { day, locales, matching, offerLanguages, onLocale, plural, setLocale, t, texts, waited } from '../static/js/core/i18n.js';

const root = new URL('../static/', import.meta.url);
const modules = readdirSync(new URL('js/', root), { recursive: true }).filter((f) => f.endsWith('.js'));
const textModules = modules.filter((f) => f === 'core/i18n.js' || f.endsWith('texts.js'));
for (const f of textModules) await import(new URL(`js/${f}`, root)); // the pages' own texts join those of i18n.js
const variables = (text) => [...text.matchAll(/\{\w+\}/g)].map((m) => m[0]).sort();

test('both languages are complete and use the same variables', () => {
	assert.deepEqual(Object.keys(texts).sort(), Object.keys(locales).sort());
	const { en, 'zh-CN': zh } = texts;
	for (const key of Object.keys(en)) {
		if (key.endsWith('.one')) continue; // a form that Chinese does not have
		assert.ok(zh[key], `no Chinese text for ${key}`);
		assert.deepEqual(variables(zh[key]), variables(en[key]), key);
	}
	for (const key of Object.keys(zh)) assert.ok(en[key], `no English text for ${key}`);
});

test('a language in a file says everything that customers read, with the same variables', () => {
	const staff = new Set();
	for (const f of textModules.filter((f) => !/^(?:core|customer)\//.test(f))) {
		for (const m of readFileSync(new URL(`js/${f}`, root), 'utf8').matchAll(/^\t\t'([^']+)':/gm)) staff.add(m[1]);
	}
	const widget = { 'widget.open': [], 'widget.close': [], 'widget.unread': ['{n}'], 'widget.frame': [], 'widget.dismiss': [] }; // of the loader
	const files = readdirSync(new URL('lang/', root));
	assert.ok(files.length > 0);
	for (const f of files) {
		const { texts: own } = JSON.parse(readFileSync(new URL(`lang/${f}`, root), 'utf8'));
		for (const key of Object.keys(texts.en)) {
			if (staff.has(key)) continue;
			assert.ok(own[key], `${f} has no text for ${key}`);
			assert.deepEqual(variables(own[key]), variables(texts.en[key]), `${f}: ${key}`);
		}
		for (const [key, vars] of Object.entries(widget)) assert.deepEqual(variables(own[key]), vars, `${f}: ${key}`);
		for (const key of Object.keys(own)) assert.ok(key in widget || (key in texts.en && !staff.has(key)), `${f}: nobody reads ${key}`);
	}
});

test('every text that a page or module names exists, and every text is used', () => {
	const sources = [
		...readdirSync(root).filter((f) => f.endsWith('.html')).map((f) => new URL(f, root)),
		...modules.filter((f) => !textModules.includes(f)).map((f) => new URL(`js/${f}`, root)),
	].map((f) => readFileSync(f, 'utf8')).join('\n')
		+ readFileSync(new URL('js/core/i18n.js', root), 'utf8').split('\nconst storage')[1];
	const named = new Set();
	for (const m of sources.matchAll(/\b(?:t|plural)\(\s*'([^']+)'/g)) named.add(m[1]);
	for (const m of sources.matchAll(/data-t(?:-\w+)?="([^"]+)"/g)) named.add(m[1]);
	for (const key of named) assert.ok(key in texts.en || `${key}.other` in texts.en, `no text for ${key}`);
	for (const key of Object.keys(texts.en)) {
		const stem = key.replace(/\.(?:one|other)$/, '');
		const byPrefix = sources.includes('`' + key.slice(0, key.lastIndexOf('.') + 1) + '${');
		assert.ok(sources.includes(`'${key}'`) || sources.includes(`"${key}"`) || sources.includes(`'${stem}'`) || byPrefix, `${key} is not used`);
	}
});

test('formats follow the language', () => {
	let told = 0;
	onLocale(() => told++);
	setLocale('zh-CN');
	assert.equal(t('retry'), '重试');
	assert.equal(plural('messages.new', 1), '1 条新消息');
	const noon = new Date(2026, 2, 10, 12).getTime();
	assert.equal(day(noon, noon), '今天');
	setLocale('en');
	assert.equal(plural('messages.new', 1), '1 new message');
	assert.equal(plural('messages.new', 1200), '1,200 new messages');
	assert.equal(day(noon - 86_400_000, noon), 'Yesterday');
	assert.deepEqual([0, 59_999, 60_000, 7_200_000].map(waited), ['0 sec', '59 sec', '1 min', '2 hr']);
	setLocale('fr');
	assert.equal(told, 2);
	assert.throws(() => t('no.such.text'));
});

test('a language in a file is fetched when it is chosen, and only then', async (t1) => {
	const asked = [];
	t1.mock.method(globalThis, 'fetch', async (at) => {
		asked.push(at);
		if (at === '/gone.json') return { ok: false, status: 404 };
		return { ok: true, json: async () => ({ texts: { 'retry': 'Reintentar', 'messages.new.one': 'uno', 'messages.new.other': '{n} nuevos' } }) };
	});
	t1.mock.method(console, 'warn', () => {});
	await offerLanguages({ es: { name: 'Español', dir: '', at: '/es.json' }, he: { name: 'עברית', dir: 'rtl', at: '/gone.json' } });
	assert.deepEqual(asked, []);
	assert.deepEqual(['es', 'es-MX', 'zh-TW', 'EN-gb', 'fr', ''].map(matching), ['es', 'es', 'zh-CN', 'en', '', '']);
	await setLocale('he'); // its file is gone
	assert.equal(t('retry'), 'Retry');
	await setLocale('es');
	assert.equal(t('retry'), 'Reintentar');
	assert.equal(t('discard'), 'Delete', 'a text that the file lacks is English');
	assert.equal(plural('messages.new', 1), 'uno');
	setLocale('en');
	setLocale('es');
	assert.equal(t('retry'), 'Reintentar', 'read once, it is there at once');
	assert.deepEqual(asked, ['/gone.json', '/es.json']);
	setLocale('en');
	for (const tag of ['es', 'he']) {
		delete texts[tag];
		delete locales[tag];
	}
});
