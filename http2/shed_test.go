package http2

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/limit"
)

// TestShedRequests: when the queue of an adaptive pool is full, a request that matters more takes the place of one that matters less, which is told so and when to come
// back. The other streams of the connection go on.
func TestShedRequests(t *testing.T) {
	gate := make(chan struct{})
	s := startWith(t, setup{
		pool: executor.Options{Workers: 1, Queue: 1, Adaptive: &executor.Adaptive{MaxWait: time.Hour}},
		opts: Options{Route: func(r *http.Request) (to http1.Route) {
			to.Class, _ = limit.ParseClass(r.Header.Get(limit.Field))
			return to
		}},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/hold" {
				<-gate
			}
		},
	})
	client := s.client()
	type end struct {
		class string
		resp  *http.Response
		err   error
	}
	ends := make(chan end, 4)
	ask := func(path, class string, queued int, shed uint64) {
		t.Helper()
		go func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url(path), nil)
			if err != nil {
				ends <- end{class, nil, err}
				return
			}
			r.Header.Set(limit.Field, class)
			resp, err := client.Do(r)
			if err == nil {
				err = resp.Body.Close()
			}
			ends <- end{class, resp, err}
		}()
		testkit.Eventually(t, "the requests to wait", func() bool {
			st := s.pool.Stats()
			return st.Queued == queued && st.Shed == shed && st.Running == 1
		})
	}
	ask("/hold", "critical", 0, 0)
	ask("/", "sheddable", 1, 0)
	ask("/", "critical_plus", 1, 1)
	e := testkit.Receive(t, "the refusal", ends)
	if e.err != nil || e.class != "sheddable" || e.resp.StatusCode != http.StatusServiceUnavailable || e.resp.Header.Get("Retry-After") != "10" {
		t.Errorf("%+v", e)
	}
	close(gate)
	for range 2 {
		if e := testkit.Receive(t, "an answer", ends); e.err != nil || e.resp.StatusCode != http.StatusOK {
			t.Errorf("%+v", e)
		}
	}
	if got := s.f.Stats().Busy; got != 1 {
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
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url("/hold"), nil)
		if err == nil {
			var resp *http.Response
			if resp, err = s.client().Do(r); err == nil {
				err = resp.Body.Close()
			}
		}
		left <- err
	}()
	testkit.Eventually(t, "the handler to run", func() bool { return s.pool.Stats().Running == 1 })
	resp, err := s.client().Get(s.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	leave()
	if err := testkit.Receive(t, "the client's end", left); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testkit.Eventually(t, "both to have ended", func() bool { return s.pool.Stats().Completed == 2 })
	testkit.Eventually(t, "one to be wasted", func() bool { return s.pool.Stats().Wasted == 1 })
}
