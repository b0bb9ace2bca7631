package rpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
	"github.com/go-eddy/eddy/rpc/internal/webwire"
)

// webExchange is the exchange of a call by Connect or gRPC-Web: it puts the request into the words of gRPC, and the response
// out of them.
type webExchange struct {
	r         *http.Request
	kind      string // content type of the response
	form      webwire.Form
	limit     int          // bytes of a message
	get       *webwire.Get // of a call by GET
	body      webBody
	takesGzip bool

	mu     sync.Mutex // a method may send where it does not run
	w      http.ResponseWriter
	status int             // of HTTP
	head   []webwire.Field // of the response, without what names the protocol
	zip    bool
	sent   bool   // the head
	whole  []byte // a unary response by Connect, with its prefix
	over   bool
}

// takeQuery takes what a call by GET has in its query.
func (x *webExchange) takeQuery(c *grpcCall, h *grpcHead) {
	g, err := webwire.ParseGet(x.r.URL.Query())
	if err != nil {
		h.wrong = Statusf(CodeInvalidArgument, "%v", err)
	}
	x.get, x.kind, c.encoding = &g, g.ContentType, g.Compression
}

// take takes a field of the request's header.
func (x *webExchange) take(c *grpcCall, h *grpcHead, name, value string) {
	connect := x.form.IsConnect()
	switch name {
	case "content-type", "accept", "x-grpc-web", "triple-protocol-version":
		return
	case "connect-protocol-version":
		if value != "1" {
			h.wrong = Statusf(CodeInvalidArgument, "Connect-Protocol-Version %q: want 1", value)
		}
		return
	case "connect-timeout-ms", "triple-timeout-ms": // Triple is Connect by other names here
		d, err := webwire.ParseTimeout(value)
		if err != nil {
			h.wrong = Statusf(CodeInvalidArgument, "%v", err)
		}
		c.timeout = max(d, 1)
		return
	case x.field("grpc-encoding"):
		if x.get != nil {
			return
		}
		name = "grpc-encoding"
	case x.field("grpc-accept-encoding"):
		x.takesGzip = x.takesGzip || strings.Contains(value, grpcwire.Gzip)
		return
	case "content-encoding", "connect-content-encoding", "connect-accept-encoding":
		return
	default:
		if connect && strings.HasPrefix(name, "grpc-") {
			return
		}
	}
	c.take(h, name, value)
}

// field returns the name that the protocol has for a field of gRPC.
func (x *webExchange) field(name string) string {
	switch {
	case !x.form.IsConnect():
	case name == "grpc-encoding" && x.form == webwire.Unary:
		return "content-encoding"
	case name == "grpc-encoding":
		return "connect-content-encoding"
	case name == "grpc-accept-encoding" && x.form == webwire.Unary:
		return "accept-encoding"
	case name == "grpc-accept-encoding":
		return "connect-accept-encoding"
	}
	return name
}

// unfit returns why the method cannot be called in this way, with a status of HTTP; 0 if it can.
func (x *webExchange) unfit(m *Method) (why string, status int) {
	switch streams := m.stream != nil; {
	case streams && x.form == webwire.Unary:
		return "method " + m.name + " streams: want application/connect+proto or application/connect+json", http.StatusUnsupportedMediaType
	case !streams && x.form == webwire.Stream:
		return "method " + m.name + " does not stream: want application/proto or application/json", http.StatusUnsupportedMediaType
	case m.kind == BothStream && x.r.ProtoMajor < 2:
		return "method " + m.name + " streams both ways: want HTTP/2", http.StatusHTTPVersionNotSupported
	}
	return "", 0
}

// serve runs the call.
func (x *webExchange) serve(c *grpcCall) {
	c.Context, c.x = x.r.Context(), x
	if c.timeout > 0 {
		var cancel context.CancelFunc
		c.Context, cancel = context.WithTimeout(c.Context, c.timeout)
		defer cancel()
	}
	c.end(x.run(c))
}

// run runs the method. An answer that comes too late is none.
func (x *webExchange) run(c *grpcCall) (err error) {
	if c.refusal == nil {
		defer c.recovered(&err)
	}
	if err = c.run(); err == nil {
		err = c.Err()
	}
	return err
}

// Peer implements exchange.
func (x *webExchange) Peer() netip.AddrPort {
	addr, _ := netip.ParseAddrPort(x.r.RemoteAddr) // a Unix socket has none
	return addr
}

// Body implements exchange.
func (x *webExchange) Body() io.Reader {
	if x.form == webwire.GRPCText {
		return webwire.NewTextReader(&x.body)
	}
	return &x.body
}

// webBody is the body of a request, and knows whether it was read to its end.
type webBody struct {
	from  io.Reader
	ended atomic.Bool
}

// Read implements io.Reader.
func (b *webBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err == io.EOF { //nolint:errorlint // what an io.Reader returns
		b.ended.Store(true)
	}
	return n, err //nolint:wrapcheck // the caller tells errors of the stream apart
}

