package http2

import (
	"io"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/httpserve"
)

// body is a request's Body: the loop puts bytes in, the handler reads them. Its size is that of the stream's window.
type body struct {
	httpserve.Pipe
	st     *stream
	waits  atomic.Bool // the handler is in Read, and there is nothing
	merged bool        // the trailer fields are in the request; the handler's goroutine owns it

	// Owned by the loop.
	length  int64         // Content-Length, -1 when there is none
	most    int64         // limit in bytes, -1 for none
	await   bool          // the handler starts only when the whole body is there
	gathers bool          // whole takes the bytes, and not the Pipe
	whole   []byte        // of a call whose body is awaited
	more    int           // bytes by which an awaited body may exceed the window, and that the client has not been given
	within  time.Duration // time that an awaited body may take
	silent  time.Duration // since when the client is silent although the handler waits
}

// initBody prepares the body that a request announces.
func (st *stream) initBody(head *requestHead, most int64, to http1.Route) {
	b := &body{st: st, length: head.length, most: most, await: to.Await > 0, within: to.Within}
	st.body = b
	limit := st.sc.f.opts.BodyBuffer
	if b.await {
		b.more = max(to.Await+1-limit, 0) // a client that would send more shows it
		limit += b.more
		if b.length > int64(limit-b.more) {
			st.widen()
		}
	}
	b.Init(nil, st, limit)
	st.expect = head.expect
	if st.req == nil {
		b.gathers = b.await
		return
	}
	st.req.Body = b
}

// widen opens the window of a stream for the whole of an awaited body, when the body turns out to need it.
func (st *stream) widen() {
	if more := st.body.more; more > 0 {
		st.body.more = 0
		st.recvWindow += more
		st.sc.control(appendWindowUpdate(nil, st.id, more))
	}
}

// Read implements io.Reader for the handler, which gives up its place in the pool while it waits. The first Read sends
// 100 Continue to a client that waits for it. At the end Read adds the trailer fields to the request, as net/http does.
func (b *body) Read(p []byte) (int, error) {
	b.st.sendContinue()
	if len(p) > 0 && !b.Ready() {
		b.waits.Store(true)
		b.st.place.Leave()
		defer func() {
			b.waits.Store(false)
			b.st.place.Return()
		}()
	}
	n, err := b.Pipe.Read(p)
	if err == io.EOF && !b.merged && b.st.req != nil { //nolint:errorlint // our own mark, never wrapped
		b.merged = true
		if trailer := b.Trailer(); len(trailer) > 0 {
			if b.st.req.Trailer == nil {
				b.st.req.Trailer = make(http.Header, len(trailer))
			}
			maps.Copy(b.st.req.Trailer, trailer)
		}
	}
	return n, err
}
