package rpc

import (
	"context"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/httpserve"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// CallStream is a call that streams, as its caller sees it. One goroutine may call Recv, and another one Send and
// CloseSend, at the same time. The call holds memory until Recv has returned an error, its context has ended or Close was
// called.
type CallStream struct {
	cl     *GRPCClient
	e      Error
	o      *callOptions
	key    Key
	method string
	own    bool // the deadline is not the context's

	start   sync.Once
	begun   bool // the request
	request http2.Request
	to      *grpcTarget // chosen by begin, unless it was set before
	at      time.Time   // when the request began
	heard   bool        // the balancer knows how
	unhook  func() bool // stops watching the context
	timer   *time.Timer // of the deadline, nil without one of its own
	over    chan struct{}
	err     error  // after over: why there was no response
	buf     []byte // Send's

	in     grpcInput // Recv's; the loop fills in the header and the trailer
	reader grpcwire.Reader
	pipe   httpserve.Pipe // what has come, for the reader
}

// OpenStream begins a call that streams, of any kind. OpenServerStream, OpenClientStream and OpenBidiStream are typed. A
// stream of OpenStream is typed by ReceiverOf and SenderOf:
//
//	s, err := rpc.OpenStream(ctx, cl, key, "Chat")
//	out, in := rpc.SenderOf[pb.Line](s), rpc.ReceiverOf[pb.Line](s)
//
// The first Send or CloseSend makes the request; so does Recv, without a message. The call ends with ctx. Timeouts are
// those of the context and of CallTimeout; GRPCOptions.Timeout is for calls with one response. Errors of the stream's
// methods are those of Invoke.
func OpenStream(ctx context.Context, cl *GRPCClient, key Key, method string, opts ...CallOption) (*CallStream, error) {
	o := &callOptions{codec: cl.o.Codec}
	for _, opt := range opts {
		opt(o)
	}
	s := &CallStream{cl: cl, o: o, key: key, method: method, over: make(chan struct{})}
	s.e = Error{Service: key.String(), Method: method, Executed: ExecutedNo}
	if err := key.Validate(); err != nil {
		s.e.Err = err
		return nil, &s.e
	}
	s.in = grpcInput{ctx: ctx, e: &s.e, o: o, limit: cl.o.MaxPayload, messages: (*streamAnswer)(s)}
	s.own = s.in.until(o.timeout)
	return s, nil
}

// ReceiverOf returns a Receiver for the messages of a stream.
func ReceiverOf[T any](s Stream) *Receiver[T] { return &Receiver[T]{s} }

// SenderOf returns a Sender for the messages of a stream.
func SenderOf[T any](s Stream) *Sender[T] { return &Sender[T]{s} }

// begin makes the request, whose messages are like msg.
func (s *CallStream) begin(msg any) {
	s.start.Do(func() {
		codec, kind := codecFor(s.o, msg)
		s.in.codec, s.in.left = codec, time.Until(s.in.by)
		fields, err := s.cl.fields(nil, &s.in, s.cl.method(s.key, s.method), kind)
		if err != nil {
			s.e.Err = err
			s.fail(&s.e)
			return
		}
		s.pipe.Init(nil, &s.request, math.MaxInt) // the stream's window bounds it
		s.reader.Init(&s.pipe, s.in.limit)
		s.request.Fields, s.request.Streams, s.request.Answer = fields, true, (*streamAnswer)(s)
		if s.to == nil {
			if s.to, err = s.cl.pick(s.in.ctx, s.in.by, s.o, nil); err != nil {
				s.e.Err = err
				s.fail(&s.e)
				return
			}
		}
		s.at = s.cl.begun()
		s.to.aim(&s.request)
		if err := s.cl.o.Transport.Begin(&s.request); err != nil {
			err = s.in.lost(err)
			s.cl.ended(s.to, s.at, err, true) // nothing is known of the server
			s.fail(err)
			return
		}
		s.begun = true
		if s.in.ctx.Done() != nil {
			s.unhook = context.AfterFunc(s.in.ctx, func() { s.request.Cancel(contextCause(s.in.ctx)) })
		}
		if s.own {
			s.timer = time.AfterFunc(time.Until(s.in.by), func() { s.request.Cancel(errDeadline) })
		}
	})
}

// fail ends a call that has not begun.
func (s *CallStream) fail(err error) {
	s.err, s.in.end = err, err
	close(s.over)
}

// streamAnswer is a CallStream as the Transport and the grpcInput see it.
type streamAnswer CallStream

// Head implements http2.Answer.
func (s *streamAnswer) Head(status int, fields []hpack.HeaderField, end bool) error {
	if s.cl.servers.Observes() {
		s.heard = true
		s.to.node.Observe(time.Since(s.at), outcomeOfHead(status, fields))
	}
	return s.in.takeHead(status, fields, end)
}

// Data implements http2.Answer.
func (s *streamAnswer) Data(p []byte) (taken int, err error) { return s.pipe.Put(p), nil }

// Trailer implements http2.Answer.
func (s *streamAnswer) Trailer(fields []hpack.HeaderField) {
	s.in.trailer = append(s.in.trailer, fields...)
}

// Over implements http2.Answer.
func (s *streamAnswer) Over(err error) {
	switch {
	case s.in.code == 0:
		s.err = s.in.lost(err)
		err = s.err
	case err == nil:
		err = io.EOF
	}
	if s.heard { // a stream that has begun says nothing by its end
		s.to.node.End()
	} else {
		s.cl.ended(s.to, s.at, err, s.Sent())
	}
	s.pipe.End(err, nil)
	close(s.over)
}

// Sent implements messages.
func (s *streamAnswer) Sent() bool { return s.request.Sent() }

// Next returns the next message for the grpcInput.
func (s *streamAnswer) Next() (msg []byte, compressed bool, err error) {
	msg, compressed, err = s.reader.Next()
	if err == http.ErrBodyReadAfterClose { //nolint:errorlint // of the pipe, after Close
		err = errCanceled
	}
	return msg, compressed, err
}

// Send implements Stream. After the server has ended the call the error is io.EOF, and Recv tells why.
func (s *CallStream) Send(msg any) error {
	s.begin(msg)
	if s.isOver() {
		return s.ended()
	}
	b, err := s.cl.pack(s.buf[:0], s.in.codec, msg)
	if err != nil {
		return &Error{Service: s.key.String(), Method: s.method, Err: encodeError{err}}
	}
	if cap(b) <= keptBody {
		s.buf = b
	}
	if s.request.Send(b) != nil {
		return io.EOF
	}
	return nil
}

// isOver reports whether the call has ended. It ends a call whose context has: the hook of begin may run later.
func (s *CallStream) isOver() bool {
	if s.begun && s.in.ctx.Err() != nil {
		s.request.Cancel(contextCause(s.in.ctx))
		<-s.over // comes soon
	}
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// ended returns the error of a Send after the end of the call.
func (s *CallStream) ended() error {
	if s.err != nil {
		return s.err
	}
	return io.EOF
}

// CloseSend tells the server that no more messages come.
func (s *CallStream) CloseSend() error {
	s.begin(nil)
	if s.isOver() {
		return s.err
	}
	s.request.CloseSend()
	return nil
}

// Recv implements Stream.
func (s *CallStream) Recv(msg any) error {
	s.begin(msg)
	err := s.in.next(msg)
	if err != nil {
		s.end()
	}
	return err
}

// recvOne is Recv for the only message of the server, and ends the call. The error says if the server sends another number.
func (s *CallStream) recvOne(msg any) error {
	s.begin(msg)
	err := s.in.one(msg)
	s.end()
	return err
}

// Close ends the call, if it has not ended. The server's method is cancelled.
func (s *CallStream) Close() {
	s.start.Do(func() { // nothing has begun
		s.e.Err = errCanceled
		s.fail(&s.e)
	})
	s.end()
}

// end ends the call, if it has not ended, and releases what it holds.
func (s *CallStream) end() {
	if !s.begun {
		return
	}
	s.request.Cancel(errCanceled)
	<-s.over           // comes soon
	_ = s.pipe.Close() // never fails
	if s.unhook != nil {
		s.unhook()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}
