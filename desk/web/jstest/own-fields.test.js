import test from 'node:test';
import assert from 'node:assert/strict';
import '../static/js/console/texts.js';
import { inputOf, OwnInputs, ownRows, saysOf } from '../static/js/console/own-fields.js';
import { setLocale, texts } from '../static/js/core/i18n.js';

setLocale('en');
const own = [
	{ key: 'plan', label: 'Plan', kind: 'choice', choices: ['Gold', 'Silver'], edit: true },
	{ key: 'since', label: 'Customer since', kind: 'date', edit: true },
	{ key: 'credit', label: 'Credit', kind: 'number' },
	{ key: 'vip', label: 'VIP', kind: 'yes_no', edit: true },
	{ key: 'note', label: 'Note', kind: 'text', edit: true },
];

// A document that makes elements as far as the inputs need them.
function fakeDocument() {
	const make = (tag) => ({
		tag, dataset: {}, attributes: {}, children: [], value: '',
		setAttribute(name, value) { this.attributes[name] = value; },
		append(child) { this.children.push(child); },
	});
	globalThis.document = { createElement: make };
}

test('values are said in the language and in the order of the fields; those without a value are not', () => {
	assert.deepEqual(ownRows(own, { vip: 'yes', since: '2024-02-29', credit: '1234567.5', other: 'x' }), [
		{ key: 'Customer since', value: 'Feb 29, 2024' }, { key: 'Credit', value: '1,234,567.5' }, { key: 'VIP', value: 'Yes' },
	]);
	assert.deepEqual(ownRows(undefined, { plan: 'Gold' }), []);
	assert.deepEqual(ownRows(own, undefined), []);
	assert.equal(saysOf({ kind: 'number' }, '123456789012345.123456'), '123,456,789,012,345.123456');
});

test('what is hidden from the reader is shown as it came', () => {
	for (const kind of ['number', 'date', 'yes_no', 'choice', 'text']) assert.equal(saysOf({ kind }, '••••'), '••••');
});

test('every kind has its input', () => {
	assert.deepEqual(inputOf(own[0], 'Gold').options.map(([v]) => v), ['', 'Gold', 'Silver']);
	assert.deepEqual(inputOf(own[0], 'Tin').options.map(([v]) => v), ['', 'Tin', 'Gold', 'Silver']);
	assert.deepEqual(inputOf(own[3], '').options, [['', 'Not known'], ['yes', 'Yes'], ['no', 'No']]);
	assert.equal(inputOf(own[1], '').attributes.type, 'date');
	const number = new RegExp(`^(?:${inputOf(own[2], '').attributes.pattern})$`, 'v');
	for (const good of ['0', '-12.5', '123456789012345.123456']) assert.ok(number.test(good), good);
	for (const bad of ['1e5', '1.', '.5', '1,5', '1234567890123456', '1.1234567']) assert.ok(!number.test(bad), bad);
});

test('only fields that the reader may change have inputs, and only what changed is sent', () => {
	fakeDocument();
	const inputs = new OwnInputs(own, { plan: 'Gold', since: '2024-02-29', credit: '5', note: 'x' });
	assert.deepEqual(inputs.fields.map((f) => f.key), ['plan', 'since', 'vip', 'note']);
	assert.deepEqual(inputs.change(), {});
	inputs.inputs[0].value = 'Silver';
	inputs.inputs[3].value = '  ';
	assert.deepEqual(inputs.change(), { plan: 'Silver', note: '' });
});

test('a refusal names the field, or says that the fields have changed', () => {
	fakeDocument();
	const inputs = new OwnInputs(own, {});
	const say = (code, message) => inputs.refusal({ code, message });
	assert.match(say('bad_request', 'field plan must be one of its 2 choices, not "Tin"'), /Plan/);
	for (const [code, message] of [['forbidden', 'field plan is not yours to change'], ['bad_request', 'field plan is unknown'], ['bad_request', 'field gone is unknown']]) {
		assert.equal(say(code, message), texts.en['own.gone'], message);
	}
	assert.equal(say('lost', 'connection lost'), '');
	assert.equal(say('busy', undefined), '');
});
