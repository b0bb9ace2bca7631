package http1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// R078: a client that drips its header is answered 408 and closed, however
// regularly it sends.
func TestHeaderDeadline(t *testing.T) {
	s := startWith(t, setup{clock: true, handler: hello, opts: Options{HeaderTimeout: timeout}})
	c := s.dial()
	c.send(keepGet)
	c.response("GET")
	c.send("GET / HTTP/1.1\r\nX: ")
	testkit.Eventually(t, "the request to begin", func() bool { return s.srv.Stats().Memory.Inbound > 0 })
	for range 3 {
		s.clock.Advance(timeout / 4)
		c.send("x")
		s.lives(1)
	}
	s.expires(timeout / 4)
	if resp, _ := c.response("GET"); resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
		t.Errorf("%d close=%v", resp.StatusCode, resp.Close)
	}
	c.rest()
	s.waitClosed(eddy.CloseReadTimeout, 1)
	if n := s.f.Stats().Timeouts; n != 1 {
		t.Errorf("%d timeouts counted", n)
	}
}

func TestBodyDeadline(t *testing.T) {
	entered, failed := make(chan struct{}), make(chan error, 1)
	s := startWith(t, setup{
		clock: true,
		opts:  Options{BodyTimeout: timeout},
		handler: func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			_, err := io.ReadAll(r.Body)
			failed <- err
		},
	})
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx")
	testkit.Receive(t, "the request", entered)
	s.lives(1)
	s.expires(timeout)
	if resp, _ := c.response("POST"); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", resp.StatusCode)
	}
	c.rest()
	if err := <-failed; !errors.Is(err, errBodyTimeout) {
		t.Errorf("the handler read %v", err)
	}
	s.waitClosed(eddy.CloseBodyTimeout, 1)
}

// The time for the body of a client that waits for 100 Continue begins when the handler asks for the body.
func TestBodyDeadlineWaitsForContinue(t *testing.T) {
	entered, goOn := make(chan struct{}), make(chan struct{})
	s := startWith(t, setup{
		clock: true,
		opts:  Options{BodyTimeout: timeout},
		handler: func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-goOn
			_, err := io.ReadAll(r.Body)
			if !errors.Is(err, errBodyTimeout) {
				t.Errorf("the handler read %v", err)
			}
		},
	})
	c := s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	testkit.Receive(t, "the request", entered)
	s.clock.Advance(4 * timeout)
	close(goOn)
	if line, err := c.br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	_, _ = c.br.ReadString('\n')
	s.lives(1)
	s.expires(timeout)
	if resp, _ := c.response("POST"); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d", resp.StatusCode)
	}
	c.rest()
}

// The time for the body runs only while the client is free to send.
func TestBodyDeadlineSparesHeldClients(t *testing.T) {
	entered, goOn := make(chan *body, 1), make(chan struct{})
	s := startWith(t, setup{
		clock: true,
		opts:  Options{BodyTimeout: timeout, BodyBuffer: 1 << 10},
		handler: func(w http.ResponseWriter, r *http.Request) {
			entered <- r.Body.(*body)
			<-goOn
			n, err := io.Copy(io.Discard, r.Body)
			if n != 200000 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			hello(w, r)
		},
	})
	c := s.dial()
	go func() {
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n"+big(200000))
	}()
	b := testkit.Receive(t, "the request", entered)
	testkit.Eventually(t, "the pipe to fill", b.Holds)
	s.clock.Advance(2 * timeout)
	s.lives(1)
	close(goOn)
	if _, body := c.response("POST"); body != "hello" {
		t.Errorf("%q", body)
	}
}

func TestIdleDeadline(t *testing.T) {
	s := startWith(t, setup{clock: true, handler: hello, opts: Options{IdleTimeout: timeout}})
	never, used := s.dial(), s.dial()
	testkit.Eventually(t, "both to be there", func() bool { return s.srv.Stats().Active == 2 })
	for i := range int64(3) { // a request in every two thirds of the time
		s.lives(2 - i/2)
		used.send(keepGet)
		used.response("GET")
		s.lives(2 - i/2)
		if i < 2 {
			s.clock.Advance(timeout * 2 / 3)
		}
		if i == 1 {
			never.rest()
			s.waitClosed(eddy.CloseIdleTimeout, 1)
		}
	}
	s.expires(timeout)
	used.rest()
	s.waitClosed(eddy.CloseIdleTimeout, 2)
}

