package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/attempts"
	"github.com/go-eddy/eddy/rpc/internal/follow"
	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// GRPCPing is the PingInterval of a GRPCClient's own Transport. Servers of gRPC permit a PING every 5 minutes, if their
// options do not say otherwise, and end the connection of a client that sends more: with a shorter interval, calls that are
// silent for long fail.
const GRPCPing = 6 * time.Minute

// GRPCOptions say how a GRPCClient calls. Targets or Resolver is required.
type GRPCOptions struct {
	// Targets are the servers, each http://host:port, or https://host:port. A call that its server has certainly not taken is
	// made at another one. A server to which there is no connection has no calls until it answers, as long as there is another one.
	Targets []string
	// Resolver says where the servers are, in place of Targets; with Secure they are spoken to by TLS. No answer of it makes
	// calls fail that could be made.
	Resolver discovery.Resolver
	Secure   bool

	Balance balance.Options // which server a call goes to, and which are left out because they fail; the zero value takes them in turn
	// Attempts make calls with one response again that have failed, and late ones a second time; the zero value makes each once.
	Attempts balance.Attempts
	// Idempotent says which methods may be executed more than once for a call, beside those called with the option Idempotent. nil = none.
	Idempotent func(key Key, method string) bool
	// Health follows what grpc.health.v1.Health of each server says of HealthService; empty is the server. One that says no, or is not
	// there to be asked, takes no calls as long as another one does.
	Health        bool
	HealthService string

	Logger *slog.Logger // nil = slog.Default()

	// Transport makes the requests; its owner closes it after the client. nil = one of the client's own, which asks a server
	// that is silent during a call after GRPCPing.
	Transport *http2.Transport

	Codec      Codec         // of calls; the zero value is protobuf for a proto.Message, JSON for other values, and the bytes of a []byte
	Timeout    time.Duration // of calls; 0 = DefaultTimeout, negative = none. Calls that stream have none but that of their options and context
	MaxPayload int           // of a message in bytes; 0 = frame.DefaultMaxPayload
	Gzip       bool          // messages to the servers are compressed. Those of servers are taken in either form

	MaxAsync int // calls of InvokeAsync and Send that have not ended, callbacks included; 0 = DefaultMaxPending

	// Interceptors wrap every call with one response, the first one outermost. For InvokeAsync and Send they run on the goroutine of the call.
	Interceptors []Interceptor
}

// GRPCClient calls services by gRPC: those of this package, and those of anybody else. All methods may be called by any
// goroutine but those that run a loop. Use it with Invoke and OpenStream.
type GRPCClient struct {
	o       GRPCOptions
	servers *follow.Book
	maker   *attempts.Maker // nil when each call is made once
	own     bool            // the Transport
	closed  atomic.Bool
	usual   string // the grpc-timeout of calls with the usual timeout
	methods grpcMethods
	unaries sync.Pool // of *grpcUnary
	async   atomic.Int64
	logs    struct{ panics, sends sample.Seldom }
}

// NewGRPCClient returns a client that connects with its first call. End it with Close. The error names the option that
// makes no sense.
func NewGRPCClient(o GRPCOptions) (*GRPCClient, error) {
	cl := &GRPCClient{o: o}
	targets, err := parseTargets(o.Targets)
	if err != nil {
		return nil, err
	}
	cl.o.MaxPayload = cmp.Or(o.MaxPayload, frame.DefaultMaxPayload)
	switch {
	case len(targets) == 0 && o.Resolver == nil:
		return nil, errors.New("rpc: GRPCOptions.Targets is empty, and so is Resolver: one of them must say where the servers are")
	case len(targets) > 0 && o.Resolver != nil:
		return nil, errors.New("rpc: GRPCOptions.Targets and Resolver are both set: want one of them")
	case o.Codec >= codecs:
		return nil, fmt.Errorf("rpc: GRPCOptions.Codec is %d: there is no such codec", o.Codec)
	case o.MaxAsync < 0:
		return nil, fmt.Errorf("rpc: GRPCOptions.MaxAsync is %d: it must not be negative", o.MaxAsync)
	case cl.o.MaxPayload < 0 || cl.o.MaxPayload > 1<<30:
		return nil, fmt.Errorf("rpc: GRPCOptions.MaxPayload is %d: it must be from 0 to %d", o.MaxPayload, 1<<30)
	}
	cl.o.Timeout, cl.o.MaxAsync = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.MaxAsync, DefaultMaxPending)
	cl.usual = string(grpcwire.AppendTimeout(nil, cl.o.Timeout))
	if cl.maker, err = attempts.New(o.Attempts); err != nil {
		return nil, fmt.Errorf("rpc: GRPCOptions.Attempts: %w", err)
	}
	if o.Transport == nil {
		cl.own, cl.o.Transport = true, &http2.Transport{MaxConnsPerHost: 1, PingInterval: GRPCPing}
	}
	cl.o.Logger = cmp.Or(o.Logger, slog.Default())
	if err := cl.startServers(targets); err != nil {
		return nil, err
	}
	return cl, nil
}

// Close ends the client. Calls that have not ended fail with ErrClosed, if the Transport is the client's own. Later calls
// fail with it in any case. Close does not wait for functions of Futures.
func (cl *GRPCClient) Close() error {
	if cl.closed.Swap(true) {
		return nil
	}
	cl.servers.Close()
	if !cl.own {
		return nil
	}
	return cl.o.Transport.Close() //nolint:wrapcheck // says whose it is
}

