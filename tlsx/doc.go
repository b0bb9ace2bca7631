// Package tlsx is TLS on the loops of package eddy: crypto/tls as it is, as a handler in front of any decoder.
//
// The handshake runs on a pool, never on the loop, and holds a worker only while it computes. Then the same *tls.Conn is
// read and written on the loop, one record at a time: its net.Conn gives it the bytes of one record and otherwise says
// that reading would block, an error that crypto/tls takes as temporary.
//
//	layer, err := tlsx.Server(config, pool, tlsx.Options{})
//	srv := &eddy.Server{Init: func(p *eddy.Pipeline) error {
//		p.Add("tls", layer)
//		p.Add("lines", line.Codec(4096))
//		return p.Add("app", app)
//	}}
//
// docs/tls.md says what becomes of a connection in which case.
package tlsx
