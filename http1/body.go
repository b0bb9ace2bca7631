package http1

import (
	"io"
	"maps"
	"net/http"
)

// body is a request's Body: the loop puts bytes in, the handler reads them.
type body struct {
	pipe
	ex     *exchange
	merged bool // the trailer fields are in the request; the handler's goroutine owns it
}

func newBody(ex *exchange, limit int) *body {
	b := &body{ex: ex}
	b.init(ex.conn, limit)
	return b
}

// Read implements io.Reader for the handler, which gives up its place in the pool while it waits. The first Read sends
// 100 Continue to a client that waits for it. At the end Read adds the trailer fields to the request, as net/http does.
func (b *body) Read(p []byte) (int, error) {
	b.ex.sendContinue()
	if len(p) > 0 && !b.ready() {
		b.ex.place.Leave()
		defer b.ex.place.Return()
	}
	n, err := b.pipe.Read(p)
	if err == io.EOF && !b.merged { //nolint:errorlint // our own mark, never wrapped
		b.merged = true
		mergeTrailer(&b.ex.req.Trailer, b.trailer)
	}
	return n, err
}

// mergeTrailer adds the fields that came behind a body to those that were announced.
func mergeTrailer(to *http.Header, came http.Header) {
	if len(came) == 0 {
		return
	}
	if *to == nil {
		*to = came
		return
	}
	maps.Copy(*to, came)
}
