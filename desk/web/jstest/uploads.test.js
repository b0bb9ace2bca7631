import test from 'node:test';
import assert from 'node:assert/strict';
import { allowFiles, Uploads } from '../static/js/core/uploads.js';

function rig({ most = 10 } = {}) {
	const requests = [];
	class XMLHttpRequest {
		constructor() {
			Object.assign(this, { upload: {}, headers: {}, status: 0, responseText: '', aborted: false });
			requests.push(this);
		}
		open(method, url) { Object.assign(this, { method, url }); }
		setRequestHeader(k, v) { this.headers[k] = v; }
		send(file) { this.file = file; }
		abort() {
			this.aborted = true;
			this.onloadend();
		}
		answer(status, body) {
			Object.assign(this, { status, responseText: typeof body === 'string' ? body : JSON.stringify(body) });
			this.onloadend();
		}
	}
	let changes = 0;
	const uploads = new Uploads({ target: (name) => ({ url: `/up?name=${name}`, headers: { Authorization: 'Bearer t' } }), onChange: () => changes++, most, env: { XMLHttpRequest } });
	return { requests, uploads, changes: () => changes };
}
const file = (name, size = 10) => ({ name, size });
const states = (u) => u.items.map((i) => i.state);

test('files go one after the other, with progress, and leave with a message', () => {
	const { requests, uploads, changes } = rig();
	assert.equal(uploads.add([file('a'), file('b')]), 0);
	assert.equal(requests.length, 1);
	assert.deepEqual([requests[0].method, requests[0].url, requests[0].headers.Authorization], ['POST', '/up?name=a', 'Bearer t']);
	uploads.add([file('c')]);
	assert.equal(requests.length, 1, 'one after the other, also when they come later');
	uploads.cancel(uploads.items[2].key);
	const before = changes();
	requests[0].upload.onprogress({ lengthComputable: true, loaded: 5, total: 10 });
	assert.equal(uploads.items[0].share, 0.5);
	assert.ok(changes() > before);
	assert.equal(uploads.settled, false);
	requests[0].answer(201, { id: '1', name: 'a' });
	assert.deepEqual(states(uploads), ['done', 'sending']);
	requests[1].answer(201, { id: '2', name: 'b' });
	assert.ok(uploads.settled);
	assert.deepEqual(uploads.take().map((f) => f.id), ['1', '2']);
	assert.deepEqual(uploads.items, []);
});

test('what fails says why, holds nothing back, and can be tried again where that helps', () => {
	const { requests, uploads } = rig();
	allowFiles(1000);
	allowFiles(undefined); // a server that does not say
	uploads.add([file('big', 1001), file('busy', 1000), file('bad'), file('gone'), file('ok')]);
	assert.deepEqual([uploads.items[0].state, uploads.items[0].code], ['failed', 'too_large']);
	requests[0].answer(503, { code: 'unavailable', retry_ms: 700 });
	requests[1].answer(415, { code: 'bad_request' });
	requests[2].answer(0, '');
	requests[3].answer(201, { id: '5' });
	assert.deepEqual(uploads.items.map((i) => [i.code, i.retryMs]), [['too_large', 0], ['unavailable', 700], ['bad_request', 0], ['lost', 1000], ['', 0]]);
	assert.ok(uploads.settled);
	uploads.retry(uploads.items[0].key);
	assert.equal(uploads.items[0].state, 'failed');
	uploads.retry(uploads.items[1].key);
	assert.equal(uploads.items[1].state, 'sending');
	requests[4].answer(201, { id: '2' });
	assert.deepEqual(uploads.take().map((f) => f.id), ['2', '5']);
	assert.deepEqual(uploads.items.map((i) => i.name), ['gone'], 'what was refused goes with the message');
	assert.equal(uploads.pending.length, 0);
	uploads.add([file('big', 1001)]);
	assert.deepEqual(uploads.items.map((i) => i.name), ['gone', 'big']);
	uploads.add([file('small')]);
	assert.deepEqual(uploads.items.map((i) => i.name), ['gone', 'small'], 'another one is chosen instead');
});

test('a message holds so many files and no more', () => {
	const { uploads } = rig({ most: 2 });
	assert.equal(uploads.add([file('a'), file('b'), file('c')]), 1);
	assert.equal(uploads.add([file('d')]), 1);
	assert.equal(uploads.items.length, 2);
});

test('a file that is given up is no longer sent, and the next one is', () => {
	const { requests, uploads } = rig();
	uploads.add([file('a'), file('b')]);
	uploads.cancel(uploads.items[0].key);
	assert.ok(requests[0].aborted);
	assert.deepEqual(uploads.items.map((i) => [i.name, i.state]), [['b', 'sending']]);
	uploads.clear();
	assert.ok(requests[1].aborted);
	assert.equal(requests.length, 2);
	assert.deepEqual(uploads.items, []);
});

test('an answer that is no answer is a refusal', () => {
	const { requests, uploads } = rig();
	uploads.add([file('a')]);
	requests[0].answer(404, '404 page not found');
	assert.deepEqual([uploads.items[0].state, uploads.items[0].code, uploads.items[0].retryMs], ['failed', 'refused', 0]);
});
