package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/internal/wheel"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// CallOption is a setting of one call.
type CallOption func(*callOptions)

type callOptions struct {
	timeout     time.Duration
	codec       Codec
	subtype     string
	meta        Metadata
	waitWritten bool
	wait        waitMode
	strict      bool
	idempotent  bool
	hash        uint64
	tried       *triedNodes
	only        *peer
	header      *Metadata // of the response, by gRPC
	trailer     *Metadata
}

// CallTimeout bounds the time of a call instead of ClientOptions.Timeout; 0 and less mean none. The context's deadline
// counts, too.
func CallTimeout(d time.Duration) CallOption { return func(o *callOptions) { o.timeout = d } }

// CallCodec sets the codec of a call's bodies instead of ClientOptions.Codec.
func CallCodec(c Codec) CallOption { return func(o *callOptions) { o.codec = c } }

// CallSubtype names the encoding of a call by gRPC that Eddy does not know, as in application/grpc+NAME. The messages are
// bytes then: []byte. NAME is in lower case.
func CallSubtype(name string) CallOption { return func(o *callOptions) { o.subtype = name } }

// CallMetadata adds pairs that travel with the call.
func CallMetadata(pairs ...Pair) CallOption {
	return func(o *callOptions) { o.meta = append(o.meta, pairs...) }
}

// Idempotent says that a call may be executed more than once, so that it may be made again after a failure, and a second time when it is late; see
// ClientOptions.Attempts.
func Idempotent() CallOption { return func(o *callOptions) { o.idempotent = true } }

// HashKey gives a call the key by which balance.Hash picks the server.
func HashKey(key string) CallOption { return func(o *callOptions) { o.hash = balance.Key(key) } }

// CallHeader lets a call by gRPC store the metadata of its response's header in m.
func CallHeader(m *Metadata) CallOption { return func(o *callOptions) { o.header = m } }

// CallTrailer lets a call by gRPC store the metadata of its response's end in m.
func CallTrailer(m *Metadata) CallOption { return func(o *callOptions) { o.trailer = m } }

// TrailerOf returns what the last CallTrailer of opts was given, nil without one. It is for packages that have calls carry metadata in their own way, such as
// rpc/dubbo.
func TrailerOf(opts ...CallOption) *Metadata {
	var o callOptions
	for _, opt := range opts {
		opt(&o)
	}
	return o.trailer
}

// WaitWritten lets Send wait until the system has taken the request, not only until it is queued.
func WaitWritten() CallOption { return func(o *callOptions) { o.waitWritten = true } }

// Strict makes a response with a field that Resp does not have an ErrResponse, which names the field and Resp. Use it in
// tests, and where client and server are deployed together. Without Strict such fields are passed over, because a later
// version of a server may send them. eddy.Reflection tells the types of a method.
func Strict() CallOption { return func(o *callOptions) { o.strict = true } }

// WaitForReady says for one call whether it waits. With true the call waits for a connection, as
// ClientOptions.WaitForReady lets all calls, and for room on one. With false the call waits for neither: it fails at once
// while every address is known to be down, and with ErrClientFull, which is ErrBusy, when there is no room. Without this
// option a call waits for room.
func WaitForReady(wait bool) CallOption {
	mode := waitForNothing
	if wait {
		mode = waitForAll
	}
	return func(o *callOptions) { o.wait = mode }
}

func (cl *Client) options(opts []CallOption) callOptions {
	if len(opts) == 0 {
		return callOptions{timeout: cl.o.Timeout, codec: cl.o.Codec}
	}
	o := &callOptions{timeout: cl.o.Timeout, codec: cl.o.Codec}
	for _, opt := range opts {
		opt(o)
	}
	return *o
}

// Invoke calls a method, waits for the response and decodes it on the calling goroutine. A nil req is null in JSON, and
// an empty body in other codecs. When ctx ends, Invoke returns at once and the server is told.
//
// Errors are *Error: errors.Is tells their kinds apart, and Error.Executed says whether the call may have been executed.
// Invoke tries again only what certainly was not executed. That is a request that was not sent when its connection went,
// or that a draining server refused. BUSY is not tried again.
//
// With a GRPCClient the error is an *Error around the *Status that the server has sent.
//
// Any goroutine. On a loop of the client's group Invoke returns eddy.ErrOnLoop.
func Invoke[Resp any](ctx context.Context, cl Caller, key Key, method string, req any, opts ...CallOption) (*Resp, error) {
	if g, ok := cl.(*GRPCClient); ok {
		return invokeGRPC[Resp](ctx, g, key, method, req, g.options(opts))
	}
	return invokeFramed[Resp](ctx, cl.(*Client), key, method, req, opts)
}

