package http1

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
)

// The server's handler deadline is the deadline of the request's context; a
// handler that misses it is told, and its client gets 503.
func TestHandlerDeadline(t *testing.T) {
	const answer = 200 * time.Millisecond
	told := make(chan error, 1)
	s := startWith(t, setup{answer: answer, handler: func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		d, ok := ctx.Deadline()
		if left := time.Until(d); !ok || left > answer || left < -limit {
			t.Errorf("deadline in %v, %v", left, ok)
		}
		<-ctx.Done()
		told <- r.Context().Err()
	}})
	c := s.dial()
	c.send(keepGet)
	if resp, _ := c.response("GET"); resp.StatusCode != http.StatusServiceUnavailable || !resp.Close {
		t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
	}
	if err := <-told; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the handler was told %v", err)
	}
	c.rest()
	s.waitClosed(eddy.CloseHandlerTimeout, 1)
	if n := s.f.Stats().Timeouts; n != 1 {
		t.Errorf("%d timeouts counted", n)
	}
}

// The head of the next request may come while the response to this one is being
// made: its time begins when it is read.
func TestHeaderDeadlineSparesHeldClients(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second // in which a busy machine's client can go on after the response
	var answered atomic.Int64       // when /slow was, at the earliest
	s := startWith(t, setup{opts: Options{HeaderTimeout: timeout}, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-time.After(timeout * 5 / 4)
			answered.Store(time.Now().UnixNano())
		}
		hello(w, r)
	}})
	for range 20 { // until the machine is not too busy for the client to be in time
		c := s.dial()
		c.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHo")
		c.response("GET")
		c.send("st: a\r\n\r\n")
		resp, body := c.response("GET")
		if resp.StatusCode == http.StatusRequestTimeout && time.Since(time.Unix(0, answered.Load())) >= timeout {
			continue // it was late by itself
		}
		if resp.StatusCode != http.StatusOK || body != "hello" {
			t.Errorf("status %d, %q", resp.StatusCode, body)
		}
		return
	}
	t.Error("the client was late in every try")
}
