package http2

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestClientTinyWindows: a body goes out under windows that the server opens byte by byte, and comes in under a window of one.
func TestClientTinyWindows(t *testing.T) {
	const text = "a body of some bytes, one by one"
	base := script(t, func(p *peer) {
		id, got := p.takes(), ""
		for len(got) < len(text) {
			f := until[*wire.DataFrame](p)
			if f == nil {
				return
			}
			if len(f.Data()) != 1 {
				p.t.Errorf("%d bytes in a window of 1", len(f.Data()))
			}
			got += string(f.Data())
			_ = p.WriteWindowUpdate(id, 1)
			_ = p.WriteWindowUpdate(0, 1)
		}
		_ = p.answers(id, false, ":status", "200")
		open := 1 // the client's window
		for got != "" {
			for open == 0 {
				f, err := p.ReadFrame()
				if err != nil {
					return
				}
				if w, ok := f.(*wire.WindowUpdateFrame); ok && w.StreamID == id {
					open += int(w.Increment)
				}
			}
			_ = p.WriteData(id, len(got) == 1, []byte(got[:1]))
			got = got[1:]
			open--
		}
	}, wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1})
	tr := transport(t, &Transport{BodyBuffer: 1})
	if o := fetch(tr, request(t, "POST", base, strings.NewReader(text))); o.err != nil || o.body != text {
		t.Errorf("%v, %q", o.err, o.body)
	}
}

// TestClientConnWindow: streams that wait for the window of the connection go on when it opens.
func TestClientConnWindow(t *testing.T) {
	base := script(t, func(p *peer) {
		left := map[uint32]int{}
		for ended := 0; ended < 3; {
			switch f := p.next().(type) {
			case nil:
				return
			case *wire.MetaHeadersFrame:
				left[f.StreamID] = 40000
			case *wire.DataFrame:
				if left[f.StreamID] -= len(f.Data()); f.StreamEnded() {
					if ended++; left[f.StreamID] != 0 {
						p.t.Errorf("stream %d lacks %d bytes", f.StreamID, left[f.StreamID])
					}
					_ = p.answers(f.StreamID, true, ":status", "200")
				}
				_ = p.WriteWindowUpdate(0, uint32(max(len(f.Data()), 1)))
			}
		}
	}, wire.Setting{ID: wire.SettingInitialWindowSize, Val: 1 << 20})
	tr := transport(t, &Transport{})
	var all []<-chan outcome
	for range 3 {
		all = append(all, ask(tr, request(t, "POST", base, strings.NewReader(bigText(40000)))))
	}
	for _, done := range all {
		if o := testkit.Receive(t, "an answer", done); o.err != nil {
			t.Error(o.err)
		}
	}
}

// TestClientGoAway: requests behind the last one that a leaving server has taken go to a new connection; the others are
// answered on the old one.
func TestClientGoAway(t *testing.T) {
	all, gone := make(chan struct{}), make(chan struct{})
	base := script(t, func(p *peer) {
		if p.n > 0 {
			p.serves("second")
			return
		}
		for range 3 {
			p.takes()
		}
		close(all)
		_ = p.WriteGoAway(1, wire.ErrCodeNo, []byte("bye"))
		<-gone
		_ = p.answers(1, false, ":status", "200")
		_ = p.WriteData(1, true, []byte("first"))
	})
	tr := transport(t, &Transport{MaxConnsPerHost: 1})
	var asked []<-chan outcome
	for range 3 {
		r := request(t, "POST", base, strings.NewReader("body"))
		asked = append(asked, ask(tr, r))
	}
	testkit.Receive(t, "three requests", all)
	testkit.Eventually(t, "two requests to be sent again", func() bool { return tr.Stats().Retried == 2 })
	if o := fetch(tr, request(t, "GET", base, nil)); o.err != nil || o.body != "second" {
		t.Errorf("a request beside them: %v %q", o.err, o.body)
	}
	close(gone)
	bodies := map[string]int{}
	for _, done := range asked {
		o := testkit.Receive(t, "an answer", done)
		if o.err != nil {
			t.Error(o.err)
		}
		bodies[o.body]++
	}
	if bodies["first"] != 1 || bodies["second"] != 2 {
		t.Errorf("answers: %v", bodies)
	}
	testkit.Eventually(t, "the old connection to end", func() bool { return tr.Stats().Open == 1 })
}

