// Node's server of HTTP/2: node server.mjs [KEY CERTIFICATE]. It writes its port, and serves until it is killed.
import { readFileSync } from 'node:fs';
import http2 from 'node:http2';

const [key, cert] = process.argv.slice(2);
const limits = { maxSessionMemory: 100 }; // MB; with the default of 10 it resets streams of a client that asks for /big four times at once
const server = key ? http2.createSecureServer({ ...limits, key: readFileSync(key), cert: readFileSync(cert) }) : http2.createServer(limits);
const big = Buffer.from(Array.from({ length: 8 << 20 }, (_, i) => i % 251));

server.on('stream', (stream, header) => {
	stream.on('error', () => {}); // the client's resets
	switch (header[':path']) {
	case '/hello':
		stream.additionalHeaders({ ':status': 103, link: '</style.css>' });
		stream.respond({ ':status': 200, 'content-type': 'text/plain' });
		stream.end('hello\n');
		break;
	case '/big':
		stream.respond({ ':status': 200, 'content-length': big.length });
		stream.end(big);
		break;
	case '/echo': {
		let length = 0;
		stream.on('data', (c) => { length += c.length; });
		stream.on('wantTrailers', () => stream.sendTrailers({ 'x-length': String(length) }));
		stream.respond({ ':status': 200, trailer: 'x-length' }, { waitForTrailers: true });
		stream.pipe(stream);
		break;
	}
	case '/goodbye': // the last of its connection
		stream.respond({ ':status': 200 });
		stream.end('bye\n');
		stream.session.goaway();
		break;
	default:
		stream.respond({ ':status': 404 }, { endStream: true });
	}
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