// Caller is a client of this package: a *Client or a *GRPCClient.
type Caller interface{ caller() }

func (*Client) caller()     {}
func (*GRPCClient) caller() {}

func invokeFramed[Resp any](ctx context.Context, cl *Client, key Key, method string, req any, opts []CallOption) (*Resp, error) {
	o := cl.options(opts)
	if len(cl.o.Interceptors) > 0 {
		return invokeIntercepted[Resp](ctx, cl, key, method, req, o)
	}
	return invokeAttempts[Resp](ctx, cl, key, method, req, o)
}

// invokeAttempts is Invoke behind the interceptors.
func invokeAttempts[Resp any](ctx context.Context, cl *Client, key Key, method string, req any, o callOptions) (*Resp, error) {
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

// invokeIntercepted is Invoke through the client's interceptors.
func invokeIntercepted[Resp any](ctx context.Context, cl *Client, key Key, method string, req any, o callOptions) (*Resp, error) {
	info := &CallInfo{Key: key, Method: method, Codec: o.codec, Metadata: o.meta}
	return intercepted(ctx, cl.o.Interceptors, info, req, func(ctx context.Context, req any) (*Resp, error) {
		o.meta = info.Metadata
		return invokeAttempts[Resp](ctx, cl, key, method, req, o)
	})
}

// intercepted makes a call through interceptors, which may answer themselves.
func intercepted[Resp any](ctx context.Context, list []Interceptor, info *CallInfo, req any, call func(ctx context.Context, req any) (*Resp, error)) (*Resp, error) {
	v, err := intercept(ctx, list, info, req, func(ctx context.Context, req any) (any, error) {
		resp, err := call(ctx, req)
		if err != nil {
			return nil, err
		}
		return resp, nil
	})
	if err != nil {
		return nil, err
	}
	resp, ok := v.(*Resp)
	if !ok {
		text := fmt.Sprintf("an interceptor returned a %T, want a %T", v, resp)
		return nil, &Error{Service: info.Key.String(), Method: info.Method, Err: &causeError{kinds: kindsResponse, text: text}}
	}
	return resp, nil
}

// invoke is Invoke that decodes into resp.
func (cl *Client) invoke(ctx context.Context, key Key, method string, req, resp any, o callOptions) error {
	if cl.mayBeOnLoop() && cl.group.In() {
		return eddy.ErrOnLoop
	}
	c, err := cl.begin(ctx, key, method, frame.Call, req, o)
	if err != nil {
		return err
	}
	defer c.leave()
	c.into = resp
	c.refs.Add(1)
	cl.dispatch(c)
	done := ctx.Done()
	if done == nil {
		<-c.ready
		return c.result()
	}
	select {
	case <-c.ready:
		return c.result()
	case <-done:
	}
	if c.claim() {
		return cl.abandon(c, contextCause(ctx))
	}
	<-c.ready
	return c.result()
}

// mayBeOnLoop reports whether callers can run on a loop of the client's group at all. Group.In costs too much for
// each call.
func (cl *Client) mayBeOnLoop() bool { return !cl.ownGroup || cl.consumer.looped.Load() > 0 }

// begin makes a call with one reference, which counts as active.
func (cl *Client) begin(ctx context.Context, key Key, method string, op frame.Op, req any, o callOptions) (*call, error) {
	s, err := cl.service(key)
	if err != nil {
		return nil, &Error{Service: key.String(), Method: method, Executed: ExecutedNo, Err: err}
	}
	refuse := func(err error) (*call, error) {
		return nil, &Error{Service: s.name, Method: method, Executed: ExecutedNo, Err: err}
	}
	if o.codec >= codecs {
		return refuse(encodeError{errors.New(o.codec.String() + " is unknown")})
	}
	if err := cl.enter(); err != nil {
		return refuse(err)
	}
	c := cl.newCall(op)
	c.service, c.method, c.codec, c.wait, c.strict = s, method, payload.Codec(o.codec), o.wait, o.strict
	c.hash, c.tried, c.only = o.hash, o.tried, o.only
	made := false
	defer func() {
		if !made { // the value's own marshaller may have panicked
			c.leave()
		}
	}()
	if ctx.Err() != nil {
		return refuse(contextCause(ctx))
	}
	if c.due, err = cl.dueTime(ctx, o.timeout); err != nil {
		return refuse(err)
	}
	if err := c.encode(withClass(ctx, o.meta), req, cl.o.MaxPayload); err != nil {
		return nil, err
	}
	made = true
	return c, nil
}

// dueTime returns when a call must have ended, on the client's clock; 0 for never.
func (cl *Client) dueTime(ctx context.Context, timeout time.Duration) (int64, error) {
	deadline, ok := ctx.Deadline()
	if ok {
		left := time.Until(deadline)
		if left <= 0 {
			return 0, errDeadline
		}
		if timeout <= 0 || left < timeout {
			timeout = left
		}
	}
	if timeout <= 0 {
		return 0, nil
	}
	return wheel.After(cl.now(), timeout), nil
}

// leave releases the reference of the caller and uncounts the call.
func (c *call) leave() {
	cl := c.client
	c.release()
	cl.leave()
}

// contextCause returns why a call ends with its context.
func contextCause(ctx context.Context) error {
	e := errCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e = errDeadline
	}
	if cause := context.Cause(ctx); cause != ctx.Err() { //nolint:errorlint // the same one
		return &causeError{kinds: e.kinds, text: e.text + ": " + cause.Error(), cause: cause}
	}
	return e
}

