package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/http2"
	"github.com/go-eddy/eddy/internal/testkit"
)

// asyncServer is a server whose method Hold waits for release, or for the end of its call, and tells of both.
type asyncServer struct {
	srv            *Server
	key            Key
	entered, ended chan string
	release        chan struct{}
}

func newAsyncServer(t *testing.T) *asyncServer {
	h := &asyncServer{key: Key{"g", "test", "1"}, entered: make(chan string, 100), ended: make(chan string, 100), release: make(chan struct{})}
	hold := Key{Interface: "hold"}
	svc := newService(t, hold.String(), Raw("Hold", func(ctx context.Context, body []byte) ([]byte, error) {
		b := string(body)
		if _, ok := ctx.Deadline(); !ok {
			b += " without a deadline"
		}
		h.entered <- b
		select {
		case <-h.release:
			return []byte(b), nil
		case <-ctx.Done():
			h.ended <- b
			return nil, ctx.Err()
		}
	}))
	h.srv = serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}}), greeter(t, h.key.String()), svc)
	return h
}

func (h *asyncServer) hold(ctx context.Context, cl Caller, body string, opts ...CallOption) *Future[[]byte] {
	return InvokeAsync[[]byte](ctx, cl, Key{Interface: "hold"}, "Hold", []byte(body), opts...)
}

// TestGRPCAsync: a Future has the outcome of a call in any codec. What becomes of the request after InvokeAsync does not matter.
func TestGRPCAsync(t *testing.T) {
	h := newAsyncServer(t)
	ctx := testkit.Context(t)
	for name, change := range map[string]func(o *GRPCOptions){"plain": nil, "gzip": func(o *GRPCOptions) { o.Gzip = true }} {
		cl := newGRPC(t, h.srv, change)
		req, msg := &greeting{Name: "Ann", Times: 1}, wrapperspb.String("abc")
		a := InvokeAsync[greeting](ctx, cl, h.key, "Hello", req)
		b := InvokeAsync[wrapperspb.StringValue](ctx, cl, h.key, "Proto", msg)
		c := InvokeAsync[wrapperspb.StringValue](ctx, cl, h.key, "Proto", msg, CallCodec(CodecJSON))
		body := []byte("held")
		d := InvokeAsync[[]byte](ctx, cl, Key{Interface: "hold"}, "Hold", body)
		req.Name, msg.Value, body[0] = "", "", 'x'
		if got, err := a.Wait(ctx); err != nil || *got != (greeting{"Hello, Ann", 2}) {
			t.Errorf("%s: JSON: %v, %v", name, got, err)
		}
		for _, f := range []*Future[wrapperspb.StringValue]{b, c} {
			if got, err := f.Wait(ctx); err != nil || got.Value != "ABC" {
				t.Errorf("%s: protobuf: %v, %v", name, got, err)
			}
		}
		if got := testkit.Receive(t, "the call", h.entered); got != "held" {
			t.Errorf("%s: raw: %s", name, got)
		}
		select {
		case <-d.Done():
			t.Errorf("%s: ended before its answer", name)
		case h.release <- struct{}{}:
		}
		thens := make(chan string, 3)
		then := func(resp *[]byte, err error) { thens <- fmt.Sprint(string(*resp), err) }
		d.Then(then)
		d.Then(func(*[]byte, error) { panic("mine") })
		if got, err := d.Wait(ctx); err != nil || string(*got) != "held" || d.Cancel() {
			t.Errorf("%s: %v", name, err)
		}
		d.Then(then)
		for range 2 {
			if got := testkit.Receive(t, "a function", thens); got != "held<nil>" {
				t.Errorf("%s: %s", name, got)
			}
		}
		_, err := InvokeAsync[greeting](ctx, cl, h.key, "Hello", &greeting{}).Wait(ctx)
		if !errors.Is(err, ErrApp) || !strings.Contains(err.Error(), "nobody is there") {
			t.Errorf("%s: an error: %v", name, err)
		}
		if _, err := InvokeAsync[greeting](ctx, cl, h.key, "Hello", func() {}).Wait(ctx); asError(t, err).Executed != ExecutedNo {
			t.Errorf("%s: no request: %v", name, err)
		}
		if _, err := InvokeAsync[greeting](ctx, cl, Key{}, "Hello", nil).Wait(ctx); asError(t, err).Executed != ExecutedNo {
			t.Errorf("%s: no key: %v", name, err)
		}
		testkit.Eventually(t, "all calls have ended", func() bool { return cl.async.Load() == 0 })
	}
}

