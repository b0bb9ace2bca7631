package rpc

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// Stream carries the messages of one call that streams. One goroutine may call Recv and another one Send at the same time.
// On a server the stream ends when the method returns; then both fail.
type Stream interface {
	// Recv waits for the next message of the other side and decodes it into msg, a pointer. The error is io.EOF when the
	// other side has sent its last one, and otherwise why the call is over. A side that does not call Recv stops its peer
	// when the window of the call is full, and nobody else.
	Recv(msg any) error
	// Send sends a message. Send returns when msg was encoded and taken over, and waits while the other side takes nothing.
	// The error says why the call is over.
	Send(msg any) error
}

// Receiver receives the messages of a stream as values of one type.
type Receiver[T any] struct{ s Stream }

// Recv is Stream.Recv that returns the message.
func (r *Receiver[T]) Recv() (*T, error) {
	msg := new(T)
	if err := r.s.Recv(msg); err != nil {
		return nil, err
	}
	return msg, nil
}

// All yields the messages up to the last one. An error ends the sequence, with a nil message.
func (r *Receiver[T]) All() iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for {
			msg, err := r.Recv()
			if errors.Is(err, io.EOF) || !yield(msg, err) || err != nil {
				return
			}
		}
	}
}

// Sender sends values of one type as the messages of a stream.
type Sender[T any] struct{ s Stream }

// Send is Stream.Send for a message of the type.
func (s *Sender[T]) Send(msg *T) error { return s.s.Send(msg) }

// StreamKind says which sides of a call send more than one message.
type StreamKind uint8

const (
	// ServerStreams takes one request and sends any number of responses.
	ServerStreams StreamKind = 1 << iota
	// ClientStreams takes any number of requests and sends one response.
	ClientStreams
	// BothStream takes and sends any number.
	BothStream = ServerStreams | ClientStreams
)

// StreamInterceptor wraps a call that streams, as an Interceptor wraps the others. It calls next once, with the ctx and the
// Stream that the rest shall see, which may be one of its own around s.
type StreamInterceptor func(ctx context.Context, call *CallInfo, s Stream, next func(ctx context.Context, s Stream) error) error

// interceptStream calls final through the interceptors, the first one outermost.
func interceptStream(ctx context.Context, list []StreamInterceptor, call *CallInfo, s Stream, final func(ctx context.Context, s Stream) error) error {
	if len(list) == 0 {
		return final(ctx, s)
	}
	return list[0](ctx, call, s, func(ctx context.Context, s Stream) error {
		return interceptStream(ctx, list[1:], call, s, final)
	})
}

// ErrNoMetadata is the error of SetHeader and SetTrailer where a response has no metadata: in a call by the frame protocol
// of a service that is not of rpc/dubbo, and outside of a call.
var ErrNoMetadata = errors.New("rpc: the responses of this call carry no metadata")

// ErrHeaderSent is the error of SetHeader when the header of the response is on its way.
var ErrHeaderSent = errors.New("rpc: the header of the response was sent")

// SetHeader adds metadata to the header of the response, which precedes its first message. ctx is that of a method. Any
// goroutine, until the method has returned. Errors: ErrNoMetadata, ErrHeaderSent, a key or value that cannot be sent.
func SetHeader(ctx context.Context, pairs ...Pair) error {
	if c, ok := ctx.Value(payload.AnswerKey{}).(payload.Answer[Pair]); ok {
		return c.SetHeader(pairs)
	}
	return ErrNoMetadata
}

// SetTrailer adds metadata to the end of the response, behind its last message or with its error. Otherwise it is like
// SetHeader.
func SetTrailer(ctx context.Context, pairs ...Pair) error {
	if c, ok := ctx.Value(payload.AnswerKey{}).(payload.Answer[Pair]); ok {
		return c.SetTrailer(pairs)
	}
	return ErrNoMetadata
}

// SendHeader adds metadata to the header of the response and sends it, before there is a message. Otherwise it is like
// SetHeader.
func SendHeader(ctx context.Context, pairs ...Pair) error {
	if c, ok := ctx.Value(payload.AnswerKey{}).(payload.Answer[Pair]); ok {
		return c.SendHeader(pairs)
	}
	return ErrNoMetadata
}
