import test from 'node:test';
import assert from 'node:assert/strict';
import { splitLinks } from '../static/js/core/links.js';

const join = (text) => splitLinks(text).map((p) => p.text).join('');
const hrefs = (text) => splitLinks(text).filter((p) => p.href).map((p) => p.href);

test('links are found and the text is kept whole', () => {
	const cases = [
		['see https://example.com/a?b=1#c, please', ['https://example.com/a?b=1#c']],
		['(http://example.com/x_(y))', ['http://example.com/x_(y)']],
		['看 https://example.com/路径。谢谢', ['https://example.com/%E8%B7%AF%E5%BE%84']],
		['www.example.com!', ['https://www.example.com/']],
		['write to help@example.com.', ['mailto:help@example.com']],
		['mailto:a@b.example', ['mailto:a@b.example']],
		['call tel:+49-30-123', ['tel:+49-30-123']],
		['two http://a.example http://b.example', ['http://a.example/', 'http://b.example/']],
		['nothing here', []],
		['', []],
	];
	for (const [text, want] of cases) {
		assert.deepEqual(hrefs(text), want, text);
		assert.equal(join(text), text);
	}
});

test('other schemes never become links', () => {
	const hostile = [
		'javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'java\nscript:alert(1)', 'data:text/html,<script>alert(1)</script>',
		'vbscript:x', 'file:///etc/passwd', 'blob:x', '<img src=x onerror=alert(1)>', 'xhttp://a.example', '\u0001javascript:alert(1)',
	];
	for (const text of hostile) {
		assert.deepEqual(hrefs(text), [], text);
		assert.equal(join(text), text);
	}
	for (const text of hostile) {
		for (const href of hrefs(`${text} https://ok.example ${text}`)) assert.match(href, /^(?:https?|mailto|tel):/);
	}
});

test('long input is split in linear time', () => {
	const text = `${'a'.repeat(200_000)}@${'b.'.repeat(20_000)} http://${'('.repeat(50_000)}`;
	const begin = process.cpuUsage();
	assert.equal(join(text), text);
	assert.ok(process.cpuUsage(begin).user < 5_000_000); // of the processor, in µs: other work on the machine does not count
});
