// Node's client of HTTP/2: node client.mjs URL [CERTIFICATE]. It ends without a word if all is as it should be.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http2 from 'node:http2';

const [url, certificate] = process.argv.slice(2);
const session = http2.connect(url, certificate ? { ca: readFileSync(certificate) } : {});
session.on('error', (err) => { throw err; });

async function ask(path, { method = 'GET', body } = {}) {
	const stream = session.request({ ':path': path, ':method': method }, { endStream: body === undefined });
	let header = {};
	let trailer = {};
	stream.on('response', (h) => { header = h; });
	stream.on('trailers', (h) => { trailer = h; });
	const chunks = [];
	stream.on('data', (c) => chunks.push(c));
	if (body !== undefined) stream.end(body);
	await once(stream, 'end');
	return { status: header[':status'], header, trailer, body: Buffer.concat(chunks) };
}

await once(session, 'connect');
assert.equal(session.alpnProtocol, certificate ? 'h2' : 'h2c');
for (const answer of await Promise.all(Array.from({ length: 100 }, () => ask('/hello')))) {
	assert.equal(answer.status, 200);
	assert.equal(answer.body.toString(), 'hello\n');
}
assert.equal((await ask('/nothing')).status, 404);
const head = await ask('/big', { method: 'HEAD' });
assert.deepEqual([head.status, head.header['content-length'], head.body.length], [200, String(8 << 20), 0]);
const big = (await ask('/big')).body;
assert.equal(big.length, 8 << 20);
assert.ok(big.every((b, i) => b === i % 251));
const sent = big.subarray(0, 1 << 20);
for (const answer of await Promise.all(Array.from({ length: 8 }, () => ask('/echo', { method: 'POST', body: sent })))) {
	assert.ok(answer.body.equals(sent));
	assert.equal(answer.trailer['x-length'], String(sent.length));
}

// A request that is given up ends at the server, too.
const late = session.request({ ':path': '/late' });
await once(late, 'response');
late.close(http2.constants.NGHTTP2_CANCEL);
await once(late, 'close');
assert.equal((await ask('/over')).body.toString(), 'over\n');
session.close();
await once(session, 'close');
