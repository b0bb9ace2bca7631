import test from 'node:test';
import assert from 'node:assert/strict';
import { invited, refusal } from '../static/js/console/invite.js';
import { texts } from '../static/js/core/i18n.js';
import '../static/js/console/login-texts.js';

test('the token stands behind the mark, and nothing else does', () => {
	assert.equal(invited('#invite=abc-_1'), 'abc-_1');
	for (const hash of ['', '#', '#invite', '#invite=', '#other=abc']) assert.equal(invited(hash), '', hash);
});

test('every refusal has a text, and its field', () => {
	for (const [status, reason, field] of [[404, ''], [410, ''], [409, 'login', 'login'], [422, 'login', 'login'], [422, 'name', 'name'], [422, 'password', 'password'], [503, ''], [0, '']]) {
		const said = refusal({ status, reason });
		assert.equal(said.field, field);
		assert.ok(texts.en[said.key] ?? said.key.startsWith('login.'), said.key);
	}
});
