package relay_test

import (
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/enginetest"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffers is the size of the kernel's buffers, so that little is under way between the ends of a pair.
const buffers = 128 << 10

// rig is a relay between clients and a listener of the test.
type rig struct {
	t      *testing.T
	relay  *relay.Relay
	srv    *eddy.Server
	dialer *eddy.Dialer
	target net.Listener
	addr   string
	done   chan relay.Report
	clock  *enginetest.Clock
}

// setup holds what a test wants to differ from the usual.
type setup struct {
	far     bool // the sides of a pair are on loops of different groups
	options func(r *rig, o *relay.Options)
	clock   bool // the time of the engines is the test's
	server  func(*eddy.Server)
	dialer  func(*eddy.Dialer)
	init    func(r *rig) func(*eddy.Pipeline) error
}

func newRig(t *testing.T, s setup) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	front := &eddy.Group{Loops: 2}
	back := front
	if s.far {
		back = &eddy.Group{Name: "back", Loops: 2}
	}
	r := &rig{t: t, target: l, done: make(chan relay.Report, 4096), dialer: &eddy.Dialer{Group: back}}
	o := relay.Options{
		Dialer: r.dialer, Logger: slog.New(slog.DiscardHandler), Done: func(d relay.Report) { r.done <- d },
		Target: func(*eddy.Conn) (net.Addr, error) { return l.Addr(), nil },
	}
	if s.options != nil {
		s.options(r, &o)
	}
	if r.relay, err = relay.New(o); err != nil {
		t.Fatal(err)
	}
	r.srv = &eddy.Server{Group: front, Init: r.relay.Init}
	r.srv.RecvBuffer, r.srv.SendBuffer = buffers, buffers
	r.dialer.RecvBuffer, r.dialer.SendBuffer = buffers, buffers
	if s.init != nil {
		r.srv.Init = s.init(r)
	}
	if s.server != nil {
		s.server(r.srv)
	}
	if s.dialer != nil {
		s.dialer(r.dialer)
	}
	enginetest.RelaxDialer(r.dialer)
	if s.clock {
		r.clock = enginetest.NewClock(t, r.srv, r.dialer, front, back)
	}
	t.Cleanup(func() { _ = errors.Join(r.dialer.Close(), front.Close(), back.Close()) })
	r.addr = enginetest.Serve(t, r.srv)
	return r
}

// pair connects a client and returns it with the other end that it was relayed to.
func (r *rig) pair() (client, server *enginetest.Peer) {
	r.t.Helper()
	client = enginetest.Dial(r.t, r.addr)
	_ = client.SetReadBuffer(buffers)
	return client, r.accept()
}

func (r *rig) accept() *enginetest.Peer {
	r.t.Helper()
	c, err := r.target.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetReadBuffer(buffers)
	return enginetest.Accepted(r.t, c)
}

// report returns what became of the next pair that ends.
func (r *rig) report() relay.Report {
	r.t.Helper()
	return testkit.Receive(r.t, "the end of a pair", r.done)
}

// places runs f with both sides on one loop, and on two.
func places(t *testing.T, f func(t *testing.T, far bool)) {
	for name, far := range map[string]bool{"one loop": false, "two loops": true} {
		t.Run(name, func(t *testing.T) { f(t, far) })
	}
}

// TestBothWays: bytes go both ways, and each side may end its stream first while the other goes on.
func TestBothWays(t *testing.T) {
	places(t, func(t *testing.T, far bool) {
		r := newRig(t, setup{far: far})
		for _, first := range []string{"client", "server"} {
			c, s := r.pair()
			c.Send("question")
			s.Expect("question")
			s.Send("answer")
			c.Expect("answer")
			a, b := c, s
			if first == "server" {
				a, b = s, c
			}
			a.Send("my last")
			if err := a.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			b.Expect("my last")
			b.ExpectEnd()
			b.Send("still here")
			a.Expect("still here")
			if err := b.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			a.ExpectEnd()
			d := r.report()
			in, out := int64(len("questionmy last")), int64(len("answerstill here"))
			if first == "server" {
				in, out = int64(len("questionstill here")), int64(len("answermy last"))
			}
			if d.In != in || d.Out != out || d.Reason != eddy.ClosePeerClosed || d.Err != nil || d.Client != c.LocalAddr().String() || d.Target != r.target.Addr().String() {
				t.Errorf("%s first: %+v, want %d in and %d out", first, d, in, out)
			}
		}
		if st := r.relay.Stats(); st.Active != 0 || st.Pairs != 2 || st.Failed != 0 || st.In != uint64(len("questionmy lastquestionstill here")) {
			t.Errorf("%+v", st)
		}
	})
}

