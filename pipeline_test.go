package eddy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
)

// lines is a minimal line decoder: one message, a *buf.Bytes without the newline, per line.
type lines struct{ msg buf.Bytes }

const maxTestLine = 1 << 20

func (d *lines) Decode(ctx *eddy.Context, view []byte) (int, error) {
	i := bytes.IndexByte(view, '\n')
	if i < 0 {
		if len(view) > maxTestLine {
			return 0, eddy.WithReason(eddy.CloseFrameTooLarge, fmt.Errorf("line longer than %d", maxTestLine))
		}
		return 0, nil
	}
	d.msg.Reset(view[:i])
	ctx.FireRead(&d.msg)
	return i + 1, nil
}

// reply answers a line with itself and a newline.
func reply(ctx *eddy.Context, m *buf.Bytes) error {
	return ctx.Write(append(append([]byte{}, m.Bytes()...), '\n'))
}

func newPool(t testing.TB, workers, queue int) *executor.Pool {
	t.Helper()
	p, err := executor.NewFixed(executor.Options{Name: t.Name(), Workers: workers, Queue: queue})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := p.Shutdown(t.Context()); err != nil && t.Context().Err() == nil {
			t.Errorf("pool shutdown: %v", err)
		}
	})
	return p
}

// waitFor returns when cond holds.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, what, cond)
}

// expectLines reads lines and compares them.
func expectLines(t testing.TB, r *bufio.Reader, want ...string) {
	t.Helper()
	for _, w := range want {
		got, err := r.ReadString('\n')
		if err != nil || got != w+"\n" {
			t.Fatalf("read %q, %v, want %q", got, err, w)
		}
	}
}

// expectEnd reads until the peer's end of stream.
func expectEnd(t testing.TB, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("read %d, %v, want EOF", n, err)
	}
}

// closes records the close of connections.
type closes struct {
	mu      sync.Mutex
	reasons []eddy.CloseReason
	errs    []error
}

func (c *closes) HandleClose(_ *eddy.Context, reason eddy.CloseReason, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reasons = append(c.reasons, reason)
	c.errs = append(c.errs, err)
}

func (c *closes) first() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.errs[0]
}

func (c *closes) wait(t testing.TB, want ...eddy.CloseReason) {
	t.Helper()
	waitFor(t, fmt.Sprintf("closes %v", want), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.reasons) >= len(want)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if fmt.Sprint(c.reasons) != fmt.Sprint(want) {
		t.Fatalf("closed with %v (%v), want %v", c.reasons, c.errs, want)
	}
}

// tag appends its name to messages in both directions.
type tag string

func (g tag) HandleRead(ctx *eddy.Context, msg any) error {
	ctx.FireRead(msg.(string) + " in:" + string(g))
	return nil
}

func (g tag) HandleWrite(ctx *eddy.Context, msg any) error {
	return ctx.Write(msg.(string) + " out:" + string(g))
}

// toString detaches the decoder's bytes for the handlers behind it.
func toString(ctx *eddy.Context, m *buf.Bytes) error {
	ctx.FireRead(string(m.Bytes()))
	return nil
}

// newline is the encoder at the head.
type newline struct{}

func (newline) HandleWrite(ctx *eddy.Context, msg any) error { return ctx.Write(msg.(string) + "\n") }

func TestPipelineOrderAcrossExecutors(t *testing.T) {
	for name, pooled := range map[string][2]bool{
		"loop": {}, "first on pool": {true, false}, "second on pool": {false, true}, "both on pool": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, 4, 1024)
			on := func(yes bool) []eddy.AddOption {
				if yes {
					return []eddy.AddOption{eddy.On(pool)}
				}
				return nil
			}
			addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				p.Add("lines", &lines{})
				p.Add("newline", newline{})
				p.Add("string", eddy.Handle(toString))
				p.Add("a", tag("a"), on(pooled[0])...)
				p.Add("b", tag("b"), on(pooled[1])...)
				p.Add("end", eddy.Handle(func(ctx *eddy.Context, m string) error { return ctx.Write(m) }))
				return nil
			}})
			c := dial(t, addr)
			var in, want []string
			for i := range 500 {
				in = append(in, fmt.Sprint(i))
				want = append(want, fmt.Sprintf("%d in:a in:b out:b out:a", i))
			}
			go io.WriteString(c, strings.Join(in, "\n")+"\n")
			expectLines(t, bufio.NewReader(c), want...)
		})
	}
}

