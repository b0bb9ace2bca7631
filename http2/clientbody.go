package http2

import (
	"errors"
	"net/http"
	"sync"

	"github.com/go-eddy/eddy/internal/httpserve"
)

// clientBody is the body of a response. Reads block their goroutine; while nobody reads, the window of the stream holds the
// server back, and other streams go on. The body of an answer to CONNECT is also the receiving side of the tunnel.
type clientBody struct {
	httpserve.Pipe
	of      *httpCall
	st      *clientStream
	resp    *http.Response
	trailer http.Header // of the response, set before the end
	once    sync.Once   // merges the trailer

	// Used by ReadBody, on the loop only.
	collect func([]byte, error)
	most    int64
	whole   []byte
}

func newClientBody(c *httpCall, st *clientStream, resp *http.Response) *clientBody {
	b := &clientBody{of: c, st: st, resp: resp}
	b.Init(nil, st, st.cc.t.BodyBuffer)
	return b
}

// Read implements io.Reader. At the end Read adds the trailer fields to the response.
func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.Pipe.Read(p)
	if isEOF(err) {
		b.once.Do(func() { mergeTrailer(&b.resp.Trailer, b.Trailer()) })
	}
	return n, err
}

// Close implements io.Closer. If the body has not arrived in full, Close resets its stream. Close ends a tunnel, too.
func (b *clientBody) Close() error {
	_ = b.Pipe.Close() // never fails
	if !b.Ended() || b.of.plan.connect {
		b.st.unwanted.Store(true)
		b.st.cc.post(b.st)
	}
	return nil
}

// ErrBodyTooLong is the error of ReadBody for a body longer than allowed.
var ErrBodyTooLong = errors.New("http2: the response body is longer than allowed")

// ReadBody collects the body of a response and calls done on the loop, with the whole body or with the error that ended it.
// Call ReadBody on the loop, inside the function that Transport.Do calls, and do not use the body otherwise afterwards. A
// body longer than most bytes ends with ErrBodyTooLong, and its stream is reset.
func ReadBody(resp *http.Response, most int64, done func([]byte, error)) error {
	if done == nil || most < 0 {
		return errors.New("http2: ReadBody needs a function to call, and a limit that is not negative")
	}
	if resp.Body == http.NoBody {
		done(nil, nil)
		return nil
	}
	b, ok := resp.Body.(*clientBody)
	if !ok || b.collect != nil {
		return errors.New("http2: ReadBody is for the response of a Transport, once")
	}
	b.most, b.collect = most, done
	return nil
}

// add takes body bytes that have arrived. The result is how many of them the window gets back at once. Loop only.
func (b *clientBody) add(data []byte) (back int, err error) {
	if b.collect == nil {
		return b.Put(data), nil
	}
	if int64(len(data)) > b.most-int64(len(b.whole)) {
		return 0, ErrBodyTooLong
	}
	b.whole = append(b.whole, data...)
	return len(data), nil
}

// end completes the body: err is io.EOF after the last byte, otherwise the failure. Loop only.
func (b *clientBody) end(err error) {
	if b.Ended() {
		return
	}
	b.Pipe.End(err, b.trailer)
	if b.collect == nil {
		return
	}
	if isEOF(err) {
		b.once.Do(func() { mergeTrailer(&b.resp.Trailer, b.trailer) })
		b.collect(b.whole, nil)
		return
	}
	b.collect(nil, err)
}
