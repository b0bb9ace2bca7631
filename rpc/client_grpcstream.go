package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// CallStream is a call that streams, as its caller sees it. One goroutine may call Recv, and another one Send and
// CloseSend, at the same time. The call holds memory until Recv has returned an error, its context has ended or Close was
// called.
type CallStream struct {
	cl     *GRPCClient
	e      Error
	o      *callOptions
	ctx    context.Context
	cancel context.CancelFunc
	key    Key
	method string

	out   *io.PipeWriter
	start sync.Once
	codec payload.Codec
	ready chan struct{} // closed when there is a response or an error
	in    *grpcInput    // after ready
	err   error         // after ready: why there is no response
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
	s := &CallStream{cl: cl, o: o, key: key, method: method, ready: make(chan struct{})}
	s.e = Error{Service: key.String(), Method: method, Executed: ExecutedNo}
	if err := key.Validate(); err != nil {
		s.e.Err = err
		return nil, &s.e
	}
	if o.timeout > 0 {
		s.ctx, s.cancel = context.WithTimeout(ctx, o.timeout)
	} else {
		s.ctx, s.cancel = context.WithCancel(ctx)
	}
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
		s.codec = codec
		r, err := s.cl.request(s.ctx, s.key, s.method, kind, s.o)
		if err != nil {
			s.e.Err = err
			s.err = &s.e
			s.cancel()
			close(s.ready)
			return
		}
		s.cl.aim(r)
		body, out := io.Pipe()
		s.out, r.Body, r.ContentLength = out, body, -1
		go s.run(r)
	})
}

// run waits for the response. It ends with the call's context at the latest.
func (s *CallStream) run(r *http.Request) {
	resp, err := s.cl.o.Transport.RoundTrip(r) //nolint:bodyclose // Recv and Close do
	if err != nil {
		s.err = s.cl.lost(s.ctx, &s.e, err)
		_ = s.out.CloseWithError(s.err) // never fails
		s.cancel()
	} else {
		s.e.Executed = ExecutedMaybe
		s.in = &grpcInput{ctx: s.ctx, e: &s.e, o: s.o, codec: s.codec, resp: resp, limit: s.cl.o.MaxPayload}
		s.in.messages.Init(resp.Body, s.cl.o.MaxPayload)
	}
	close(s.ready)
}

// Send implements Stream. After the server has ended the call the error is io.EOF, and Recv tells why.
func (s *CallStream) Send(msg any) error {
	s.begin(msg)
	if s.out == nil {
		return s.err
	}
	b, err := s.cl.pack(s.codec, msg)
	if err != nil {
		return &Error{Service: s.key.String(), Method: s.method, Err: encodeError{err}}
	}
	switch _, err := s.out.Write(b); {
	case err == nil:
		return nil
	case err == io.EOF, err == io.ErrClosedPipe: //nolint:errorlint // what end and the Transport leave
		return io.EOF
	default:
		if lost, ok := errors.AsType[*Error](err); ok {
			return lost // of run
		}
		return &Error{Service: s.key.String(), Method: s.method, Err: err}
	}
}

// CloseSend tells the server that no more messages come.
func (s *CallStream) CloseSend() error {
	s.begin(nil)
	if s.out == nil {
		return s.err
	}
	return s.out.Close() //nolint:wrapcheck // never fails
}

// Recv implements Stream.
func (s *CallStream) Recv(msg any) error {
	if err := s.await(msg); err != nil {
		return err
	}
	err := s.in.next(msg)
	if err != nil {
		s.end(io.EOF)
	}
	return err
}

// recvOne is Recv for the only message of the server, and ends the call. The error says if the server sends another number.
func (s *CallStream) recvOne(msg any) error {
	if err := s.await(msg); err != nil {
		return err
	}
	err := s.in.one(msg)
	s.end(io.EOF)
	return err
}

// await waits for the response, or returns why there is none. Messages are like msg.
func (s *CallStream) await(msg any) error {
	s.begin(msg)
	select {
	case <-s.ready:
	case <-s.ctx.Done():
		<-s.ready // RoundTrip ends with it
	}
	return s.err
}

// Close ends the call, if it has not ended. The server's method is cancelled.
func (s *CallStream) Close() {
	s.start.Do(func() { // nothing has begun
		s.e.Err = errCanceled
		s.err = &s.e
		close(s.ready)
	})
	s.end(errCanceled)
}

// end releases what the call holds. Later sends fail with err.
func (s *CallStream) end(err error) {
	if s.out != nil {
		_ = s.out.CloseWithError(err) // never fails
	}
	s.cancel()
	<-s.ready
	if s.in != nil {
		s.in.resp.Body.Close()
	}
}
