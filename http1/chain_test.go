package http1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// gets returns a pipelined request for each path.
func gets(paths ...string) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", p)
	}
	return b.String()
}

// chained is a server of tests of chains. Paths say what its handlers do; all of them note that they ran.
type chained struct {
	*server
	block     chan struct{}
	gone      chan struct{}
	suspended chan *Suspended
	mu        sync.Mutex
	ran       []string
}

func newChained(t *testing.T, c setup) *chained {
	s := &chained{block: make(chan struct{}), gone: make(chan struct{}, 10), suspended: make(chan *Suspended, 10)}
	c.handler = s.serve
	s.server = prepare(t, c)
	s.f.chainTime = time.Hour // a slow machine's handlers are slow
	return s
}

func (s *chained) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.ran = append(s.ran, strings.TrimPrefix(r.Method, "GET")+r.URL.Path)
	s.mu.Unlock()
	switch what, _, _ := strings.Cut(r.URL.Path[1:], "/"); what {
	case "block":
		<-s.block
	case "wait":
		Wait(r.Context(), func() { <-s.block })
	case "hold": // what the loop does next is close the connection, before it learns that this handler has ended
		conn := w.(*response).ex.conn
		if err := conn.Post(func() { <-s.block }); err != nil {
			s.t.Error(err)
		}
		conn.Close(eddy.CloseNormal)
	case "gone":
		<-r.Context().Done()
		s.gone <- struct{}{}
	case "suspend":
		held, err := Suspend(w)
		if err != nil {
			s.t.Error(err)
		}
		s.suspended <- held
		return
	case "panic":
		panic("boom")
	case "close":
		w.Header().Set("Connection", "close")
	case "stream":
		_, _ = io.WriteString(w, "first,")
		w.(http.Flusher).Flush()
	case "large":
		_, _ = io.WriteString(w, big(200_000))
		return
	case "hijack":
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			s.t.Error(err)
			return
		}
		rest, err := io.ReadAll(rw)
		_, _ = fmt.Fprintf(c, "taken over, then %q %v", rest, err)
		_ = c.Close()
		return
	}
	_, _ = io.WriteString(w, r.URL.Path)
}

func (s *chained) handlers() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.ran, " ")
}

// TestChain: pipelined requests that are there at once cost one task of the pool for each maxChain of them. Their responses come in order, also
// where some of them are written before they are complete.
func TestChain(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1}})
	s.listen()
	var paths []string
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/%s/%d", []string{"a", "b", "large", "c"}[i%4], i))
	}
	c := s.dial()
	c.send(gets(paths...))
	for _, p := range paths {
		want := p
		if strings.HasPrefix(p, "/large") {
			want = big(200_000)
		}
		if resp, body := c.response("GET"); body != want || resp.Close {
			t.Fatalf("%s: %.40q of %d bytes, close %v", p, body, len(body), resp.Close)
		}
	}
	if got := s.handlers(); got != strings.Join(paths, " ") {
		t.Errorf("the handlers ran for %s", got)
	}
	if st, f := s.pool.Stats(), s.f.Stats(); st.Submitted > 5 || f.Requests != 40 || f.Responses[2] != 40 {
		t.Errorf("%d tasks of the pool, %d requests, %d responses", st.Submitted, f.Requests, f.Responses[2])
	}
}

// TestChainTime: a worker that has no time left for a chain gives the rest of it back to the pool.
func TestChainTime(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1}})
	s.f.chainTime = 0
	s.listen()
	c := s.dial()
	c.send(gets("/1", "/2", "/stream", "/3"))
	for _, want := range []string{"/1", "/2", "first,/stream", "/3"} {
		if _, body := c.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	if st := s.pool.Stats(); st.Submitted != 4 {
		t.Errorf("%d tasks of the pool, want 4", st.Submitted)
	}
}

// TestChainAndStream: a handler that streams has given its place up, so the chain behind it is another task.
func TestChainAndStream(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1}})
	s.listen()
	c := s.dial()
	c.send(gets("/1", "/stream", "/2", "/3"))
	for _, want := range []string{"/1", "first,/stream", "/2", "/3"} {
		if _, body := c.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	if st := s.pool.Stats(); st.Submitted != 2 {
		t.Errorf("%d tasks of the pool, want 2", st.Submitted)
	}
}

