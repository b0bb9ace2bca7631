package eddy

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
)

// holdWorker keeps the only worker of a pool busy until the function that it returns is called.
func holdWorker(t *testing.T, pool *executor.Pool) (release func()) {
	t.Helper()
	gate, entered := make(chan struct{}), make(chan struct{})
	if err := pool.SubmitFunc(func() { close(entered); <-gate }); err != nil {
		t.Fatal(err)
	}
	<-entered
	release = sync.OnceFunc(func() { close(gate) })
	t.Cleanup(release)
	return release
}

// TestInboundPassesOutboundBarriers: a writer that left a pool holds up what is written, and costs inbound events the one
// hop that keeps their order.
func TestInboundPassesOutboundBarriers(t *testing.T) {
	pool := oneWorker(t, 100)
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		p.Add("old", &probe{j: j, name: "old"}, On(pool))
		return p.Add("tail", &probe{j: j, name: "tail"})
	})
	s.untilIdle()
	if err := s.p.Replace("old", "new", &passOn{}); err != nil {
		t.Fatal(err)
	}
	if n := len(s.c.rarely().rewiring.barriers); n != 2 {
		t.Fatalf("%d barriers", n)
	}
	before := s.l.Counters[meter.Hops]
	s.c.fireEventFromHead("ev")
	s.untilIdle()
	if n := s.l.Counters[meter.Hops] - before; n != 1 {
		t.Errorf("the event made %d hops, want 1", n)
	}
}

// TestNothingAfterTheEnd: what a handler fires in its last HandleRemove does not come to those on its pool that have been
// told the end before.
func TestNothingAfterTheEnd(t *testing.T) {
	pool := oneWorker(t, 100)
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		p.Add("a", &probe{j: j, name: "a", onRemove: func(ctx *Context) {
			ctx.FireRead("late")
			ctx.FireEvent("late")
		}}, On(pool))
		return p.Add("b", &probe{j: j, name: "b"}, On(pool))
	})
	s.untilIdle()
	s.j.take()
	s.c.Close(CloseNormal)
	s.untilIdle()
	s.j.expect(t, "the close", "a close", "b close", "b remove", "a remove")
}

// TestReplacedTwiceThenClosed: two handlers of one pool wait for HandleRemove when the connection ends; each is told once, on
// the pool.
func TestReplacedTwiceThenClosed(t *testing.T) {
	pool, other := oneWorker(t, 100), oneWorker(t, 100)
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		p.Add("a", &probe{j: j, name: "a"}, On(pool))
		return p.Add("b", &probe{j: j, name: "b"}, On(pool))
	})
	s.untilIdle()
	s.j.take()
	release := holdWorker(t, other)
	idle := holdWorker(t, pool)
	for _, name := range []string{"a", "b"} {
		if err := s.p.Replace(name, name, &probe{j: s.j, name: "new " + name}, On(other)); err != nil {
			t.Fatal(err)
		}
	}
	s.c.Close(CloseNormal)
	s.settle()
	s.j.expect(t, "while the pools are busy")
	idle()
	s.until("the end on the pool", func() bool { return len(s.j.snapshot()) >= 2 })
	release()
	s.untilIdle()
	var old []string
	for _, line := range s.j.take() {
		if !strings.HasPrefix(line, "new") {
			old = append(old, line)
		}
	}
	if want := []string{"a remove", "b remove"}; !slices.Equal(old, want) {
		t.Errorf("told %q, want %q", old, want)
	}
}

func (j *journal) snapshot() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

// TestAddedBeforeErrorsAndWritability: what another handler causes in its HandleAdd finds a handler that was told its own.
func TestAddedBeforeErrorsAndWritability(t *testing.T) {
	for what, cause := range map[string]func(ctx *Context){
		"error":       func(ctx *Context) { ctx.FireError(errors.New("early")) },
		"writability": func(ctx *Context) { ctx.conn.fireWritability(false) },
	} {
		s := newChangeStage(t, func(p *Pipeline, j *journal) error {
			p.Add("a", &probe{j: j, name: "a", onAdd: func(ctx *Context) error { cause(ctx); return nil }})
			p.Add("b", &probe{j: j, name: "b"})
			return p.Add("errors", errorsOnly{j})
		})
		got := s.j.take()
		add, at := slices.Index(got, "b add"), slices.Index(got, "b "+what)
		if add < 0 || at < add {
			t.Errorf("%s: %q", what, got)
		}
	}
}

