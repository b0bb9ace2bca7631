package http2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	wire "golang.org/x/net/http2"

	"github.com/go-eddy/eddy/internal/testkit"
)

// TestClientStreams: the server's limit of streams makes connections up to MaxConnsPerHost; then requests wait in order, up
// to MaxWaiting, and end with their context.
func TestClientStreams(t *testing.T) {
	release := make(chan struct{})
	var taken atomic.Int64
	base := script(t, func(p *peer) {
		for id := p.takes(); id != 0; id = p.takes() {
			taken.Add(1)
			<-release
			_ = p.answers(id, true, ":status", "204")
		}
	}, wire.Setting{ID: wire.SettingMaxConcurrentStreams, Val: 1})
	tr := transport(t, &Transport{MaxConnsPerHost: 2, MaxWaiting: 3})
	var first []<-chan outcome
	for n := range 2 {
		first = append(first, ask(tr, request(t, "GET", base, nil)))
		testkit.Eventually(t, "a stream", func() bool { return taken.Load() == int64(n+1) })
	}
	var waiting []<-chan outcome
	ctx, cancel := context.WithCancel(testkit.Context(t))
	for n := range 3 {
		r := request(t, "GET", base, nil)
		if n == 1 {
			r = r.WithContext(ctx)
		}
		waiting = append(waiting, ask(tr, r))
		testkit.Eventually(t, "a request to wait", func() bool { return tr.Stats().Waiting == n+1 })
	}
	if o := fetch(tr, request(t, "GET", base, nil)); !errors.Is(o.err, ErrTransportBusy) {
		t.Errorf("beyond MaxWaiting: %v", o.err)
	}
	cancel()
	if o := testkit.Receive(t, "the cancelled one", waiting[1]); !errors.Is(o.err, context.Canceled) {
		t.Errorf("cancelled while it waits: %v", o.err)
	}
	if s := tr.Stats(); s.Open != 2 || s.Streams != 2 || s.Waiting != 2 {
		t.Errorf("with two connections: %+v", s)
	}
	close(release)
	for _, done := range []<-chan outcome{first[0], first[1], waiting[0], waiting[2]} {
		if o := testkit.Receive(t, "an answer", done); o.err != nil {
			t.Error(o.err)
		}
	}
	if s := tr.Stats(); s.Open != 2 || taken.Load() != 4 {
		t.Errorf("afterwards: %+v, %d requests", s, taken.Load())
	}
}

// TestClientMaxConns: an idle connection makes room for one to another host; without one, a request waits.
func TestClientMaxConns(t *testing.T) {
	serve := func(p *peer) { p.serves("x") }
	a, b := script(t, serve), script(t, serve)
	hold := make(chan struct{})
	c := script(t, func(p *peer) {
		id := p.takes()
		<-hold
		_ = p.answers(id, true, ":status", "204")
	})
	tr := transport(t, &Transport{MaxConns: 1})
	for _, base := range []string{a, b, a} {
		if o := fetch(tr, request(t, "GET", base, nil)); o.err != nil {
			t.Error(o.err)
		}
	}
	held := ask(tr, request(t, "GET", c, nil))
	testkit.Eventually(t, "a stream", func() bool { return tr.Stats().Streams == 1 })
	late := ask(tr, request(t, "GET", a, nil))
	testkit.Eventually(t, "the other to wait", func() bool { s := tr.Stats(); return s.Waiting == 1 && s.Open == 1 })
	close(hold)
	for _, done := range []<-chan outcome{held, late} {
		if o := testkit.Receive(t, "an answer", done); o.err != nil {
			t.Error(o.err)
		}
	}
}