// TestChainDoesNotWait: a response reaches the client although the handler behind it has not ended.
func TestChainDoesNotWait(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1}})
	s.listen()
	c := s.dial()
	c.send(gets("/1", "/2", "/block", "/3"))
	for _, want := range []string{"/1", "/2"} {
		if _, body := c.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	if got := s.handlers(); !strings.HasPrefix("/1 /2 /block", got) {
		t.Errorf("the handlers ran for %s", got)
	}
	close(s.block)
	for _, want := range []string{"/block", "/3"} {
		if _, body := c.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
}

// TestChainEnds: what ends or takes over a connection in the middle of a chain leaves the rest of it unanswered, and nothing
// of it in flight.
func TestChainEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		send string
		end  bool     // the client ends its side
		want []string // responses
		rest string   // what comes then
		ran  string
	}{
		"close":     {send: gets("/1", "/close", "/2", "/3"), want: []string{"/1", "/close"}, ran: "/1 /close"},
		"panic":     {send: gets("/1", "/panic", "/2"), want: []string{"/1", "the handler failed\n"}, ran: "/1 /panic"},
		"hijack":    {send: gets("/1", "/hijack", "/2", "/3") + "more", end: true, want: []string{"/1"}, rest: fmt.Sprintf("taken over, then %q <nil>", gets("/2", "/3")+"more"), ran: "/1 /hijack"},
		"malformed": {send: gets("/1", "/2") + "GET / HTTP/9\r\n\r\n", want: []string{"/1", "/2", ""}, ran: "/1 /2"},
		"end":       {send: gets("/1", "/2", "/3"), end: true, want: []string{"/1", "/2", "/3"}, ran: "/1 /2 /3"},
		"body":      {send: gets("/1") + "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi" + gets("/3"), end: true, want: []string{"/1", "/2", "/3"}, ran: "/1 POST/2 /3"},
		"last":      {send: gets("/1") + "GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + gets("/3"), want: []string{"/1", "/2"}, ran: "/1 /2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newChained(t, setup{pool: executor.Options{Workers: 1}, opts: Options{BodyBuffer: 16}})
			s.listen()
			c := s.dial()
			c.send(tt.send)
			if tt.end {
				if err := c.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range tt.want {
				if _, body := c.response("GET"); want != "" && body != want {
					t.Errorf("%q, want %q", body, want)
				}
			}
			if rest := c.rest(); rest != tt.rest {
				t.Errorf("then %q, want %q", rest, tt.rest)
			}
			if got := s.handlers(); got != tt.ran {
				t.Errorf("the handlers ran for %s, want %s", got, tt.ran)
			}
			testkit.Eventually(t, "no connection", func() bool { return s.srv.Stats().Active == 0 })
		})
	}
}

// TestChainSuspended: behind a suspended request the chain goes on after Resume.
func TestChainSuspended(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1}})
	s.listen()
	c := s.dial()
	c.send(gets("/1", "/suspend", "/2", "/suspend", "/3"))
	for _, want := range []string{"/1", "one", "/2", "two", "/3"} {
		if !strings.HasPrefix(want, "/") {
			if err := testkit.Receive(t, "the suspended request", s.suspended).Resume(http.StatusOK, []byte(want)); err != nil {
				t.Fatal(err)
			}
		}
		if _, body := c.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
}

// TestChainAndRoutes: requests of one chain run on the pools of their routes.
func TestChainAndRoutes(t *testing.T) {
	other, err := executor.NewFixed(executor.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s := newChained(t, setup{pool: executor.Options{Workers: 1}, opts: Options{Route: func(r *http.Request) (to Route) {
		if strings.HasPrefix(r.URL.Path, "/other") {
			to.Pool = other
		}
		return to
	}}})
	s.listen()
	c := s.dial()
	paths := []string{"/1", "/2", "/other/1", "/other/2", "/3"}
	c.send(gets(paths...))
	for _, want := range paths {
		if _, body := c.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	if a, b := s.pool.Stats().Submitted, other.Stats().Submitted; a != 2 || b != 1 {
		t.Errorf("%d and %d tasks of the pools, want 2 and 1", a, b)
	}
}

// TestChainWaits: a handler in the middle of a chain that waits lets others have the worker.
func TestChainWaits(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1}})
	s.listen()
	c := s.dial()
	c.send(gets("/1", "/wait", "/2"))
	c.response("GET")
	other := s.dial()
	other.send(gets("/other"))
	if _, body := other.response("GET"); body != "/other" {
		t.Errorf("%q", body)
	}
	close(s.block)
	for _, want := range []string{"/wait", "/2"} {
		if _, body := c.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
}