// TestSlowReader: a reader that stops and goes on gets every byte. Meanwhile no more than the watermark waits for it.
func TestSlowReader(t *testing.T) {
	const size, high = 24 << 20, 256 << 10
	places(t, func(t *testing.T, far bool) {
		for _, from := range []string{"client", "server"} {
			var most peak
			marks := eddy.Watermarks{Low: 64 << 10, High: high, Max: high}
			r := newRig(t, setup{
				far:    far,
				server: func(s *eddy.Server) { s.Watermarks = marks },
				dialer: func(d *eddy.Dialer) {
					d.Watermarks, d.Init = marks, func(p *eddy.Pipeline) error { return p.Add("peak", &most) }
				},
				init: func(r *rig) func(*eddy.Pipeline) error {
					return func(p *eddy.Pipeline) error { p.Add("peak", &most); return r.relay.Init(p) }
				},
			})
			source, sink := r.pair()
			if from == "server" {
				source, sink = sink, source
			}
			sent := make(chan []byte, 1)
			go func() {
				h, rng := md5.New(), rand.NewChaCha8([32]byte{1})
				if _, err := io.CopyN(io.MultiWriter(source, h), rng, size); err != nil {
					t.Error(err)
				}
				_ = source.CloseWrite()
				sent <- h.Sum(nil)
			}()
			h, n := md5.New(), int64(0)
			for k := range 100 { // each time until nothing moves any more
				got, err := io.CopyN(h, sink, int64(k)<<12)
				if n += got; err != nil {
					t.Fatalf("after %d bytes: %v: %+v", n, err, r.report())
				}
				enginetest.Barrier(t, r.srv)
			}
			rest, err := io.Copy(h, sink)
			if n += rest; n != size || err != nil {
				t.Fatalf("from the %s: %d of %d bytes, %v", from, n, size, err)
			}
			if want := testkit.Receive(t, "all to be sent", sent); string(h.Sum(nil)) != string(want) {
				t.Errorf("from the %s: the bytes differ", from)
			}
			if q := most.bytes(); q < high/2 || q > high+128<<10 { // a source on a busy machine may never fill it
				t.Errorf("from the %s: up to %d bytes were queued, want about %d", from, q, high)
			}
		}
	})
}

// peak is a handler that notes the largest number of bytes queued for its connection.
type peak struct {
	mu   sync.Mutex
	most int64
}

func (p *peak) HandleWrite(ctx *eddy.Context, msg any) error {
	err := ctx.Write(msg)
	p.mu.Lock()
	p.most = max(p.most, ctx.Conn().QueuedBytes())
	p.mu.Unlock()
	return err
}

func (p *peak) bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// TestCuts: when one side does not end in order, the other is reset, so that no peer takes a part for the whole.
func TestCuts(t *testing.T) {
	places(t, func(t *testing.T, far bool) {
		for name, c := range map[string]struct {
			cut  func(r *rig, c, s *enginetest.Peer)
			want eddy.CloseReason
			left string
		}{
			"the client resets":           {func(_ *rig, c, _ *enginetest.Peer) { c.Reset() }, eddy.CloseIOError, "server"},
			"the server resets":           {func(_ *rig, _, s *enginetest.Peer) { s.Reset() }, eddy.CloseIOError, "client"},
			"the dialer is closed":        {func(r *rig, _, s *enginetest.Peer) { _ = r.dialer.Close(); s.ExpectReset() }, eddy.CloseServerShutdown, "client"},
			"the server is closed":        {func(r *rig, c, _ *enginetest.Peer) { _ = r.srv.Close(); c.ExpectReset() }, eddy.CloseServerShutdown, "server"},
			"the client's behind its end": {func(_ *rig, c, s *enginetest.Peer) { _ = c.CloseWrite(); s.ExpectEnd(); c.Reset() }, eddy.CloseIOError, "server"},
			"the server's behind its end": {func(_ *rig, c, s *enginetest.Peer) { _ = s.CloseWrite(); c.ExpectEnd(); s.Reset() }, eddy.CloseIOError, "client"},
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, setup{far: far})
				client, server := r.pair()
				client.Send("hello")
				server.Expect("hello")
				c.cut(r, client, server)
				left := map[string]*enginetest.Peer{"client": client, "server": server}[c.left]
				if !strings.Contains(name, "behind") {
					left.ExpectReset()
				} else { // a read says no more than the end that has come before
					testkit.Eventually(t, "writes to fail", func() bool { _, err := left.Write([]byte("?")); return err != nil })
				}
				if d := r.report(); d.Reason != c.want || d.In < 5 {
					t.Errorf("%+v, want %v", d, c.want)
				}
			})
		}
	})
}

