package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// callServer answers CALLs of the method m of /s: with their bodies, and each nth one BUSY; n of 0 is none.
func callServer(t *testing.T, n int) string {
	prefix := []byte("\x00\x00\x00\x00\x00\x00\x00\x03/s:\x00\x01m\x00\x00")
	return serve(t, func(c net.Conn) {
		r := bufio.NewReader(c)
		for i := 1; ; i++ {
			h := make([]byte, 16)
			if _, err := io.ReadFull(r, h); err != nil || h[11] != 2 {
				return
			}
			p := make([]byte, binary.BigEndian.Uint32(h[12:]))
			if _, err := io.ReadFull(r, p); err != nil || !bytes.HasPrefix(p, prefix) {
				return
			}
			body := p[len(prefix):]
			h[11] = 0
			if n > 0 && i%n == 0 {
				h[11], body = statusBusy, []byte("\x00\x00\x00\x05\x00\x01x")
			}
			binary.BigEndian.PutUint32(h[12:], uint32(len(body)))
			if _, err := c.Write(append(h, body...)); err != nil {
				return
			}
		}
	})
}

func callOptions(addr string) Options {
	return Options{Protocol: "rpc", Addr: addr, Conns: 3, Size: 20, InFlight: 8, Duration: 500 * time.Millisecond, Service: "/s:", Method: "m"}
}

// TestRefusals: BUSY is counted apart and ends nothing.
func TestRefusals(t *testing.T) {
	for _, rate := range []int{0, 2000} {
		o := callOptions(callServer(t, 4))
		o.Rate = rate
		r, o := enough(t, o)
		if r.Errors != 0 || r.Refused+3 < r.Requests/4 || r.Refusals.TotalCount() != r.Refused {
			t.Errorf("rate %d: %d requests, %d refused with %d latencies, %d errors (%v)", rate, r.Requests, r.Refused, r.Refusals.TotalCount(), r.Errors, r.FirstError)
		}
		// The window may begin and end anywhere in a connection's row of four.
		if all := r.Requests + r.Refused; r.Refused > all/4+int64(o.Conns) || r.Refused < all/4-int64(o.Conns) {
			t.Errorf("rate %d: %d of %d refused, want a fourth", rate, r.Refused, all)
		}
	}
}

// TestRate: a server that keeps up gets what the rate says, no more, and on a slow machine what is missing is told.
func TestRate(t *testing.T) {
	for _, protocol := range []string{"rpc", "frame"} {
		o := callOptions(map[string]func() string{"rpc": func() string { return callServer(t, 0) }, "frame": func() string { return frameServer(t) }}[protocol]())
		o.Protocol, o.Rate = protocol, 1000
		r, err := Run(context.Background(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		due := int64(float64(o.Rate) * o.Duration.Seconds())
		if all := r.Requests + r.Unanswered; r.Errors != 0 || all < due-int64(o.Conns) || all > due+int64(o.Conns) {
			t.Errorf("%s: %d answered, %d not, %d errors (%v), want %d in all", protocol, r.Requests, r.Unanswered, r.Errors, r.FirstError, due)
		}
		if n := r.Latencies.TotalCount(); n != r.Requests+r.Unanswered {
			t.Errorf("%s: %d latencies of %d requests", protocol, n, r.Requests+r.Unanswered)
		}
	}
}

// TestRateCountsWaiting: requests that a server which stands still keeps from being sent are measured from when they were due.
func TestRateCountsWaiting(t *testing.T) {
	addr := serve(t, func(c net.Conn) { io.Copy(io.Discard, c) }) // takes everything, answers nothing
	o := callOptions(addr)
	o.Rate, o.InFlight, o.Conns = 1000, 2, 1
	o.Warmup = 100 * time.Millisecond // the requests of which do not count
	r, err := Run(context.Background(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 0 || r.Unanswered < 499 || r.Unanswered > 501 {
		t.Errorf("%d answered, %d not, want 500", r.Requests, r.Unanswered)
	}
	// Due at 0, 1, 2 … 499 ms of 500: half of them are older than 250 ms, though only two were ever sent.
	if p50 := time.Duration(r.Latencies.ValueAtPercentile(50)); p50 < 240*time.Millisecond || p50 > 260*time.Millisecond {
		t.Errorf("the median is %v, want 250ms", p50)
	}
}

// TestRateMeasuresFromDue: while the server stands still, every request that comes due is late by as much as is left of that, not only the
// one that it keeps waiting.
func TestRateMeasuresFromDue(t *testing.T) {
	const stall = 200 * time.Millisecond
	for name, c := range map[string]struct {
		run   func(context.Context, Options, func(*Result)) (*Result, error)
		first int64 // request that has to wait; a churn asks once before it begins
	}{"run": {Run, 1}, "churn": {Churn, 2}} {
		var asked atomic.Int64
		addr := serve(t, func(conn net.Conn) {
			for b := make([]byte, 1); ; {
				if _, err := io.ReadFull(conn, b); err != nil {
					return
				}
				if asked.Add(1) == c.first {
					time.Sleep(stall)
				}
				conn.Write(b)
			}
		})
		o := Options{Protocol: "echo", Addr: addr, Conns: 1, Size: 1, InFlight: 1, Rate: 100, Duration: 2 * stall}
		r, err := c.run(context.Background(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		late := 0
		for _, b := range r.Latencies.Distribution() {
			if b.From >= int64(stall/2) {
				late += int(b.Count)
			}
		}
		if late < 9 { // due in the first half of the stall: 10
			t.Errorf("%s: %d of %d requests were late by half of the stall, want 10", name, late, r.Latencies.TotalCount())
		}
	}
}

// TestPlacesAreTakenUntilAnswersAreCounted: a request that is sent between an answer and its count has a place of its own. In that of the
// one answered it would take over its time, and its own answer would not count.
func TestPlacesAreTakenUntilAnswersAreCounted(t *testing.T) {
	p := newFrames(Options{Protocol: "frame", Size: 1, InFlight: 2})
	f := newFlight(p, 2)
	from := time.Now()
	send := func(n int) []byte {
		out := p.requests(1)
		f.sent(1, func(int) time.Time { return from.Add(time.Duration(n)) })
		out[11] = 0 // as its answer
		return bytes.Clone(out)
	}
	receive := func(answer []byte) {
		if n, err := p.receive(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(answer), io.Discard}); n != 1 || err != nil {
			t.Fatalf("%d answers: %v", n, err)
		}
	}
	var told []time.Duration
	count := func() {
		if err := f.answered(1, func(of time.Time, _ bool) { told = append(told, of.Sub(from)) }); err != nil {
			t.Fatal(err)
		}
	}
	first := send(1)
	receive(first)
	second := send(2)
	count()
	receive(second)
	count()
	if !slices.Equal(told, []time.Duration{1, 2}) {
		t.Errorf("the answers are to the requests of %d", told)
	}
}