// abandon takes a claimed call off its connection or out of its list, and returns the error that ends it.
func (cl *Client) abandon(c *call, cause error) error {
	late := errors.Is(cause, ErrDeadline)
	if w := c.wire.Load(); w != nil {
		if late {
			w.observe(c, balance.Failed)
		} else {
			w.observe(c, balance.Unknown)
		}
		w.drop(c, true)
	}
	cl.stopWaiting(c, nil)
	if late {
		cl.stats.expired.Add(1)
	} else {
		cl.stats.canceled.Add(1)
	}
	return c.error(cause, c.executed())
}

// giveUp ends a call that no goroutine waits for, and reports whether it did.
func (c *call) giveUp(cause error) bool {
	if !c.claim() {
		return false
	}
	c.fail(c.client.abandon(c, cause))
	return true
}

// InvokeAsync is Invoke that does not wait: the Future gets the outcome, also errors before sending. When ctx ends, the
// call does. The body is encoded before InvokeAsync returns; with ClientOptions.Interceptors a worker encodes it later.
// Any goroutine, also a loop.
//
// By gRPC each call that has not ended has a goroutine, at most GRPCOptions.MaxAsync of them. A client that is closed ends them as Close says.
func InvokeAsync[Resp any](ctx context.Context, cl Caller, key Key, method string, req any, opts ...CallOption) *Future[Resp] {
	if g, ok := cl.(*GRPCClient); ok {
		return invokeGRPCAsync[Resp](ctx, g, key, method, req, g.options(opts))
	}
	return invokeFramedAsync[Resp](ctx, cl.(*Client), key, method, req, opts)
}

func invokeFramedAsync[Resp any](ctx context.Context, cl *Client, key Key, method string, req any, opts []CallOption) *Future[Resp] {
	f := &Future[Resp]{f: future{owner: cl}}
	o := cl.options(opts)
	if err := cl.consumer.enter(); err != nil {
		f.f.complete(&Error{Service: key.String(), Method: method, Executed: ExecutedNo, Err: err})
		return f
	}
	if len(cl.o.Interceptors) > 0 {
		f.intercepted(ctx, cl, key, method, req, o)
		return f
	}
	f.resp = new(Resp)
	cl.invokeAsync(ctx, key, method, req, f.resp, o, &f.f)
	return f
}