// TestGRPCAsyncEnds: a deadline, the end of a context and Cancel end the call, once, and the server is told.
func TestGRPCAsyncEnds(t *testing.T) {
	h := newAsyncServer(t)
	cl := newGRPC(t, h.srv, nil)
	ctx, cancel := context.WithCancel(testkit.Context(t))
	late := h.hold(ctx, cl, "late", CallTimeout(20*time.Millisecond)) // which may be over before it reaches the server
	if _, err := late.Wait(testkit.Context(t)); !errors.Is(err, ErrDeadline) {
		t.Errorf("a timeout: %v", err)
	}
	one := h.hold(ctx, cl, "one")
	for name := ""; name != "one"; {
		name = testkit.Receive(t, "a call", h.entered)
	}
	two := h.hold(ctx, cl, "two")
	for name := ""; name != "two"; {
		name = testkit.Receive(t, "a call", h.entered)
	}
	if !one.Cancel() {
		t.Error("not cancelled")
	}
	if _, err := one.Wait(testkit.Context(t)); !errors.Is(err, ErrCanceled) || one.Cancel() {
		t.Errorf("Cancel: %v", err)
	}
	over, stop := context.WithCancel(testkit.Context(t))
	stop()
	if _, err := two.Wait(over); !errors.Is(err, context.Canceled) || errors.Is(err, ErrCanceled) {
		t.Errorf("Wait gives up: %v", err)
	}
	cancel()
	if _, err := two.Wait(testkit.Context(t)); !errors.Is(err, ErrCanceled) {
		t.Errorf("the end of the context: %v", err)
	}
	for seen := map[string]bool{}; !seen["one"] || !seen["two"]; {
		seen[testkit.Receive(t, "the end of a method", h.ended)] = true
	}
}

// TestGRPCAsyncClose: each call ends once when the client is closed, and later ones fail.
func TestGRPCAsyncClose(t *testing.T) {
	h := newAsyncServer(t)
	cl := newGRPC(t, h.srv, nil)
	var ended atomic.Int64
	var all []*Future[[]byte]
	for range 20 {
		f := h.hold(t.Context(), cl, "x", CallTimeout(-1))
		f.Then(func(*[]byte, error) { ended.Add(1) })
		all = append(all, f)
	}
	for range 20 {
		if got := testkit.Receive(t, "a call", h.entered); got != "x without a deadline" {
			t.Errorf("%s", got)
		}
	}
	_ = cl.Close()
	for _, f := range all {
		if _, err := f.Wait(testkit.Context(t)); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	testkit.Eventually(t, "their functions", func() bool { return ended.Load() == 20 && cl.async.Load() == 0 })
	if _, err := h.hold(t.Context(), cl, "y").Wait(testkit.Context(t)); !errors.Is(err, ErrClosed) || asError(t, err).Executed != ExecutedNo {
		t.Errorf("after Close: %v", err)
	}
	if err := Send(t.Context(), cl, h.key, "Hello", nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
}

// angry is a request whose encoder panics.
type angry struct{}

func (angry) MarshalJSON() ([]byte, error) { panic("mine") }

// TestGRPCAsyncBounds: calls beyond MaxAsync are refused unsent, callbacks count, and what panics gives its place back.
func TestGRPCAsyncBounds(t *testing.T) {
	h := newAsyncServer(t)
	cl := newGRPC(t, h.srv, func(o *GRPCOptions) { o.MaxAsync = 2 })
	ctx := testkit.Context(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of an encoder was swallowed")
			}
		}()
		InvokeAsync[greeting](ctx, cl, h.key, "Hello", angry{})
	}()
	a, b := h.hold(ctx, cl, "a"), h.hold(ctx, cl, "b")
	_, err := h.hold(ctx, cl, "c").Wait(ctx)
	if e := asError(t, err); !errors.Is(err, ErrClientFull) || !errors.Is(err, ErrBusy) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "limit 2 (GRPCOptions.MaxAsync)") {
		t.Errorf("%v", err)
	}
	if err := Send(ctx, cl, h.key, "Hello", nil); !errors.Is(err, ErrClientFull) {
		t.Errorf("Send: %v", err)
	}
	callback := make(chan struct{})
	a.Then(func(*[]byte, error) { <-callback })
	close(h.release)
	for _, f := range []*Future[[]byte]{a, b} {
		if _, err := f.Wait(ctx); err != nil {
			t.Error(err)
		}
	}
	testkit.Eventually(t, "one place", func() bool { return cl.async.Load() == 1 })
	close(callback)
	testkit.Eventually(t, "both places", func() bool { return cl.async.Load() == 0 })
}

