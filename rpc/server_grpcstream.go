package rpc

import (
	"errors"
	"io"

	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// grpcStream is the Stream of a call.
type grpcStream struct {
	c     *grpcCall
	sent  int
	taken int
	buf   []byte // for messages that are sent
}

// errStreamOver is the error of a method that sends when it has returned.
var errStreamOver = errors.New("rpc: the method has returned, and with it the call has ended")

func (c *grpcCall) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// runStream runs a method that streams.
func (c *grpcCall) runStream() (err error) {
	s := &grpcStream{c: c}
	if list := c.g.p.srv.o.StreamInterceptors; len(list) == 0 {
		err = c.target.method.stream(c, s)
	} else {
		err = interceptStream(c, list, c.callInfo(), s, c.target.method.stream)
	}
	if err == nil {
		err = c.Err()
	}
	return err
}

// codecFor returns the codec of a message of a stream: bytes are what a message of protobuf is.
func (c *grpcCall) codecFor(msg any) payload.Codec {
	switch msg.(type) {
	case []byte, *[]byte:
		if c.codec == payload.Protobuf {
			return payload.Raw
		}
	}
	return c.codec
}

// Recv implements Stream.
func (s *grpcStream) Recv(msg any) error {
	c := s.c
	b, err := c.next()
	one := c.target.method.kind&ClientStreams == 0
	switch {
	case err == io.EOF && one && s.taken == 0: //nolint:errorlint // next returns it bare
		return c.noMessage(err)
	case err != nil:
		return err
	}
	s.taken++
	if err := c.codecFor(msg).Decode(b, msg); err != nil {
		return badRequest(err)
	}
	if one {
		return c.noMore()
	}
	return nil
}

// Send implements Stream.
func (s *grpcStream) Send(msg any) error {
	c := s.c
	if c.isOver() {
		return errStreamOver
	}
	if err := c.Err(); err != nil {
		return err
	}
	if s.sent++; c.target.method.kind&ServerStreams == 0 && s.sent > 1 {
		return Statusf(CodeInternal, "method %s sends one message", c.target.method.name)
	}
	out, err := c.codecFor(msg).Append(grpcwire.AppendPrefix(s.buf[:0]), msg)
	if err != nil {
		return Statusf(CodeInternal, "%v", err)
	}
	if s.buf = out; cap(out) > keptMessage {
		s.buf = nil
	}
	if out, err = c.pack(out); err != nil {
		return err
	}
	if s.sent == 1 {
		c.begin()
	}
	return c.cause(c.x.Send(out))
}

// keptMessage is the largest memory of a message that the next one uses again.
const keptMessage = 64 << 10
