package http1

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// The server's handler deadline is the deadline of the request's context. A
// handler that misses it sees its context end, and the client gets 503.
func TestHandlerDeadline(t *testing.T) {
	deadline, told := make(chan time.Time, 1), make(chan error, 1)
	s := startWith(t, setup{clock: true, answer: timeout, handler: func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		d, _ := ctx.Deadline()
		deadline <- d
		<-ctx.Done()
		told <- r.Context().Err()
	}})
	c := s.dial()
	c.send(keepGet)
	latest := s.clock.Wall().Add(timeout)
	if d := testkit.Receive(t, "the deadline", deadline); d.After(latest) || d.Before(latest.Add(-tick)) {
		t.Errorf("deadline %v, want %v", d, latest)
	}
	s.expires(timeout)
	if resp, _ := c.response("GET"); resp.StatusCode != http.StatusServiceUnavailable || !resp.Close {
		t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
	}
	c.rest()
	if err := testkit.Receive(t, "the handler's end", told); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the handler was told %v", err)
	}
	s.waitClosed(eddy.CloseHandlerTimeout, 1)
	if n := s.f.Stats().Timeouts; n != 1 {
		t.Errorf("%d timeouts counted", n)
	}
}

// The head of the next request may come while the response to this one is being
// made. The time for it begins when it is read.
func TestHeaderDeadlineSparesHeldClients(t *testing.T) {
	entered, goOn := make(chan struct{}), make(chan struct{})
	s := startWith(t, setup{clock: true, opts: Options{HeaderTimeout: timeout}, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-goOn
		}
		hello(w, r)
	}})
	c := s.dial()
	c.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo")
	testkit.Receive(t, "the request", entered)
	s.clock.Advance(2 * timeout)
	close(goOn)
	c.response("GET")
	s.clock.Advance(timeout - tick)
	c.send("st: a\r\n\r\n")
	if resp, body := c.response("GET"); resp.StatusCode != http.StatusOK || body != "hello" {
		t.Errorf("status %d, %q", resp.StatusCode, body)
	}
}