// TestClientStuckHost: requests to a host that says nothing take the places of those that wait, and keep nobody from waiting for another host: the latest
// of them is told that it is one too many. What is left waits on.
func TestClientStuckHost(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	base := script(t, func(p *peer) { p.serves("x") })
	tr := transport(t, &Transport{MaxWaiting: 2})
	var stuck []<-chan outcome
	for n := range 2 {
		stuck = append(stuck, ask(tr, request(t, "GET", "http://"+ln.Addr().String(), nil)))
		testkit.Eventually(t, "a request to wait", func() bool { return tr.Stats().Waiting == n+1 })
	}
	if o := fetch(tr, request(t, "GET", base, nil)); o.err != nil {
		t.Errorf("another host: %v", o.err)
	}
	if o := testkit.Receive(t, "the latest", stuck[1]); !errors.Is(o.err, ErrTransportBusy) {
		t.Errorf("the latest: %v", o.err)
	}
	if s := tr.Stats(); s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
	_ = tr.Close()
	if o := testkit.Receive(t, "the first", stuck[0]); !errors.Is(o.err, ErrTransportClosed) {
		t.Errorf("the first: %v", o.err)
	}
}

// TestClientCancel: the end of the context resets the stream, before the answer, inside its body and inside the request.
func TestClientCancel(t *testing.T) {
	for _, stage := range []string{"before the answer", "in the answer", "in the request"} {
		t.Run(stage, func(t *testing.T) {
			began := make(chan struct{})
			reset := make(chan wire.ErrCode, 1)
			base := script(t, func(p *peer) {
				id := p.takes()
				if stage == "in the answer" {
					_ = p.answers(id, false, ":status", "200")
					_ = p.WriteData(id, false, []byte("x"))
				}
				close(began)
				if f := until[*wire.RSTStreamFrame](p); f != nil {
					reset <- f.ErrCode
				}
				p.serves("fine")
			})
			tr := transport(t, &Transport{})
			ctx, cancel := context.WithCancel(testkit.Context(t))
			var body io.Reader
			sent := &countingBody{}
			if stage == "in the request" {
				body = sent
			}
			done := ask(tr, request(t, "POST", base, body).WithContext(ctx))
			testkit.Receive(t, "the request", began)
			cancel()
			if o := testkit.Receive(t, "the end", done); !errors.Is(o.err, context.Canceled) {
				t.Errorf("%v", o.err)
			}
			if code := testkit.Receive(t, "the reset", reset); code != wire.ErrCodeCancel {
				t.Errorf("reset with %v", code)
			}
			if body != nil && !sent.isClosed() {
				t.Error("the body is open")
			}
			if o := fetch(tr, request(t, "GET", base, nil)); o.err != nil || tr.Stats().Open != 1 {
				t.Errorf("afterwards: %v", o.err)
			}
		})
	}
}

