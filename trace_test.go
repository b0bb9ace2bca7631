package eddy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/executor"
)

func traceOf(ctx context.Context) string {
	v, _ := ctx.Value(traceKey{}).(string)
	return v
}

func withTrace(v string) context.Context {
	return context.WithValue(context.Background(), traceKey{}, v)
}

// station notes the trace of what passes it.
type station struct {
	name string
	d    *diary
}

func (h station) see(ctx *eddy.Context, what string) {
	via := traceOf(ctx.Context())
	h.d.note("%s %s: %s", h.name, what, traceOf(ctx.Trace()))
	if via != traceOf(ctx.Trace()) {
		h.d.note("%s %s: Context says %s", h.name, what, via)
	}
}

func (h station) HandleRead(ctx *eddy.Context, msg any) error {
	h.see(ctx, fmt.Sprint(msg))
	ctx.FireRead(msg)
	return nil
}

func (h station) HandleEvent(ctx *eddy.Context, ev any) error {
	if s, ok := ev.(string); ok {
		h.see(ctx, s)
	}
	ctx.FireEvent(ev)
	return nil
}

func (h station) HandleError(ctx *eddy.Context, err error) error {
	h.see(ctx, err.Error())
	return err
}

// starter begins a trace for lines that name one, and sends an event and an error along.
type starter struct{}

func (starter) HandleRead(ctx *eddy.Context, msg any) error {
	m := string(msg.(*buf.Bytes).Bytes())
	if trace, ok := strings.CutPrefix(m, "trace "); ok {
		ctx.SetTrace(withTrace(trace))
	}
	ctx.FireRead(m)
	ctx.FireEvent("event of " + m)
	ctx.FireError(errors.New("error of " + m))
	return nil
}

// TestTraceTravels: what a handler sets travels with the message, and with the events and errors it fires meanwhile, over
// every kind of hop and back to the loop. The next message has none; a connection's own is for those without.
func TestTraceTravels(t *testing.T) {
	for _, begin := range []string{"loop", "ordered", "unordered"} {
		t.Run("begins on "+begin, func(t *testing.T) {
			pool, other := newPool(t, 4, 256), newPool(t, 2, 256)
			d := new(diary)
			conns := make(chan *eddy.Conn, 1)
			var ends closes
			opts := map[string][]eddy.AddOption{"ordered": {eddy.On(pool)}, "unordered": {eddy.OnUnordered(pool)}}[begin]
			addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
				p.Add("lines", &lines{})
				p.Add("starter", starter{}, opts...)
				p.Add("serial", station{"serial", d}, eddy.On(pool))
				p.Add("loose", station{"loose", d}, eddy.OnUnordered(other))
				p.Add("loose too", station{"loose too", d}, eddy.OnUnordered(other))
				p.Add("loop", station{"loop", d})
				p.Add("end", excuses{true, make(chan error, 64)})
				p.Add("ends", &ends)
				conns <- p.Conn()
				return p.Add("sink", eddy.Handle(func(ctx *eddy.Context, m string) error { return ctx.Write(m + "\n") }))
			}})
			c := dial(t, addr)
			conn := <-conns
			r := bufio.NewReader(c)
			expect := func(line, trace string) {
				t.Helper()
				io.WriteString(c, line+"\n")
				for range 2 { // the message and the excuse for the error, in any order
					if _, err := r.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				for _, at := range []string{"serial", "loose", "loose too", "loop"} {
					for _, what := range []string{line, "event of " + line, "error of " + line} {
						entry := fmt.Sprintf("%s %s: %s", at, what, trace)
						waitFor(t, entry, func() bool { return d.has(entry) })
					}
				}
				d.mu.Lock()
				defer d.mu.Unlock()
				if len(d.entries) != 12 {
					t.Errorf("noted %q", d.entries)
				}
				d.entries = nil
			}
			expect("trace 1", "1")
			expect("nothing", "")
			conn.SetTrace(withTrace("of the connection"))
			expect("nothing", "of the connection")
			expect("trace 2", "2")
			var none context.Context
			conn.SetTrace(none)
			expect("nothing", "")
		})
	}
}