// TestClientRefused: a refused request is sent again if its body can be, a few times, and never once an answer has begun.
func TestClientRefused(t *testing.T) {
	var refusals atomic.Int64 // left
	var seen atomic.Int64
	base := script(t, func(p *peer) {
		for id := p.takes(); id != 0; id = p.takes() {
			seen.Add(1)
			switch {
			case refusals.Add(-1) >= 0:
				_ = p.WriteRSTStream(id, wire.ErrCodeRefusedStream)
			case refusals.Load() < -100: // begins to answer first
				_ = p.answers(id, false, ":status", "200")
				_ = p.WriteData(id, false, []byte("x"))
				_ = p.WriteRSTStream(id, wire.ErrCodeRefusedStream)
			default:
				_ = p.answers(id, true, ":status", "204")
			}
		}
	})
	tr := transport(t, &Transport{ExpectContinueTimeout: -1})
	once := func() io.Reader { return struct{ io.Reader }{strings.NewReader("body")} }
	for _, c := range []struct {
		name     string
		refusals int64
		body     io.Reader
		expect   string
		ok       bool
		sent     int64
	}{
		{"no body", 1, nil, "", true, 2},
		{"three times", 3, nil, "", true, 4},
		{"too often", 4, nil, "", false, 4},
		{"a body that comes again", 1, strings.NewReader("body"), "", true, 2},
		{"a body that waits", 1, once(), "100-continue", true, 2},
		{"an answer that has begun", -200, nil, "", false, 1},
	} {
		refusals.Store(c.refusals)
		seen.Store(0)
		r := request(t, "POST", base, c.body)
		if c.expect != "" {
			r.Header.Set("Expect", c.expect)
		}
		o := fetch(tr, r)
		var se *StreamError
		if (o.err == nil) != c.ok || !c.ok && (!errors.As(o.err, &se) || se.Code != CodeRefusedStream || !se.Remote) || seen.Load() != c.sent {
			t.Errorf("%s: %v after %d attempts, want %d", c.name, o.err, seen.Load(), c.sent)
		}
	}
}

// TestClientUnrepeatable: a body of which something was read, and that cannot come again, is not sent twice.
func TestClientUnrepeatable(t *testing.T) {
	base := script(t, func(p *peer) {
		id := p.takes()
		if until[*wire.DataFrame](p) != nil {
			_ = p.WriteRSTStream(id, wire.ErrCodeRefusedStream)
		}
		p.serves("again")
	})
	o := fetch(transport(t, &Transport{}), request(t, "PUT", base, struct{ io.Reader }{strings.NewReader("body")}))
	var se *StreamError
	if !errors.As(o.err, &se) || se.Code != CodeRefusedStream {
		t.Errorf("%v %q", o.err, o.body)
	}
}

// TestClientLost: a connection that ends ends its requests; one that had served before, a repeatable request survives.
func TestClientLost(t *testing.T) {
	base := script(t, func(p *peer) {
		if p.n < 2 {
			_ = p.answers(p.takes(), true, ":status", "204")
			p.takes()
			_ = p.conn.Close()
			return
		}
		p.serves("second")
	})
	tr := transport(t, &Transport{})
	for _, c := range []struct {
		method string
		ok     bool
	}{{"POST", false}, {"GET", true}} {
		if o := fetch(tr, request(t, "GET", base, nil)); o.err != nil {
			t.Fatal(o.err)
		}
		o := fetch(tr, request(t, c.method, base, nil))
		if c.ok != (o.err == nil) || !c.ok && !errors.Is(o.err, ErrStale) {
			t.Errorf("%s: %v", c.method, o.err)
		}
	}
}

// TestClientSpaces: spaces at the ends of a response's fields, which RFC 9113 does not allow, are cut off, as servers of
// gRPC send them.
func TestClientSpaces(t *testing.T) {
	base := script(t, func(p *peer) {
		id := p.takes()
		_ = p.answers(id, false, ":status", "200", "x-head", " a b ", "x-empty", " ")
		_ = p.WriteData(id, false, []byte("body"))
		_ = p.answers(id, true, "grpc-message", "not found: \t")
		p.next()
	})
	resp, err := transport(t, &Transport{}).RoundTrip(request(t, "GET", base, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if head, tail := resp.Header, resp.Trailer.Get("Grpc-Message"); err != nil || string(body) != "body" || head.Get("X-Head") != "a b" || head.Get("X-Empty") != "" || tail != "not found:" {
		t.Errorf("%v, %q, %v, %q", err, body, head, tail)
	}
}
