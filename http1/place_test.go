package http1

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// bigSize is the answer of /big, far more than the connection takes unread.
const bigSize = 512 << 10

// waiting are handlers that wait, each in its way.
func waiting(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/big":
		for range bigSize >> 15 {
			if _, err := io.WriteString(w, big(1<<15)); err != nil {
				return
			}
		}
	case "/body":
		echo(w, r)
	case "/proxied": // as by a client that sends the body on, on a goroutine of its own
		copied := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, r.Body)
			copied <- err
		}()
		<-copied
	case "/events":
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case "/poll":
		ctx := context.WithValue(r.Context(), placeTestKey{}, "") // as middleware makes them
		Wait(ctx, func() { <-ctx.Done() })
	case "/hijack":
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	case "/panic":
		_ = http.NewResponseController(w).Flush()
		panic("a stream fails")
	case "/panicpoll":
		Wait(r.Context(), func() { panic("a wait fails") })
	default:
		hello(w, r)
	}
}

type placeTestKey struct{}

// requests to the waiting handlers.
const (
	getBig    = "GET /big HTTP/1.1\r\nHost: a\r\n\r\n"
	stallBody = "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc"
	getEvents = "GET /events HTTP/1.1\r\nHost: a\r\n\r\n"
	getPoll   = "GET /poll HTTP/1.1\r\nHost: a\r\n\r\n"
)

// startWaiting is a server of the waiting handlers whose connections take little.
func startWaiting(t *testing.T, c setup) *server {
	t.Helper()
	if c.handler == nil {
		c.handler = waiting
	}
	c.marks = eddy.Watermarks{Low: 16 << 10, High: 64 << 10, Max: 256 << 10}
	s := prepare(t, c)
	enginetest.Narrow(s.srv)
	s.listen()
	return s
}

// dialFrom connects from an address of the loopback network.
func (s *server) dialFrom(ip string) *raw {
	s.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	c, err := d.DialContext(s.t.Context(), "tcp", s.addr)
	if err != nil {
		s.t.Skipf("this system has no %s: %v", ip, err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		s.t.Fatal(err)
	}
	return newRaw(s.t, c)
}

// parked waits until n handlers are parked, and nobody else has a worker.
func (s *server) parked(n int) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprint(n, " parked handlers"), func() bool { st := s.pool.Stats(); return st.Parked == n && st.Running == 0 })
}

// serves checks that somebody's requests are answered.
func (s *server) serves(c *raw) {
	s.t.Helper()
	for range 5 {
		c.send(keepGet)
		if resp, body := c.response("GET"); resp.StatusCode != 200 || body != "hello" {
			s.t.Fatalf("%d %q", resp.StatusCode, body)
		}
	}
}

// Clients that keep their handlers waiting, many more than there are workers, do not keep other clients from an answer.
func TestWaitingHandlersHoldNoWorker(t *testing.T) {
	for name, request := range map[string]string{
		"slow readers":     getBig,
		"stalled bodies":   stallBody,
		"proxied bodies":   strings.Replace(stallBody, "/body", "/proxied", 1),
		"events":           getEvents,
		"long polls":       getPoll,
		"hijackers":        strings.Replace(getPoll, "/poll", "/hijack", 1),
		"expected bodies":  "POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
		"chunks that stop": "POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		for _, n := range []int{64, 640} {
			if n > 64 && (testing.Short() || os.Getenv("EDDY_POLLER") == "select") { // which takes descriptors below 1024 only
				continue
			}
			t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
				s := startWaiting(t, setup{pool: executor.Options{Workers: 4, Queue: 1000}})
				var clients []*enginetest.Peer
				for range n {
					c := enginetest.DialNarrow(t, s.addr)
					c.Send(request)
					clients = append(clients, c)
				}
				s.parked(n)
				s.serves(s.dial())
				if st := s.pool.Stats(); st.Workers > 4 || st.Crowded != 0 {
					t.Errorf("%+v", st)
				}
				for _, c := range clients {
					c.Reset()
				}
				s.parked(0)
			})
		}
	}
}

