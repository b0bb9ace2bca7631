// WebSockets in streams of node's client of HTTP/2 (RFC 8441): node websocket.mjs URL [CERTIFICATE]. The server sends every
// message back. The script ends without a word if all is as it should be.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import http2 from 'node:http2';

const [url, certificate] = process.argv.slice(2);
const session = http2.connect(url, certificate ? { ca: readFileSync(certificate) } : {});
session.on('error', (err) => { throw err; });
if (!session.remoteSettings?.enableConnectProtocol) await once(session, 'remoteSettings');
assert.equal(session.remoteSettings.enableConnectProtocol, true);

function frame(op, payload) {
	const length = payload.length < 126 ? Buffer.from([0x80 | payload.length]) : Buffer.alloc(9);
	if (payload.length >= 126) {
		length[0] = 0x80 | 127;
		length.writeBigUInt64BE(BigInt(payload.length), 1);
	}
	const key = randomBytes(4);
	return Buffer.concat([Buffer.from([0x80 | op]), length, key, payload.map((b, i) => b ^ key[i % 4])]);
}

// Socket reads the frames of a stream, none of which is masked.
class Socket {
	constructor() {
		this.stream = session.request({ ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/echo', 'sec-websocket-version': '13' }, { endStream: false });
		this.bytes = this.stream[Symbol.asyncIterator]();
		this.rest = Buffer.alloc(0);
	}

	async take(n) {
		while (this.rest.length < n) {
			const { value, done } = await this.bytes.next();
			assert.ok(!done, 'the stream has ended');
			this.rest = Buffer.concat([this.rest, value]);
		}
		const taken = this.rest.subarray(0, n);
		this.rest = this.rest.subarray(n);
		return taken;
	}

	async next() {
		const [first, second] = await this.take(2);
		let length = second;
		if (length === 126) length = (await this.take(2)).readUInt16BE();
		else if (length === 127) length = Number((await this.take(8)).readBigUInt64BE());
		return { first, payload: await this.take(length) };
	}
}

async function talk(i) {
	const s = new Socket();
	const [header] = await once(s.stream, 'response');
	assert.equal(header[':status'], 200);
	for (const [op, payload] of [[1, Buffer.from(`number ${i}`)], [2, randomBytes(200_000)], [1, Buffer.alloc(0)]]) {
		s.stream.write(frame(op, payload));
		const got = await s.next();
		assert.equal(got.first, 0x80 | op);
		assert.ok(got.payload.equals(payload));
	}
	s.stream.write(frame(8, Buffer.from([0x03, 0xe8])));
	const end = await s.next();
	assert.deepEqual([end.first, ...end.payload], [0x88, 0x03, 0xe8]);
	assert.equal((await s.bytes.next()).done, true);
	s.stream.end();
}

await Promise.all(Array.from({ length: 50 }, (_, i) => talk(i)));

// A stream that does not ask as a WebSocket does is refused, and its neighbours go on.
const wrong = session.request({ ':method': 'CONNECT', ':protocol': 'websocket', ':path': '/echo', 'sec-websocket-version': '8' }, { endStream: false });
const [refused] = await once(wrong, 'response');
assert.equal(refused[':status'], 426);
wrong.close();
await talk(50);
session.close();
await once(session, 'close');
