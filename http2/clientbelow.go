package http2

import (
	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
)

// Request is a request of a client that works below net/http, such as one of remote calls; see Transport.Begin. Fill in its
// fields and do not change them until the Answer is over.
type Request struct {
	Secure bool   // by TLS
	Addr   string // host:port of the server

	// Fields are the header section, the pseudo-header fields first and all names in lower case. They go out as they are.
	Fields []hpack.HeaderField
	// Body is the whole body, unless Streams is set.
	Body []byte
	// Streams says that the body comes by Send and ends with CloseSend, by a DATA frame even if there was no Send: gRPC wants
	// that of its clients.
	Streams bool
	// Answer takes the response.
	Answer Answer

	call   call
	stream clientStream
	head   fields
	heads  [1]*fields // the stream's memory
	chunks [1]chunk
}

// Answer takes the response of a Request. Its methods are called on the loop and must not block; what they are given is
// valid during the call only. An error resets the stream, and is that of Over.
type Answer interface {
	// Head takes the header section of the response, without :status. After end no body and no trailer follow.
	Head(status int, fields []hpack.HeaderField, end bool) error
	// Data takes bytes of the body as they come. The server may send as many again as were taken at once; Request.Took tells
	// of the others later.
	Data(p []byte) (taken int, err error)
	// Trailer takes the trailer, if the response has one.
	Trailer(fields []hpack.HeaderField)
	// Over is called once: with nil when the response has come in full, else with the reason that it has not. An error
	// that meets a full or closed Transport, or a wait for a stream, comes on the goroutine that has found it.
	Over(err error)
}

// Begin sends a request and returns at once. The connection, the wait for it and what is sent once more are those of
// RoundTrip; bodies are not decoded. If Begin returns an error, Over is not called. A Request may be used again after Over,
// unless Cancel was called or Retried reports true. Any goroutine but a loop of the group, where Begin returns eddy.ErrOnLoop.
func (t *Transport) Begin(r *Request) error {
	if err := t.start(); err != nil {
		return err
	}
	if t.onLoop() {
		return eddy.ErrOnLoop
	}
	if r.Secure {
		if err := t.prepareTLS(); err != nil {
			return err
		}
	}
	r.stream = clientStream{}
	r.stream.out.init(requestBuffer)
	r.stream.out.apart = r.Streams
	r.call = call{t: t, of: (*requestCall)(r), key: hostKey{r.Secure, r.Addr}, spare: &r.stream}
	for i := range r.Fields {
		r.call.plan.size += int(r.Fields[i].Size())
	}
	t.acquire(&r.call)
	return nil
}

// Send adds a copy of p to the body of a request that streams. Send waits while 64 KiB are on their way. The error says why
// the request is over. Any goroutine that may block, one at a time.
func (r *Request) Send(p []byte) error {
	var place executor.Place // of no pool
	out := &r.stream.out
	full, err := out.send(p)
	for full && err == nil {
		r.call.tell()
		if err = out.await(nil, &place); err == nil {
			full, err = out.send(p)
		}
	}
	r.call.tell()
	return err
}

// CloseSend ends the body of a request that streams. Any goroutine.
func (r *Request) CloseSend() {
	r.stream.out.end(nil, nil, nil)
	r.call.tell()
}

// Took lets the server send n more bytes of the response, of those that Answer.Data has not taken at once. Any goroutine.
func (r *Request) Took(n int) { r.stream.Took(n) }

// Cancel ends a request that Begin has begun, at every stage: Over gets err, unless the response has come in full. Any
// goroutine.
func (r *Request) Cancel(err error) { r.call.cancel(err) }

// Retried reports, after Over, whether the request was sent more than once.
func (r *Request) Retried() bool { return r.call.tries > 0 }

// Sent reports, after Over, whether a connection has taken the request, so that the server may have it.
func (r *Request) Sent() bool { return r.call.spare == nil }

// requestCall is the caller of a Request.
type requestCall Request

func (r *requestCall) send(st *clientStream) {
	r.head.list = r.Fields
	if r.Streams {
		st.out.head(&r.head)
		return
	}
	st.out.init(requestBuffer) // st is new when the request is sent once more
	r.heads[0], r.chunks[0] = &r.head, chunk{b: r.Body}
	st.out.whole(r.heads[:], r.chunks[:])
}

func (r *requestCall) informed(*clientStream, *responseHead) {}

func (r *requestCall) answered(_ *clientStream, head *responseHead, end bool) error {
	return r.Answer.Head(head.status, head.fields, end)
}

func (r *requestCall) add(data []byte) (back int, err error) { return r.Answer.Data(data) }

func (r *requestCall) received(trailer []hpack.HeaderField) {
	if len(trailer) > 0 {
		r.Answer.Trailer(trailer)
	}
}

func (r *requestCall) over(err error) {
	if isEOF(err) {
		err = nil
	}
	r.Answer.Over(err)
}

func (r *requestCall) failed(err error) {
	if r.Streams {
		r.stream.out.fail(err)
	}
	r.Answer.Over(err)
}

func (r *requestCall) repeatable() bool { return false }

// renew sends a request that streams once more if no attempt has had its stream.
func (r *requestCall) renew(lost error, again func()) {
	if r.Streams && r.call.spare == nil {
		r.call.fail(lost)
		return
	}
	again()
}
