package rpc

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// grpcMethod is what the requests of a method have in common.
type grpcMethod struct {
	service string // the key as it travels
	bad     error  // of the key
	fields  []hpack.HeaderField
}

// The places of those fields that differ from request to request.
const (
	atScheme    = 1
	atAuthority = 3
	atKind      = 4
)

// mostMethods bounds the methods that a client remembers. Others are made for each call.
const mostMethods = 1000

type grpcMethods struct {
	mu sync.RWMutex
	of map[methodKey]*grpcMethod
}

type methodKey struct {
	key    Key
	method string
}

// method returns what the requests of a method have in common.
func (cl *GRPCClient) method(key Key, method string) *grpcMethod {
	k := methodKey{key, method}
	cl.methods.mu.RLock()
	m := cl.methods.of[k]
	cl.methods.mu.RUnlock()
	if m != nil {
		return m
	}
	m = cl.newMethod(key, method)
	cl.methods.mu.Lock()
	defer cl.methods.mu.Unlock()
	if cl.methods.of == nil {
		cl.methods.of = make(map[methodKey]*grpcMethod)
	}
	if len(cl.methods.of) < mostMethods {
		cl.methods.of[k] = m
	}
	return m
}

func (cl *GRPCClient) newMethod(key Key, method string) *grpcMethod {
	m := &grpcMethod{service: key.String(), bad: key.Validate()}
	add := func(name, value string) { m.fields = append(m.fields, hpack.HeaderField{Name: name, Value: value}) }
	add(":method", http.MethodPost)
	add(":scheme", "")
	add(":path", (&url.URL{Path: "/" + key.Interface + "/" + method}).RequestURI())
	add(":authority", "")
	add("content-type", "")
	add("te", "trailers")
	add("user-agent", "grpc-eddy")
	add("grpc-accept-encoding", grpcwire.Gzip)
	if cl.o.Gzip {
		add("grpc-encoding", grpcwire.Gzip)
	}
	if key.Group != "" {
		add("tri-service-group", key.Group)
	}
	if key.Version != "" {
		add("tri-service-version", key.Version)
	}
	return m
}

// fields appends the header section of a request to dst, which is empty. Its target is missing.
func (cl *GRPCClient) fields(dst []hpack.HeaderField, in *grpcInput, m *grpcMethod, kind string) ([]hpack.HeaderField, error) {
	switch {
	case cl.closed.Load():
		return nil, ErrClosed
	case in.ctx.Err() != nil:
		return nil, contextCause(in.ctx)
	case !in.by.IsZero() && time.Until(in.by) <= 0:
		return nil, errDeadline
	case m.bad != nil:
		return nil, m.bad
	}
	if err := checkPairs(in.o.meta); err != nil {
		return nil, err
	}
	list := append(dst, m.fields...)
	list[atKind].Value = kind
	switch {
	case in.by.IsZero():
	case in.left == cl.o.Timeout:
		list = append(list, hpack.HeaderField{Name: "grpc-timeout", Value: cl.usual})
	default: // hardly the same twice, so no table remembers it
		list = append(list, hpack.HeaderField{Name: "grpc-timeout", Value: string(grpcwire.AppendTimeout(nil, in.left)), Sensitive: true})
	}
	return appendPairs(list, withClass(in.ctx, in.o.meta)), nil
}

// until sets the deadline of the call: that of its context, or the timeout if that ends before; 0 and less are none. own
// reports that the context does not end at the deadline.
func (in *grpcInput) until(timeout time.Duration) (own bool) {
	now := time.Now()
	by, ok := in.ctx.Deadline()
	if ok {
		in.by, in.left = by, by.Sub(now)
	}
	if timeout <= 0 || ok && in.left <= timeout {
		return false
	}
	in.by, in.left = now.Add(timeout), timeout
	return true
}
