package http1

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/limit"
)

// TestShedRequests: when the queue of an adaptive pool is full, a request that matters more takes the place of one that matters less, which is told so and when to come
// back. Its connection stays, unless a body may still come.
func TestShedRequests(t *testing.T) {
	gate := make(chan struct{})
	s := startWith(t, setup{
		pool: executor.Options{Workers: 1, Queue: 1, Adaptive: &executor.Adaptive{MaxWait: time.Hour}},
		opts: Options{Route: func(r *http.Request) (to Route) {
			to.Class, _ = limit.ParseClass(r.Header.Get(limit.Field))
			return to
		}},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				<-gate
			}
		},
	})
	ask := func(head, class, body string) *raw {
		c := s.dial()
		c.send(head + " HTTP/1.1\r\nHost: a\r\n" + limit.Field + ": " + class + "\r\n" + body)
		return c
	}
	waits := func(n int, shed uint64) {
		t.Helper()
		testkit.Eventually(t, "the requests to wait", func() bool {
			st := s.pool.Stats()
			return st.Queued == n && st.Shed == shed && st.Running == 1
		})
	}
	holder := ask("GET /hold", "critical", "\r\n")
	waits(0, 0)
	low := ask("GET /", "sheddable", "\r\n")
	waits(1, 0)
	body := ask("POST /", "critical", "Content-Length: 3\r\n\r\n")
	waits(1, 1)
	high := ask("GET /", "critical_plus", "\r\n")
	waits(1, 2)
	for method, c := range map[string]*raw{"GET": low, "POST": body} {
		resp, _ := c.response(method)
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "10" || resp.Close != (method == "POST") {
			t.Errorf("%s: %d, Retry-After %q, close %v", method, resp.StatusCode, resp.Header.Get("Retry-After"), resp.Close)
		}
	}
	close(gate)
	for _, c := range []*raw{holder, high} {
		if resp, _ := c.response("GET"); resp.StatusCode != http.StatusOK {
			t.Errorf("%d", resp.StatusCode)
		}
	}
	low.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, _ := low.response("GET"); resp.StatusCode != http.StatusOK {
		t.Errorf("on the connection of the refused one: %d", resp.StatusCode)
	}
	if got := s.f.Stats().Busy; got != 2 {
		t.Errorf("%d were counted as refused", got)
	}
}

// TestClientLeaves: what a handler has done for a client that has left meanwhile is counted as wasted in an adaptive pool, and what others get is not.
func TestClientLeaves(t *testing.T) {
	s := startWith(t, setup{
		pool: executor.Options{Workers: 2, Adaptive: &executor.Adaptive{}},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				<-r.Context().Done()
			}
		},
	})
	c := s.dial()
	c.send("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Eventually(t, "the handler to run", func() bool { return s.pool.Stats().Running == 1 })
	resp, err := http.Get("http://" + s.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "both to have ended", func() bool { return s.pool.Stats().Completed == 2 })
	testkit.Eventually(t, "one to be wasted", func() bool { return s.pool.Stats().Wasted == 1 })
}