func (cl *GRPCClient) options(opts []CallOption) callOptions {
	if len(opts) == 0 {
		return callOptions{timeout: cl.o.Timeout, codec: cl.o.Codec}
	}
	o := &callOptions{timeout: cl.o.Timeout, codec: cl.o.Codec}
	for _, opt := range opts {
		opt(o)
	}
	return *o
}

// codecFor returns the codec of a call whose first message is msg, and the content type that says so.
func codecFor(o *callOptions, msg any) (payload.Codec, string) {
	if e, ok := msg.(*encoded); ok {
		return e.codec, e.kind
	}
	if o.subtype != "" {
		return payload.Raw, contentType + "+" + o.subtype
	}
	c := o.codec
	if c == CodecRaw {
		switch msg.(type) {
		case proto.Message:
			c = CodecProtobuf
		case []byte, *[]byte, *ignored, nil:
		default:
			c = CodecJSON
		}
	}
	if c == CodecJSON {
		return payload.JSON, contentType + "+json"
	}
	return payload.Codec(c), contentType // raw bytes are what a message of any codec is
}

// invokeGRPC is Invoke by a GRPCClient.
func invokeGRPC[Resp any](ctx context.Context, cl *GRPCClient, key Key, method string, req any, o callOptions) (*Resp, error) {
	if len(cl.o.Interceptors) > 0 {
		return interceptGRPC[Resp](ctx, cl, key, method, req, o)
	}
	return attemptGRPC[Resp](ctx, cl, key, method, req, o)
}

// attemptGRPC is invokeGRPC behind the interceptors.
func attemptGRPC[Resp any](ctx context.Context, cl *GRPCClient, key Key, method string, req any, o callOptions) (*Resp, error) {
	if cl.maker != nil {
		o.idempotent = o.idempotent || cl.o.Idempotent != nil && cl.o.Idempotent(key, method)
		return attempted[Resp](ctx, cl.maker, key, method, o, func(ctx context.Context, resp any, o callOptions) error {
			return cl.invoke(ctx, key, method, req, resp, o)
		})
	}
	resp := new(Resp)
	if err := cl.invoke(ctx, key, method, req, resp, o); err != nil {
		return nil, err
	}
	return resp, nil
}

// interceptGRPC is invokeGRPC through the client's interceptors.
func interceptGRPC[Resp any](ctx context.Context, cl *GRPCClient, key Key, method string, req any, o callOptions) (*Resp, error) {
	info := &CallInfo{Key: key, Method: method, Codec: o.codec, Metadata: o.meta}
	return intercepted(ctx, cl.o.Interceptors, info, req, func(ctx context.Context, req any) (*Resp, error) {
		o.meta = info.Metadata
		return attemptGRPC[Resp](ctx, cl, key, method, req, o)
	})
}

// pack appends a message with its prefix to dst, which is empty.
func (cl *GRPCClient) pack(dst []byte, codec payload.Codec, msg any) ([]byte, error) {
	b, err := grpcwire.AppendPrefix(dst), error(nil)
	if e, ok := msg.(*encoded); ok {
		b = append(b, e.body...)
	} else if b, err = codec.Append(b, msg); err != nil {
		return nil, err //nolint:wrapcheck // says what is wrong
	}
	if n := len(b) - grpcwire.PrefixLen; n > cl.o.MaxPayload {
		return nil, &grpcwire.TooLargeError{Size: n, Limit: cl.o.MaxPayload}
	}
	if cl.o.Gzip {
		if b, err = grpcwire.Compress(grpcwire.AppendPrefix(nil), b[grpcwire.PrefixLen:]); err != nil {
			return nil, err //nolint:wrapcheck // says what is wrong
		}
	}
	grpcwire.Finish(b, 0, cl.o.Gzip)
	return b, nil
}

// untouched reports whether a request that failed was certainly not taken by its server.
func untouched(err error) bool {
	if reset, ok := errors.AsType[*http2.StreamError](err); ok {
		return reset.Remote && reset.Code == http2.CodeRefusedStream
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial" || errors.Is(err, http2.ErrTransportBusy) || errors.Is(err, http2.ErrNotHTTP2)
}

// lost returns the error of a call without a response.
func (in *grpcInput) lost(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := in.e
	if in.messages.Sent() && !untouched(err) {
		e.Executed = ExecutedMaybe
	}
	switch {
	case errors.Is(err, ErrDeadline), errors.Is(err, ErrCanceled): // as this side has said
		e.Err = err
	case in.ctx.Err() != nil:
		e.Err = contextCause(in.ctx)
	case ranOut(in.by, err):
		e.Err = errDeadline
	case errors.Is(err, http2.ErrTransportClosed):
		e.Err = ErrClosed
	default:
		if !e.resetByServer(err) {
			e.Err = &causeError{kinds: kindsLost, text: err.Error(), cause: err}
		}
	}
	return e
}

// ranOut reports whether err is the server's way to end a call at its deadline, of which the client's timer tells a moment
// later. by is zero without one.
func ranOut(by time.Time, err error) bool {
	s, ok := errors.AsType[*http2.StreamError](err)
	return ok && !by.IsZero() && s.Remote && s.Code == http2.CodeCancel && !time.Now().Before(by)
}
