package http1

import (
	"io"
	"maps"
	"net/http"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/httpserve"
)

// body is a request's Body: the loop puts bytes in, the handler reads them.
type body struct {
	httpserve.Pipe
	ex     *exchange
	merged bool // the trailer fields are in the request; the handler's goroutine owns it

	// Owned by the loop.
	frame   bodyFrame
	length  int64    // Content-Length, -1 when chunked
	dropped int64    // unread bytes thrown away
	await   *awaited // nil unless the handler starts only when the whole body is there
}

// awaited is the part of a body that only a route with Await needs.
type awaited struct {
	within time.Duration
	late   *eddy.Timer // fires after within
	kept   int         // bytes counted as the connection's input
}

// awaits returns the awaited part of the request's body, nil when the handler does not wait for the body.
func (ex *exchange) awaits() *awaited {
	if ex.body == nil {
		return nil
	}
	return ex.body.await
}

// keep counts n bytes of an awaited body as the connection's input. The bytes stay in memory until the request ends. Loop only.
func (b *body) keep(n int) {
	if b.await != nil && n > 0 {
		b.await.kept += n
		b.ex.sc.ctx.KeepInput(n)
	}
}

// unkeep takes back everything that keep has counted. b may be nil. Loop only.
func (b *body) unkeep() {
	if b != nil && b.await != nil && b.await.kept > 0 {
		b.ex.sc.ctx.KeepInput(-b.await.kept)
		b.await.kept = 0
	}
}

// discard counts n bytes that nobody will read, and reports whether they are more than MaxDiscard after the answer.
func (b *body) discard(n int) bool {
	b.dropped += int64(n)
	return b.ex.answered && b.dropped > b.ex.f.opts.MaxDiscard
}

// Read implements io.Reader for the handler, which gives up its place in the pool while it waits. The first Read sends
// 100 Continue to a client that waits for it. At the end Read adds the trailer fields to the request, as net/http does.
func (b *body) Read(p []byte) (int, error) {
	b.ex.sendContinue()
	if len(p) > 0 && !b.Ready() {
		b.ex.ctx.Place.Leave()
		defer b.ex.ctx.Place.Return()
	}
	n, err := b.Pipe.Read(p)
	if err == io.EOF && !b.merged { //nolint:errorlint // our own mark, never wrapped
		b.merged = true
		mergeTrailer(&b.ex.req.Trailer, b.Trailer())
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
