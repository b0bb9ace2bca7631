package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// grpcCall is one call by gRPC. The loop makes it, and then the goroutine of its method owns it, except what mu guards. It
// is the context of the method.
type grpcCall struct {
	context.Context // of the request, from ServeHTTP on

	g       *grpcPort
	method  string  // of HTTP
	kind    string  // content type
	refusal *Status // why no method is called
	status  int     // of HTTP, with a refusal; 0 = 200
	target  *target
	codec   payload.Codec
	timeout time.Duration // 0 = none

	r     *http.Request
	w     http.ResponseWriter
	flush func() error
	in    grpcwire.Reader
	out   []byte // memory for a message
	zip   bool   // messages of the response are compressed

	mu      sync.Mutex
	info    *CallInfo
	header  []Pair // of the response, until it is sent
	trailer []Pair
	begun   bool // the header was sent
	over    bool // the method has returned
}

// Value implements context.Context. CallFrom finds the call until the method has returned.
func (c *grpcCall) Value(key any) any {
	switch key.(type) {
	case callKey:
		if info := c.callInfo(); info != nil {
			return info
		}
		return nil
	case responseKey:
		return responseMetadata(c)
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
		peer, _ := netip.ParseAddrPort(c.r.RemoteAddr)
		c.info = &CallInfo{Key: c.target.reg.svc.key, Method: c.target.method.name, Codec: Codec(c.codec), Metadata: requestMetadata(c.r.Header), Peer: peer}
	}
	return c.info
}

// requestMetadata returns the metadata of a header: the fields that are not the protocol's. Values of -bin fields are
// decoded; those that are no base64 are left out.
func requestMetadata(h http.Header) Metadata {
	var m Metadata
	for key, values := range h {
		name := strings.ToLower(key)
		if grpcwire.Reserved(name) {
			continue
		}
		for _, v := range values {
			if !strings.HasSuffix(name, grpcwire.BinarySuffix) {
				m = append(m, Pair{name, v})
				continue
			}
			for part := range strings.SplitSeq(v, ",") {
				if b, err := grpcwire.DecodeBinary(strings.TrimSpace(part)); err == nil {
					m = append(m, Pair{name, b})
				}
			}
		}
	}
	return m
}

// ServeHTTP implements http.Handler: it runs the method of a call that follow has seen.
func (g *grpcPort) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := http2.CallFrom(r.Context()).(*grpcCall)
	if !ok {
		http.Error(w, "this port serves calls by gRPC only", http.StatusNotFound)
		return
	}
	c.Context, c.r, c.w = r.Context(), r, w
	if f, ok := w.(interface{ FlushError() error }); ok {
		c.flush = f.FlushError
	}
	c.in.Init(r.Body, g.limit)
	c.zip = r.Header.Get("Grpc-Encoding") == grpcwire.Gzip
	c.end(c.run())
}

// run runs the method, and returns the error of the call.
func (c *grpcCall) run() (err error) {
	switch {
	case c.refusal != nil:
		return c.refusal
	case c.target.pool == nil && c.target.method.stream == nil: // on the loop
		defer func() {
			if v := recover(); v != nil {
				c.g.p.srv.log.Error("rpc: a method panicked on the loop", "service", c.target.reg.svc.key.String(), "method", c.target.method.name, "panic", v, "stack", string(debug.Stack()))
				err = &Status{Code: CodeInternal, Message: "the method panicked"}
			}
		}()
	}
	if encoding := c.r.Header.Get("Grpc-Encoding"); encoding != "" && encoding != "identity" && !c.zip {
		c.header = append(c.header, Pair{"grpc-accept-encoding", grpcwire.Gzip})
		return Statusf(CodeUnimplemented, "messages in %q: this server takes %s and identity", encoding, grpcwire.Gzip)
	}
	if c.target.method.stream != nil {
		return c.runStream()
	}
	return c.unary()
}

// unary answers the one message of a request with one.
func (c *grpcCall) unary() error {
	msg, err := c.next()
	if err != nil {
		return c.noMessage(err)
	}
	out := grpcwire.AppendPrefix(c.out[:0])
	if c.out, err = c.g.p.srv.run(c, c.target.method, c.codec, msg, out); err != nil {
		return err
	}
	if _, _, err := c.in.Next(); err != io.EOF { //nolint:errorlint // Next returns it bare
		return Statusf(CodeUnimplemented, "method %s takes one message", c.target.method.name)
	}
	return c.write(c.out)
}

// noMessage returns the error of a request without its message.
func (c *grpcCall) noMessage(err error) error {
	if err == io.EOF { //nolint:errorlint // Next returns it bare
		return Statusf(CodeUnimplemented, "method %s takes one message, and there is none", c.target.method.name)
	}
	return err
}

// next returns the next message, as it was before it was compressed.
func (c *grpcCall) next() ([]byte, error) {
	msg, compressed, err := c.in.Next()
	switch {
	case err == nil && compressed && !c.zip:
		return nil, Statusf(CodeInternal, "a compressed message in a call without grpc-encoding")
	case err == nil && compressed:
		if msg, err = grpcwire.Decompress(msg, c.g.limit); err != nil {
			return nil, err
		}
		return msg, nil
	case err == nil, err == io.EOF: //nolint:errorlint // Next returns it bare
		return msg, err
	}
	if end := c.Err(); end != nil {
		return nil, end
	}
	if large, ok := errors.AsType[*grpcwire.TooLargeError](err); ok {
		return nil, large
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, Statusf(CodeInternal, "the request ends inside a message")
	}
	return nil, Statusf(CodeInternal, "%v", err)
}

