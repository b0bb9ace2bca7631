package rpc

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// DefaultStreams is how many calls by gRPC a connection may have open if PortOptions.InFlight does not say.
const DefaultStreams = 1024

// grpcPort serves the methods of a port by gRPC and, with web, by Connect and gRPC-Web.
type grpcPort struct {
	p        *port
	http     *http2.Factory
	web      *webPort                             // nil if the port does not serve it
	table    atomic.Pointer[map[string][]*target] // by path, /interface/method; several for several groups and versions
	limit    int                                  // bytes of a request's message
	most     int                                  // of a response's
	answered [codes]atomic.Uint64
}

// buildGRPC makes what the port's connections by HTTP/2 share.
func (p *port) buildGRPC() {
	g := &grpcPort{p: p, limit: cmp.Or(p.o.MaxPayload, frame.DefaultMaxPayload)}
	g.most = cmp.Or(p.o.MaxResponse, g.limit)
	g.table.Store(&map[string][]*target{})
	o := http2.Options{
		MaxStreams:    cmp.Or(p.o.InFlight, DefaultStreams),
		MaxBody:       -1, // each message has a limit
		HeaderTimeout: cmp.Or(p.o.ReadTimeout, frame.DefaultReadTimeout),
		BodyTimeout:   -1, // a stream may be silent
		IdleTimeout:   cmp.Or(p.o.IdleTimeout, frame.DefaultIdleTimeout),
		MaxAge:        p.o.MaxAge,
		MaxAgeGrace:   p.o.MaxAgeGrace,
	}
	if p.speaks(ProtocolGRPC) {
		o.Calls = g.follow
	}
	g.traced(&o)
	var handler http.Handler
	if p.speaks(ProtocolWeb) {
		g.web = newWeb(g)
		handler, o.Route = g.web, g.web.route
	}
	g.http = http2.NewHandler(handler, p.pool, o)
	p.grpc = g
}

// export adds a service's methods, in a copy of the table that the loops read.
func (g *grpcPort) export(r *registration, methods map[string]*target) {
	table := make(map[string][]*target)
	for path, list := range *g.table.Load() {
		table[path] = list
	}
	for name, t := range methods {
		path := "/" + r.svc.key.Interface + "/" + name
		table[path] = append(table[path][:len(table[path]):len(table[path])], t)
	}
	g.table.Store(&table)
}

// find returns the method of a request, or why there is none. Among services of one interface the headers of Triple choose.
// Without them it is the one without group and version, or the only one.
func (g *grpcPort) find(path, group, version string) (*target, *Status) {
	list := (*g.table.Load())[path]
	if len(list) == 0 {
		return nil, Statusf(CodeUnimplemented, "no method %s", path)
	}
	for _, t := range list {
		if k := t.reg.svc.key; k.Group == group && k.Version == version {
			return t, nil
		}
	}
	if group == "" && version == "" && len(list) == 1 {
		return list[0], nil
	}
	return nil, Statusf(CodeUnimplemented, "method %s has %d services, none of group %q and version %q", path, len(list), group, version)
}

// codecOfType returns the codec that a content type names. Bytes of any other name are for methods that are given bytes.
func codecOfType(value string) (c payload.Codec, ours, ok bool) {
	value, _, _ = strings.Cut(value, ";")
	switch strings.TrimSpace(value) {
	case contentType, contentType + "+proto":
		return payload.Protobuf, true, true
	case contentType + "+json":
		return payload.JSON, true, true
	case contentType + "+raw":
		return payload.Raw, true, true
	}
	return payload.Raw, false, strings.HasPrefix(value, contentType+"+")
}

// follow is Options.Calls of the port: it makes the call of a request and chooses where it runs. Loop only.
func (g *grpcPort) follow(h http2.Head) http2.Followed {
	c := &grpcCall{g: g}
	to := http2.Followed{Call: c}
	if c.refusal = c.admitHead(h); c.refusal != nil {
		if c.status != 0 && g.web != nil { // no call by gRPC
			return http2.Followed{}
		}
		to.Pool = g.p.srv.small
		return to
	}
	m := c.target.method
	if m.stream == nil {
		to.Await = g.limit + grpcwire.PrefixLen
		to.Within = cmp.Or(g.p.o.ReadTimeout, frame.DefaultReadTimeout)
	}
	if to.Class = c.target.reg.class; g.p.o.TrustClass {
		said, _ := c.meta.Get(limit.Field)
		to.Class = c.target.classOf(said)
	}
	if to.Pool = c.target.pool; to.Pool == nil {
		to.OnLoop = m.stream == nil // who streams waits
		to.Pool = g.p.pool
	}
	to.Timeout = c.timeout
	return to
}

// grpcHead is what the header of a request says beside what the call keeps.
type grpcHead struct {
	method, path   string
	group, version string  // of Triple
	wrong          *Status // what is wrong with a field
	missing        bool    // there is no such method
}

// take takes a field of the request's header, whose name is in lower case.
func (c *grpcCall) take(h *grpcHead, name, value string) {
	switch name {
	case "content-type":
		c.kind = value
	case "grpc-timeout":
		d, err := grpcwire.ParseTimeout(value)
		if err != nil {
			h.wrong = Statusf(CodeInvalidArgument, "%v", err)
		}
		c.timeout = max(d, 1)
	case "grpc-encoding":
		c.encoding = value
	case "tri-service-group": // Triple's name for what chooses among services of one interface
		h.group = value
		c.meta = appendReceived(c.meta, name, value)
	case "tri-service-version":
		h.version = value
		c.meta = appendReceived(c.meta, name, value)
	default:
		if !grpcwire.Reserved(name) {
			c.meta = appendReceived(c.meta, name, value)
		}
	}
}