// A deadline of the longest possible duration never passes.
func TestLongestTimeouts(t *testing.T) {
	s := startWith(t, setup{clock: true, answer: math.MaxInt64, handler: echo, opts: Options{
		HeaderTimeout: math.MaxInt64, BodyTimeout: math.MaxInt64, IdleTimeout: math.MaxInt64, WriteTimeout: math.MaxInt64,
	}})
	c := s.dial()
	testkit.Eventually(t, "the connection", func() bool { return s.srv.Stats().Accepted == 1 })
	sent := uint64(0)
	for _, part := range []string{"POST / HTTP/1.1\r\nHo", "st: a\r\nContent-Length: 4\r\n\r\nab", "cd"} {
		s.clock.Advance(time.Hour)
		s.lives(1)
		c.send(part)
		sent += uint64(len(part))
		testkit.Eventually(t, "the bytes", func() bool {
			loops := enginetest.Stats(t, s.srv).Loops
			return loops[0].BytesIn+loops[1].BytesIn == sent
		})
	}
	if resp, _ := c.response("POST"); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// A handler that does not read holds its client back: the server's memory for
// the body stays at the bound.
func TestBodyBackpressure(t *testing.T) {
	const size = 8 << 20
	entered, goOn := make(chan *body, 1), make(chan struct{})
	s := startWith(t, setup{
		narrow: true,
		opts:   Options{MaxBody: size, BodyBuffer: 32 << 10},
		handler: func(w http.ResponseWriter, r *http.Request) {
			entered <- r.Body.(*body)
			<-goOn
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil || n != size {
				t.Errorf("%d bytes, %v", n, err)
			}
			hello(w, r)
		},
	})
	c := s.dial()
	if err := c.SetWriteBuffer(128 << 10); err != nil { // else the kernel takes 4 MiB by itself
		t.Fatal(err)
	}
	c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	var sent atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		piece := "10000\r\n" + big(1<<16) + "\r\n"
		for range size >> 16 {
			if _, err := io.WriteString(c, piece); err != nil {
				t.Error(err)
				return
			}
			sent.Add(1 << 16)
		}
		_, _ = io.WriteString(c, "0\r\n\r\n")
	})
	b := <-entered
	testkit.Eventually(t, "the pipe to fill", b.Holds)
	testkit.Eventually(t, "the client to stand still", stands(&sent))
	last := sent.Load()
	if last >= size/2 {
		t.Errorf("the client could send %d bytes to a handler that reads none", last)
	}
	if n, memory := b.Buffered(); memory > 32<<10 || n > 32<<10 {
		t.Errorf("pipe of %d bytes holds %d, limit %d", memory, n, 32<<10)
	}
	close(goOn)
	if _, text := c.response("POST"); text != "hello" {
		t.Errorf("%q", text)
	}
	wg.Wait()
}

// A client that does not read blocks the handler's goroutine, not the loop, and
// loses its connection when the write timeout has passed.
func TestResponseBackpressure(t *testing.T) {
	result := make(chan error, 1)
	marks := eddy.Watermarks{Low: 64 << 10, High: 256 << 10, Max: 1 << 20}
	s := startWith(t, setup{
		clock:  true,
		narrow: true,
		marks:  marks,
		opts:   Options{WriteTimeout: timeout},
		handler: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/endless" {
				hello(w, r)
				return
			}
			for {
				if _, err := io.WriteString(w, big(100000)); err != nil {
					result <- err
					return
				}
			}
		},
	})
	slow := s.dial()
	slow.send("GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Eventually(t, "the writer to wait", func() bool { // what is queued may be less by then: the kernel goes on taking
		var pauses uint64
		for _, l := range s.srv.Stats().Loops {
			pauses += l.OutboundPauses
		}
		return pauses > 0
	})
	other := s.dial()
	for range 10 {
		other.send(keepGet)
		if _, body := other.response("GET"); body != "hello" {
			t.Fatalf("%q", body)
		}
	}
	_ = other.Close()
	testkit.Eventually(t, "the other to leave", func() bool { return s.srv.Stats().Active == 1 })
	s.clock.Advance(timeout - tick)
	s.lives(1)
	testkit.Eventually(t, "the writer's end", func() bool { // the kernel may have taken more by then, which puts it off
		s.clock.Advance(timeout)
		return len(result) > 0
	})
	if err := <-result; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, eddy.ErrClosed) {
		t.Errorf("the handler got %v", err)
	}
	s.waitClosed(eddy.CloseWriteTimeout, 1)
}