// TestGRPCAsyncInterceptors: interceptors see the request as it is, and one that panics ends its call.
func TestGRPCAsyncInterceptors(t *testing.T) {
	h := newAsyncServer(t)
	cl := newGRPC(t, h.srv, func(o *GRPCOptions) {
		o.Interceptors = []Interceptor{func(ctx context.Context, call *CallInfo, req any, next func(ctx context.Context, req any) (any, error)) (any, error) {
			if call.Method == "Panic" {
				panic("mine")
			}
			if g, ok := req.(*greeting); ok {
				return next(ctx, &greeting{Name: g.Name + "!", Times: 1})
			}
			return next(ctx, req)
		}}
	})
	ctx := testkit.Context(t)
	if got, err := InvokeAsync[greeting](ctx, cl, h.key, "Hello", &greeting{Name: "Ann"}).Wait(ctx); err != nil || got.Name != "Hello, Ann!" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := InvokeAsync[greeting](ctx, cl, h.key, "Panic", nil).Wait(ctx); !errors.Is(err, ErrInternal) {
		t.Errorf("%v", err)
	}
}

// TestGRPCAsyncOnLoop: InvokeAsync and Send do not block a loop, and Wait refuses to.
func TestGRPCAsyncOnLoop(t *testing.T) {
	h := newAsyncServer(t)
	g := &eddy.Group{Loops: 1, Logger: quiet}
	if err := g.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	tr := &http2.Transport{Group: g}
	t.Cleanup(func() { _ = tr.Close() })
	cl := newGRPC(t, h.srv, func(o *GRPCOptions) { o.Transport = tr })
	ctx := testkit.Context(t)
	futures, waits := make(chan *Future[[]byte], 1), make(chan error, 2)
	if err := g.Loop(0).Post(func() {
		f := h.hold(ctx, cl, "x")
		_, err := f.Wait(ctx)
		waits <- err
		waits <- Send(ctx, cl, Key{Interface: "hold"}, "Hold", []byte("y"))
		futures <- f
	}); err != nil {
		t.Fatal(err)
	}
	f := testkit.Receive(t, "the future", futures)
	if err := <-waits; !errors.Is(err, eddy.ErrOnLoop) {
		t.Errorf("Wait: %v", err)
	}
	if err := <-waits; err != nil {
		t.Errorf("Send: %v", err)
	}
	close(h.release)
	if got, err := f.Wait(ctx); err != nil || string(*got) != "x" {
		t.Errorf("%v", err)
	}
	testkit.Eventually(t, "all calls have ended", func() bool { return cl.async.Load() == 0 })
}

// TestGRPCSend: a request of Send reaches its method, whatever becomes of its context behind, with the deadline. Its failure is logged.
func TestGRPCSend(t *testing.T) {
	h := newAsyncServer(t)
	var logged testkit.Output
	cl := newGRPC(t, h.srv, func(o *GRPCOptions) { o.Logger = slog.New(slog.NewTextHandler(&logged, nil)) })
	hold := Key{Interface: "hold"}
	ctx, cancel := context.WithCancel(testkit.Context(t))
	if err := Send(ctx, cl, hold, "Hold", []byte("a")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if got := testkit.Receive(t, "the call", h.entered); got != "a" {
		t.Errorf("%s", got)
	}
	if err := Send(ctx, cl, hold, "Hold", []byte("b")); !errors.Is(err, ErrCanceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if err := Send(t.Context(), cl, hold, "Hold", nil, WaitWritten()); err == nil || !strings.Contains(err.Error(), "WaitWritten") {
		t.Errorf("WaitWritten: %v", err)
	}
	h.release <- struct{}{}
	testkit.Eventually(t, "its end", func() bool { return cl.async.Load() == 0 })
	if logged.String() != "" {
		t.Errorf("%s", logged.String())
	}
	ctx, cancel = context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	for want, ctx := range map[string]context.Context{"c": ctx, "c without a deadline": t.Context()} {
		if err := Send(ctx, cl, hold, "Hold", []byte("c"), CallTimeout(-1)); err != nil {
			t.Fatal(err)
		}
		if got := testkit.Receive(t, "the call", h.entered); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		h.release <- struct{}{}
	}
	if err := Send(t.Context(), cl, hold, "Hold", nil, CallTimeout(20*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the deadline", func() bool { return cl.async.Load() == 0 })
	if got := logged.String(); !strings.Contains(got, "a request of Send has failed") || !strings.Contains(got, "hold") {
		t.Errorf("%q", got)
	}
	if err := Send(t.Context(), cl, h.key, "Proto", wrapperspb.String("x")); err != nil {
		t.Error(err)
	}
	if err := Send(t.Context(), cl, h.key, "Hello", func() {}); asError(t, err).Executed != ExecutedNo {
		t.Errorf("no request: %v", err)
	}
	testkit.Eventually(t, "all calls have ended", func() bool { return cl.async.Load() == 0 })
}
