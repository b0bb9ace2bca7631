import test from 'node:test';
import assert from 'node:assert/strict';
import { ApiError } from '../static/js/core/api.js';
import { texts } from '../static/js/core/i18n.js';
import '../static/js/customer/texts.js';
import { wordsOf } from '../static/js/customer/mail-chat.js';

test('a refusal says what is missing', () => {
	for (const [status, body, want] of [
		[409, { code: 'conflict', reason: 'no_address' }, 'mail.noAddress'], [429, { code: 'rate_limited', retry_ms: 1 }, 'mail.limited'],
		[409, { code: 'conflict', reason: 'open' }, 'mail.failed'], [0, null, 'mail.failed'],
	]) {
		const key = wordsOf(new ApiError(status, body));
		assert.equal(key, want);
		for (const tag of ['en', 'zh-CN']) assert.ok(texts[tag][key]);
	}
});