func TestHopDetachesBorrowedMessages(t *testing.T) {
	pool := newPool(t, 2, 64)
	gate := make(chan struct{})
	var got atomic.Pointer[buf.Bytes]
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("slow", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if got.CompareAndSwap(nil, m) {
				<-gate // the loop reads on meanwhile and reuses its memory
			}
			return reply(ctx, m)
		}), eddy.On(pool))
	}})
	c := dial(t, addr)
	io.WriteString(c, "first\n")
	waitFor(t, "the handler", func() bool { return got.Load() != nil })
	other := dial(t, addr)
	io.WriteString(other, "other\n") // overwrites the loop's scratch buffer
	expectLines(t, bufio.NewReader(other), "other")
	close(gate)
	expectLines(t, bufio.NewReader(c), "first")
}

func TestHopRejectedByFullPool(t *testing.T) {
	gate := make(chan struct{})
	stuck := eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
		<-gate
		return reply(ctx, m)
	})
	for name, tc := range map[string]struct {
		opts []eddy.AddOption
		want string
	}{
		"default closes": {nil, ""},
		"policy answers": {[]eddy.AddOption{eddy.RejectFunc(func(ctx *eddy.Context, msg any, err *eddy.HopError) error {
			if !errors.Is(err, executor.ErrRejected) {
				t.Errorf("reject policy got %v", err)
			}
			return ctx.Write("busy " + string(msg.(*buf.Bytes).Bytes()) + "\n")
		})}, "busy third\n"},
	} {
		t.Run(name, func(t *testing.T) {
			gate = make(chan struct{})
			pool := newPool(t, 1, 1)
			var ends closes
			addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				p.Add("lines", &lines{})
				p.Add("stuck", stuck, append(tc.opts, eddy.On(pool))...)
				return p.Add("ends", &ends)
			}})
			first, second, third := dial(t, addr), dial(t, addr), dial(t, addr)
			io.WriteString(first, "first\n")
			waitFor(t, "a busy worker", func() bool { st := pool.Stats(); return st.Running == 1 && st.Queued == 0 })
			io.WriteString(second, "second\n")
			waitFor(t, "a full queue", func() bool { return pool.Stats().Queued == 1 })
			io.WriteString(third, "third\n")
			got, _ := bufio.NewReader(third).ReadString('\n')
			if got != tc.want {
				t.Errorf("third connection read %q, want %q", got, tc.want)
			}
			if tc.want == "" {
				third.Close() // whose end the server waits for
				ends.wait(t, eddy.CloseBackpressureLimit)
			}
			close(gate)
			expectLines(t, bufio.NewReader(first), "first")
			expectLines(t, bufio.NewReader(second), "second")
		})
	}
}

// TestStrandPausesReads: a connection whose handler is slow stops being read, loses nothing and does not starve others.
func TestStrandPausesReads(t *testing.T) {
	pool := newPool(t, 2, 1024)
	gate := make(chan struct{})
	var handled atomic.Int64
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("slow", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			<-gate
			handled.Add(1)
			return reply(ctx, m)
		}), eddy.On(pool))
	}}
	addr := start(t, srv)
	c := dial(t, addr)
	const n = 5000
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	go io.WriteString(c, strings.Join(want, "\n")+"\n")
	waitFor(t, "a paused connection", func() bool { return srv.Stats().Loops[0].Hops >= 64 })
	if hops := srv.Stats().Loops[0].Hops; hops > 200 {
		t.Errorf("%d messages crossed to a handler that runs none, want about 64", hops)
	}
	close(gate)
	expectLines(t, bufio.NewReader(c), want...)
}

// TestErrorRouting: the ErrorHandlers behind a handler are told its errors and its panics, on the loop and on a pool. What
// they answer is sent, also before the end of the connection.
func TestErrorRouting(t *testing.T) {
	errBad := eddy.WithReason(eddy.CloseProtocolError, errors.New("bad line"))
	pool := newPool(t, 2, 16)
	for name, opts := range map[string][]eddy.AddOption{"loop": nil, "pool": {eddy.On(pool)}} {
		t.Run(name, func(t *testing.T) {
			var ends closes
			addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				p.Add("lines", &lines{})
				p.Add("picky", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
					switch string(m.Bytes()) {
					case "bad":
						return errBad
					case "forgiven":
						return errors.New("forgive me")
					case "panic":
						panic("no plan")
					}
					return reply(ctx, m)
				}), opts...)
				p.Add("errors", forgiving{})
				return p.Add("ends", &ends)
			}})
			c := dial(t, addr)
			r := bufio.NewReader(c)
			io.WriteString(c, "good\nforgiven\nstill here\nbad\nnever\n")
			expectLines(t, r, "good", "sorry", "still here", "farewell")
			expectEnd(t, c)
			c.Close()
			ends.wait(t, eddy.CloseProtocolError)
			c = dial(t, addr)
			io.WriteString(c, "good\npanic\nnever\n")
			expectLines(t, bufio.NewReader(c), "good", "farewell")
			c.Close()
			ends.wait(t, eddy.CloseProtocolError, eddy.CloseInternalError)
		})
	}
}

