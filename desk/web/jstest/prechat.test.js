import test from 'node:test';
import assert from 'node:assert/strict';
import { asks } from '../static/js/customer/prechat.js';
import { problems } from '../static/js/customer/fields.js';

const fields = [
	{ name: 'name', label: 'Name', type: 'text' },
	{ name: 'email', label: 'E-mail', type: 'email', required: true },
	{ name: 'phone', label: 'Phone', type: 'tel' },
];

test('what is missing, wrong or too long is told by field', () => {
	assert.deepEqual(problems(fields, {}), { email: 'required' });
	assert.deepEqual(problems(fields, { email: '   ' }), { email: 'required' });
	assert.deepEqual(problems(fields, { email: 'a@b.example', name: 'x'.repeat(501), phone: '' }), { name: 'long' });
	assert.deepEqual(problems(fields, { email: 'a@b.example', name: '字'.repeat(500) }), {});
	assert.deepEqual(problems(fields, { email: 'a@b.example', name: '😀'.repeat(500) }), {}, 'characters are counted, not code units');
});

test('addresses and numbers', () => {
	for (const email of ['a@b.example', 'ann.lee+desk@mail.shop.example', '用户@例子.广告']) assert.deepEqual(problems(fields, { email }), {}, email);
	for (const email of ['a', 'a@', '@b.example', 'a@b', 'a b@c.example', 'a@b.', 'a@@b.example']) assert.deepEqual(problems(fields, { email }), { email: 'email' }, email);
	for (const phone of ['+44 20 7946 0000', '010-5555-0000', '(020) 7946.0000', '12345']) assert.deepEqual(problems(fields, { email: 'a@b.example', phone }), {}, phone);
	for (const phone of ['1234', 'call me', '+', '0'.repeat(40), '12345 <b>']) assert.deepEqual(problems(fields, { email: 'a@b.example', phone }), { phone: 'tel' }, phone);
});

test('a site that asks nothing has no questions', () => {
	assert.equal(asks(null), false);
	assert.equal(asks({ name: 'Demo' }), false);
	assert.equal(asks({ prechat: [], consent: '' }), false);
	assert.equal(asks({ consent: 'I agree' }), true);
	assert.equal(asks({ prechat: fields }), true);
});