// TestNoTarget: when the target cannot be reached or named, the client gets a reset or the handler's own answer, and
// the operator gets a log line.
func TestNoTarget(t *testing.T) {
	nowhere := errors.New("no idea where")
	places(t, func(t *testing.T, far bool) {
		for name, c := range map[string]struct {
			want func(error) bool
		}{
			"refused":   {func(err error) bool { return strings.Contains(err.Error(), "refused") }},
			"no target": {func(err error) bool { return errors.Is(err, nowhere) }},
		} {
			t.Run(name, func(t *testing.T) {
				var log lockedLog
				r := newRig(t, setup{far: far, options: func(_ *rig, o *relay.Options) {
					o.Logger = slog.New(slog.NewTextHandler(&log, nil))
					if name == "no target" {
						o.Target = func(*eddy.Conn) (net.Addr, error) { return nil, nowhere }
					}
				}})
				r.target.Close()
				for range 20 {
					if c, err := net.Dial("tcp", r.addr); err == nil { // the reset may be quicker
						if _, err = io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
							t.Errorf("the stream ended with %v, want a reset", err)
						}
						c.Close()
					}
					if d := r.report(); d.Err == nil || !c.want(d.Err) || d.Reason != eddy.CloseIOError {
						t.Fatalf("%+v", d)
					}
				}
				if st := r.relay.Stats(); st.Failed != 20 || st.Active != 0 {
					t.Errorf("%+v", st)
				}
				if n := strings.Count(log.String(), "relay: no connection to the target"); n < 1 || n > 19 {
					t.Errorf("%d lines for 20 failures:\n%s", n, log.String())
				}
			})
		}
	})
}

type lockedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}
func (l *lockedLog) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

// TestClientLeavesEarly: a client that goes while its target is being dialed leaves nothing behind.
func TestClientLeavesEarly(t *testing.T) {
	places(t, func(t *testing.T, far bool) {
		r := newRig(t, setup{far: far, options: func(r *rig, o *relay.Options) {
			o.Target = func(c *eddy.Conn) (net.Addr, error) { c.Close(eddy.CloseIOError); return r.target.Addr(), nil }
		}})
		for range 50 {
			if c, err := net.Dial("tcp", r.addr); err == nil { // the reset may be quicker
				defer c.Close()
			}
			r.report()
		}
		testkit.Eventually(t, "no connection left", func() bool { return r.dialer.Stats().Active == 0 && r.relay.Stats().Active == 0 })
	})
}

// TestIdle: a pair ends when nothing moves on it, and stays when only little moves.
func TestIdle(t *testing.T) {
	r := newRig(t, setup{
		clock: true, options: func(_ *rig, o *relay.Options) { o.Idle = time.Minute },
		server: func(s *eddy.Server) { s.HandshakeTimeout = time.Minute }, // over when the pair stands
		dialer: func(d *eddy.Dialer) { d.HandshakeTimeout = time.Minute },
	})
	c, s := r.pair()
	for range 5 {
		s.Send("x")
		c.Expect("x")
		r.clock.Pass(40*time.Second, 5*time.Second)
	}
	if len(r.done) > 0 {
		t.Fatalf("it ended early: %+v", r.report())
	}
	r.clock.Pass(40*time.Second, 5*time.Second)
	c.ExpectReset()
	s.ExpectReset()
	d := r.report()
	if late := (*eddy.DeadlineError)(nil); d.Reason != eddy.CloseIdleTimeout || !errors.As(d.Err, &late) || late.Limit != time.Minute {
		t.Errorf("%+v", d)
	}
}

