package http1

import (
	"errors"
	"io"
	"net/http"

	"github.com/go-eddy/eddy/internal/httpserve"
)

// clientBody is the body of a response. Reads block their goroutine; while nobody reads, the connection is not read
// beyond Transport.BodyBuffer.
type clientBody struct {
	httpserve.Pipe
	cc     *clientConn
	call   *call
	resp   *http.Response
	merged bool // the trailer fields are in the response; the reader's goroutine owns it

	// Used by ReadBody, on the loop only.
	collect func([]byte, error)
	most    int64
	whole   []byte
}

func newClientBody(cc *clientConn, c *call, resp *http.Response) *clientBody {
	b := &clientBody{cc: cc, call: c, resp: resp}
	b.Init(cc.conn, nil, cc.t.BodyBuffer)
	return b
}

// Read implements io.Reader. At the end Read adds the trailer fields to the response.
func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.Pipe.Read(p)
	if err == io.EOF && !b.merged { //nolint:errorlint // our own mark, never wrapped
		b.merged = true
		mergeTrailer(&b.resp.Trailer, b.Trailer())
	}
	return n, err
}

// Close implements io.Closer. If the body has not arrived in full, Close ends its connection.
func (b *clientBody) Close() error {
	_ = b.Pipe.Close() // never fails
	if !b.Ended() {
		b.cc.abort(b.call, http.ErrBodyReadAfterClose)
	}
	return nil
}

// ErrBodyTooLong is the error of ReadBody for a body longer than allowed.
var ErrBodyTooLong = errors.New("http1: the response body is longer than allowed")

// ReadBody collects the body of a response and calls done on the loop, with the whole body or with the error that ended it.
// Call ReadBody on the loop, inside the function that Transport.Do calls, and do not use the body otherwise afterwards.
// A body longer than most bytes ends with ErrBodyTooLong, and its connection ends too.
func ReadBody(resp *http.Response, most int64, done func([]byte, error)) error {
	if done == nil || most < 0 {
		return errors.New("http1: ReadBody needs a function to call, and a limit that is not negative")
	}
	if resp.Body == http.NoBody {
		done(nil, nil)
		return nil
	}
	b, ok := resp.Body.(*clientBody)
	if !ok || b.collect != nil {
		return errors.New("http1: ReadBody is for the response of a Transport, once")
	}
	b.most, b.collect = most, done
	return nil
}

// add takes body bytes that have arrived. Loop only.
func (b *clientBody) add(data []byte) error {
	if b.collect == nil {
		b.Put(data)
		return nil
	}
	if int64(len(data)) > b.most-int64(len(b.whole)) {
		return ErrBodyTooLong
	}
	b.whole = append(b.whole, data...)
	return nil
}

// end completes the body: err is io.EOF after the last byte, otherwise the failure. Loop only.
func (b *clientBody) end(err error, trailer http.Header) {
	b.Pipe.End(err, trailer)
	if b.collect == nil {
		return
	}
	if err == io.EOF { //nolint:errorlint // our own mark, never wrapped
		mergeTrailer(&b.resp.Trailer, trailer)
		b.collect(b.whole, nil)
		return
	}
	b.collect(nil, err)
}
