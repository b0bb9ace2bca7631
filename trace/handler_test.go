package trace_test

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"testing"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/line"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/trace"
)

// TestMessages: a message is followed over pools, ordered and unordered, and back over the loop, until its answer was sent.
func TestMessages(t *testing.T) {
	for name, on := range map[string]func(*executor.Pool) eddy.AddOption{"ordered": eddy.On, "unordered": eddy.OnUnordered} {
		t.Run(name, func(t *testing.T) {
			rec, err := trace.New(trace.Options{Sample: 1})
			if err != nil {
				t.Fatal(err)
			}
			first, second := newPool(t, "first"), newPool(t, "second")
			var failed error
			addr := serve(t, func(p *eddy.Pipeline) error {
				p.Add("lines", line.Codec(1024))
				p.Add("trace", trace.Messages(rec, func(l *line.Line) string { return "say " + string(l.Text()) }))
				p.Add("one", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
					if trace.FromContext(ctx.Context()) == nil {
						failed = fmt.Errorf("one has no request")
					}
					ctx.FireRead(l)
					return nil
				}), on(first))
				p.Add("between", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error { ctx.FireRead(l); return nil }))
				return p.Add("two", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
					return ctx.Write(fmt.Appendf(nil, "%s\n", l.Text()))
				}), on(second))
			})
			say(t, addr, "hello")
			testkit.Eventually(t, "the end of the request", func() bool { return rec.Stats().Ended == 1 })
			s := rec.Find(1)
			var got []string
			for _, p := range s.Stages {
				switch p.Stage {
				case trace.QueueWait, trace.Handler:
					got = append(got, p.Stage.String()+" "+p.Where)
				case trace.Write:
					got = append(got, "write")
				}
			}
			want := []string{"queue wait first", "handler one", "queue wait second", "handler two", "write"}
			if !slices.Equal(got, want) || s.Failed != "" || s.About.Name != "say hello" || failed != nil {
				t.Errorf("stages %q of %+v, %v", got, s, failed)
			}
		})
	}
}

// TestMessagesOnTheLoop: a message that no pool handles ends, too.
func TestMessagesOnTheLoop(t *testing.T) {
	rec, err := trace.New(trace.Options{Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, func(p *eddy.Pipeline) error {
		p.Add("lines", line.Codec(1024))
		p.Add("trace", trace.Messages(rec, func(*line.Line) string { return "say" }))
		return p.Add("echo", eddy.Handle(func(ctx *eddy.Context, l *line.Line) error {
			return ctx.Write(fmt.Appendf(nil, "%s\n", l.Text()))
		}))
	})
	say(t, addr, "hello")
	testkit.Eventually(t, "the end of the request", func() bool { return rec.Stats().Ended == 1 })
	if s := rec.Find(1); s.Failed != "" {
		t.Errorf("%+v", s)
	}
}

// TestRefusedMessage: a message that a full or stopped pool refuses ends, and so does one whose handler panics.
func TestRefusedMessage(t *testing.T) {
	rec, err := trace.New(trace.Options{Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	stopped := newPool(t, "stopped")
	if _, err := stopped.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pool := range []*executor.Pool{stopped, newPool(t, "open")} {
		addr := serve(t, func(p *eddy.Pipeline) error {
			p.Add("lines", line.Codec(1024))
			p.Add("trace", trace.Messages(rec, func(*line.Line) string { return "say" }))
			return p.Add("panics", eddy.Handle(func(*eddy.Context, *line.Line) error { panic("on purpose") }), eddy.On(pool))
		})
		ended := rec.Stats().Ended
		c := dial(t, addr)
		fmt.Fprintln(c, "hello")
		testkit.Eventually(t, "the end of the request", func() bool { return rec.Stats().Ended == ended+1 })
	}
}

func newPool(t *testing.T, name string) *executor.Pool {
	t.Helper()
	pool, err := executor.NewFixed(executor.Options{Name: name, Workers: 2, Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

func serve(t *testing.T, init func(p *eddy.Pipeline) error) string {
	t.Helper()
	srv := &eddy.Server{Loops: 1, Init: init}
	if err := srv.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	return srv.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func say(t *testing.T, addr, text string) {
	t.Helper()
	c := dial(t, addr)
	fmt.Fprintln(c, text)
	if got, err := bufio.NewReader(c).ReadString('\n'); got != text+"\n" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
}
