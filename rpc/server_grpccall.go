package rpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
	"github.com/go-eddy/eddy/rpc/internal/payload"
	"github.com/go-eddy/eddy/trace"
)

// exchange is the request of a call and its response, in the words of gRPC: *http2.Exchange, or a webExchange, which
// translates.
type exchange interface {
	Peer() netip.AddrPort
	Whole() []byte
	Body() io.Reader
	Begin(status int, fields ...hpack.HeaderField) error
	Give(p []byte) error
	Send(p []byte) error
	End(fields ...hpack.HeaderField)
}

// grpcCall is one call by gRPC. The loop makes it, and then the goroutine of its method owns it, except what mu guards. It
// is the context of the method.
type grpcCall struct {
	context.Context // of the request, from Serve on

	g        *grpcPort
	x        exchange
	web      bool    // x is a webExchange, which has the header and the status apart
	get      bool    // by GET
	kind     string  // content type
	encoding string  // of the messages
	refusal  *Status // why no method is called
	status   int     // of HTTP, with a refusal; 0 = 200
	target   *target
	codec    payload.Codec
	timeout  time.Duration // 0 = none
	meta     Metadata      // of the request

	conn  *eddy.Conn     // of a call that is recorded
	trace *trace.Request // nil without a Recorder

	in     grpcwire.Reader // of a call that streams
	zip    bool            // messages of the response are compressed
	zipped bool            // messages of the request may be

	mu      sync.Mutex
	info    *CallInfo
	header  []Pair // of the response, until it is sent
	trailer []Pair
	begun   bool                 // the header is fixed
	over    bool                 // the method has returned
	fields  [6]hpack.HeaderField // memory for what is sent
}

// Value implements context.Context. CallFrom finds the call until the method has returned.
func (c *grpcCall) Value(key any) any {
	switch key.(type) {
	case callKey:
		if info := c.callInfo(); info != nil {
			return info
		}
		return nil
	case payload.AnswerKey:
		return payload.Answer[Pair](c)
	}
	if c.trace != nil {
		if v := c.trace.Value(key); v != nil {
			return v
		}
	}
	return c.Context.Value(key)
}

func (c *grpcCall) callInfo() *CallInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	if c.info == nil {
		c.info = &CallInfo{Key: c.target.reg.svc.key, Method: c.target.method.name, Codec: Codec(c.codec), Metadata: c.meta, Get: c.get, Peer: c.x.Peer()}
	}
	return c.info
}

// Serve implements http2.Call: it runs the method of a call that follow has seen.
func (c *grpcCall) Serve(x *http2.Exchange) {
	_ = c.serve(x) // the client was told
}

// serve is Serve and returns the error of the call.
func (c *grpcCall) serve(x *http2.Exchange) error {
	c.Context, c.x = x.Context(), x
	err := c.run()
	c.end(err)
	return err
}

// run runs the method, and returns the error of the call. What comes too late is no answer.
func (c *grpcCall) run() (err error) {
	switch {
	case c.refusal != nil:
		return c.refusal
	case c.target.method.stream != nil:
		c.in.Init(c.x.Body(), c.g.limit)
		return c.runStream()
	case c.target.pool == nil && !c.web: // on the loop, which a panic would end with all that it serves
		defer c.recovered(&err)
	}
	return c.unary()
}

// recovered makes a panic of the method its error. It is deferred.
func (c *grpcCall) recovered(err *error) {
	if v := recover(); v != nil {
		c.g.p.srv.log.Error("rpc: a method panicked", "service", c.target.reg.svc.key.String(), "method", c.target.method.name, "panic", v, "stack", string(debug.Stack()))
		*err = &Status{Code: CodeInternal, Message: "the method panicked"}
	}
}

// unary answers the one message of a request with one.
func (c *grpcCall) unary() error {
	msg, compressed, rest, err := grpcwire.Split(c.x.Whole(), c.g.limit)
	if err == nil {
		msg, err = c.unpack(msg, compressed)
	}
	switch {
	case err != nil:
		return c.noMessage(c.received(err))
	case len(rest) > 0:
		return c.tooMany()
	}
	out, err := c.g.p.srv.run(c, c.target.method, c.codec, msg, grpcwire.AppendPrefix(make([]byte, 0, responseGuess)))
	if err != nil {
		return err
	}
	if out, err = c.pack(out); err == nil {
		c.begin()
		err = c.cause(c.x.Give(out))
	}
	return err
}

// responseGuess is the memory that a response begins with.
const responseGuess = 256

// noMessage returns the error of a request without its message.
func (c *grpcCall) noMessage(err error) error {
	if err == io.EOF { //nolint:errorlint // Next returns it bare
		return Statusf(CodeUnimplemented, "method %s takes one message, and there is none", c.target.method.name)
	}
	return err
}

func (c *grpcCall) tooMany() error {
	return Statusf(CodeUnimplemented, "method %s takes one message", c.target.method.name)
}

// noMore waits for the end of a request that has one message.
func (c *grpcCall) noMore() error {
	switch _, err := c.next(); err {
	case io.EOF: //nolint:errorlint // next returns it bare
		return nil
	case nil:
		return c.tooMany()
	default:
		return err
	}
}