// TestErrorPassesAFailedHandler: an error that waits on a pool for a handler whose HandleAdd fails goes to the next one.
func TestErrorPassesAFailedHandler(t *testing.T) {
	pool := oneWorker(t, 100)
	release := holdWorker(t, pool)
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		p.Add("a", &passOn{})
		p.Add("bad", &probe{j: j, name: "bad", onAdd: func(*Context) error { return errors.New("no") }}, On(pool))
		return p.Add("errors", errorsOnly{j})
	})
	s.c.named("a").fireError(errors.New("before"))
	release()
	s.untilIdle()
	got := s.j.take()
	if !slices.Contains(got, "error before") || slices.Contains(got, "bad error") {
		t.Errorf("told %q", got)
	}
}

// TestUnorderedStateEnds: an unordered handler has its state in HandleRemove, and nothing keeps it afterwards.
func TestUnorderedStateEnds(t *testing.T) {
	for _, how := range []string{"remove", "replace", "close"} {
		pool := oneWorker(t, 100)
		s := newChangeStage(t, func(p *Pipeline, j *journal) error {
			p.Add("u", &probe{j: j, name: "u",
				onAdd:    func(ctx *Context) error { ctx.SetState("mine"); return nil },
				onRemove: func(ctx *Context) { j.note("state %v", ctx.State()) },
			}, OnUnordered(pool))
			return p.Add("tail", eventsOnly{})
		})
		s.untilIdle()
		s.j.take()
		strand := s.c.named("u").findStrand()
		switch how {
		case "remove":
			s.p.Remove("u")
		case "replace":
			s.p.Replace("u", "u", &passOn{})
		case "close":
			s.c.Close(CloseNormal)
		}
		s.untilIdle()
		if got := s.j.take(); len(got) < 2 || !slices.Equal(got[len(got)-2:], []string{"u remove", "state mine"}) {
			t.Errorf("%s: %q", how, got)
		}
		if n := len(strand.crowd.Load().states); n != 0 {
			t.Errorf("%s: %d states are kept", how, n)
		}
	}
}

// TestUnorderedRemovalWaitsForItsOwn: HandleRemove of an unordered handler does not wait for messages that came to others
// after it was taken out.
func TestUnorderedRemovalWaitsForItsOwn(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "side by side", Workers: 4, Queue: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	u := &slowProbe{probe: probe{j: &journal{}, name: "u"}, gate: make(chan struct{})}
	v := &slowProbe{probe: probe{j: &journal{}, name: "v"}, gate: make(chan struct{})}
	s := newChangeStage(t, func(p *Pipeline, _ *journal) error {
		p.Add("u", u, OnUnordered(pool))
		p.Add("v", v, OnUnordered(pool))
		return p.Add("tail", eventsOnly{})
	})
	s.untilIdle()
	u.j.take()
	v.j.take()
	s.c.fireReadFromHead("m")
	s.l.Iterate()
	s.until("a message in u", func() bool { return len(u.j.snapshot()) == 1 })
	s.p.Remove("u")
	s.c.fireReadFromHead("m")
	s.l.Iterate()
	s.until("a message in v", func() bool { return len(v.j.snapshot()) == 1 })
	close(u.gate)
	s.until("HandleRemove of u", func() bool { return slices.Contains(u.j.snapshot(), "u remove") })
	close(v.gate)
	s.untilIdle()
}

// TestUnsharedIsClaimedAndGivenBack: Init may add an Unshared handler once, and a refused Replace leaves it unused.
func TestUnsharedIsClaimedAndGivenBack(t *testing.T) {
	twice := &ownState{}
	s := newChangeStage(t, func(p *Pipeline, _ *journal) error {
		p.Add("first", twice)
		if err := p.Add("second", twice); err == nil || !strings.Contains(err.Error(), "is Unshared and was added before") {
			t.Errorf("Add of it again in Init = %v", err)
		}
		p.build.err = nil // it was provoked
		return nil
	})
	h := &ownState{}
	stuck := oneWorker(t, 0)
	stuck.Close()
	err := s.p.Replace("first", "first", &struct {
		*ownState
		*probe
	}{h, &probe{}}, On(stuck))
	if !errors.Is(err, executor.ErrClosed) {
		t.Fatalf("Replace on a closed pool = %v", err)
	}
	if err := s.p.Replace("first", "first", h); err != nil {
		t.Errorf("Replace after the refusal = %v", err)
	}
}

