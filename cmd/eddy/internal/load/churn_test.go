package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

// tlsServer echoes over TLS and counts the connections that have shaken hands.
func tlsServer(t *testing.T, visits *atomic.Int64) string {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	config := &tls.Config{Certificates: certified.TLS.Certificates}
	certified.Close()
	return serve(t, func(c net.Conn) {
		s := tls.Server(c, config)
		if s.Handshake() == nil {
			visits.Add(1)
			io.Copy(s, s)
		}
	})
}

// TestTLS: both loops speak it, and a server that does not is an error of that kind.
func TestTLS(t *testing.T) {
	var visits atomic.Int64
	o := Options{Protocol: "echo", Addr: tlsServer(t, &visits), TLS: true, Conns: 2, Size: 64, InFlight: 2, Duration: 100 * time.Millisecond}
	for _, rate := range []int{0, 200} {
		o.Rate = rate
		r, _ := enough(t, o)
		if r.Requests == 0 || r.Errors != 0 {
			t.Fatalf("rate %d: %+v", rate, r)
		}
	}
	testkit.Eventually(t, "four connections over TLS", func() bool { return visits.Load() >= 4 }) // the server learns of the last one later than its client
	o.Addr = echoServer(t)
	if _, err := Run(context.Background(), o, nil); err == nil || kindOf(err) != KindTLS {
		t.Errorf("a server without TLS: %v of kind %s", err, kindOf(err))
	}
}

// TestChurn: every request has a connection of its own, and its latency has the connecting in it.
func TestChurn(t *testing.T) {
	for _, rate := range []int{0, 300} {
		var conns atomic.Int64
		addr := serve(t, func(c net.Conn) {
			conns.Add(1)
			io.Copy(c, c)
		})
		o := Options{Protocol: "echo", Addr: addr, Conns: 4, Size: 64, Rate: rate, Duration: 200 * time.Millisecond}
		r, err := Churn(context.Background(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests == 0 && r.Unanswered == 0 && rate > 0 || r.Errors != 0 || r.Latencies.TotalCount() != r.Requests+r.Unanswered || conns.Load() < r.Requests {
			t.Errorf("rate %d: %d visits, %d unanswered, %d connections, %d errors (%v)", rate, r.Requests, r.Unanswered, conns.Load(), r.Errors, r.FirstError)
		}
		if all := r.Requests + r.Unanswered; rate > 0 && all != 60 {
			t.Errorf("%d visits of 60 that were due", all)
		}
	}
}

// TestChurnGoesOn: a visit that fails is counted by its kind, and the next one made; a refusal is no error.
func TestChurnGoesOn(t *testing.T) {
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) % 3 {
		case 0:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			panic(http.ErrAbortHandler) // hangs up
		}
	}))
	defer srv.Close()
	o := Options{Protocol: "http", Addr: srv.Listener.Addr().String(), Conns: 1, Duration: time.Minute}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := Churn(ctx, o, func(r *Result) {
		if r.Requests > 0 && r.Refused > 0 && r.Errors > 0 {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Kinds[KindClosed] != r.Errors || r.Errors == 0 || r.Refused == 0 || r.Requests == 0 || r.FirstError == nil {
		t.Errorf("%d visits, %d refused, errors %v", r.Requests, r.Refused, r.Kinds)
	}
}

// TestWarmup: what is answered before the window does not count, in either loop.
func TestWarmup(t *testing.T) {
	var asked atomic.Int64
	addr := serve(t, func(c net.Conn) {
		for b := make([]byte, 1); ; {
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			asked.Add(1)
			c.Write(b)
		}
	})
	o := Options{Protocol: "echo", Addr: addr, Conns: 1, Size: 1, InFlight: 1, Warmup: 200 * time.Millisecond, Duration: 200 * time.Millisecond}
	for _, rate := range []int{0, 1000} {
		o.Rate = rate
		var r *Result
		for ; ; o.Warmup *= 4 { // a machine that is busy may answer nothing in a short warm-up
			asked.Store(0)
			var err error
			if r, err = Run(context.Background(), o, nil); err != nil {
				t.Fatal(err)
			}
			if r.Requests < asked.Load() || o.Warmup > 10*time.Second {
				break
			}
		}
		if rate > 0 && r.Requests+r.Unanswered != 200 {
			t.Errorf("%d answered and %d not, want the 200 of the window", r.Requests, r.Unanswered)
		}
		if r.Requests > 0 && r.Requests >= asked.Load() || r.Latencies.TotalCount() != r.Requests+r.Unanswered || r.Elapsed > o.Duration {
			t.Errorf("rate %d: %d counted of %d, %d latencies, %v", rate, r.Requests, asked.Load(), r.Latencies.TotalCount(), r.Elapsed)
		}
	}
}

// TestRateOfEveryProtocol: answers in order or not, the constant rate is kept.
func TestRateOfEveryProtocol(t *testing.T) {
	servers := map[string]string{"echo": echoServer(t), "line": lineServer(t), "http": webServer(t), "ws": socketServer(t, true)}
	for _, protocol := range slices.Sorted(maps.Keys(servers)) {
		o := Options{Protocol: protocol, Addr: servers[protocol], Conns: 3, Size: 20, InFlight: 4, Rate: 600, Duration: 200 * time.Millisecond}
		r, err := Run(context.Background(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if all := r.Requests + r.Unanswered; r.Errors != 0 || all != 120 || r.Late.TotalCount() > 120 {
			t.Errorf("%s: %d answered, %d not, %d errors (%v), want 120 in all", protocol, r.Requests, r.Unanswered, r.Errors, r.FirstError)
		}
	}
}

// TestKinds: each failure is counted by what a person would call it.
func TestKinds(t *testing.T) {
	for kind, err := range map[string]error{
		KindRefused: &net.OpError{Err: syscall.ECONNREFUSED}, KindReset: &net.OpError{Err: syscall.EPIPE}, KindClosed: closedByServer(io.ErrUnexpectedEOF),
		KindTimeout: context.DeadlineExceeded, KindDescriptors: &net.OpError{Err: syscall.EMFILE}, KindTLS: tls.AlertError(40),
		KindWrongAnswer: wrong("x"), KindOther: errors.New("x"), KindStatus: &fault{KindStatus, io.EOF},
	} {
		if got := kindOf(err); got != kind {
			t.Errorf("%v: %q, want %q", err, got, kind)
		}
	}
	if err := closedByServer(io.EOF); !strings.Contains(err.Error(), "closed the connection") {
		t.Error(err)
	}
}

// TestWarmupOfTheClosedLoop: answers that all came before the window are none.
func TestWarmupOfTheClosedLoop(t *testing.T) {
	for warmup := 300 * time.Millisecond; ; warmup *= 4 {
		addr := serve(t, func(c net.Conn) {
			io.CopyN(c, c, 3) // and then silence
			io.Copy(io.Discard, c)
		})
		r, err := Run(context.Background(), Options{Protocol: "echo", Addr: addr, Conns: 1, Size: 1, InFlight: 1, Warmup: warmup, Duration: 20 * time.Millisecond}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests == 0 && r.Latencies.TotalCount() == 0 {
			return
		}
		if warmup > 5*time.Second {
			t.Fatalf("%d answers counted, all of which came in the warm-up of %v", r.Requests, warmup)
		}
	}
}
