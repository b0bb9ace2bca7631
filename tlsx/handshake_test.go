package tlsx_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/tlsx"
)

// flights is what a client sends in a handshake, in its order.
type flights struct {
	net.Conn
	all []byte
}

func (f *flights) Write(p []byte) (int, error) {
	f.all = append(f.all, p...)
	return f.Conn.Write(p)
}

var errLimit = errors.New("as many bytes as the test wants")

// brief is a connection whose writes fail after a number of bytes.
type brief struct {
	net.Conn
	left int
	flip bool // turn the last byte around
}

func (b *brief) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	if b.left -= n; b.left == 0 && b.flip && n > 0 {
		p = append([]byte(nil), p...)
		p[n-1] ^= 0x20
	}
	if _, err := b.Conn.Write(p[:n]); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, errLimit
	}
	return n, nil
}

// steps returns the numbers of bytes of a handshake after which tests interfere: at the edges of records and inside.
func steps(t *testing.T, config *tls.Config) []int {
	t.Helper()
	r := newRig(t, setup{})
	f := &flights{Conn: r.raw()}
	c := tls.Client(f, config)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	echoed(t, c, []byte("x"))
	var at []int
	for from := 0; from < len(f.all); {
		n := 5 + int(f.all[from+3])<<8 + int(f.all[from+4])
		at = append(at, from+1, from+5, from+n/2, from+n-1, from+n)
		from += n
	}
	last := len(f.all) - (5 + 1 + 17 + 8) // the record of the "x" does not count
	out := at[:0]
	for _, n := range at {
		if n < last {
			out = append(out, n)
		}
	}
	return out
}