// A Write that waits longer than the write timeout does not end a client that reads. The timeout counts from the client's
// last progress, on the server's clock, which stands still here.
func TestWritesWaitForReaders(t *testing.T) {
	const pieces, size = 30, 100_000
	s := startWith(t, setup{
		clock:  true,
		narrow: true,
		marks:  eddy.Watermarks{Low: 64 << 10, High: 256 << 10, Max: 1 << 20},
		opts:   Options{WriteTimeout: 1},
		handler: func(w http.ResponseWriter, _ *http.Request) {
			for range pieces {
				if _, err := io.WriteString(w, big(size)); err != nil {
					t.Errorf("the handler got %v", err)
					return
				}
			}
		},
	})
	c := s.dial()
	c.send(keepGet)
	testkit.Eventually(t, "the writer to wait", func() bool {
		var pauses uint64
		for _, l := range s.srv.Stats().Loops {
			pauses += l.OutboundPauses
		}
		return pauses > 0
	})
	if _, body := c.response("GET"); len(body) != pieces*size {
		t.Errorf("%d bytes, want %d", len(body), pieces*size)
	}
}

// A body that the handler leaves unread is thrown away up to the limit; beyond
// it the connection ends.
func TestUnreadBody(t *testing.T) {
	s := startWith(t, setup{handler: hello, opts: Options{MaxDiscard: 100 << 10}})
	post := func(n int) string {
		return "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(n) + "\r\n\r\n"
	}
	c := s.dial()
	c.send(post(90<<10) + big(90<<10) + keepGet)
	for range 2 {
		if resp, body := c.response("POST"); body != "hello" || resp.Close {
			t.Fatalf("%q close=%v", body, resp.Close)
		}
	}
	c.send(post(200<<10) + big(1<<10))
	if resp, body := c.response("POST"); body != "hello" || !resp.Close {
		t.Errorf("%q close=%v", body, resp.Close)
	}
	c.rest()
	c = s.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	if _, body := c.response("POST"); body != "hello" {
		t.Errorf("%q", body)
	}
	for range 300 {
		if _, err := io.WriteString(c, "400\r\n"+big(1<<10)+"\r\n"); err != nil {
			break // the server has ended the connection
		}
	}
	_ = c.Close()
	s.waitClosed(eddy.CloseNormal, 2)
}

// Shutdown lets requests in flight finish, with Connection: close, and ends idle
// connections.
func TestDrain(t *testing.T) {
	entered, goOn := make(chan struct{}), make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-goOn
			testkit.Eventually(t, "the loop to be told", w.(*response).ex.sc.draining.Load)
		}
		hello(w, r)
	})
	idle, busy := s.dial(), s.dial()
	idle.send(keepGet)
	idle.response("GET")
	busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-entered
	type outcome struct {
		report eddy.DrainReport
		err    error
	}
	ended := make(chan outcome, 1)
	ctx := testkit.Context(t)
	go func() {
		report, err := s.srv.Shutdown(ctx)
		ended <- outcome{report, err}
	}()
	if more := idle.rest(); more != "" {
		t.Errorf("idle connection got %q", more)
	}
	close(goOn)
	if resp, body := busy.response("GET"); body != "hello" || !resp.Close {
		t.Errorf("busy connection got %q, close=%v", body, resp.Close)
	}
	if more := busy.rest(); more != "" {
		t.Errorf("more: %q", more)
	}
	if o := <-ended; o.err != nil || o.report != (eddy.DrainReport{Drained: 2}) {
		t.Errorf("%+v, %v", o.report, o.err)
	}
}