// forgiving handles errors that ask for it and says farewell for the others.
type forgiving struct{}

func (forgiving) HandleError(ctx *eddy.Context, err error) error {
	if strings.Contains(err.Error(), "forgive") {
		return ctx.Write([]byte("sorry\n"))
	}
	_ = ctx.Write([]byte("farewell\n"))
	return err
}

func TestPanicClosesOnlyItsConnection(t *testing.T) {
	pool := newPool(t, 2, 16)
	for name, opts := range map[string][]eddy.AddOption{"loop": nil, "pool": {eddy.On(pool)}} {
		t.Run(name, func(t *testing.T) {
			var ends closes
			srv := &eddy.Server{Loops: 1, Logger: quiet(), Init: func(p *eddy.Pipeline) error {
				p.Add("lines", &lines{})
				p.Add("fragile", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
					if string(m.Bytes()) == "panic" {
						panic("as asked")
					}
					return reply(ctx, m)
				}), opts...)
				return p.Add("ends", &ends)
			}}
			addr := start(t, srv)
			other := dial(t, addr)
			c := dial(t, addr)
			io.WriteString(c, "before\npanic\n")
			expectLines(t, bufio.NewReader(c), "before")
			expectEnd(t, c)
			c.Close()
			ends.wait(t, eddy.CloseInternalError)
			var pe *eddy.PanicError
			if !errors.As(ends.first(), &pe) || pe.Value != "as asked" {
				t.Errorf("close error %v, want the panic", ends.first())
			}
			io.WriteString(other, "alive\n")
			expectLines(t, bufio.NewReader(other), "alive")
			st := srv.Stats()
			if st.Loops[0].Panics+st.ExecutorPanics != 1 {
				t.Errorf("panics counted: %d on loops, %d on pools", st.Loops[0].Panics, st.ExecutorPanics)
			}
		})
	}
}

// upper replaces the line decoder after an upgrade.
type upper struct{}

func (upper) Decode(ctx *eddy.Context, view []byte) (int, error) {
	return len(view), ctx.WriteBytes(bytes.ToUpper(view))
}

func TestReplaceDecoderUnderTraffic(t *testing.T) {
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("app", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			if string(m.Bytes()) == "upgrade" {
				if err := ctx.Pipeline().Replace("lines", "upper", upper{}); err != nil {
					return err
				}
			}
			return reply(ctx, m)
		}))
	}})
	c := dial(t, addr)
	io.WriteString(c, "plain\nupgrade\nshouted\n") // the rest came with the upgrade and belongs to the new decoder
	expectLines(t, bufio.NewReader(c), "plain", "upgrade", "SHOUTED")
}

func TestPipelineConstructionErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		init func(p *eddy.Pipeline) error
		want string
	}{
		"no handler":     {func(*eddy.Pipeline) error { return nil }, "added no handler"},
		"not a handler":  {func(p *eddy.Pipeline) error { return p.Add("x", 1) }, "implements no handler interface"},
		"duplicate name": {func(p *eddy.Pipeline) error { p.Add("x", echo); return p.Add("x", echo) }, "duplicate handler name"},
		"own error":      {func(*eddy.Pipeline) error { return errors.New("no thanks") }, "no thanks"},
	} {
		t.Run(name, func(t *testing.T) {
			log := newLog()
			srv := &eddy.Server{Loops: 1, Init: tc.init, Logger: log.logger()}
			c := dial(t, start(t, srv))
			c.Read(make([]byte, 1))
			waitFor(t, "the close", func() bool { return srv.Stats().Closed[eddy.CloseInternalError] == 1 })
			if !strings.Contains(log.String(), tc.want) {
				t.Errorf("log %q does not say %q", log.String(), tc.want)
			}
		})
	}
}

func TestHandlersShareNodesButNotState(t *testing.T) {
	h := counting{}
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		return p.Add("count", h)
	}})
	for range 3 {
		c := dial(t, addr)
		r := bufio.NewReader(c)
		io.WriteString(c, "a\nb\n")
		expectLines(t, r, "1", "2")
	}
}

type counting struct{}

func (counting) HandleRead(ctx *eddy.Context, _ any) error {
	n, _ := ctx.State().(int)
	ctx.SetState(n + 1)
	return ctx.Write(fmt.Sprintln(n + 1))
}