// TestStalled: a client that stops at any point of its handshake is closed at the deadline. It holds no worker: with a
// pool of one, others shake hands meanwhile.
func TestStalled(t *testing.T) {
	for name, config := range versions() {
		t.Run(name, func(t *testing.T) {
			at := steps(t, config)
			r := newRig(t, setup{pool: newPool(t, 1), clock: true, o: tlsx.Options{Timeout: timeout}})
			r.raw() // says nothing
			for _, n := range at {
				_ = tls.Client(&brief{Conn: r.raw(), left: n}, config).Handshake()
			}
			echoed(t, r.dial(config), []byte("others go on"))
			enginetest.Barrier(t, r.srv)
			r.expire(timeout)
			for range len(at) + 1 {
				e := r.wantEnd(eddy.CloseHandshakeFailed)
				var h *tlsx.HandshakeError
				if !errors.As(e.Err, &h) || !errors.Is(e.Err, context.DeadlineExceeded) {
					t.Errorf("ended with %v", e)
				}
			}
			if st := r.layer.Stats(); st.Active != 0 || st.Failed != uint64(len(at)+1) {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestAborted: a client that leaves at any point ends the handshake at once, and leaves nothing behind.
func TestAborted(t *testing.T) {
	for name, config := range versions() {
		t.Run(name, func(t *testing.T) {
			at := steps(t, config)
			r := newRig(t, setup{})
			for _, n := range at {
				raw := r.raw()
				_ = tls.Client(&brief{Conn: raw, left: n}, config).Handshake()
				raw.Close()
				e := r.end()
				if e.Reason == eddy.CloseIOError { // the server's answer met a closed socket
					continue
				}
				if e.Reason != eddy.CloseHandshakeFailed || !errors.Is(e.Err, tlsx.ErrAborted) {
					t.Errorf("after %d bytes: %v", n, e)
				}
			}
			r.raw().Close()
			r.wantEnd(eddy.ClosePeerClosed) // it has not begun
			testkit.Eventually(t, "the last handshake", func() bool { return r.layer.Stats().Active == 0 })
		})
	}
}

// TestDamaged: a handshake with a wrong byte in any record fails with an alert, or at the deadline where the byte is one
// of a length.
func TestDamaged(t *testing.T) {
	for name, config := range versions() {
		t.Run(name, func(t *testing.T) {
			at := steps(t, config)
			r := newRig(t, setup{clock: true, o: tlsx.Options{Timeout: timeout}})
			for _, n := range at {
				raw := r.raw()
				_ = tls.Client(&brief{Conn: raw, left: n, flip: true}, config).Handshake()
			}
			testkit.Eventually(t, "all to be there", func() bool { return r.srv.Stats().Accepted == uint64(len(at)) })
			r.clock.Advance(timeout + tick)
			r.clock.Advance(linger + tick)
			ended := len(r.ends) // the others sent a byte that means nothing
			for range ended {
				if e := r.end(); e.Reason != eddy.CloseHandshakeFailed && e.Reason != eddy.ClosePeerClosed && e.Reason != eddy.CloseIOError {
					t.Errorf("%v", e)
				}
			}
			if ended < len(at)/2 {
				t.Errorf("%d of %d ended", ended, len(at))
			}
			if n := r.layer.Stats().Active; n != 0 {
				t.Errorf("%d handshakes are under way", n)
			}
			echoed(t, r.dial(config), []byte("others go on"))
		})
	}
}

// TestNotTLS: a peer that does not speak TLS is closed at its first bytes, with an explanation where that is possible.
func TestNotTLS(t *testing.T) {
	for in, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n": "400 Bad Request",
		"POST /x HTTP/1.1\r\n":              "400 Bad Request",
		"SSH-2.0-client\r\n":                "",
		"\x16\x02\x00\x00\x05":              "",
		"\x00":                              "",
		"\x80\x2e\x01\x00\x02":              "",
		"GETX":                              "",
	} {
		r := newRig(t, setup{})
		c := r.raw()
		io.WriteString(c, in)
		b, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(b), want) || want == "" && len(b) > 0 {
			t.Errorf("%q: answered %q, %v", in, b, err)
		}
		if want != "" {
			head, body, _ := strings.Cut(string(b), "\r\n\r\n")
			if !strings.Contains(head, fmt.Sprintf("Content-Length: %d", len(body))) {
				t.Errorf("a body of %d bytes behind %q", len(body), head)
			}
		}
		c.Close()
		e := r.wantEnd(eddy.CloseHandshakeFailed)
		if !errors.Is(e.Err, tlsx.ErrNotTLS) || r.layer.Stats().NotTLS != 1 || r.layer.Stats().Failed != 0 {
			t.Errorf("%q: %v, %+v", in, e, r.layer.Stats())
		}
	}
}

// TestFirstBytesOneByOne: a plain request is recognized once it is certain, not before.
func TestFirstBytesOneByOne(t *testing.T) {
	r := newRig(t, setup{})
	c := r.raw()
	for _, b := range []byte("HEAD ") {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), "400") {
		t.Errorf("%q, %v", b, err)
	}
}

// TestTinyRecords: a client that sends its handshake byte by byte, each in its own record, is refused, because each
// record costs a turn on the pool.
func TestTinyRecords(t *testing.T) {
	r := newRig(t, setup{o: tlsx.Options{Timeout: time.Hour}})
	tiny := []byte("\x16\x03\x01\x00\x04\x01\x00\xff\xff") // a ClientHello of 65,535 bytes
	for range 1100 {
		tiny = append(tiny, 22, 3, 1, 0, 1, 0)
	}
	c := r.raw()
	if _, err := c.Write(tiny); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, c) // to the end, or a reset
	c.Close()
	if e := r.end(); e.Reason != eddy.CloseHandshakeFailed || !strings.Contains(e.Error(), "1024 records") {
		t.Errorf("%v", e)
	}
	if n := r.layer.Stats().Active; n != 0 {
		t.Errorf("%d handshakes are under way", n)
	}
}

// TestOversizedRecord: a record longer than any may be is refused at its header.
func TestOversizedRecord(t *testing.T) {
	r := newRig(t, setup{})
	c := r.raw()
	c.Write([]byte{22, 3, 1, 0xff, 0xff})
	if b, err := io.ReadAll(c); err != nil || len(b) != 7 || b[0] != 21 {
		t.Errorf("answered %x, %v, want an alert", b, err)
	}
	c.Close()
	r.wantEnd(eddy.CloseHandshakeFailed)

	r = newRig(t, setup{})
	raw := r.raw()
	tc := tls.Client(raw, clientConfig())
	if err := tc.Handshake(); err != nil {
		t.Fatal(err)
	}
	raw.Write([]byte{23, 3, 3, 0xff, 0xff})
	if _, err := tc.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "record overflow") {
		t.Errorf("the client was told %v", err)
	}
	raw.Close()
	r.wantEnd(eddy.CloseProtocolError)
}

// TestManyHandshakes: 200 at once on a pool of two.
func TestManyHandshakes(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "two", Workers: 2, Queue: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	r := newRig(t, setup{pool: pool, o: tlsx.Options{MaxHandshakes: 200, Timeout: time.Hour}})
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			c, err := tls.Dial("tcp", r.addr, clientConfig())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(testkit.Patience))
			echoed(t, c, []byte("hello"))
		})
	}
	wg.Wait()
	if st := r.layer.Stats(); st.Established != 200 || st.Refused != 0 || st.Active != 0 {
		t.Errorf("%+v", st)
	}
	for range 200 {
		r.wantEnd(eddy.ClosePeerClosed)
	}
}