// write sends a message whose prefix has room at the start of b. Its compressed form replaces it.
func (c *grpcCall) write(b []byte) error {
	if n := len(b) - grpcwire.PrefixLen; n > c.g.limit {
		return &grpcwire.TooLargeError{Size: n, Limit: c.g.limit}
	}
	if c.zip {
		z, err := grpcwire.Compress(grpcwire.AppendPrefix(nil), b[grpcwire.PrefixLen:])
		if err != nil {
			return Statusf(CodeInternal, "%v", err)
		}
		b = z
	}
	grpcwire.Finish(b, 0, c.zip)
	c.begin()
	_, err := c.w.Write(b)
	return c.cause(err)
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
	if c.begun {
		return
	}
	c.begun = true
	h := c.w.Header()
	h["Content-Type"] = []string{cmp.Or(c.kind, contentType)}
	if c.zip {
		h["Grpc-Encoding"] = []string{grpcwire.Gzip}
	}
	addFields(h, "", c.header)
}

// addFields adds metadata to a header, under keys with a prefix.
func addFields(h http.Header, prefix string, pairs []Pair) {
	for _, p := range pairs {
		v := p.Value
		if strings.HasSuffix(p.Key, grpcwire.BinarySuffix) {
			v = grpcwire.EncodeBinary(v)
		}
		key := prefix + http.CanonicalHeaderKey(p.Key)
		h[key] = append(h[key], v)
	}
}

// end sends the status, behind the messages or alone in the header.
func (c *grpcCall) end(err error) {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	s := statusOf(err)
	if errors.Is(err, errWrongRequest) {
		s.Code = CodeInternal
	}
	prefix := http.TrailerPrefix
	if !c.begun && s != nil { // a header section that ends the response
		prefix = ""
	}
	c.begin()
	h := c.w.Header()
	if s == nil {
		h[prefix+"Grpc-Status"] = statusOK
		c.g.count(CodeOK)
	} else {
		c.g.count(s.code())
		for _, p := range c.statusFields(s) {
			h[prefix+http.CanonicalHeaderKey(p.Key)] = []string{p.Value}
		}
	}
	addFields(h, prefix, c.trailer)
	if c.status != 0 {
		c.w.WriteHeader(c.status)
	}
}

// statusOK is the value of grpc-status of calls that have succeeded.
var statusOK = []string{"0"} //nolint:gochecknoglobals // never written

// setHeader implements responseMetadata.
func (c *grpcCall) setHeader(pairs []Pair) error {
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

// sendHeader implements responseMetadata.
func (c *grpcCall) sendHeader(pairs []Pair) error {
	if err := c.setHeader(pairs); err != nil {
		return err
	}
	c.begin()
	if c.target.pool == nil && c.target.method.stream == nil {
		return nil // the loop sends it with the answer
	}
	return c.cause(c.flush())
}

// setTrailer implements responseMetadata.
func (c *grpcCall) setTrailer(pairs []Pair) error {
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

// checkPairs returns what of some metadata cannot be sent.
func checkPairs(pairs []Pair) error {
	for _, p := range pairs {
		name := strings.ToLower(p.Key)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("rpc: the metadata key %q is no name of a header field", p.Key)
		case grpcwire.Reserved(name):
			return fmt.Errorf("rpc: the metadata key %q belongs to the protocol", p.Key)
		case !strings.HasSuffix(name, grpcwire.BinarySuffix) && !plainText(p.Value):
			return fmt.Errorf("rpc: the metadata value %q of %q is not printable ASCII: a key with the suffix -bin takes any bytes", clip(p.Value), p.Key)
		}
	}
	return nil
}

func plainText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// grpcStream is the Stream of a call.
type grpcStream struct {
	c     *grpcCall
	sent  int
	taken int
}

// errStreamOver is the error of a method that sends when it has returned.
var errStreamOver = errors.New("rpc: the method has returned, and with it the call has ended")

func (c *grpcCall) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// runStream runs a method that streams.
func (c *grpcCall) runStream() error {
	s := &grpcStream{c: c}
	list := c.g.p.srv.o.StreamInterceptors
	if len(list) == 0 {
		return c.target.method.stream(c, s)
	}
	return interceptStream(c, list, c.callInfo(), s, c.target.method.stream)
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
	if s.taken++; one && s.taken > 1 {
		return Statusf(CodeUnimplemented, "method %s takes one message", c.target.method.name)
	}
	if err := c.codec.Decode(b, msg); err != nil {
		return badRequest(err)
	}
	return nil
}

// Send implements Stream.
func (s *grpcStream) Send(msg any) error {
	c := s.c
	if c.isOver() {
		return errStreamOver
	}
	if s.sent++; c.target.method.kind&ServerStreams == 0 && s.sent > 1 {
		return Statusf(CodeInternal, "method %s sends one message", c.target.method.name)
	}
	out, err := c.codec.Append(grpcwire.AppendPrefix(c.out[:0]), msg)
	if err != nil {
		return Statusf(CodeInternal, "%v", err)
	}
	c.out = out
	if err := c.write(out); err != nil || c.target.method.kind&ServerStreams == 0 {
		return err
	}
	return c.cause(c.flush())
}
