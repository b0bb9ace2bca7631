package http1

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// suspending is a handler whose requests wait in the channel.
func suspending(t *testing.T, c setup) (*server, <-chan *Suspended) {
	waiting := make(chan *Suspended, 100)
	c.handler = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Early", "1")
		s, err := Suspend(w)
		if err != nil {
			t.Error(err)
			return
		}
		waiting <- s
	}
	return startWith(t, c), waiting
}

// Many requests wait on one worker, and none of them holds it. Each is answered when Resume says so, and its connection goes on.
func TestSuspendedRequestsHoldNoWorker(t *testing.T) {
	s, waiting := suspending(t, setup{pool: executor.Options{Workers: 1, Parked: executor.NoParking}})
	const n = 50
	conns := make([]*raw, n)
	for i := range conns {
		conns[i] = s.dial()
		conns[i].send(keepGet + keepGet) // the second waits for the answer to the first
	}
	for round := range 2 {
		held := make([]*Suspended, n)
		for i := range held {
			held[i] = testkit.Receive(t, "a suspended request", waiting)
		}
		testkit.Eventually(t, "the end of the handlers", func() bool { return s.pool.Stats().Running == 0 })
		if st := s.pool.Stats(); st.Parked != 0 {
			t.Fatalf("%d handlers are parked", st.Parked)
		}
		for _, h := range held {
			if err := h.Resume(http.StatusAccepted, []byte("later")); err != nil {
				t.Fatal(err)
			}
			if err := h.Resume(http.StatusOK, nil); err == nil {
				t.Fatal("a second Resume was taken")
			}
		}
		for _, c := range conns {
			if resp, body := c.response("GET"); resp.StatusCode != http.StatusAccepted || body != "later" || resp.Header.Get("X-Early") != "1" || resp.Close {
				t.Fatalf("round %d: %v %q", round, resp, body)
			}
		}
	}
}

func TestResumeFramesTheAnswer(t *testing.T) {
	s, waiting := suspending(t, setup{})
	long := big(300 << 10)
	for _, tc := range []struct {
		send   string
		method string
		status int
		body   string
		want   string
		length int64
	}{
		{keepGet, "GET", 200, "", "", 0},
		{keepGet, "GET", 200, long, long, int64(len(long))},
		{keepGet, "GET", 204, "left out", "", 0},
		{"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD", 200, "left out", "", 8},
	} {
		c := s.dial()
		c.send(tc.send)
		if err := testkit.Receive(t, "a suspended request", waiting).Resume(tc.status, []byte(tc.body)); err != nil {
			t.Fatal(err)
		}
		resp, body := c.response(tc.method)
		if resp.StatusCode != tc.status || body != tc.want || resp.ContentLength != tc.length {
			t.Errorf("%d with %d bytes: %v, %d bytes", tc.status, len(tc.body), resp, len(body))
		}
	}
}

func TestSuspendedRequestMissesItsDeadline(t *testing.T) {
	s, waiting := suspending(t, setup{clock: true, answer: timeout})
	c := s.dial()
	c.send(keepGet)
	h := testkit.Receive(t, "a suspended request", waiting)
	s.expires(timeout)
	if resp, _ := c.response("GET"); resp.StatusCode != http.StatusServiceUnavailable || !resp.Close {
		t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
	}
	c.rest()
	if err := h.Resume(http.StatusOK, []byte("late")); !errors.Is(err, errAnswered) {
		t.Errorf("Resume says %v", err)
	}
	s.waitClosed(eddy.CloseHandlerTimeout, 1)
}

// A client that goes away ends the context of its suspended request, and so does an answer.
func TestContextOfASuspendedRequest(t *testing.T) {
	over, waiting := make(chan struct{}, 1), make(chan *Suspended, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { over <- struct{}{} })
		h, err := Suspend(w)
		if err != nil {
			t.Error(err)
		}
		waiting <- h
	})
	c := s.dial()
	c.send(keepGet)
	h := testkit.Receive(t, "a suspended request", waiting)
	testkit.Eventually(t, "the end of the handler", func() bool { return s.pool.Stats().Running == 0 })
	select {
	case <-over:
		t.Fatal("the context has ended with the handler")
	default:
	}
	_ = c.SetLinger(0)
	_ = c.Close()
	testkit.Receive(t, "the end of the context", over)
	if err := h.Resume(http.StatusOK, nil); !errors.Is(err, errAnswered) {
		t.Errorf("Resume says %v", err)
	}
	c = s.dial()
	c.send(keepGet)
	if err := testkit.Receive(t, "a suspended request", waiting).Resume(http.StatusOK, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the end of the context", over)
}

// A draining server waits for suspended requests, and their connections end with the answer.
func TestDrainWaitsForSuspendedRequests(t *testing.T) {
	s, waiting := suspending(t, setup{})
	c := s.dial()
	c.send(keepGet)
	h := testkit.Receive(t, "a suspended request", waiting)
	ended := make(chan eddy.DrainReport, 1)
	go func() {
		report, err := s.srv.Shutdown(testkit.Context(t))
		if err != nil {
			t.Error(err)
		}
		ended <- report
	}()
	testkit.Eventually(t, "the drain", func() bool { return s.drained.Load() == 1 })
	if st := enginetest.Stats(t, s.srv); st.Active != 1 {
		t.Fatalf("%d connections", st.Active)
	}
	if err := h.Resume(http.StatusOK, []byte("last")); err != nil {
		t.Fatal(err)
	}
	if resp, body := c.response("GET"); body != "last" || !resp.Close {
		t.Errorf("%q, close %v", body, resp.Close)
	}
	c.rest()
	_ = c.Close()
	testkit.Receive(t, "the end of the drain", ended)
}

func TestWhereSuspendIsRefused(t *testing.T) {
	errs := make(chan error, 4)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, "begun")
			_, err := Suspend(w)
			errs <- err
			return
		}
		h, err := Suspend(w)
		errs <- err
		_, err = Suspend(w)
		errs <- err
		if r.URL.Path == "/panic" {
			defer func() { _ = h.Resume(http.StatusOK, nil) }()
			panic("the handler fails")
		}
		_ = h.Resume(http.StatusOK, []byte("resumed"))
	})
	c := s.dial()
	c.send("GET /begun HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, body := c.response("GET"); body != "begun" {
		t.Errorf("body %q", body)
	}
	if err := <-errs; err == nil {
		t.Error("Suspend after the response has begun")
	}
	c.send(keepGet)
	if _, body := c.response("GET"); body != "resumed" {
		t.Errorf("body %q", body)
	}
	if err := <-errs; err != nil {
		t.Error(err)
	}
	if err := <-errs; err == nil {
		t.Error("Suspend of a suspended request")
	}
	if _, err := Suspend(httptest.NewRecorder()); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("another package's writer: %v", err)
	}
	c = s.dial()
	c.send("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n")
	c.rest()
	s.waitClosed(eddy.CloseInternalError, 1)
}