// R243, R131: another protocol takes the connection over; what the client sent
// in the same packet as its handshake goes to the new decoder.
func TestUpgrade(t *testing.T) {
	later := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		h := http.Header{"Upgrade": {"lines"}, "X-Bad": {"a\r\nb"}}
		err := Upgrade(wrapped{w}, r, h, func(p *eddy.Pipeline) error {
			if err := p.Add("line", line.Codec(100)); err != nil {
				return err
			}
			return p.Add("shout", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
				return ctx.WriteBytes(append(bytes.ToUpper(l.Text()), '\n'))
			}))
		})
		if err != nil {
			later <- err
			return
		}
		_, err = io.WriteString(w, "late")
		later <- err
	})
	c := s.dial()
	c.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\nfirst\nsec")
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "lines" || !strings.EqualFold(resp.Header.Get("Connection"), "upgrade") || resp.Header.Get("X-Bad") != "" {
		t.Fatalf("%v, %v", resp, err)
	}
	if err := <-later; !errors.Is(err, http.ErrHijacked) {
		t.Errorf("writing after Upgrade: %v", err)
	}
	c.send("ond\n")
	for _, want := range []string{"FIRST\n", "SECOND\n"} {
		if got, err := c.br.ReadString('\n'); got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	if n := s.f.Stats().Upgrades; n != 1 {
		t.Errorf("%d upgrades counted", n)
	}
}

// wrapped is what middleware does to a writer.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestUpgradeRefusals(t *testing.T) {
	never := func(*eddy.Pipeline) error { t.Error("installed"); return nil }
	errs := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/written":
			hello(w, r)
		case "/hidden":
			w = struct{ http.ResponseWriter }{w}
		}
		errs <- Upgrade(w, r, nil, never)
	})
	for _, tt := range []struct {
		in          string
		unsupported bool
	}{
		{"GET /written HTTP/1.1\r\nHost: a\r\n\r\n", false},
		{"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n", true},
		{"GET / HTTP/1.0\r\nHost: a\r\n\r\n", true},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx", true},
	} {
		c := s.dial()
		c.send(tt.in)
		if err := <-errs; err == nil || errors.Is(err, http.ErrNotSupported) != tt.unsupported {
			t.Errorf("%q: %v, unsupported=%v", tt.in, err, tt.unsupported)
		}
		if resp, _ := c.response("GET"); resp.StatusCode != 200 {
			t.Errorf("%q: status %d", tt.in, resp.StatusCode)
		}
	}
}

// A failing or panicking install ends its connection, and the handler hears of
// it.
func TestUpgradeInstallFails(t *testing.T) {
	broken := errors.New("broken")
	errs := make(chan error, 1)
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		errs <- Upgrade(w, r, nil, func(*eddy.Pipeline) error {
			if r.URL.Path == "/panic" {
				panic("install")
			}
			return broken
		})
	})
	for path, want := range map[string]error{"/": broken, "/panic": errUpgradePanic} {
		c := s.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if err := <-errs; !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
		c.rest()
	}
	s.waitClosed(eddy.CloseInternalError, 2)
}

// Requests of many connections at once, some cut in the middle, leave nothing
// behind.
func TestNothingIsLeftBehind(t *testing.T) {
	s := startWith(t, setup{handler: echo, pool: executor.Options{Workers: 4, Queue: 8}})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			c := s.dial()
			c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + big(50))
			if i%2 == 0 {
				_ = c.SetLinger(0)
				_ = c.Close()
				return
			}
			c.send(big(50))
			c.response("POST")
			_ = c.Close()
		})
	}
	wg.Wait()
	testkit.Eventually(t, "all connections to end", func() bool { return s.srv.Stats().Active == 0 })
	testkit.Eventually(t, "all requests to end", func() bool { return s.pool.Stats().Running == 0 })
}

// An option out of range is named when the factory is made.
func TestOptionsAreChecked(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for name, o := range map[string]Options{
		"MaxRequestLine": {MaxRequestLine: -1}, "MaxHeaderBytes": {MaxHeaderBytes: -1}, "MaxHeaderCount": {MaxHeaderCount: -1},
		"MaxBody": {MaxBody: -1}, "BodyBuffer": {BodyBuffer: -1}, "MaxDiscard": {MaxDiscard: -1},
	} {
		func() {
			defer func() {
				if v, ok := recover().(string); !ok || !strings.Contains(v, name) {
					t.Errorf("%s: panic %v", name, v)
				}
			}()
			NewHandler(http.NotFoundHandler(), pool, o)
		}()
	}
}

// stands returns a condition that holds when n has been the same for many looks.
func stands(n *atomic.Int64) func() bool {
	last, looks := int64(-1), 0
	return func() bool {
		if now := n.Load(); now != last {
			last, looks = now, 0
		}
		looks++
		return looks > 10
	}
}
