// Package tlsx is TLS on the loops of package eddy: crypto/tls unchanged, as a handler in front of any decoder.
//
// Make a [Layer] with [Server] or [Client] and add it to each pipeline, before the decoder:
//
//	layer, err := tlsx.Server(config, pool, tlsx.Options{})
//	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
//		p.Add("tls", layer)
//		p.Add("lines", line.Codec(4096))
//		return p.Add("app", app)
//	}}
//
// [KeyPair] replaces certificates while they are in use. [Layer.Await] waits for the handshake of a dialed connection.
// [Secure] is for clients that dial many servers.
//
// The handshake runs on a pool, never on the loop, and holds a worker only while it computes. Afterwards the same
// *tls.Conn is read and written on the loop, one record at a time. Its net.Conn holds the bytes of one record. When
// they are used up, Read returns an error that crypto/tls takes as temporary.
//
// docs/tls.md says how a connection ends in which case.
package tlsx
