package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// One network has a share of the parked handlers. Beyond the share its requests are refused, on a connection that goes on,
// and other networks are served. At the bound of the pool all requests are refused.
func TestWaitingHandlersByAddress(t *testing.T) {
	s := startWaiting(t, setup{pool: executor.Options{Workers: 2, Queue: 10, Parked: 8}})
	refused := func(c *raw) {
		t.Helper()
		for range 2 {
			c.send(keepGet)
			if resp, body := c.response("GET"); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || resp.Close || !strings.Contains(body, "busy") {
				t.Fatalf("%d %v %q", resp.StatusCode, resp.Header, body)
			}
		}
	}
	total := 0
	for i, share := range []int{2, 2, 1, 1, 1, 1} {
		ip := fmt.Sprintf("127.0.0.%d", i+1)
		for range share {
			c := s.dialFrom(ip)
			s.serves(c)
			c.send(getEvents)
			total++
			s.parked(total)
		}
		refused(s.dialFrom(ip))
		if i < 5 && s.pool.Stats().Exhausted != 0 {
			t.Error("the share of one exhausts the pool")
		}
	}
	newcomer := s.dialFrom("127.0.0.77")
	refused(newcomer)
	if st := s.pool.Stats(); st.Parked != st.MaxParked || st.Crowded != 7*2 || st.Exhausted == 0 || s.f.Stats().Busy != 7*2 {
		t.Errorf("%+v, %d busy", st, s.f.Stats().Busy)
	}
}

// Requests that were taken before the share was used up are refused when they would begin.
func TestWaitingHandlersFromTheQueue(t *testing.T) {
	gate, entered := make(chan struct{}), make(chan struct{})
	s := startWaiting(t, setup{pool: executor.Options{Workers: 1, Queue: 10, Parked: 4}, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			close(entered)
			<-gate
		}
		waiting(w, r)
	}})
	s.dial().send("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Receive(t, "the busy one", entered)
	first := s.dial()
	first.send(getEvents)
	testkit.Eventually(t, "the first", func() bool { return s.pool.Stats().Queued == 1 })
	var others []*raw
	for range 3 {
		c := s.dial()
		c.send(stallBody)
		others = append(others, c)
	}
	testkit.Eventually(t, "the others", func() bool { return s.pool.Stats().Queued == 4 })
	close(gate)
	s.parked(1)
	for _, c := range others {
		if resp, _ := c.response("POST"); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
	}
	if st := s.pool.Stats(); st.Crowded != 3 || s.f.Stats().Busy != 3 {
		t.Errorf("%+v", st)
	}
}

// The deadlines end handlers that wait, as any others.
func TestWaitingHandlersDeadlines(t *testing.T) {
	s := startWaiting(t, setup{clock: true, pool: executor.Options{Workers: 1}, opts: Options{BodyTimeout: timeout, WriteTimeout: 2 * timeout}})
	reader, sender := enginetest.DialNarrow(t, s.addr), s.dial()
	sender.send(stallBody)
	s.parked(1)
	reader.Send(getBig)
	s.parked(2)
	s.clock.Advance(timeout + tick)
	if resp, _ := sender.response("POST"); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", resp.StatusCode)
	}
	s.parked(1)
	s.clock.Pass(4*timeout, timeout) // the kernel may have taken something after the first step
	s.waitClosed(eddy.CloseWriteTimeout, 1)
	s.parked(0)
}

// The end of the server ends all waits, and each handler learns of it.
func TestWaitingHandlersAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(s *eddy.Server) error{
		"Close": (*eddy.Server).Close,
		"Shutdown": func(s *eddy.Server) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // whoever waits is forced to end
			if _, err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("not forced: %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startWaiting(t, setup{pool: executor.Options{Workers: 1, Queue: 10}})
			for i, request := range []string{getBig, stallBody, getEvents, getPoll, strings.Replace(getPoll, "/poll", "/hijack", 1)} {
				enginetest.DialNarrow(t, s.addr).Send(request)
				s.parked(i + 1)
			}
			if err := end(s.srv); err != nil {
				t.Error(err)
			}
			s.parked(0)
			if _, err := s.pool.Shutdown(testkit.Context(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A drain waits for a parked handler, which answers.
func TestWaitingHandlerIsDrained(t *testing.T) {
	event := make(chan struct{})
	s := startWaiting(t, setup{pool: executor.Options{Workers: 1}, handler: func(w http.ResponseWriter, r *http.Request) {
		Wait(r.Context(), func() { <-event })
		hello(w, r)
	}})
	c := s.dial()
	c.send(keepGet)
	s.parked(1)
	ctx := testkit.Context(t)
	ended := make(chan error, 1)
	go func() {
		report, err := s.srv.Shutdown(ctx)
		if report != (eddy.DrainReport{Drained: 1}) {
			err = errors.Join(err, fmt.Errorf("%+v", report))
		}
		ended <- err
	}()
	testkit.Eventually(t, "the drain", func() bool { return s.drained.Load() == 1 })
	close(event)
	if resp, body := c.response("GET"); body != "hello" || !resp.Close {
		t.Errorf("%q close=%v", body, resp.Close)
	}
	c.rest()
	if err := testkit.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

// A panic of a parked handler is handled like any other.
func TestWaitingHandlersPanic(t *testing.T) {
	s := startWaiting(t, setup{pool: executor.Options{Workers: 1}})
	c := s.dial()
	c.send("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := io.ReadAll(c.br); err != nil {
		t.Error(err)
	}
	c = s.dial()
	c.send("GET /panicpoll HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, _ := c.response("GET"); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("status %d", resp.StatusCode)
	}
	s.parked(0)
	s.serves(s.dial())
	if st := s.pool.Stats(); st.Panics != 2 || st.Left != 2 || st.Workers != 1 {
		t.Errorf("%+v", st)
	}
}

// Wait is a plain call where there is no worker to give up: in another server, and after the request.
func TestWaitElsewhere(t *testing.T) {
	ran := 0
	Wait(t.Context(), func() { ran++ })
	old := make(chan context.Context, 1)
	h := func(w http.ResponseWriter, r *http.Request) {
		Wait(r.Context(), func() { ran++ })
		old <- r.Context()
	}
	h(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	<-old
	s := start(t, h)
	c := s.dial()
	c.send(keepGet)
	c.response("GET")
	ctx := <-old
	s.parked(0)
	Wait(ctx, func() {
		ran++
		s.parked(0)
	})
	if ran != 4 || s.pool.Stats().Left != 1 {
		t.Errorf("%d calls, %+v", ran, s.pool.Stats())
	}
}

// A body that is there and a response that is taken cost no place.
func TestHandlersThatNeedNotWait(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		testkit.Eventually(t, "the body", r.Body.(*body).Ready)
		echo(w, r)
	})
	c := s.dial()
	for range 10 {
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
		c.response("POST")
	}
	if n := s.pool.Stats().Left; n != 0 {
		t.Errorf("a place was left %d times", n)
	}
}