// TestBarriersHaveNoNames: a place that is kept for events under way is no handler.
func TestBarriersHaveNoNames(t *testing.T) {
	pool := oneWorker(t, 100)
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		p.Add("x", &probe{j: j, name: "x"}, On(pool))
		return p.Add("tail", eventsOnly{})
	})
	s.untilIdle()
	holdWorker(t, pool)
	s.c.fireReadFromHead("m")
	if err := s.p.Remove("x"); err != nil {
		t.Fatal(err)
	}
	if names := s.p.Names(); !slices.Equal(names, []string{"tail"}) || s.p.Context("x") != nil || !s.c.shows(detour) {
		t.Errorf("names %q", names)
	}
}

// TestPipelineOfAPool: the Pipeline that a handler on a pool is given changes and tells nothing.
func TestPipelineOfAPool(t *testing.T) {
	pool := oneWorker(t, 100)
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		return p.Add("x", &probe{j: j, name: "x", onAdd: func(ctx *Context) error {
			p := ctx.Pipeline()
			for _, err := range []error{p.Add("y", &passOn{}), p.Remove("x"), p.Replace("x", "y", &passOn{})} {
				j.note("%v", errors.Is(err, ErrOffLoop))
			}
			j.note("%v %v", p.Names(), p.Context("x"))
			return nil
		}}, On(pool))
	})
	s.untilIdle()
	s.j.expect(t, "on a pool", "x add", "true", "true", "true", "[] <nil>", "x open")
	if names := s.p.Names(); !slices.Equal(names, []string{"x"}) {
		t.Errorf("changed to %q", names)
	}
}

// TestQueuedChangeAfterTheEnd: a change that is queued when the connection ends is not run, and its done is told ErrClosed,
// once.
func TestQueuedChangeAfterTheEnd(t *testing.T) {
	s := newChangeStage(t, func(p *Pipeline, _ *journal) error { return p.Add("a", &passOn{}) })
	s.c.Close(CloseNormal)
	s.settle()
	ran := 0
	var told []error
	queued := &change{f: func(*Pipeline) error { ran++; return nil }, done: func(err error) { told = append(told, err) }}
	s.l.RunTask(task{kind: taskChange, conn: s.c, msg: queued})
	if ran != 0 || len(told) != 1 || !errors.Is(told[0], ErrClosed) {
		t.Errorf("run %d times, told %v", ran, told)
	}
}

// TestUnhandledIsSaid: a message that passes the tail is counted and said, with its type and the handlers it passed.
func TestUnhandledIsSaid(t *testing.T) {
	var said strings.Builder
	s := newChangeStage(t, func(p *Pipeline, _ *journal) error { return p.Add("a", &passOn{}) })
	s.l.Log = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.c.fireReadFromHead("nobody's")
	if n := s.l.Counters[meter.Unhandled]; n != 1 || strings.Count(said.String(), "no handler took a message") != 1 ||
		!strings.Contains(said.String(), "level=WARN") || !strings.Contains(said.String(), "type=string handlers=a ") {
		t.Errorf("%d counted, said %q", n, said.String())
	}
}