// TestHandshake: a protocol that learns the target from the client puts the relay in its place and answers when the
// target is connected. Bytes that the client has sent after its request are relayed.
func TestHandshake(t *testing.T) {
	places(t, func(t *testing.T, far bool) {
		r := newRig(t, setup{far: far, init: func(r *rig) func(*eddy.Pipeline) error {
			return func(p *eddy.Pipeline) error { return p.Add("connect", &connect{r}) }
		}})
		c := enginetest.Dial(t, r.addr)
		c.Send("TO " + r.target.Addr().String() + "\nfirst bytes")
		s := r.accept()
		s.Expect("first bytes")
		c.Expect("OK\n")
		s.Send("back")
		c.Expect("back")
		c.Reset()
		s.ExpectReset()
		r.report()
		addr := r.target.Addr().String()
		r.target.Close()
		c = enginetest.Dial(t, r.addr)
		c.Send("TO " + addr + "\n")
		c.Expect("NO\n")
		c.ExpectEnd()
		c.Close()
		if d := r.report(); d.Err == nil {
			t.Errorf("%+v", d)
		}
	})
}

// TestAnswerComesFirst: bytes that the target sends before the client's loop knows of the connection come after the
// answer and take none of its room.
func TestAnswerComesFirst(t *testing.T) {
	places(t, func(t *testing.T, far bool) {
		gate := make(chan struct{})
		banner := strings.Repeat("ready ", 1000)
		r := newRig(t, setup{
			far:    far,
			server: func(s *eddy.Server) { s.Watermarks = eddy.Watermarks{Low: 100, High: 200, Max: 200} },
			options: func(r *rig, o *relay.Options) {
				o.Target = func(c *eddy.Conn) (net.Addr, error) {
					return r.target.Addr(), c.Loop().Post(func() { <-gate })
				}
			},
			init: func(r *rig) func(*eddy.Pipeline) error {
				answer := func(ctx *eddy.Context, err error) { _ = ctx.WriteBytes([]byte(fmt.Sprintf("OK %v\n", err))) }
				return func(p *eddy.Pipeline) error { return p.Add("relay", r.relay.Handler(nil, answer)) }
			},
		})
		c := enginetest.Dial(t, r.addr)
		if far {
			r.accept().Send(banner)
			for range 5 { // the dialed side could have read it
				for i := range 2 {
					seen := make(chan struct{})
					if err := r.dialer.Group.Loop(i).Post(func() { close(seen) }); err != nil {
						t.Fatal(err)
					}
					testkit.Receive(t, "a turn of the loop", seen)
				}
			}
			close(gate)
		} else {
			close(gate)
			r.accept().Send(banner)
		}
		c.Expect("OK <nil>\n" + banner)
	})
}

// TestHeardWhileItReadsNothing: bytes of a peer that does not read are relayed all the same. If the other peer waits
// for them, both would otherwise wait forever.
func TestHeardWhileItReadsNothing(t *testing.T) {
	places(t, func(t *testing.T, far bool) {
		r := newRig(t, setup{far: far, dialer: func(d *eddy.Dialer) { d.Watermarks = eddy.Watermarks{Low: 1 << 10, High: 2 << 10, Max: 2 << 10} }})
		c, s := r.pair()
		var sent atomic.Int64
		go func() { // more than anybody takes, until the end
			for b := make([]byte, 1<<10); ; sent.Add(1) {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}()
		for last, still := int64(-1), 0; still < 200; still++ { // until nothing moves there any more
			s.Send("x")
			c.Expect("x")
			if n := sent.Load(); n != last {
				last, still = n, 0
			}
		}
		c.Close()
	})
}

// connect is a protocol of one line.
type connect struct{ r *rig }

func (h *connect) Decode(ctx *eddy.Context, view []byte) (int, error) {
	line, _, found := strings.Cut(string(view), "\n")
	if !found {
		return 0, nil
	}
	to, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(line, "TO "))
	if err != nil {
		return 0, err
	}
	answer := func(ctx *eddy.Context, err error) {
		if err != nil {
			_ = ctx.WriteBytes([]byte("NO\n"))
			return
		}
		_ = ctx.WriteBytes([]byte("OK\n"))
	}
	return len(line) + 1, ctx.Pipeline().Replace(ctx.Name(), "relay", h.r.relay.Handler(to, answer))
}

