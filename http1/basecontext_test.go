package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

type (
	storeKey struct{}
	userKey  struct{}
)

// The context of a request has the values of the server's BaseContext and of ConnContext, before its Done is first used,
// after that and after its end.
func TestRequestsHaveTheServersValues(t *testing.T) {
	due := time.Now().Add(time.Hour)
	base, stop := context.WithDeadline(context.WithValue(context.Background(), storeKey{}, "store"), due)
	defer stop()
	kept := make(chan context.Context, 2)
	see := func(ctx context.Context, user, when string) {
		if v, u := ctx.Value(storeKey{}), ctx.Value(userKey{}); v != "store" || u != user {
			t.Errorf("%s: values %v and %v, want store and %s", when, v, u, user)
		}
		if _, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr); !ok || ctx.Value("other") != nil {
			t.Errorf("%s: address %v, %v of another key", when, ctx.Value(http.LocalAddrContextKey), ctx.Value("other"))
		}
	}
	s := prepare(t, setup{handler: func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		see(ctx, r.RemoteAddr, "at first")
		if d, ok := ctx.Deadline(); !ok || !d.Equal(due) || ctx.Err() != nil {
			t.Errorf("deadline %v, %v; %v", d, ok, ctx.Err())
		}
		if r.URL.Path == "/waits" {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			see(ctx, r.RemoteAddr, "with a waiter")
			see(derived, r.RemoteAddr, "the waiter")
		}
		kept <- ctx
	}})
	s.srv.BaseContext = base
	s.srv.ConnContext = func(ctx context.Context, c *eddy.Conn) context.Context {
		return context.WithValue(ctx, userKey{}, c.RemoteAddr().String())
	}
	s.listen()
	c := s.dial()
	for _, path := range []string{"/", "/waits"} {
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		c.response("GET")
		ctx := testkit.Receive(t, "a context", kept)
		testkit.Receive(t, "its end", ctx.Done())
		if see(ctx, c.LocalAddr().String(), "after its end"); !errors.Is(ctx.Err(), context.Canceled) || base.Err() != nil {
			t.Errorf("ended with %v; base context %v", ctx.Err(), base.Err())
		}
	}
}

// The end of BaseContext ends the contexts of requests: those that are waited for, those whose Err is asked, and later ones.
// It closes no connection.
func TestBaseContextEndsRequests(t *testing.T) {
	base, stop := context.WithCancelCause(context.Background())
	begun, goOn, seen := make(chan struct{}, 3), make(chan struct{}), make(chan context.Context, 3)
	s := prepare(t, setup{handler: func(_ http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		switch r.URL.Path {
		case "/waits":
			begun <- struct{}{}
			<-ctx.Done()
		case "/asks":
			if ctx.Err() != nil {
				t.Errorf("at first %v", ctx.Err())
			}
			begun <- struct{}{}
			<-goOn
		}
		if err := ctx.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		select {
		case <-ctx.Done():
		default:
			t.Errorf("%s: its error says that it has ended, Done does not", r.URL.Path)
		}
		seen <- ctx
	}})
	s.srv.BaseContext = base
	s.listen()
	paths := []string{"/waits", "/asks"}
	var clients []*raw
	for _, path := range paths {
		c := s.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		testkit.Receive(t, "the begin", begun)
		clients = append(clients, c)
	}
	cause := errors.New("maintenance")
	stop(cause)
	close(goOn)
	for _, c := range clients {
		c.response("GET")
		if got := context.Cause(testkit.Receive(t, "a context", seen)); got != cause { //nolint:errorlint // the cause itself
			t.Errorf("the cause is %v", got)
		}
	}
	clients[0].send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, _ := clients[0].response("GET"); resp.StatusCode != http.StatusOK {
		t.Errorf("a later request: %d", resp.StatusCode)
	}
	<-seen
}