// TestFirstFor: an event visits the next handler that takes it, and before that one those on other executors that have an
// order.
func TestFirstFor(t *testing.T) {
	p, q := oneWorker(t, 1), oneWorker(t, 1)
	for name, c := range map[string]struct {
		from  *executor.Pool
		chain []node
		want  int // in the chain; -1: nobody
		late  int // the same while the pipeline settles, where its own pool keeps its place too
	}{
		"the next":                      {nil, []node{{ops: opEvent}, {ops: opEvent}}, 0, 0},
		"others on the loop":            {nil, []node{{ops: opRead}, {ops: opEvent}}, 1, 1},
		"others on its own pool":        {p, []node{{ops: opRead, pool: p}, {ops: opEvent}}, 1, 0},
		"a pool":                        {nil, []node{{ops: opRead, pool: p}, {ops: opEvent}}, 0, 0},
		"the loop, from a pool":         {p, []node{{ops: opRead}, {ops: opEvent, pool: p}}, 0, 1},
		"another pool":                  {p, []node{{ops: opRead, pool: p}, {ops: opRead, pool: q}, {ops: opEvent}}, 1, 0},
		"an unordered handler":          {nil, []node{{ops: opRead, pool: p, unordered: true}, {ops: opEvent}}, 1, 1},
		"an unordered one that handles": {nil, []node{{ops: opEvent, pool: p, unordered: true}, {ops: opEvent}}, 0, 0},
		"an outbound barrier":           {nil, []node{{ops: opBarrier | opWrite | opOutbound, pool: p}, {ops: opEvent}}, 1, 1},
		"a barrier":                     {nil, []node{{ops: opBarrier, pool: p}, {ops: opEvent}}, 0, 0},
		"nobody":                        {nil, []node{{ops: opRead, pool: p}, {ops: opWrite}}, -1, -1},
	} {
		conn := &Conn{}
		conn.ext.Store(new(connExt))
		at := []*Context{{conn: conn, node: &node{pool: c.from}}}
		conn.join(nil, at[0])
		for i := range c.chain {
			ctx := &Context{conn: conn, node: &c.chain[i]}
			conn.join(at[len(at)-1], ctx)
			conn.join(ctx, nil)
			at = append(at, ctx)
		}
		for _, bits := range []uint32{0, rewired, rewired | detour} {
			conn.shared.Store(bits)
			want := c.want
			if bits&detour != 0 {
				want = c.late
			}
			if got := slices.Index(at, at[0].nextOnLoop(opEvent)) - 1; got != want && max(got, want) >= 0 {
				t.Errorf("%s, bits %b: %d, want %d", name, bits, got, want)
			}
		}
	}
}

// TestFailedHandlerKeepsNothing: the state that a handler set before its HandleAdd failed goes after HandleRemove, and a
// refused HandleAdd leaves nothing counted.
func TestFailedHandlerKeepsNothing(t *testing.T) {
	pool := oneWorker(t, 100)
	for name, opts := range map[string][]AddOption{"loop": nil, "pool": {On(pool)}} {
		var kept *Context
		s := newChangeStage(t, func(p *Pipeline, j *journal) error {
			p.Add("bad", &probe{j: j, name: "bad", onAdd: func(ctx *Context) error {
				kept = ctx
				ctx.SetState("half")
				return errors.New("no")
			}}, opts...)
			return p.Add("errors", errorsOnly{j})
		})
		s.untilIdle()
		if v := kept.State(); v != nil {
			t.Errorf("%s: state %v is kept", name, v)
		}
		closed := oneWorker(t, 1)
		closed.Close()
		if err := s.p.Add("x", &probe{j: s.j, name: "x"}, On(closed)); !errors.Is(err, executor.ErrClosed) {
			t.Errorf("Add = %v", err)
		}
		if n := s.c.counts.transit.Load(); n != 0 {
			t.Errorf("%s: %d in transit", name, n)
		}
	}
}

// TestLeftBytesNeedNoMore: what a decoder has left goes to who takes its place without more bytes from the peer.
func TestLeftBytesNeedNoMore(t *testing.T) {
	for how, change := range map[string]func(p *Pipeline) error{
		"remove":  func(p *Pipeline) error { return p.Remove("cut") },
		"replace": func(p *Pipeline) error { return p.Replace("cut", "bytes", oneByte{}) },
	} {
		var got []string
		st, l := newStage(t, &Server{Init: func(p *Pipeline) error {
			p.Add("cut", &cut{})
			return p.Add("app", Handle(func(_ *Context, m any) error {
				if b, ok := m.(interface{ Bytes() []byte }); ok {
					got = append(got, string(b.Bytes()))
				} else {
					got = append(got, string(rune(m.(byte))))
				}
				return nil
			}))
		}})
		a := st.connect(l)
		a.send("x;ab")
		l.Iterate()
		if !slices.Equal(got, []string{"x"}) {
			t.Fatalf("%s: first %q", how, got)
		}
		if err := change(&Pipeline{conn: a.conn, from: callerOnLoop}); err != nil {
			t.Fatal(err)
		}
		l.Iterate()
		l.Iterate()
		if all := strings.Join(got[1:], ""); all != "ab" {
			t.Errorf("%s: then %q", how, all)
		}
	}
}