// TestClientBodyFails: a body that fails or has another length than it says resets the stream with its error.
func TestClientBodyFails(t *testing.T) {
	base := script(t, func(p *peer) {
		for p.next() != nil {
		}
	})
	tr := transport(t, &Transport{})
	broken := errors.New("broken")
	for want, r := range map[string]*http.Request{
		"broken":          request(t, "POST", base, io.MultiReader(strings.NewReader("x"), failingReader{broken})),
		"1 bytes shorter": request(t, "POST", base, strings.NewReader("x")),
		"is longer":       request(t, "POST", base, strings.NewReader("xyz")),
	} {
		if r.ContentLength > 0 {
			r.ContentLength = 2
		}
		if o := fetch(tr, r); o.err == nil || !strings.Contains(o.err.Error(), want) {
			t.Errorf("want %q: %v", want, o.err)
		}
	}
	if s := tr.Stats(); s.Open != 1 {
		t.Errorf("%+v", s)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// TestClientTimes: the header of a response, the windows for a request, a PING and the making of a connection have limits.
func TestClientTimes(t *testing.T) {
	const limit = time.Minute
	var mute atomic.Bool
	quiet := func(p *peer) {
		for f := p.next(); f != nil; f = p.next() {
			if ping, ok := f.(*wire.PingFrame); ok && !mute.Load() {
				_ = p.WritePing(true, ping.Data)
			}
		}
	}
	for name, c := range map[string]struct {
		tr     *Transport
		window uint32
		want   string
		lives  bool // the connection
	}{
		"header": {&Transport{IdleTimeout: -1, ResponseHeaderTimeout: limit}, 65535, "header of the response did not arrive in time", true},
		"window": {&Transport{IdleTimeout: -1, WriteTimeout: limit}, 0, "windows let nothing", true},
		"ping":   {&Transport{IdleTimeout: -1, PingInterval: limit, PingTimeout: limit}, 65535, "did not answer a PING", false},
	} {
		t.Run(name, func(t *testing.T) {
			mute.Store(false)
			base := script(t, quiet, wire.Setting{ID: wire.SettingInitialWindowSize, Val: c.window})
			tr, clock := transportOnClock(t, c.tr)
			done := ask(tr, request(t, "POST", base, strings.NewReader("body")))
			testkit.Eventually(t, "a stream", func() bool { return tr.Stats().Streams == 1 })
			if name == "ping" {
				for range 8 { // the answers keep it alive
					clock.Advance(limit / 2)
					testkit.Eventually(t, "the answer to a PING", func() bool { return !pinging(t, tr) })
				}
				mute.Store(true)
			} else {
				clock.Pass(limit-2*time.Second, time.Second)
			}
			select {
			case o := <-done:
				t.Fatalf("too early: %v", o.err)
			default:
			}
			var o outcome
			testkit.Eventually(t, "the limit", func() bool {
				clock.Advance(limit / 4)
				select {
				case o = <-done:
					return true
				default:
					return false
				}
			})
			var ne net.Error
			if o.err == nil || !strings.Contains(o.err.Error(), c.want) || !errors.As(o.err, &ne) || !ne.Timeout() || !errors.Is(o.err, context.DeadlineExceeded) {
				t.Errorf("%v", o.err)
			}
			if s := tr.Stats(); c.lives != (s.Open == 1) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// pinging reports whether a PING of the only connection waits for its answer.
func pinging(t *testing.T, tr *Transport) bool {
	t.Helper()
	under := make(chan bool, 1)
	if err := tr.run.group.Loop(0).Post(func() {
		tr.conns.mu.Lock()
		defer tr.conns.mu.Unlock()
		for _, h := range tr.conns.hosts {
			under <- h.conns[0].watch.asked != 0
		}
	}); err != nil {
		t.Fatal(err)
	}
	return testkit.Receive(t, "the loop", under)
}

// TestClientNoServer: servers that are not there, do not speak HTTP/2 or say nothing fail the request in time.
func TestClientNoServer(t *testing.T) {
	tr, clock := transportOnClock(t, &Transport{ConnectTimeout: time.Minute, IdleTimeout: -1}) // a busy machine sees several steps of the clock as one
	if o := fetch(tr, request(t, "GET", http1Server(t, clientSite()), nil)); o.err == nil || !strings.Contains(o.err.Error(), "answers in HTTP/1") {
		t.Errorf("a server of HTTP/1: %v", o.err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + ln.Addr().String()
	_ = ln.Close()
	var ne *net.OpError
	if o := fetch(tr, request(t, "GET", base, nil)); !errors.As(o.err, &ne) {
		t.Errorf("nobody listens: %v", o.err)
	}
	connected := make(chan struct{})
	silent := listen(t, func(p *peer) {
		close(connected)
		_, _ = io.Copy(io.Discard, p.conn)
	})
	done := ask(tr, request(t, "GET", "http://"+silent, nil))
	testkit.Receive(t, "the connection", connected)
	var o outcome
	testkit.Eventually(t, "the limit", func() bool {
		clock.Advance(30 * time.Second)
		select {
		case o = <-done:
			return true
		default:
			return false
		}
	})
	if !errors.Is(o.err, context.DeadlineExceeded) || !strings.Contains(o.err.Error(), "was not ready in time") {
		t.Errorf("a silent server: %v", o.err)
	}
}

// TestClientLookup: the addresses of Lookup are tried in turn, and no others.
func TestClientLookup(t *testing.T) {
	base := script(t, func(p *peer) { p.serves("fine") })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	unknown := errors.New("unknown")
	tr := transport(t, &Transport{Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "none":
			return nil, nil
		case "two":
			return []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")}, nil
		}
		return nil, unknown
	}})
	if o := fetch(tr, request(t, "GET", "http://two:"+port, nil)); o.err != nil || o.body != "fine" {
		t.Errorf("two addresses: %v %q", o.err, o.body)
	}
	if o := fetch(tr, request(t, "GET", "http://none:"+port, nil)); o.err == nil || !strings.Contains(o.err.Error(), "no address") {
		t.Errorf("no address: %v", o.err)
	}
	if o := fetch(tr, request(t, "GET", base, nil)); !errors.Is(o.err, unknown) {
		t.Errorf("an unknown host: %v", o.err)
	}
}

// TestClientClose: Close ends what waits, what is under way and what is being read, with ErrTransportClosed.
func TestClientClose(t *testing.T) {
	base := script(t, func(p *peer) {
		_ = p.answers(p.takes(), false, ":status", "200")
		for p.next() != nil {
		}
	}, wire.Setting{ID: wire.SettingMaxConcurrentStreams, Val: 2})
	tr := transport(t, &Transport{MaxConnsPerHost: 1})
	resp, err := tr.RoundTrip(request(t, "GET", base, nil))
	if err != nil {
		t.Fatal(err)
	}
	var rest []<-chan outcome
	for range 2 {
		rest = append(rest, ask(tr, request(t, "POST", base, &countingBody{})))
	}
	testkit.Eventually(t, "all three", func() bool { s := tr.Stats(); return s.Streams == 2 && s.Waiting == 1 })
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	for _, done := range rest {
		if o := testkit.Receive(t, "the end", done); !errors.Is(o.err, ErrTransportClosed) {
			t.Errorf("%v", o.err)
		}
	}
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, ErrTransportClosed) {
		t.Errorf("the body: %v", err)
	}
	if _, err := tr.RoundTrip(request(t, "GET", base, nil)); !errors.Is(err, ErrTransportClosed) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestClientEarlyAnswer: a complete answer ends a request whose body is still on its way, without an error.
func TestClientEarlyAnswer(t *testing.T) {
	reset := make(chan wire.ErrCode, 1)
	base := script(t, func(p *peer) {
		id := p.takes()
		_ = p.answers(id, false, ":status", "413")
		_ = p.WriteData(id, true, []byte("enough"))
		if f := until[*wire.RSTStreamFrame](p); f != nil {
			reset <- f.ErrCode
		}
		p.serves("fine")
	})
	tr := transport(t, &Transport{})
	body := &countingBody{}
	if o := fetch(tr, request(t, "POST", base, body)); o.err != nil || o.body != "enough" {
		t.Errorf("%v %q", o.err, o.body)
	}
	if code := testkit.Receive(t, "the reset", reset); code != wire.ErrCodeNo {
		t.Errorf("reset with %v", code)
	}
	testkit.Eventually(t, "the body to be closed", body.isClosed)
	if o := fetch(tr, request(t, "GET", base, nil)); o.err != nil || tr.Stats().Open != 1 {
		t.Errorf("afterwards: %v", o.err)
	}
}

// TestClientPeerSettings: a request that is larger than the server takes, or a :protocol that it does not know, is not sent.
func TestClientPeerSettings(t *testing.T) {
	base := script(t, func(p *peer) { p.serves("fine") }, wire.Setting{ID: wire.SettingMaxHeaderListSize, Val: 1000})
	tr := transport(t, &Transport{})
	r := request(t, "GET", base, nil)
	r.Header.Set("Long", bigText(1000))
	if o := fetch(tr, r); o.err == nil || !strings.Contains(o.err.Error(), "the server takes 1000") {
		t.Errorf("%v", o.err)
	}
	r = request(t, "CONNECT", base, nil)
	r.Header[":protocol"] = []string{"websocket"}
	if o := fetch(tr, r); o.err == nil || !strings.Contains(o.err.Error(), ":protocol") {
		t.Errorf("%v", o.err)
	}
	r = request(t, "GET", base, nil)
	r.Close = true
	if o := fetch(tr, r); o.err != nil {
		t.Error(o.err)
	}
	testkit.Eventually(t, "the connection of a request with Close to end", func() bool { return tr.Stats().Open == 0 })
}
