// Package proto is the wire protocol im.v1.json: the envelope, the commands a client may send, the events and
// replies the server sends, and their limits. It knows nothing of connections or storage.
package proto