// leave has a connection by HTTP/1.1 end with the response if it is not known how much of the request is to come. A client
// that has sent it all would take a connection that ends later for one that it can use again.
func (x *webExchange) leave() {
	if x.r.ProtoMajor < 2 && x.r.ContentLength < 0 && !x.body.ended.Load() {
		x.w.Header().Set("Connection", "close")
	}
}

// notAllowed refuses a request by its method.
func (x *webExchange) notAllowed(allowed ...string) {
	list := strings.Join(allowed, ", ")
	x.w.Header().Set("Allow", list)
	x.refuse("this port serves calls: want one of "+list, http.StatusMethodNotAllowed)
}

// refuse answers a request that is no call.
func (x *webExchange) refuse(why string, status int) {
	if status == http.StatusUnsupportedMediaType {
		x.w.Header().Set("Accept-Post", webwire.AcceptPost)
	}
	x.leave()
	http.Error(x.w, why, status)
}

// Whole implements exchange. A body that is cut or too long is one whose message is so.
func (x *webExchange) Whole() []byte {
	var b bytes.Buffer
	if x.form != webwire.Unary {
		_, _ = b.ReadFrom(io.LimitReader(x.Body(), int64(x.limit)+grpcwire.PrefixLen+1)) // the prefix says whether it is whole
		return b.Bytes()
	}
	b.Write(grpcwire.AppendPrefix(nil))
	if x.get != nil {
		b.Write(x.get.Message)
		grpcwire.Finish(b.Bytes(), 0, x.get.Compression == grpcwire.Gzip)
		return b.Bytes()
	}
	if n := x.r.ContentLength; n > 0 && n <= int64(x.limit) {
		b.Grow(int(n) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(&x.body, int64(x.limit)+1)); err != nil {
		return b.Bytes()[:1]
	}
	grpcwire.Finish(b.Bytes(), 0, x.r.Header.Get("Content-Encoding") == grpcwire.Gzip)
	return b.Bytes()
}

// Begin implements exchange.
func (x *webExchange) Begin(status int, fields ...hpack.HeaderField) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = status
	for _, f := range fields {
		switch f.Name {
		case "content-type":
		case "grpc-encoding":
			x.zip = true
		default:
			x.head = append(x.head, webwire.Field{Name: x.field(f.Name), Value: f.Value})
		}
	}
	return nil
}

// Give implements exchange.
func (x *webExchange) Give(p []byte) error { return x.put(p, false) }

// Send implements exchange.
func (x *webExchange) Send(p []byte) error { return x.put(p, true) }

func (x *webExchange) put(p []byte, flush bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.over:
		return errStreamOver
	case x.form == webwire.Unary:
		x.whole = append(x.whole, p...)
		return x.r.Context().Err()
	}
	x.sendHead(x.status)
	if err := x.write(p); err != nil || !flush {
		return err
	}
	return http.NewResponseController(x.w).Flush() //nolint:wrapcheck // it ends the call
}

// sendHead sends the header of the response. x.mu is held.
func (x *webExchange) sendHead(status int) {
	if x.sent {
		return
	}
	x.sent = true
	h := x.w.Header()
	h.Set("Content-Type", x.kind)
	if x.zip {
		h.Set(x.field("grpc-encoding"), grpcwire.Gzip)
	}
	for _, f := range x.head {
		h.Add(f.Name, f.Value)
	}
	x.w.WriteHeader(status)
}

// write writes messages. x.mu is held.
func (x *webExchange) write(p []byte) error {
	if x.form == webwire.GRPCText {
		p = base64.StdEncoding.AppendEncode(nil, p)
	}
	_, err := x.w.Write(p)
	return err //nolint:wrapcheck // it ends the call
}

// End implements exchange. An error of the last write means that nobody waits for it.
func (x *webExchange) End(fields ...hpack.HeaderField) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if !x.sent {
		x.leave()
	}
	trailer := make([]webwire.Field, len(fields))
	for i, f := range fields {
		trailer[i] = webwire.Field{Name: f.Name, Value: f.Value}
	}
	if !x.form.IsConnect() {
		x.sendHead(x.status)
		_ = x.write(webwire.Trailer(trailer))
		return
	}
	end := webwire.ParseEnd(trailer)
	if x.form == webwire.Stream {
		x.sendHead(x.status)
		_ = x.write(end.Last())
		return
	}
	x.endUnary(&end)
}

// endUnary sends a unary response by Connect, or its error. x.mu is held.
func (x *webExchange) endUnary(end *webwire.End) {
	for _, f := range end.Metadata {
		x.head = append(x.head, webwire.Field{Name: "trailer-" + f.Name, Value: f.Value})
	}
	if end.Code == 0 {
		if len(x.whole) >= grpcwire.PrefixLen {
			x.whole = x.whole[grpcwire.PrefixLen:]
		}
		x.sendHead(x.status)
		_, _ = x.w.Write(x.whole)
		return
	}
	if end.RetryAfter > 0 {
		x.head = append(x.head, webwire.Field{Name: "retry-after", Value: strconv.Itoa(end.RetryAfter)})
	}
	x.zip, x.kind = false, "application/json"
	status := x.status
	if status == http.StatusOK {
		status = webwire.HTTPStatus(end.Code)
	}
	x.sendHead(status)
	_, _ = x.w.Write(end.Error())
}