// admitHead chooses the method of a request by gRPC.
func (c *grpcCall) admitHead(h http2.Head) *Status {
	head := grpcHead{method: h.Method(), path: h.Path()}
	for name, value := range h.All() {
		c.take(&head, name, value)
	}
	return c.admit(&head)
}

// admit chooses the method and counts the call, or returns why it is not taken.
func (c *grpcCall) admit(h *grpcHead) *Status {
	codec, ours, ok := codecOfType(c.kind)
	if !ok || h.method != http.MethodPost {
		return c.unsupported("this port serves gRPC: want POST with the content type %s", contentType)
	}
	if h.wrong != nil {
		return h.wrong
	}
	t, missing := c.g.find(h.path, h.group, h.version)
	if missing != nil {
		h.missing = true
		return missing
	}
	if m := t.method; !ours && m.raw == nil {
		return c.unsupported("method %s takes no %s", h.path, c.kind)
	} else if !m.takes[codec] {
		return Statusf(CodeUnimplemented, "method %s takes no %v", h.path, Codec(codec))
	}
	if c.zipped = c.encoding == grpcwire.Gzip; !c.zipped && c.encoding != "" && c.encoding != "identity" {
		c.header = append(c.header, Pair{"grpc-accept-encoding", grpcwire.Gzip})
		return Statusf(CodeUnimplemented, "messages in %q: this server takes %s and identity", c.encoding, grpcwire.Gzip)
	}
	if own := t.reg.timeout; own > 0 && (c.timeout == 0 || own < c.timeout) {
		c.timeout = own
	}
	if err := t.reg.enter(); err != nil {
		return statusOf(err)
	}
	c.codec, c.target, c.zip = codec, t, c.zipped
	return nil
}

// unsupported is the refusal of a content type.
func (c *grpcCall) unsupported(format string, args ...any) *Status {
	c.status = http.StatusUnsupportedMediaType
	return Statusf(CodeInvalidArgument, format, args...)
}

// Over implements http2.Call.
func (c *grpcCall) Over() {
	if c.target != nil {
		c.target.reg.leave(nil)
	}
}

// Refused implements http2.Call and gives an answer of the server the words of gRPC.
func (c *grpcCall) Refused(w *http1.LoopResponse, status int, why string) {
	s := &Status{Code: CodeUnavailable, Message: why}
	switch status {
	case http.StatusServiceUnavailable:
		s.Code, s.RetryAfter = CodeResourceExhausted, c.g.p.srv.o.RetryAfter
		if c.target != nil && c.target.pool != nil {
			s.RetryAfter = cmp.Or(c.target.pool.RetryAfter(), s.RetryAfter)
		}
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		s.Code = CodeDeadlineExceeded
	case http.StatusRequestEntityTooLarge:
		s.Code, s.Message = CodeResourceExhausted, fmt.Sprintf("a message over the limit of %d bytes", c.g.limit)
	case http.StatusInternalServerError:
		s.Code = CodeInternal
	}
	c.g.count(s.Code)
	w.Status, w.Body = http.StatusOK, w.Body[:0]
	w.AddHeader("content-type", cmp.Or(c.kind, contentType))
	for _, p := range c.statusFields(s) {
		w.AddHeader(p.Key, p.Value)
	}
}

// count counts a call that was answered.
func (g *grpcPort) count(code Code) {
	if code < codes {
		g.answered[code].Add(1)
	}
}

// counts returns how many calls were answered, by code.
func (g *grpcPort) counts() map[Code]uint64 {
	if g == nil {
		return nil
	}
	m := make(map[Code]uint64, codes)
	for c := range codes {
		m[c] = g.answered[c].Load()
	}
	return m
}

// chooser stands in front of the handlers of the frame protocol, if the port speaks it, until the client has shown which
// protocol it speaks.
type chooser struct{ p *port }

// chooserName is the name of the chooser in a pipeline.
const chooserName = "protocols"

// Decode implements eddy.Decoder. It consumes nothing: what it has seen goes to the handlers of the protocol.
func (c chooser) Decode(ctx *eddy.Context, view []byte) (int, error) {
	n := min(len(view), len(http2.Preface))
	frames, web := c.p.speaks(ProtocolFrame), c.p.grpc.web
	install := c.p.grpc.http.Replace
	switch l := ctx.Pipeline(); {
	case string(view[:n]) == http2.Preface[:n]:
		if n < len(http2.Preface) {
			return 0, nil
		}
	case web != nil && (!frames || 'A' <= view[0] && view[0] <= 'Z'): // a method of HTTP; frames begin otherwise
		install = web.h1.Replace
	default:
		return 0, l.Remove(chooserName)
	}
	if frames {
		if err := frame.Withdraw(ctx.Pipeline()); err != nil {
			return 0, err
		}
	}
	return 0, install(ctx.Pipeline(), chooserName)
}

// statusFields returns the fields of a status, for a trailer.
func (c *grpcCall) statusFields(s *Status) []Pair {
	list := []Pair{{"grpc-status", strconv.FormatUint(uint64(s.code()), 10)}}
	if s.Message != "" {
		list = append(list, Pair{"grpc-message", grpcwire.EscapeMessage(clip(s.Message))})
	}
	if details, err := s.details(); err != nil {
		c.g.p.srv.log.Warn("rpc: a status goes out without its details", "err", err)
	} else if details != nil {
		list = append(list, Pair{"grpc-status-details-bin", grpcwire.EncodeBinary(string(details))})
	}
	if s.RetryAfter > 0 {
		list = append(list, Pair{"grpc-retry-pushback-ms", strconv.FormatInt(max(s.RetryAfter.Milliseconds(), 1), 10)})
	}
	return list
}