// TestAdmission: each bound refuses further handshakes with an alert and its own reason. Those within it are served.
func TestAdmission(t *testing.T) {
	full, err := executor.NewFixed(executor.Options{Name: "full", Workers: 1, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	block, busy := make(chan struct{}), make(chan struct{}, 2)
	work := func() { busy <- struct{}{}; <-block }
	if err := full.SubmitFunc(work); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the worker", busy)
	if err := full.SubmitFunc(work); err != nil { // it waits in the queue
		t.Fatal(err)
	}
	defer full.Close()
	defer close(block)
	for name, c := range map[string]struct {
		s    setup
		fill int // stalled handshakes before
		want string
	}{
		"number": {setup{o: tlsx.Options{MaxHandshakes: 3}}, 3, "3 under way, limit 3"},
		"rate":   {setup{clock: true, o: tlsx.Options{Rate: 1, Burst: 2}}, 2, "limit 1 per second"},
		"pool":   {setup{pool: full}, 0, "full"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.s)
			for i := range c.fill {
				raw := r.raw()
				_ = tls.Client(stuck{raw}, clientConfig()).Handshake()
				testkit.Eventually(t, "a handshake that stalls", func() bool { return r.layer.Stats().Active == int64(i+1) })
				defer raw.Close()
			}
			raw := r.raw()
			err := tls.Client(raw, clientConfig()).Handshake()
			if err == nil || !strings.Contains(err.Error(), "internal error") {
				t.Errorf("the client was told %v, want an alert", err)
			}
			raw.Close()
			e := r.wantEnd(eddy.CloseAdmissionRejected)
			if !errors.Is(e.Err, tlsx.ErrBusy) || !strings.Contains(e.Err.Error(), c.want) {
				t.Errorf("%v", e)
			}
			if st := r.layer.Stats(); st.Refused != 1 || st.Active != int64(c.fill) || st.Failed != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestRateOfSeveralGroups: a layer's rate is its own also where loops of different groups, which count time from different
// moments, share it.
func TestRateOfSeveralGroups(t *testing.T) {
	old := newRig(t, setup{clock: true, o: tlsx.Options{Rate: 1000, Burst: 1}})
	old.layer.SetClock(sys.NewClock().Now)
	old.clock.Advance(time.Hour)
	young := &eddy.Server{Loops: 1, LingerTimeout: linger, Init: func(p *eddy.Pipeline) error {
		return errors.Join(p.Add("tls", old.layer), p.Add("echo", echo{}))
	}}
	for _, addr := range []string{old.addr, enginetest.Serve(t, young)} {
		testkit.Eventually(t, "a handshake", func() bool {
			raw := enginetest.Dial(t, addr)
			defer raw.Close()
			return tls.Client(raw, clientConfig()).Handshake() == nil
		})
	}
}

// stuck sends its hello and reads no answer.
type stuck struct{ net.Conn }

func (stuck) Read([]byte) (int, error) { return 0, errLimit }

// TestCallbacksThatEnd: a callback of the config that panics or ends its goroutine fails its handshake and nothing else.
func TestCallbacksThatEnd(t *testing.T) {
	for name, c := range map[string]struct {
		f    func(*tls.ClientHelloInfo) (*tls.Certificate, error)
		want eddy.CloseReason
	}{
		"panic":  {func(*tls.ClientHelloInfo) (*tls.Certificate, error) { panic("as ordered") }, eddy.CloseInternalError},
		"goexit": {func(*tls.ClientHelloInfo) (*tls.Certificate, error) { runtime.Goexit(); return nil, nil }, eddy.CloseHandshakeFailed},
		"error":  {func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") }, eddy.CloseHandshakeFailed},
	} {
		r := newRig(t, setup{config: &tls.Config{GetCertificate: c.f}})
		if err := tls.Client(r.raw(), clientConfig()).Handshake(); err == nil {
			t.Errorf("%s: the handshake succeeded", name)
		}
		if e := r.end(); e.Reason != c.want {
			t.Errorf("%s: %v", name, e)
		}
		if n := r.layer.Stats().Active; n != 0 {
			t.Errorf("%s: %d under way", name, n)
		}
	}
}

// TestSlowCallback: a callback that takes its time holds up neither the loop nor the connection's end.
func TestSlowCallback(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	config := &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		c := cert()
		if h.ServerName == "slow" {
			entered <- struct{}{}
			<-leave
		}
		return &c, nil
	}}
	r := newRig(t, setup{config: config, clock: true, o: tlsx.Options{Timeout: timeout}, server: func(s *eddy.Server) { s.Loops = 1 }})
	slow := clientConfig()
	slow.ServerName = "slow"
	go func() { _ = tls.Client(r.raw(), slow).Handshake() }()
	<-entered
	echoed(t, r.dial(clientConfig()), []byte("meanwhile"))
	r.expire(timeout)
	r.wantEnd(eddy.CloseHandshakeFailed) // at the deadline, while the callback runs
	close(leave)
	testkit.Eventually(t, "the worker", func() bool { return r.layer.Stats().Active == 0 })
}

// TestDrain: a server that drains does not wait for handshakes; connections that stand end with
// close_notify, those with requests in flight after their answer.
func TestDrain(t *testing.T) {
	pool := newPool(t, 1)
	hold, taken := make(chan struct{}), make(chan struct{})
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error {
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, b *buf.Bytes) error {
			if string(b.Bytes()) == "slow" {
				taken <- struct{}{}
				<-hold
			}
			return ctx.Write("done")
		}), eddy.On(pool))
	}})
	idle, busy, half := r.dial(clientConfig()), r.dial(clientConfig()), r.raw()
	_ = tls.Client(&brief{Conn: half, left: 100}, clientConfig()).Handshake()
	io.WriteString(busy, "slow")
	<-taken
	over := make(chan eddy.DrainReport)
	go func() {
		rep, err := r.srv.Shutdown(context.Background())
		if err != nil {
			t.Error(err)
		}
		over <- rep
	}()
	if b, err := io.ReadAll(idle); err != nil || len(b) > 0 {
		t.Errorf("idle: %q, %v", b, err)
	}
	idle.Close()
	if b, err := io.ReadAll(half); err != nil && !errors.Is(err, syscall.ECONNRESET) || len(b) > 0 { // a reset if its bytes were not read yet
		t.Errorf("in the handshake: %q, %v", b, err)
	}
	half.Close()
	close(hold)
	if b, err := io.ReadAll(busy); err != nil || string(b) != "done" {
		t.Errorf("busy: %q, %v", b, err)
	}
	busy.Close()
	if rep := <-over; rep.Forced != 0 || rep.Dropped != 0 {
		t.Errorf("%+v", rep)
	}
}