// Slow readers get the whole response when they read, and stalled bodies are taken when they come.
func TestWaitingHandlersGoOn(t *testing.T) {
	s := startWaiting(t, setup{pool: executor.Options{Workers: 2, Queue: 100}})
	const n = 32
	var readers, senders []*raw
	for range n {
		r, b := s.dial(), s.dial()
		r.send(getBig)
		b.send(stallBody)
		readers, senders = append(readers, r), append(senders, b)
	}
	s.parked(2 * n)
	var wg sync.WaitGroup
	for _, c := range readers {
		wg.Go(func() {
			resp, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.Copy(io.Discard, resp.Body); got != bigSize || err != nil {
				t.Errorf("%d bytes of %d, %v", got, bigSize, err)
			}
		})
	}
	for _, c := range senders {
		wg.Go(func() {
			if _, err := io.WriteString(c, big(100000-3)); err != nil {
				t.Error(err)
			}
			resp, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.ReadAll(resp.Body); string(got) != "POST /body abc"+big(100000-3) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	wg.Wait()
	s.parked(0)
	if st := s.pool.Stats(); st.Completed != 2*n || st.Left < 2*n {
		t.Errorf("%+v", st)
	}
}

// A handler that has waited has a place again when it goes on. A handler that streams has none.
func TestWaitingHandlersHaveAPlaceAgain(t *testing.T) {
	event, waited, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := startWaiting(t, setup{pool: executor.Options{Workers: 1}, handler: func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/poll":
			Wait(r.Context(), func() { <-event })
		case "/body", "/big":
			waiting(w, r)
		case "/events":
			_ = http.NewResponseController(w).Flush()
			waiting(w, r)
		}
		waited <- struct{}{}
		<-goOn
	}})
	for _, tt := range []struct {
		path    string
		parked  int // afterwards
		request string
		goOn    func(c *raw)
	}{
		{"/poll", 0, getPoll, func(*raw) { event <- struct{}{} }},
		{"/body", 0, stallBody, func(c *raw) { c.send(big(100000 - 3)) }},
		{"/big", 0, getBig, func(c *raw) { _, _ = io.CopyN(io.Discard, c.br, bigSize) }},
		{"/events", 1, getEvents, func(c *raw) { _ = c.SetLinger(0); _ = c.Close() }},
	} {
		c := s.dial()
		c.send(tt.request)
		s.parked(1)
		tt.goOn(c)
		testkit.Receive(t, "the end of the wait of "+tt.path, waited)
		if st := s.pool.Stats(); st.Parked != tt.parked || st.Running != 1-tt.parked {
			t.Errorf("%s: %+v", tt.path, st)
		}
		goOn <- struct{}{}
		s.parked(0)
	}
}

// A handler whose body has come goes on before requests that have not begun, also with a full queue and a worker that never
// gets free.
func TestWaitingHandlerComesFirst(t *testing.T) {
	gate := make(chan struct{})
	entered := make(chan string, 10)
	s := startWaiting(t, setup{pool: executor.Options{Workers: 1, Queue: 2}, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			entered <- "busy"
			<-gate
		}
		echo(w, r)
		entered <- r.URL.Path
	}})
	slow := s.dial()
	slow.send("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc")
	s.parked(1)
	for i, path := range []string{"/busy", "/1", "/2"} {
		s.dial().send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if path == "/busy" {
			testkit.Receive(t, "the busy one", entered)
		}
		testkit.Eventually(t, "its place in the queue", func() bool { return s.pool.Stats().Queued == i })
	}
	full := s.dial()
	full.send(keepGet)
	if resp, _ := full.response("GET"); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a full pool answers %d", resp.StatusCode)
	}
	slow.send("def")
	for _, want := range []string{"/body", "/busy", "/1", "/2"} {
		if got := testkit.Receive(t, "a request", entered); got != want {
			t.Errorf("%s ends where %s should", got, want)
		}
		if want == "/body" {
			if _, body := slow.response("POST"); body != "POST /body abcdef" {
				t.Errorf("%q", body)
			}
			close(gate)
		}
	}
	s.parked(0)
	if n := s.pool.Stats().Workers; n != 1 {
		t.Errorf("%d workers of 1 are left", n)
	}
}
