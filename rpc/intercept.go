package rpc

import (
	"context"
	"net/netip"
)

// Interceptor wraps a call: on a server the method, after the request was decoded; on a client the whole call. An
// interceptor calls next once, with the ctx and req that the rest shall see, or answers itself. req and the result are
// pointers, or []byte for a Raw method; req is nil for a method without a parameter. A server's interceptor runs where
// the method does, a client's where ClientOptions.Interceptors says. Many goroutines may call it at once.
type Interceptor func(ctx context.Context, call *CallInfo, req any, next func(ctx context.Context, req any) (any, error)) (any, error)

// CallInfo is what is known of a call besides its body.
type CallInfo struct {
	Key      Key
	Method   string
	Codec    Codec
	OneWay   bool // the client wants no response
	Get      bool // on a server: called by GET of Connect, so that the answer may be cached
	Metadata Metadata
	Peer     netip.AddrPort // on a server: the client's address
}

// CallFrom returns what is known of the call that a method's ctx belongs to; the deadline is in ctx itself. The result is
// nil for other contexts, and when the method has returned.
func CallFrom(ctx context.Context) *CallInfo {
	info, _ := ctx.Value(callKey{}).(*CallInfo)
	return info
}

type callKey struct{}

// intercept calls final through the interceptors, the first one outermost.
func intercept(ctx context.Context, list []Interceptor, call *CallInfo, req any, final func(ctx context.Context, req any) (any, error)) (any, error) {
	if len(list) == 0 {
		return final(ctx, req)
	}
	return list[0](ctx, call, req, func(ctx context.Context, req any) (any, error) {
		return intercept(ctx, list[1:], call, req, final)
	})
}
