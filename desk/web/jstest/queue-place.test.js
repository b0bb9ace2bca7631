import test from 'node:test';
import assert from 'node:assert/strict';
import { Conversation } from '../static/js/core/conversation.js';
import { MemoryArea, SafeStorage } from '../static/js/core/storage.js';

const chat = () => new Conversation({
	id: 'c', scope: 'v', storage: new SafeStorage([new MemoryArea()]),
	connection: { request: () => Promise.reject(new Error('not asked')), notify() {}, tell() {} }, onChange() {},
});
const place = (position) => ({ t: 'ev.queue', c: 'c', d: { position, estimate_ms: 60_000 } });
const head = (rev, state) => ({ id: 'c', rev, state });

test('a place that comes before the head of a conversation that waits is kept', () => {
	const c = chat();
	c.setHead(head(1, 'bot'));
	c.accept(place(2));
	c.setHead(head(2, 'bot')); // it was under way
	c.setHead(head(3, 'queued'));
	assert.deepEqual([c.position, c.estimate], [2, 60_000]);
	c.dispose();
});

test('a place is forgotten when the conversation leaves the queue', () => {
	const c = chat();
	c.setHead(head(1, 'queued'));
	c.accept(place(2));
	c.setHead(head(2, 'assigned'));
	assert.deepEqual([c.position, c.estimate], [0, 0]);
	c.dispose();
});
