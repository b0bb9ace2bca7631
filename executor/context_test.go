package executor

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

type traceKey struct{}

func traced(v string) context.Context { return context.WithValue(context.Background(), traceKey{}, v) }

func traceOf(ctx context.Context) string {
	v, _ := ctx.Value(traceKey{}).(string)
	return v
}

// tracedItem is an item of a strand, or a runner, that carries its context.
type tracedItem struct {
	ctx context.Context
	run func()
}

func (i tracedItem) Context() context.Context { return i.ctx }
func (i tracedItem) Run()                     { i.run() }

// TestContextTravels: the hook is given the context of everything that runs, in every way to submit it, and what it makes
// of it reaches the function; without a hook the context itself does.
func TestContextTravels(t *testing.T) {
	for _, hooked := range []bool{false, true} {
		t.Run(fmt.Sprintf("hook %v", hooked), func(t *testing.T) {
			var mu sync.Mutex
			var spans []string
			o := Options{Workers: 1, Queue: 100}
			if hooked {
				o.Around = func(ctx context.Context, run func(context.Context)) {
					mu.Lock()
					spans = append(spans, traceOf(ctx))
					mu.Unlock()
					run(context.WithValue(ctx, traceKey{}, traceOf(ctx)+"+"))
				}
			}
			p := newPool(t, o)
			got := make(chan string, 1)
			tell := func(ctx context.Context) { got <- traceOf(ctx) }
			k := NewKeyed[int](p, 0, 0)
			s := NewStrand(p, 0, func(i tracedItem) { i.run() })
			plain := func() { got <- "" }
			for _, c := range []struct {
				name, span, seen string
				submit           func() error
			}{
				{"a function", "a", "a", func() error { return p.SubmitContext(traced("a"), tell) }},
				{"a task of a key", "b", "b", func() error { return k.SubmitContext(traced("b"), 1, tell) }},
				{"a runner", "c", "", func() error { return p.Submit(tracedItem{traced("c"), plain}) }},
				{"an item of a strand", "d", "", func() error { return s.Submit(tracedItem{traced("d"), plain}) }},
				{"an item without", "", "", func() error { return s.Submit(tracedItem{nil, plain}) }},
				{"a plain function", "", "", func() error { return p.SubmitFunc(plain) }},
				{"a plain task of a key", "", "", func() error { return k.Submit(1, plain) }},
				{"an asynchronous task", "", "", func() error { return k.SubmitAsync(1, func(done func()) { plain(); done() }) }},
			} {
				if err := c.submit(); err != nil {
					t.Fatal(err)
				}
				want := c.seen
				if hooked && want != "" {
					want += "+"
				}
				if v := testkit.Receive(t, "what was got", got); v != want {
					t.Errorf("%s saw %q, want %q", c.name, v, want)
				}
				mu.Lock()
				if n := len(spans); hooked && (n == 0 || spans[n-1] != c.span) || !hooked && n > 0 {
					t.Errorf("%s: spans %q, want %q last", c.name, spans, c.span)
				}
				mu.Unlock()
			}
		})
	}
}

// TestAroundMustRun: a hook that does not call run, calls it twice or panics before it cannot lose a task or run it twice;
// a panic of the task goes through it.
func TestAroundMustRun(t *testing.T) {
	for name, hook := range map[string]func(context.Context, func(context.Context)){
		"never":  func(context.Context, func(context.Context)) {},
		"twice":  func(ctx context.Context, run func(context.Context)) { run(ctx); run(ctx) },
		"panics": func(ctx context.Context, run func(context.Context)) { panic("as asked") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, Options{Workers: 1, Queue: 100, Around: hook, OnPanic: func(any, []byte) {}})
			ran := 0
			s := NewStrand(p, 0, func(f func()) { f() })
			done := make(chan struct{})
			for _, f := range []func(){func() { ran++ }, func() { ran++; panic("the item's own") }, func() { ran++ }, func() { close(done) }} {
				if err := s.Submit(f); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Receive(t, "the end", done)
			if ran != 3 {
				t.Errorf("%d runs of 3 items", ran)
			}
		})
	}
}

// TestLabelsAroundTasks: a hook may label the goroutine for profiles. The pool's own label stays beside it, and nothing of
// it is left for the next task.
func TestLabelsAroundTasks(t *testing.T) {
	p := newPool(t, Options{Name: "labelled", Workers: 1, Queue: 10, Around: func(ctx context.Context, run func(context.Context)) {
		switch tenant := traceOf(ctx); tenant {
		case "":
		case "left behind": // by a hook that does not clean up
			pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("tenant", tenant)))
		default:
			pprof.Do(ctx, pprof.Labels("tenant", tenant), run)
			return
		}
		run(ctx)
	}})
	labels := make(chan string)
	look := func(context.Context) {
		var b strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
		for block := range strings.SplitSeq(b.String(), "\n\n") {
			if strings.Contains(block, "TestLabelsAroundTasks.func2") {
				_, rest, _ := strings.Cut(block, "# labels: ")
				line, _, _ := strings.Cut(rest, "\n")
				labels <- line
				return
			}
		}
		labels <- "not found"
	}
	for _, c := range []struct {
		ctx  context.Context
		want []string
		not  string
	}{
		{traced("acme"), []string{`"tenant":"acme"`, `"eddy_pool":"labelled"`}, "none"},
		{context.Background(), []string{`"eddy_pool":"labelled"`}, "tenant"},
		{traced("left behind"), []string{`"tenant":"left behind"`, `"eddy_pool":"labelled"`}, "none"},
		{context.Background(), []string{`"eddy_pool":"labelled"`}, "tenant"},
	} {
		if err := p.SubmitContext(c.ctx, look); err != nil {
			t.Fatal(err)
		}
		got := testkit.Receive(t, "the labels", labels)
		for _, w := range c.want {
			if !strings.Contains(got, w) || strings.Contains(got, c.not) {
				t.Errorf("labels %s, want %v and no %s", got, c.want, c.not)
			}
		}
	}
}