// TestChainAndAdaptivePools: an adaptive pool decides about each request.
func TestChainAndAdaptivePools(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1, Adaptive: new(executor.Adaptive)}})
	s.listen()
	c := s.dial()
	c.send(gets("/1", "/2", "/3"))
	for _, want := range []string{"/1", "/2", "/3"} {
		if _, body := c.response("GET"); body != want {
			t.Errorf("%q, want %q", body, want)
		}
	}
	if st := s.pool.Stats(); st.Submitted != 3 {
		t.Errorf("%d tasks of the pool, want 3", st.Submitted)
	}
}

// TestChainDisconnected: a handler of a chain learns of the end of its connection, also when the loop does not know yet that
// the one before has ended, and no other begins.
func TestChainDisconnected(t *testing.T) {
	for _, path := range []string{"/1", "/hold"} {
		s := newChained(t, setup{pool: executor.Options{Workers: 1}})
		s.listen()
		c := s.dial()
		c.send(gets(path, "/gone", "/2"))
		testkit.Eventually(t, "the second handler", func() bool { return s.handlers() == path+" /gone" })
		if path == "/hold" {
			close(s.block)
		} else if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
			t.Fatal(err)
		}
		testkit.Receive(t, "the end of the context", s.gone)
		testkit.Eventually(t, "an idle pool", func() bool { return s.pool.Stats().Running == 0 })
		if st := s.pool.Stats(); s.handlers() != path+" /gone" || st.Submitted != 1 {
			t.Errorf("the handlers ran for %s, in %d tasks", s.handlers(), st.Submitted)
		}
	}
}

// TestChainAndDrain: a draining server answers the request of a chain that is being handled, says close, and begins no other.
func TestChainAndDrain(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1}})
	s.listen()
	c := s.dial()
	c.send(gets("/1", "/block", "/2"))
	c.response("GET")
	report := make(chan eddy.DrainReport, 1)
	go func() {
		r, err := s.srv.Shutdown(testkit.Context(t))
		report <- r
		if err != nil && !errors.Is(err, eddy.ErrServerClosed) {
			t.Error(err)
		}
	}()
	testkit.Eventually(t, "the drain", func() bool { return s.drained.Load() == 1 })
	close(s.block)
	if resp, body := c.response("GET"); body != "/block" || !resp.Close {
		t.Errorf("%q, close %v", body, resp.Close)
	}
	if rest := c.rest(); rest != "" {
		t.Errorf("then %q", rest)
	}
	if r := testkit.Receive(t, "the report", report); r.Drained != 1 {
		t.Errorf("%+v", r)
	}
	if got := s.handlers(); got != "/1 /block" {
		t.Errorf("the handlers ran for %s", got)
	}
}

// TestChainAndHandlerTimeout: a request has the whole time of a handler, however long those before it in its chain took.
func TestChainAndHandlerTimeout(t *testing.T) {
	s := newChained(t, setup{pool: executor.Options{Workers: 1}, clock: true, answer: timeout})
	s.f.chainTime = 0
	s.listen()
	c := s.dial()
	c.send(gets("/block/1", "/block/2", "/block/3", "/4"))
	ran := ""
	for _, want := range []string{"/block/1", "/block/2", "/block/3"} {
		ran = strings.TrimSpace(ran + " " + want)
		testkit.Eventually(t, "the handler", func() bool { return s.handlers() == ran })
		s.clock.Advance(timeout * 2 / 3)
		s.block <- struct{}{}
		if resp, body := c.response("GET"); body != want || resp.Close {
			t.Fatalf("%d %q, want %q", resp.StatusCode, body, want)
		}
	}
	if _, body := c.response("GET"); body != "/4" {
		t.Errorf("%q, want /4", body)
	}
}