// TestCloseDuringHandshake: a server that is closed leaves no handshake behind, wherever it is; goleak looks.
func TestCloseDuringHandshake(t *testing.T) {
	r := newRig(t, setup{o: tlsx.Options{Timeout: time.Hour}})
	for _, n := range steps(t, clientConfig()) {
		_ = tls.Client(&brief{Conn: r.raw(), left: n}, clientConfig()).Handshake()
	}
	if err := r.srv.Close(); err != nil {
		t.Fatal(err)
	}
	if n := r.layer.Stats().Active; n != 0 {
		t.Errorf("%d under way", n)
	}
}

// TestPoolThatEnds: handshakes on a pool that is closed fail at their deadline or at once.
func TestPoolThatEnds(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "gone", Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
	r := newRig(t, setup{pool: pool})
	if err := tls.Client(r.raw(), clientConfig()).Handshake(); err == nil {
		t.Error("it succeeded")
	}
	if e := r.wantEnd(eddy.CloseAdmissionRejected); !errors.Is(e.Err, executor.ErrClosed) {
		t.Errorf("%v", e)
	}
}

// TestHandlersHearOfFailures: the pipeline's ErrorHandlers receive the reason. The connection ends even if one takes it
// as handled, and what they write is discarded.
func TestHandlersHearOfFailures(t *testing.T) {
	heard := make(chan error, 1)
	r := newRig(t, setup{add: func(p *eddy.Pipeline) error { return p.Add("app", deaf{heard}) }})
	bad := clientConfig()
	bad.RootCAs = roots()
	if err := tls.Client(r.raw(), bad).Handshake(); err == nil {
		t.Fatal("the client trusts anybody")
	}
	var h *tlsx.HandshakeError
	if err := <-heard; !errors.As(err, &h) || !strings.Contains(err.Error(), "tls: bad certificate") && !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("heard %v", err)
	}
	r.wantEnd(eddy.CloseHandshakeFailed)
}

type deaf struct{ heard chan error }

func (d deaf) HandleError(ctx *eddy.Context, err error) error {
	d.heard <- err
	_ = ctx.Write("what?")
	return nil
}

// TestFailuresAreLogged, a bounded number per second.
func TestFailuresAreLogged(t *testing.T) {
	var log testkit.Output
	r := newRig(t, setup{clock: true, o: tlsx.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	fail := func() {
		for range 20 {
			c := r.raw()
			io.WriteString(c, "x")
			io.ReadAll(c)
			c.Close()
			r.end()
		}
	}
	fail()
	if n := strings.Count(log.String(), "handshake failed"); n != 5 {
		t.Errorf("%d lines for 20 failures at once", n)
	}
	if !strings.Contains(log.String(), "does not speak TLS") || strings.Contains(log.String(), "goroutine") {
		t.Errorf("%s", log.String())
	}
	r.clock.Advance(time.Second)
	fail()
	if n := strings.Count(log.String(), "handshake failed"); n != 10 || !strings.Contains(log.String(), "held_back=15") {
		t.Errorf("%d lines a second later: %s", n, log.String())
	}
}
