package http2

import (
	"github.com/go-eddy/eddy"
)

// Either returns an Init for a plain port that speaks both versions of HTTP. A client that begins with the preface of HTTP/2
// (RFC 9113 section 3.3) gets the handlers of h2, and any other those of h1, such as http1.Factory.Init. There is no upgrade
// by an Upgrade field, which RFC 9113 has dropped.
//
//	srv := &eddy.Server{Init: http2.Either(h1.Init, h2.Init)}
func Either(h1, h2 func(p *eddy.Pipeline) error) func(p *eddy.Pipeline) error {
	e := &either{h1, h2}
	return func(p *eddy.Pipeline) error { return p.Add(eitherName, e) }
}

// either looks at a connection's first bytes and makes room for the handlers of its protocol.
type either struct{ h1, h2 func(p *eddy.Pipeline) error }

// HandleOpen implements eddy.OpenHandler. Until the choice the default times of HTTP hold.
func (e *either) HandleOpen(ctx *eddy.Context) error {
	d := ctx.Conn().Deadlines()
	d.Read, d.Idle = defaultHeaderTimeout, defaultIdleTimeout
	return ctx.Conn().SetDeadlines(&d)
}

// Decode implements eddy.Decoder. It consumes nothing: what it has seen goes to the handlers that take its place.
func (e *either) Decode(ctx *eddy.Context, view []byte) (int, error) {
	n := min(len(view), len(Preface))
	install := e.h1
	if string(view[:n]) == Preface[:n] {
		if n < len(Preface) {
			return 0, nil
		}
		install = e.h2
	}
	if err := ctx.Conn().SetDeadlines(nil); err != nil { // the handlers look at the server's own
		return 0, err
	}
	p := ctx.Pipeline()
	if err := p.Remove(eitherName); err != nil {
		return 0, err
	}
	return 0, install(p)
}
