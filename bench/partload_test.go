package main

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestSteadyLoad: at a rate requests leave when they are due, also those of a server that takes its time, and their latency
// begins then.
func TestSteadyLoad(t *testing.T) {
	const rate, pause = 200, 100 * time.Millisecond
	for name, handle := range map[string]func(net.Conn){
		"honest": func(c net.Conn) { io.Copy(c, c) },
		"late": func(c net.Conn) {
			for buf := make([]byte, 64); ; {
				if _, err := io.ReadFull(c, buf); err != nil {
					return
				}
				time.Sleep(pause)
				c.Write(buf)
			}
		},
	} {
		l := shortLoad(serve(t, handle), 4, 64, 8)
		l.rate, l.duration = rate, 500*time.Millisecond
		res, err := l.round(context.Background(), func() error { return nil })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		due := int64(rate * res.elapsed.Seconds())
		if all := res.latencies.TotalCount(); all < due-1 || res.requests > due+int64(4*8) {
			t.Errorf("%s: %d due, %d answered, %d latencies", name, due, res.requests, all)
		}
		// A server of 4 connections that needs 100 ms for each request answers 40 a second. Of 200 the others wait ever longer.
		if name == "late" && res.latencies.Max() < int64(2*pause) {
			t.Errorf("a queue that grows is not seen: at most %v", time.Duration(res.latencies.Max()))
		}
	}
}

// TestPartLoad runs the comparison once, briefly: every server at every share, alone and beside a busy process.
func TestPartLoad(t *testing.T) {
	requireGCC(t)
	rep := runJSON(t, "part-load", "-rounds", "1", "-duration", "300ms", "-warmup", "50ms", "-cases", "4x16")
	if len(rep.Tables) != 2*len(shares) {
		t.Fatalf("%d tables", len(rep.Tables))
	}
	for i, tab := range rep.Tables {
		if tab.Hog != (i >= len(shares)) || tab.Share != shares[i%len(shares)] || tab.Rate <= 0 || len(tab.Rows) != 6 {
			t.Errorf("table %d: %+v", i, tab)
		}
		for _, r := range tab.Rows {
			if r.Median <= 0 || r.P50 <= 0 {
				t.Errorf("%s: implausible figures %+v", r.Name, r)
			}
		}
	}
	if text := rep.markdown(); !strings.Contains(text, "(20 % of the capacity), GOMAXPROCS=1") || !strings.Contains(text, "(80 % of half the capacity), a busy process") {
		t.Error(text)
	}
}

// TestFiles runs the comparison of files once, briefly. Every byte is compared.
func TestFiles(t *testing.T) {
	rep := runJSON(t, "files", "-rounds", "1", "-duration", "200ms", "-warmup", "20ms", "-cases", "4x1x4096,2x1x1048576")
	for _, tab := range rep.Tables {
		for _, r := range tab.Rows {
			if r.Median <= 0 || r.P50 <= 0 {
				t.Errorf("%s: implausible figures %+v", r.Name, r)
			}
		}
	}
	if len(rep.Tables) != 2 || len(rep.Tables[0].Rows) < 3 || !strings.Contains(rep.Note, "nginx") {
		t.Errorf("%d tables; %s", len(rep.Tables), rep.Note)
	}
}

// TestAnswersAreCompared: the answer of a server is compared byte by byte but for its date, from any offset.
func TestAnswersAreCompared(t *testing.T) {
	text := "HTTP/1.1 200 OK\r\nDate: Tue, 24 Nov 2026 00:00:00 GMT\r\nContent-Length: 5\r\n\r\nhello"
	from := strings.Index(text, "Tue")
	a := &httpAnswer{text: []byte(text), from: from, to: from + len("Tue, 24 Nov 2026 00:00:00 GMT")}
	stream := text + text + text
	for at := range len(text) {
		for n := 1; n <= 2*len(text); n += 7 {
			if !a.same(at, []byte(stream[at:at+n])) {
				t.Fatalf("%d bytes from %d on differ", n, at)
			}
		}
	}
	for i := range len(text) {
		other := []byte(text)
		other[i] ^= 1
		if dated := i >= a.from && i < a.to; a.same(0, other) != dated {
			t.Errorf("byte %d: date %v", i, dated)
		}
	}
}