// TestTraceBelongsToItsMessage: messages of many connections on one loop and one pool never see each other's trace.
func TestTraceBelongsToItsMessage(t *testing.T) {
	pool := newPool(t, 4, 1024)
	begin := func(ctx *eddy.Context, m string) error {
		if !strings.HasSuffix(m, "0") { // every tenth has none
			ctx.SetTrace(withTrace(m))
		}
		ctx.FireRead(m)
		return nil
	}
	var mu sync.Mutex
	var wrong []string
	check := func(ctx *eddy.Context, m string) error {
		want := m
		if strings.HasSuffix(m, "0") {
			want = ""
		}
		if got := traceOf(ctx.Trace()); got != want {
			mu.Lock()
			wrong = append(wrong, fmt.Sprintf("%s has %q", m, got))
			mu.Unlock()
		}
		ctx.FireRead(m)
		return nil
	}
	addr := start(t, &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("string", eddy.Handle(toString))
		p.Add("begin", eddy.Handle(begin))
		p.Add("loop", eddy.Handle(check))
		p.Add("pool", eddy.Handle(check), eddy.OnUnordered(pool))
		p.Add("strand", eddy.Handle(check), eddy.On(pool))
		p.Add("back", eddy.Handle(check))
		return p.Add("end", eddy.Handle(func(ctx *eddy.Context, m string) error { return ctx.Write(m + "\n") }))
	}})
	var wg sync.WaitGroup
	for i := range 8 {
		c := dial(t, addr)
		wg.Go(func() {
			var b strings.Builder
			for n := range 200 {
				fmt.Fprintf(&b, "%d.%d\n", i, n)
			}
			go io.WriteString(c, b.String())
			r := bufio.NewReader(c)
			for range 200 {
				if _, err := r.ReadString('\n'); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(wrong) > 0 {
		t.Errorf("%d wrong: %.5q", len(wrong), wrong)
	}
}

// TestTraceInThePoolsHook: the hook of a handler's pool is given the message's trace, around each of them; a refused
// message keeps its trace while it waits, and shows it to the policy.
func TestTraceInThePoolsHook(t *testing.T) {
	d := new(diary)
	gate := make(chan struct{})
	pool, err := executor.NewFixed(executor.Options{Workers: 1, Queue: 1, Around: func(ctx context.Context, run func(context.Context)) {
		if v := traceOf(ctx); v != "" {
			d.note("begin %s", v)
			defer d.note("end %s", v)
		}
		run(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Shutdown(context.Background())
	for range 2 {
		if err := pool.SubmitFunc(func() { <-gate }); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "a full pool", func() bool { return pool.Stats().Running == 1 && pool.Stats().Queued == 1 })
	note := eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
		d.note("handled %s", traceOf(ctx.Trace()))
		return reply(ctx, m)
	})
	srv := &eddy.Server{Loops: 1, Init: func(p *eddy.Pipeline) error {
		p.Add("lines", &lines{})
		p.Add("begin", eddy.Handle(func(ctx *eddy.Context, m *buf.Bytes) error {
			ctx.SetTrace(withTrace(string(m.Bytes())))
			ctx.FireRead(m)
			return nil
		}))
		p.Add("asked", note, eddy.OnUnordered(pool), eddy.RejectFunc(func(ctx *eddy.Context, m any, _ *eddy.HopError) error {
			d.note("refused %s", traceOf(ctx.Context()))
			ctx.FireRead(m)
			return nil
		}))
		return p.Add("kept", note, eddy.On(pool), eddy.RejectPause())
	}}
	c := dial(t, start(t, srv))
	io.WriteString(c, "one\n")
	waitFor(t, "the refusals", func() bool { return srv.Stats().Loops[0].HopWaits == 1 })
	close(gate)
	expectLines(t, bufio.NewReader(c), "one")
	waitFor(t, "the end of the hook", func() bool { return d.has("end one") })
	d.expect(t, "refused one", "begin one", "handled one", "end one")
}
