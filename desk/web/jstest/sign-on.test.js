import test from 'node:test';
import assert from 'node:assert/strict';
import { returned, signOnWords } from '../static/js/console/sign-on.js';
import { texts } from '../static/js/core/i18n.js';
import '../static/js/console/texts.js';
import '../static/js/console/login-texts.js';

test('a page that the provider has sent back to is known by its address', () => {
	assert.deepEqual(returned('?code=a%2Bb&state=s&iss=x'), { state: 's', code: 'a+b' });
	assert.deepEqual(returned('?error=access_denied&state=s'), { state: 's', code: '' });
	for (const search of ['', '?code=a', '?state=s', '?lang=en']) assert.equal(returned(search), null, search);
});

test('every refusal has a text', () => {
	for (const reason of ['sso_lost', 'sso_refused', 'sso_unknown', 'sso_taken', 'sso_connect', 'password_off', '']) {
		for (const status of [0, 400, 403, 404, 410, 429, 503]) {
			const key = signOnWords({ status, reason });
			assert.ok(texts.en[key] && texts['zh-CN'][key], `${reason} ${status}: ${key}`);
		}
	}
});