// TestFullLoop: pieces for which the other side's loop has no room wait with their source. They are delivered later,
// and the end after them.
func TestFullLoop(t *testing.T) {
	r := newRig(t, setup{far: true, dialer: func(d *eddy.Dialer) { d.Group.TaskQueue = 2 }})
	c, s := r.pair()
	c.Send("?")
	s.Expect("?")
	gate, entered := make(chan struct{}), make(chan struct{}, 2)
	for i := range 2 {
		if err := r.dialer.Group.Loop(i).Post(func() { entered <- struct{}{}; <-gate }); err != nil {
			t.Fatal(err)
		}
	}
	<-entered
	<-entered
	var want strings.Builder
	for i := range 100 { // more pieces than fit there
		piece := fmt.Sprintf("piece %d;", i)
		want.WriteString(piece)
		c.Send(piece)
		enginetest.Barrier(t, r.srv)
	}
	_ = c.CloseWrite()
	enginetest.Barrier(t, r.srv)
	close(gate)
	s.Expect(want.String())
	s.ExpectEnd()
}

// TestManyWithResets: hundreds of pairs at once, a third of them reset by either side. Nothing stays behind, and the
// other pairs are whole.
func TestManyWithResets(t *testing.T) {
	const pairs = 150 // four descriptors each, of the 1024 that select has
	places(t, func(t *testing.T, far bool) {
		r := newRig(t, setup{far: far})
		var wg sync.WaitGroup
		serve := func(s *enginetest.Peer) {
			defer s.Close()
			head := make([]byte, 1)
			if _, err := io.ReadFull(s, head); err != nil {
				return
			}
			if head[0] == 's' {
				s.Reset()
				return
			}
			_, _ = io.Copy(s, s)
			_ = s.CloseWrite()
		}
		wg.Go(func() {
			for range pairs {
				c, err := r.target.Accept()
				if err != nil {
					return
				}
				wg.Go(func() { serve(enginetest.Accepted(t, c)) })
			}
		})
		text := strings.Repeat("0123456789", 5000)
		for i := range pairs {
			wg.Go(func() {
				c, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				switch kind := "csw"[i%3]; kind {
				case 'c', 's':
					_, _ = io.WriteString(c, string(kind)+text)
					if kind == 'c' {
						_ = c.(*net.TCPConn).SetLinger(0)
						return
					}
					_, _ = io.Copy(io.Discard, c)
				default:
					go func() { _, _ = io.WriteString(c, "w"+text); _ = c.(*net.TCPConn).CloseWrite() }()
					if b, err := io.ReadAll(c); err != nil || string(b) != text {
						t.Errorf("%d of %d bytes, %v", len(b), len(text), err)
					}
				}
			})
		}
		for range pairs {
			r.report()
		}
		wg.Wait()
		if st := r.relay.Stats(); st.Active != 0 || st.Pairs != pairs || r.dialer.Stats().Active != 0 {
			t.Errorf("%+v, %d dialed are left", st, r.dialer.Stats().Active)
		}
	})
}

// TestMessages: a message that is not bytes cannot be relayed and is reported.
func TestMessages(t *testing.T) {
	r := newRig(t, setup{init: func(r *rig) func(*eddy.Pipeline) error {
		return func(p *eddy.Pipeline) error {
			p.Add("numbers", eddy.Handle(func(ctx *eddy.Context, _ *buf.Bytes) error { ctx.FireRead(42); return nil }))
			return r.relay.Init(p)
		}
	}})
	c, s := r.pair()
	c.Send("x")
	s.ExpectReset()
	if d := r.report(); d.Err == nil || !strings.Contains(d.Err.Error(), "message of type int") {
		t.Errorf("%+v", d)
	}
}

// TestOptions: the error names the missing option.
func TestOptions(t *testing.T) {
	for want, o := range map[string]relay.Options{
		"Options.Dialer is nil": {},
		"Options.Idle is -1ns":  {Dialer: &eddy.Dialer{}, Idle: -1},
	} {
		if _, err := relay.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r, err := relay.New(relay.Options{Dialer: &eddy.Dialer{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Init(nil); err == nil || !strings.Contains(err.Error(), "Options.Target is nil") {
		t.Errorf("%v", err)
	}
}
