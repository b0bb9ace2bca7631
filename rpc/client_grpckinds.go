package rpc

import (
	"context"
	"errors"
	"io"
	"iter"
)

// ErrNoStreams is the error of a call that streams with a *Client: the frame protocol has no streams, a GRPCClient has.
var ErrNoStreams = errors.New("rpc: the frame protocol has no streams, use a GRPCClient")

// ServerStreamCall is a call of a ServerStream method, as its caller sees it. The call holds memory until Recv has
// returned an error, All has ended by itself, its context has ended or Close was called.
type ServerStreamCall[Resp any] struct{ s *CallStream }

// OpenServerStream begins a call that sends req and receives any number of responses. Otherwise it is like OpenStream. With
// a *Client the error is ErrNoStreams.
func OpenServerStream[Resp any](ctx context.Context, cl Caller, key Key, method string, req any, opts ...CallOption) (*ServerStreamCall[Resp], error) {
	s, err := openBy(ctx, cl, key, method, opts)
	if err != nil {
		return nil, err
	}
	if err = s.Send(req); err == nil {
		err = s.CloseSend()
	}
	if err != nil && err != io.EOF { //nolint:errorlint // Send returns it bare; Recv tells why
		s.Close()
		return nil, err
	}
	return &ServerStreamCall[Resp]{s}, nil
}

// Recv returns the next response. The error is io.EOF after the last one, and otherwise why the call is over.
func (c *ServerStreamCall[Resp]) Recv() (*Resp, error) { return ReceiverOf[Resp](c.s).Recv() }

// All yields the responses up to the last one. An error ends the sequence, with a nil response.
func (c *ServerStreamCall[Resp]) All() iter.Seq2[*Resp, error] { return ReceiverOf[Resp](c.s).All() }

// Close ends the call, if it has not ended. The server's method is cancelled.
func (c *ServerStreamCall[Resp]) Close() { c.s.Close() }

// ClientStreamCall is a call of a ClientStream method, as its caller sees it. The call holds memory until CloseAndRecv has
// returned, its context has ended or Close was called.
type ClientStreamCall[Req, Resp any] struct{ s *CallStream }

// OpenClientStream begins a call that sends any number of requests and receives one response. Otherwise it is like
// OpenStream. With a *Client the error is ErrNoStreams.
func OpenClientStream[Req, Resp any](ctx context.Context, cl Caller, key Key, method string, opts ...CallOption) (*ClientStreamCall[Req, Resp], error) {
	s, err := openBy(ctx, cl, key, method, opts)
	if err != nil {
		return nil, err
	}
	return &ClientStreamCall[Req, Resp]{s}, nil
}

// Send sends a request, and waits while the server takes nothing. After the server has ended the call the error is io.EOF,
// and CloseAndRecv tells why.
func (c *ClientStreamCall[Req, Resp]) Send(req *Req) error { return c.s.Send(req) }

// CloseAndRecv tells the server that no more requests come, waits for the response and ends the call.
func (c *ClientStreamCall[Req, Resp]) CloseAndRecv() (*Resp, error) {
	defer c.s.Close()
	c.s.begin(new(Req)) // the codec is that of requests, even if there was none
	if err := c.s.CloseSend(); err != nil {
		return nil, err
	}
	resp := new(Resp)
	if err := c.s.recvOne(resp); err != nil {
		return nil, err
	}
	return resp, nil
}

// Close ends the call, if it has not ended. The server's method is cancelled.
func (c *ClientStreamCall[Req, Resp]) Close() { c.s.Close() }

// BidiStreamCall is a call of a BidiStream method, as its caller sees it. One goroutine may call Recv or All, and another
// one Send and CloseSend, at the same time. The call holds memory until Recv has returned an error, All has ended by
// itself, its context has ended or Close was called.
type BidiStreamCall[Req, Resp any] struct{ s *CallStream }

// OpenBidiStream begins a call that sends and receives any number of messages. Otherwise it is like OpenStream. With a
// *Client the error is ErrNoStreams.
func OpenBidiStream[Req, Resp any](ctx context.Context, cl Caller, key Key, method string, opts ...CallOption) (*BidiStreamCall[Req, Resp], error) {
	s, err := openBy(ctx, cl, key, method, opts)
	if err != nil {
		return nil, err
	}
	return &BidiStreamCall[Req, Resp]{s}, nil
}

// Send sends a request, and waits while the server takes nothing. After the server has ended the call the error is io.EOF,
// and Recv tells why.
func (c *BidiStreamCall[Req, Resp]) Send(req *Req) error { return c.s.Send(req) }

// CloseSend tells the server that no more requests come.
func (c *BidiStreamCall[Req, Resp]) CloseSend() error {
	c.s.begin(new(Req)) // the codec is that of requests, even if there was none
	return c.s.CloseSend()
}

// Recv returns the next response. The error is io.EOF after the last one, and otherwise why the call is over.
func (c *BidiStreamCall[Req, Resp]) Recv() (*Resp, error) { return ReceiverOf[Resp](c.s).Recv() }

// All yields the responses up to the last one. An error ends the sequence, with a nil response.
func (c *BidiStreamCall[Req, Resp]) All() iter.Seq2[*Resp, error] { return ReceiverOf[Resp](c.s).All() }

// Close ends the call, if it has not ended. The server's method is cancelled.
func (c *BidiStreamCall[Req, Resp]) Close() { c.s.Close() }

// openBy is OpenStream with any client of this package.
func openBy(ctx context.Context, cl Caller, key Key, method string, opts []CallOption) (*CallStream, error) {
	g, ok := cl.(*GRPCClient)
	if !ok {
		return nil, &Error{Service: key.String(), Method: method, Executed: ExecutedNo, Err: ErrNoStreams}
	}
	return OpenStream(ctx, g, key, method, opts...)
}