// next returns the next message, as it was before it was compressed.
func (c *grpcCall) next() ([]byte, error) {
	msg, compressed, err := c.in.Next()
	if err == nil {
		msg, err = c.unpack(msg, compressed)
	}
	return msg, c.received(err)
}

// unpack returns a message as it was before it was compressed.
func (c *grpcCall) unpack(msg []byte, compressed bool) ([]byte, error) {
	switch {
	case !compressed:
		return msg, nil
	case !c.zipped:
		return nil, Statusf(CodeInternal, "a compressed message in a call without grpc-encoding")
	}
	return grpcwire.Decompress(msg, c.g.limit) //nolint:wrapcheck // received words it
}

// received returns the error of a call whose next message is not there. io.EOF stays as it is.
func (c *grpcCall) received(err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // the Reader returns it bare
		return err
	}
	if end := c.Err(); end != nil {
		return end
	}
	if reset, ok := errors.AsType[*http2.StreamError](err); ok && reset.Remote { // the context is about to end
		return context.Canceled
	}
	if large, ok := errors.AsType[*grpcwire.TooLargeError](err); ok {
		return large
	}
	if own, ok := errors.AsType[*Status](err); ok {
		return own
	}
	if err == io.ErrUnexpectedEOF { //nolint:errorlint // bare: the end of the request, and not of what is in a message
		return Statusf(CodeInternal, "the request ends inside a message")
	}
	return Statusf(CodeInternal, "%v", err)
}

// pack completes a message with room for its prefix in front.
func (c *grpcCall) pack(b []byte) ([]byte, error) {
	if n := len(b) - grpcwire.PrefixLen; n > c.g.most {
		return nil, &grpcwire.TooLargeError{Size: n, Limit: c.g.most}
	}
	if c.zip {
		z, err := grpcwire.Compress(grpcwire.AppendPrefix(nil), b[grpcwire.PrefixLen:])
		if err != nil {
			return nil, Statusf(CodeInternal, "%v", err)
		}
		b = z
	}
	grpcwire.Finish(b, 0, c.zip)
	return b, nil
}

// cause returns why a write failed: the end of the call, if it has one.
func (c *grpcCall) cause(err error) error {
	if err == nil {
		return nil
	}
	if end := c.Err(); end != nil {
		return end
	}
	return err
}

// begin fixes the header of the response.
func (c *grpcCall) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginLocked()
}

func (c *grpcCall) beginLocked() {
	if c.begun {
		return
	}
	c.begun = true
	_ = c.x.Begin(cmp.Or(c.status, http.StatusOK), c.appendHeader(c.fields[:0])...) // the next write tells of a request that is over
}

// appendHeader appends the fields of the response's header. c.mu is held.
func (c *grpcCall) appendHeader(list []hpack.HeaderField) []hpack.HeaderField {
	list = append(list, hpack.HeaderField{Name: "content-type", Value: cmp.Or(c.kind, contentType)})
	if c.zip {
		list = append(list, hpack.HeaderField{Name: "grpc-encoding", Value: grpcwire.Gzip})
	}
	return appendPairs(list, c.header)
}

// end sends the status: behind the messages, or alone in the header.
func (c *grpcCall) end(err error) {
	s := statusOf(err)
	if errors.Is(err, errWrongRequest) {
		s.Code = CodeInternal
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if s == nil || c.web {
		c.beginLocked() // of a stream without messages
	}
	list := c.fields[:0]
	if !c.begun {
		list = c.appendHeader(list)
	}
	if s == nil {
		c.g.count(CodeOK)
		list = append(list, hpack.HeaderField{Name: "grpc-status", Value: "0"})
	} else {
		c.g.count(s.code())
		for _, p := range c.statusFields(s) {
			list = append(list, hpack.HeaderField{Name: p.Key, Value: p.Value})
		}
	}
	list = appendPairs(list, c.trailer)
	if !c.begun {
		c.begun = true
		_ = c.x.Begin(cmp.Or(c.status, http.StatusOK), list...) // an error means that nobody waits for it
		c.x.End()
		return
	}
	c.x.End(list...)
}

// SetHeader implements payload.Answer.
func (c *grpcCall) SetHeader(pairs []Pair) error {
	if err := checkPairs(pairs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun || c.over {
		return ErrHeaderSent
	}
	c.header = append(c.header, pairs...)
	return nil
}

// SendHeader implements payload.Answer.
func (c *grpcCall) SendHeader(pairs []Pair) error {
	if err := c.SetHeader(pairs); err != nil {
		return err
	}
	c.begin()
	if c.target.pool == nil && c.target.method.stream == nil {
		return nil // the loop sends it with the answer
	}
	return c.cause(c.x.Send(nil))
}

// SetTrailer implements payload.Answer.
func (c *grpcCall) SetTrailer(pairs []Pair) error {
	if err := checkPairs(pairs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return ErrHeaderSent
	}
	c.trailer = append(c.trailer, pairs...)
	return nil
}