// intercepted makes the call on a worker of the callback pool, where the interceptors may block.
func (f *Future[Resp]) intercepted(ctx context.Context, cl *Client, key Key, method string, req any, o callOptions) {
	if err := cl.enter(); err != nil {
		cl.consumer.async.Add(-1)
		f.f.complete(&Error{Service: key.String(), Method: method, Executed: ExecutedNo, Err: err})
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	f.f.abort = cancel
	cl.consumer.pool.Submit(runner(func() {
		defer cl.leave()
		defer cl.consumer.async.Add(-1)
		err := error(&Error{Service: key.String(), Method: method, Err: &causeError{kinds: []error{ErrInternal}, text: "an interceptor panicked"}})
		cl.consumer.run(func() { f.resp, err = invokeIntercepted[Resp](ctx, cl, key, method, req, o) })
		cancel(nil)
		f.f.complete(err)
	}))
}

func (cl *Client) invokeAsync(ctx context.Context, key Key, method string, req, resp any, o callOptions, f *future) {
	begun := false
	defer func() {
		if !begun {
			cl.consumer.async.Add(-1)
		}
	}()
	c, err := cl.begin(ctx, key, method, frame.Call, req, o)
	if err != nil {
		f.complete(err)
		return
	}
	begun = true
	c.into, c.future, f.call = resp, f, c
	c.refs.Add(1)
	if ctx.Done() != nil {
		f.mu.Lock()
		f.stop = context.AfterFunc(ctx, func() { f.cancel(contextCause(ctx)) })
		f.mu.Unlock()
	}
	cl.dispatch(c)
}

// Send sends a one-way request and returns when it is queued, for a connection or for room on one. Nobody learns whether
// the request is executed. With WaitWritten, Send returns when the system has taken the request. Errors are those of
// Invoke. With an error the request was certainly not sent, but with WaitWritten it may have been.
//
// Any goroutine. With WaitWritten, Send returns eddy.ErrOnLoop on a loop of the client's group.
//
// By gRPC the request is one that has a response, which is dropped, and Send returns when it is encoded. It counts in GRPCOptions.MaxAsync until it has
// ended, at its deadline at the latest, and goes on when ctx is cancelled. A failure is logged. There is no WaitWritten.
func Send(ctx context.Context, cl Caller, key Key, method string, req any, opts ...CallOption) error {
	if g, ok := cl.(*GRPCClient); ok {
		return sendGRPC(ctx, g, key, method, req, g.options(opts))
	}
	return sendFramed(ctx, cl.(*Client), key, method, req, opts)
}

func sendFramed(ctx context.Context, cl *Client, key Key, method string, req any, opts []CallOption) error {
	o := cl.options(opts)
	if len(cl.o.Interceptors) == 0 {
		return cl.sendOneWay(ctx, key, method, req, o)
	}
	info := &CallInfo{Key: key, Method: method, Codec: o.codec, OneWay: true, Metadata: o.meta}
	_, err := intercept(ctx, cl.o.Interceptors, info, req, func(ctx context.Context, req any) (any, error) {
		o.meta = info.Metadata
		return nil, cl.sendOneWay(ctx, key, method, req, o)
	})
	return err
}

func (cl *Client) sendOneWay(ctx context.Context, key Key, method string, req any, o callOptions) error {
	if o.waitWritten && cl.mayBeOnLoop() && cl.group.In() {
		return eddy.ErrOnLoop
	}
	c, err := cl.begin(ctx, key, method, frame.OneWay, req, o)
	if err != nil {
		return err
	}
	defer c.release()
	var written chan error
	if o.waitWritten {
		written = make(chan error, 1)
		c.written = written
	}
	c.refs.Add(1)
	if err = cl.place(c); err != nil {
		cl.oneWayFailed(c, err)
		c.release()
		return err
	}
	if written == nil {
		return nil
	}
	return cl.awaitWritten(ctx, c, written)
}

func (cl *Client) awaitWritten(ctx context.Context, c *call, written chan error) error {
	var late <-chan time.Time
	if c.due != 0 {
		t := time.NewTimer(time.Duration(max(0, c.due-cl.now())))
		defer t.Stop()
		late = t.C
	}
	var cause error
	select {
	case err := <-written:
		return err
	case <-late:
		cause = errDeadline
	case <-ctx.Done():
		cause = contextCause(ctx)
	}
	if !c.claim() {
		return <-written
	}
	err := cl.abandon(c, cause)
	c.err = err
	cl.oneWayEnded(c)
	return err
}

// oneWaySent ends a one-way request that was given to the connection, or under WaitWritten to the system.
func (cl *Client) oneWaySent(c *call) {
	if !c.claim() {
		return
	}
	cl.stats.oneWays.Add(1)
	if c.written != nil {
		c.written <- nil
	}
	cl.leave()
}

// oneWayFailed ends a one-way request that was not sent, as far as is known.
func (cl *Client) oneWayFailed(c *call, err error) {
	if c.claim() {
		c.err = err
		cl.oneWayEnded(c)
	}
}

// oneWayEnded counts a one-way request that failed, and tells Send. After claim.
func (cl *Client) oneWayEnded(c *call) {
	cl.stats.oneWayDropped.Add(1)
	if c.written != nil {
		c.written <- c.err
	}
	cl.leave()
}
