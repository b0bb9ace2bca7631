import test from 'node:test';
import assert from 'node:assert/strict';
import '../static/js/console/texts.js';
import { factsOf, visitOf } from '../static/js/console/card-facts.js';
import { moment, setLocale } from '../static/js/core/i18n.js';

setLocale('en');
const hour = 3_600_000;
const head = (o) => ({ id: 'c', state: 'assigned', rev: 4, owner: { id: 'a2', name: 'Lin' }, opened: hour, ...o });

test('the card says what the server has said', () => {
	const facts = factsOf({ contact: { online: true }, head: head({ queued: 2 * hour }), row: { site: 'shop', locale: 'en' } }, undefined, 'a1');
	assert.deepEqual(facts, [
		['card.presence', 'Yes'], ['card.state', 'With Lin'], ['card.site', 'shop'], ['card.locale', 'English'], ['card.opened', moment(hour)], ['card.queued', moment(2 * hour)],
	]);
});

test('what is not known is left out', () => {
	assert.deepEqual(factsOf({ contact: { online: null }, head: head(), row: undefined }, undefined, 'a2'), [['card.state', 'With you'], ['card.opened', moment(hour)]]);
});

test('the history says what the row does not: the page, and all of a closed chat', () => {
	const at = (page) => factsOf({ contact: { online: null }, head: null, row: undefined }, { page, site: 'shop', locale: '' }, 'a1').slice(1);
	assert.deepEqual(at(undefined), [['card.site', 'shop']]);
	assert.deepEqual(at('https://shop.example/cart?a=1#b'), [['card.site', 'shop'], ['card.page', 'shop.example/cart', 'https://shop.example/cart?a=1#b']]);
	for (const [page, text, href] of [
		['https://shop.example@evil.example/x', 'evil.example/x', 'https://shop.example@evil.example/x'],
		['javascript:alert(1)', 'javascript:alert(1)', undefined],
		['data:text/html,x', 'data:text/html,x', undefined],
		['/cart', '/cart', undefined],
	]) {
		const [, [, shown, link]] = at(page);
		assert.deepEqual([shown, link], [text, href], page);
	}
});

test('the visit: what is known, and nothing that is no address or time zone', () => {
	const noon = Date.UTC(2026, 6, 1, 12);
	const got = { contact: { created: hour }, chats: 3, visit: { page: 'https://shop.example/cart', title: 'Cart <b>', referrer: 'https://search.example', browser: 'Firefox, Windows', zone: 'Europe/Berlin', country: 'DE', city: 'Berlin' } };
	assert.deepEqual(visitOf(got, noon), [
		['card.now', 'shop.example/cart', 'https://shop.example/cart'], ['card.title', 'Cart <b>'], ['card.referrer', 'search.example/', 'https://search.example/'],
		['card.browser', 'Firefox, Windows'], ['card.zone', '02:00 PM (Europe/Berlin)'], ['card.place', 'Berlin, Germany'], ['card.first', moment(hour)], ['card.before', '2'],
	]);
	assert.deepEqual(visitOf({ contact: { created: 0 }, visit: { zone: 'Nowhere/Land', referrer: 'javascript:alert(1)' } }, noon), [['card.referrer', 'javascript:alert(1)'], ['card.before', '0']]);
});

test('the place: country and city, the country alone, and nothing of what is no country', () => {
	const place = (visit) => visitOf({ contact: { created: 0 }, visit }, 0).find(([label]) => label === 'card.place')?.[1];
	assert.equal(place({ country: 'CN' }), 'China');
	assert.equal(place({}), undefined);
	assert.equal(place({ country: 'ZQ' }), 'ZQ');
	assert.equal(place({ country: '••••', city: 'Bern' }), 'Bern');
	setLocale('zh-CN');
	assert.equal(place({ country: 'DE', city: 'Berlin' }), 'Berlin, 德国');
	setLocale('en');
});
