package eddy

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/meter"
)

// journal notes what happens to handlers, on any executor.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lines
	j.lines = nil
	return l
}

func (j *journal) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := j.take(); !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// probe is a handler that notes its callbacks.
type probe struct {
	j        *journal
	name     string
	onAdd    func(ctx *Context) error
	onRemove func(ctx *Context)
}

func (p *probe) HandleAdd(ctx *Context) error {
	p.j.note("%s add", p.name)
	if p.onAdd != nil {
		return p.onAdd(ctx)
	}
	return nil
}

func (p *probe) HandleRemove(ctx *Context) {
	p.j.note("%s remove", p.name)
	if p.onRemove != nil {
		p.onRemove(ctx)
	}
}

func (p *probe) HandleOpen(*Context) error                { p.j.note("%s open", p.name); return nil }
func (p *probe) HandleClose(*Context, CloseReason, error) { p.j.note("%s close", p.name) }
func (p *probe) HandleRead(ctx *Context, msg any) error {
	p.j.note("%s read", p.name)
	ctx.FireRead(msg)
	return nil
}
func (p *probe) HandleWrite(ctx *Context, msg any) error {
	p.j.note("%s write", p.name)
	return ctx.Write(msg)
}
func (p *probe) HandleEvent(ctx *Context, ev any) error {
	p.j.note("%s event", p.name)
	ctx.FireEvent(ev)
	return nil
}
func (p *probe) HandleError(_ *Context, err error) error { p.j.note("%s error", p.name); return err }
func (p *probe) HandleWritability(*Context, bool) error {
	p.j.note("%s writability", p.name)
	return nil
}

// errorsOnly notes errors and takes them for handled.
type errorsOnly struct{ j *journal }

func (e errorsOnly) HandleError(_ *Context, err error) error { e.j.note("error %v", err); return nil }

// changeStage is a connection whose pipeline tests change.
type changeStage struct {
	*stage
	l *loop
	c *Conn
	j *journal
	p *Pipeline // on the loop
}

func newChangeStage(t *testing.T, init func(p *Pipeline, j *journal) error) *changeStage {
	t.Helper()
	j := &journal{}
	srv := &Server{Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error { return init(p, j) }}
	st, l := newStage(t, srv)
	l.Vitals.Goroutine.Store(goroutineID())
	c := st.connect(l).conn
	return &changeStage{st, l, c, j, &Pipeline{conn: c, from: callerOnLoop}}
}

func (s *changeStage) settle() {
	for range 5 {
		s.l.Iterate()
	}
}

// onPool runs the pools' work until what is noted contains the word.
func (s *changeStage) until(what string, cond func() bool) {
	s.t.Helper()
	stepUntil(s.t.(*testing.T), what, func() bool { s.l.Iterate(); return cond() })
}

func (s *changeStage) untilIdle() {
	s.t.Helper()
	s.until("the pools' rest", func() bool { return s.c.strandsIdle() && s.l.Tasks.Depth() == 0 })
}

func oneWorker(t *testing.T, queue int) *executor.Pool {
	t.Helper()
	p, err := executor.NewFixed(executor.Options{Name: t.Name(), Workers: 1, Queue: queue})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestNamedMutation: every named change, in Init and on an open connection, with its result and its errors.
func TestNamedMutation(t *testing.T) {
	h := func() any { return &passOn{} }
	type step struct {
		do   func(p *Pipeline) error
		want string // the names afterwards, or "! " and a part of the error
	}
	steps := []step{
		{func(p *Pipeline) error { return p.Add("b", h()) }, "a b"},
		{func(p *Pipeline) error { return p.Add("z", h()) }, "a b z"},
		{func(p *Pipeline) error { return p.AddFirst("0", h()) }, "0 a b z"},
		{func(p *Pipeline) error { return p.AddBefore("b", "ab", h()) }, "0 a ab b z"},
		{func(p *Pipeline) error { return p.AddAfter("b", "bc", h()) }, "0 a ab b bc z"},
		{func(p *Pipeline) error { return p.Add("b", h()) }, `! duplicate handler name "b"`},
		{func(p *Pipeline) error { return p.AddFirst("z", h()) }, `! duplicate handler name "z"`},
		{func(p *Pipeline) error { return p.AddBefore("none", "x", h()) }, `! no handler named "none"`},
		{func(p *Pipeline) error { return p.AddAfter("none", "x", h()) }, `! no handler named "none"`},
		{func(p *Pipeline) error { return p.Remove("none") }, `! no handler named "none"`},
		{func(p *Pipeline) error { return p.Remove("") }, `! no handler named ""`},
		{func(p *Pipeline) error { return p.Replace("none", "x", h()) }, `! no handler named "none"`},
		{func(p *Pipeline) error { return p.Replace("b", "z", h()) }, `! duplicate handler name "z"`},
		{func(p *Pipeline) error { return p.Replace("b", "b", 1) }, "! implements no handler interface"},
		{func(p *Pipeline) error { return p.Replace("b", "b", h()) }, "0 a ab b bc z"},
		{func(p *Pipeline) error { return p.Replace("b", "B", h()) }, "0 a ab B bc z"},
		{func(p *Pipeline) error { return p.Remove("0") }, "a ab B bc z"},
		{func(p *Pipeline) error { return p.Remove("z") }, "a ab B bc"},
		{func(p *Pipeline) error { return p.Remove("B") }, "a ab bc"},
		{func(p *Pipeline) error { return p.Add("z", h()) }, "a ab bc z"},
		{func(p *Pipeline) error { return p.Add("", h()) }, "a ab bc z passOn#0"},
	}
	run := func(t *testing.T, p *Pipeline) {
		for i, s := range steps {
			before := p.Names()
			err := s.do(p)
			part, fails := strings.CutPrefix(s.want, "! ")
			switch {
			case fails && (err == nil || !strings.Contains(err.Error(), part) || !strings.HasPrefix(err.Error(), "eddy: ")):
				t.Errorf("step %d: %v, want %s", i, err, part)
			case fails && !slices.Equal(p.Names(), before):
				t.Errorf("step %d failed and left %q", i, p.Names())
			case !fails && (err != nil || strings.Join(p.Names(), " ") != s.want):
				t.Errorf("step %d: %q, %v, want %s", i, p.Names(), err, s.want)
			}
		}
	}
	t.Run("open", func(t *testing.T) {
		s := newChangeStage(t, func(p *Pipeline, _ *journal) error { return p.Add("a", h()) })
		run(t, s.p)
		if ctx := s.p.Context("ab"); ctx == nil || ctx.Name() != "ab" || s.p.Context("none") != nil {
			t.Error("Context does not find what is there")
		}
	})
	t.Run("init", func(t *testing.T) {
		s := newChangeStage(t, func(p *Pipeline, _ *journal) error {
			p.Add("a", h())
			run(t, p)
			if p.Context("a") != nil {
				t.Error("a context before the connection is open")
			}
			p.build.err = nil // the errors were provoked
			return nil
		})
		if got := strings.Join(s.p.Names(), " "); got != "a ab bc z passOn#0" {
			t.Errorf("built %q", got)
		}
	})
}

// TestGeneratedNames: TypeName#0, #1 and so on, the first that is free; the same for every connection, and formatted once.
func TestGeneratedNames(t *testing.T) {
	shared := []any{&passOn{}, oneByte{}, Handle(func(*Context, string) error { return nil }), closeFunc(func(*Context, CloseReason, error) {})}
	init := func(p *Pipeline) error {
		p.Add("passOn#1", shared[0])
		for range 2 {
			p.Add("", shared[0])
		}
		for _, h := range shared[1:] {
			p.Add("", h)
		}
		return nil
	}
	st, l := newStage(t, &Server{Init: init})
	var first []string
	for range 3 {
		c := st.connect(l).conn
		names := (&Pipeline{conn: c, from: callerOnLoop}).Names()
		if first == nil {
			first = names
		}
		if !slices.Equal(names, first) {
			t.Errorf("names %q, then %q", first, names)
		}
	}
	want := []string{"passOn#1", "passOn#0", "passOn#2", "oneByte#0", "typedHandler[string]#0", "closeFunc#0"}
	if !slices.Equal(first, want) {
		t.Errorf("names %q, want %q", first, want)
	}
	p := &Pipeline{conn: &Conn{set: st.set}, build: &l.builder}
	shared = shared[:2] // func values are not compared, so they have nodes of their own
	if n := testing.AllocsPerRun(100, func() {
		l.builder.nodes = l.builder.nodes[:0]
		_ = init(p)
		l.builder.last, l.builder.nodes = l.builder.nodes, l.builder.last
	}); n > 0 {
		t.Errorf("an Init that generates known names allocates %v times", n)
	}
}

type ownState struct{ Unshared }

func (*ownState) HandleRead(*Context, any) error { return nil }

// TestUnshared: a handler that keeps a connection's state is added once, ever, from whichever loop.
func TestUnshared(t *testing.T) {
	h := &ownState{}
	s := newChangeStage(t, func(p *Pipeline, _ *journal) error { return p.Add("first", &passOn{}) })
	if err := s.p.Add("first", h); err == nil || !strings.Contains(err.Error(), "duplicate") {
		t.Fatalf("Add = %v", err)
	}
	stuck := oneWorker(t, 0)
	stuck.Close()
	if err := s.p.Add("refused", &struct {
		*ownState
		*probe
	}{h, &probe{}}, On(stuck)); !errors.Is(err, executor.ErrClosed) {
		t.Fatalf("Add on a closed pool = %v", err)
	}
	if err := s.p.Add("own", h); err != nil {
		t.Fatalf("Add after two refusals = %v", err)
	}
	if err := s.p.Remove("own"); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"Add": s.p.Add("own", h), "Replace": s.p.Replace("first", "own", h)} {
		if err == nil || !strings.Contains(err.Error(), "is Unshared and was added before") {
			t.Errorf("%s of it again = %v", what, err)
		}
	}
	var taken, refused sync.Map
	var wg sync.WaitGroup
	again := &ownState{}
	for i := range 8 {
		wg.Go(func() {
			if claim(&node{name: "x", handler: again}) == nil {
				taken.Store(i, true)
			} else {
				refused.Store(i, true)
			}
		})
	}
	wg.Wait()
	n := 0
	taken.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d of 8 loops were given it", n)
	}
}

// TestConnectionsShareNodes: connections with the same handlers share what does not change, until one of them is changed;
// that one alone is.
func TestConnectionsShareNodes(t *testing.T) {
	h := []any{&passOn{}, oneByte{}, &probe{j: &journal{}, name: "p"}}
	st, l := newStage(t, &Server{Init: func(p *Pipeline) error {
		p.Add("b", h[1])
		p.AddFirst("a", h[0])
		return p.Add("p", h[2])
	}})
	a, b := st.connect(l).conn, st.connect(l).conn
	same := func(want bool) {
		t.Helper()
		x, y := a.head, b.head
		for x != nil && y != nil {
			if x.node != y.node {
				if want {
					t.Errorf("%s and %s have nodes of their own", x.node.name, y.node.name)
				}
				return
			}
			x, y = x.next.Load(), y.next.Load()
		}
		if !want {
			t.Error("the pipelines are still the same")
		}
	}
	same(true)
	p := &Pipeline{conn: a, from: callerOnLoop}
	if err := p.Replace("b", "b", oneByte{}); err != nil {
		t.Fatal(err)
	}
	same(false)
	c := st.connect(l).conn
	a = c
	same(true)
	if b.shows(rewired) || a.shows(rewired) {
		t.Error("connections were changed that nobody has changed")
	}
}

// TestAddAndRemoveCallbacks: HandleAdd when the connection is registered, then HandleOpen; for later handlers both at once;
// HandleRemove when it is taken out, or after HandleClose, tail to head.
func TestAddAndRemoveCallbacks(t *testing.T) {
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		if p.conn.has(registered) {
			t.Error("Init runs after the registration")
		}
		p.Add("a", &probe{j: j, name: "a", onAdd: func(ctx *Context) error {
			if !ctx.conn.has(registered) {
				t.Error("added before the registration")
			}
			ctx.FireRead("early") // b is told first
			return nil
		}})
		return p.Add("b", &probe{j: j, name: "b"})
	})
	j := s.j
	j.expect(t, "registration", "a add", "b add", "b read", "a open", "b open")
	s.p.AddAfter("a", "x", &probe{j: j, name: "x"})
	j.expect(t, "Add", "x add", "x open")
	s.c.fireReadFromHead("m")
	j.expect(t, "a message", "a read", "x read", "b read")
	s.p.Replace("x", "y", &probe{j: j, name: "y"})
	j.expect(t, "Replace", "y add", "y open", "x remove")
	s.p.Remove("a")
	j.expect(t, "Remove", "a remove")
	s.c.fireReadFromHead("m")
	j.expect(t, "a message", "y read", "b read")
	s.c.Close(CloseNormal)
	s.l.Iterate()
	j.expect(t, "the close", "y close", "b close", "b remove", "y remove")
}

// TestCallbacksOnAPool: the same on a pool, in the order of the strand.
func TestCallbacksOnAPool(t *testing.T) {
	pool := oneWorker(t, 100)
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		p.Add("a", &probe{j: j, name: "a"}, On(pool))
		return p.Add("b", &probe{j: j, name: "b"}, On(pool))
	})
	j := s.j
	s.untilIdle()
	j.expect(t, "registration", "a add", "b add", "a open", "b open")
	gate := make(chan struct{})
	if err := pool.SubmitFunc(func() { <-gate }); err != nil {
		t.Fatal(err)
	}
	s.c.fireReadFromHead("before")
	s.p.AddAfter("a", "x", &probe{j: j, name: "x"}, On(pool))
	s.c.fireReadFromHead("between")
	s.p.Replace("b", "y", &probe{j: j, name: "y"}, On(pool))
	s.p.Remove("a")
	s.c.fireReadFromHead("after")
	if got := j.take(); got != nil {
		t.Errorf("while the pool is busy: %q", got)
	}
	close(gate)
	s.untilIdle()
	want := []string{"a read", "x add", "x open", "a read", "y add", "y open", "b remove", "a remove", "x read", "y read", "x read", "y read", "x read", "y read"}
	got := j.take()
	slices.Sort(want)
	sorted := slices.Clone(got)
	slices.Sort(sorted)
	if !slices.Equal(sorted, want) {
		t.Errorf("after the gate %q", got)
	}
	for _, pair := range [][2]string{{"x add", "x read"}, {"y add", "b remove"}, {"a read", "a remove"}, {"y add", "y read"}} {
		if slices.Index(got, pair[0]) > slices.Index(got, pair[1]) {
			t.Errorf("%q came before %q: %q", pair[1], pair[0], got)
		}
	}
	s.c.Close(CloseNormal)
	s.untilIdle()
	j.expect(t, "the close", "x close", "y close", "y remove", "x remove")
}

// TestAddFails: a handler whose HandleAdd returns an error or panics is taken out, told HandleRemove and nothing else; the
// error goes to the handlers behind it, and a panic ends the connection.
func TestAddFails(t *testing.T) {
	for name, onPool := range map[string]bool{"loop": false, "pool": true} {
		t.Run(name, func(t *testing.T) {
			var opts []AddOption
			if onPool {
				opts = append(opts, On(oneWorker(t, 100)))
			}
			s := newChangeStage(t, func(p *Pipeline, j *journal) error {
				p.Add("bad", &probe{j: j, name: "bad", onAdd: func(ctx *Context) error {
					ctx.SetState("half")
					return errors.New("no place for me")
				}, onRemove: func(ctx *Context) { j.note("state %v", ctx.State()) }}, opts...)
				return p.Add("errors", errorsOnly{j})
			})
			s.untilIdle()
			s.j.expect(t, "in Init", "bad add", "bad remove", "state half", `error eddy: HandleAdd of handler "bad": no place for me`)
			s.c.fireReadFromHead("m")
			s.c.fireEventFromHead("ev")
			s.c.Write("w")
			s.untilIdle()
			s.j.expect(t, "it is passed by")
			if names := s.p.Names(); !slices.Equal(names, []string{"errors"}) {
				t.Errorf("left: %q", names)
			}
			s.p.AddFirst("worse", &probe{j: s.j, name: "worse", onAdd: func(*Context) error { panic("worse") }}, opts...)
			s.until("the end", func() bool { return s.c.CloseError() != nil && s.c.CloseError().Reason == CloseInternalError })
			got := s.j.take()
			if len(got) < 3 || got[0] != "worse add" || got[len(got)-1] != "worse remove" && !onPool {
				t.Errorf("a panic: %q", got)
			}
			if n := strings.Count(strings.Join(got, " "), "worse remove"); n != 1 || slices.Contains(got, "worse open") || slices.Contains(got, "worse close") {
				t.Errorf("a panic: %q", got)
			}
		})
	}
}

// TestAddIsRefused: a pool that does not take HandleAdd leaves the pipeline as it was; a connection that is being opened ends.
func TestAddIsRefused(t *testing.T) {
	pool := oneWorker(t, 1)
	gate, entered := make(chan struct{}), make(chan struct{})
	pool.SubmitFunc(func() { close(entered); <-gate })
	<-entered
	pool.SubmitFunc(func() {})
	defer close(gate)
	s := newChangeStage(t, func(p *Pipeline, j *journal) error { return p.Add("a", &probe{j: j, name: "a"}) })
	s.j.take()
	before := s.l.Counters[meter.HopRejects]
	for what, err := range map[string]error{
		"Add":     s.p.Add("x", &probe{j: s.j, name: "x"}, On(pool)),
		"Replace": s.p.Replace("a", "x", &probe{j: s.j, name: "x"}, On(pool)),
	} {
		var he *HopError
		if !errors.Is(err, executor.ErrRejected) || !errors.As(err, &he) || !strings.Contains(err.Error(), `HandleAdd of handler "x"`) {
			t.Errorf("%s = %v", what, err)
		}
	}
	if n := s.l.Counters[meter.HopRejects] - before; n != 2 || !slices.Equal(s.p.Names(), []string{"a"}) {
		t.Errorf("%d refusals counted, left %q", n, s.p.Names())
	}
	s.j.expect(t, "nobody is told")

	s = newChangeStage(t, func(p *Pipeline, j *journal) error {
		p.Add("a", &probe{j: j, name: "a"})
		p.Add("x", &probe{j: j, name: "x"}, On(pool))
		return p.Add("b", &probe{j: j, name: "b"})
	})
	s.settle()
	if e := s.c.CloseError(); e == nil || e.Reason != CloseBackpressureLimit || !errors.Is(e, executor.ErrRejected) {
		t.Errorf("the connection ended with %v", e)
	}
	s.c.Close(CloseNormal)
	s.settle()
	for _, line := range s.j.take() {
		if strings.HasPrefix(line, "x") || strings.HasPrefix(line, "b") {
			t.Errorf("told: %s", line)
		}
	}
}

// TestStoppedPoolAndCallbacks: a pool is stopped while HandleAdd, a replacement's HandleRemove or neither has run. Who was
// added is told HandleRemove, once; who was not is not.
func TestStoppedPoolAndCallbacks(t *testing.T) {
	for _, when := range []string{"idle", "add waits", "remove waits", "replaced, add waits elsewhere"} {
		pool := oneWorker(t, 100)
		s := newChangeStage(t, func(p *Pipeline, j *journal) error {
			return p.Add("a", &probe{j: j, name: "a"}, On(pool))
		})
		s.untilIdle()
		want := []string{"a close", "a remove"}
		if when != "idle" {
			gate, entered := make(chan struct{}), make(chan struct{})
			pool.SubmitFunc(func() { close(entered); <-gate })
			<-entered
			t.Cleanup(func() { close(gate) })
		}
		s.j.take()
		switch when {
		case "add waits":
			s.p.Add("x", &probe{j: s.j, name: "x"}, On(pool))
		case "remove waits":
			s.p.Remove("a")
			want = []string{"a remove"}
		case "replaced, add waits elsewhere":
			other := oneWorker(t, 100)
			gate, entered := make(chan struct{}), make(chan struct{})
			other.SubmitFunc(func() { close(entered); <-gate })
			<-entered
			t.Cleanup(func() { close(gate) })
			s.p.Replace("a", "x", &probe{j: s.j, name: "x"}, On(other))
			want = []string{"a remove"}
			other.Close()
		}
		s.settle()
		pool.Close()
		s.settle()
		s.c.Close(CloseNormal)
		s.untilIdle()
		if got := s.j.take(); !slices.Equal(got, want) {
			t.Errorf("%s: told %q, want %q", when, got, want)
		}
	}
}

// TestReplaceGoesThroughTheNewOne: the new handler is added before the old one is removed, on whatever executors, and what
// the old one passes on then goes through the new one.
func TestReplaceGoesThroughTheNewOne(t *testing.T) {
	for name, at := range map[string][2]bool{"loop": {}, "to a pool": {false, true}, "from a pool": {true, false}, "pool": {true, true}} {
		for _, same := range []bool{true, false} {
			t.Run(fmt.Sprint(name, same), func(t *testing.T) {
				pools := []*executor.Pool{oneWorker(t, 100), oneWorker(t, 100)}
				if same {
					pools[1] = pools[0]
				}
				on := func(i int) []AddOption {
					if at[i] {
						return []AddOption{On(pools[i])}
					}
					return nil
				}
				s := newChangeStage(t, func(p *Pipeline, j *journal) error {
					p.Add("head", &probe{j: j, name: "head"})
					p.Add("old", &probe{j: j, name: "old", onRemove: func(ctx *Context) {
						ctx.FireRead("held back")
						_ = ctx.Write("farewell")
					}}, on(0)...)
					return p.Add("tail", &probe{j: j, name: "tail"})
				})
				s.untilIdle()
				s.j.take()
				if err := s.p.Replace("old", "new", &probe{j: s.j, name: "new"}, on(1)...); err != nil {
					t.Fatal(err)
				}
				s.untilIdle()
				s.settle()
				got := s.j.take()
				for _, pair := range [][2]string{{"new add", "old remove"}, {"old remove", "new read"}, {"new read", "tail read"}, {"old remove", "new write"}, {"new write", "head write"}} {
					if i, k := slices.Index(got, pair[0]), slices.Index(got, pair[1]); i < 0 || i > k {
						t.Errorf("%q does not come before %q: %q", pair[0], pair[1], got)
					}
				}
			})
		}
	}
}

// TestChange: a change that another goroutine submits waits for the loop and tells how it went, once; one that cannot be
// taken is refused at once.
func TestChange(t *testing.T) {
	s := newChangeStage(t, func(p *Pipeline, j *journal) error { return p.Add("a", &passOn{}) })
	kept := &Pipeline{conn: s.c}
	var outcome []error
	done := func(err error) { outcome = append(outcome, err) }
	add := func(name string) func(p *Pipeline) error {
		return func(p *Pipeline) error { return p.Add(name, &passOn{}) }
	}
	if err := s.c.Change(add("at once"), done); err != nil || len(outcome) != 1 || outcome[0] != nil || s.c.named("at once") == nil {
		t.Errorf("on the loop: %v, told %v", err, outcome)
	}
	s.l.Vitals.Goroutine.Store(0) // from here on, elsewhere
	outcome = nil
	for _, err := range []error{kept.Add("x", &passOn{}), kept.Remove("a"), kept.Replace("a", "x", &passOn{})} {
		if !errors.Is(err, ErrOffLoop) {
			t.Errorf("a Pipeline elsewhere: %v", err)
		}
	}
	if kept.Names() != nil || kept.Context("a") != nil {
		t.Error("a Pipeline elsewhere tells names")
	}
	for _, name := range []string{"b", "a"} {
		if err := s.c.Change(add(name), done); err != nil {
			t.Fatal(err)
		}
	}
	if len(outcome) != 0 || s.c.named("b") != nil {
		t.Error("not pending")
	}
	s.l.Iterate()
	if len(outcome) != 2 || outcome[0] != nil || outcome[1] == nil || s.c.named("b") == nil {
		t.Errorf("told %v", outcome)
	}
	if err := s.c.Change(nil, done); err == nil {
		t.Error("a nil function was taken")
	}
	s.l.Tasks.Limit = 0
	if err := s.c.Change(add("c"), done); err != ErrSaturated || len(outcome) != 2 {
		t.Errorf("a full queue: %v", err)
	}
	s.l.Tasks.Limit = 100
	outcome = nil
	s.c.Change(func(*Pipeline) error { panic("in a change") }, done)
	s.c.Change(add("too late"), done)
	s.l.Iterate()
	s.c.Close(CloseNormal)
	s.l.Iterate()
	s.c.Change(nil, nil)
	if len(outcome) != 2 || outcome[0] != errChangePanic || s.c.CloseError() == nil || s.c.CloseError().Reason != CloseInternalError {
		t.Errorf("after a panic: told %v, ended %v", outcome, s.c.CloseError())
	}
	if err := s.c.Change(add("d"), done); !errors.Is(err, ErrClosed) || len(outcome) != 2 {
		t.Errorf("after the close: %v", err)
	}
	(&change{f: add("e"), done: done}).run(s.c) // it was queued when the connection ended
	if len(outcome) != 3 || !errors.Is(outcome[2], ErrClosed) {
		t.Errorf("told %v", outcome)
	}
}

// TestOpenIsToldOnce: a handler that is added while the connection opens is told HandleOpen once.
func TestOpenIsToldOnce(t *testing.T) {
	s := newChangeStage(t, func(p *Pipeline, j *journal) error {
		p.Add("first", openFunc(func(ctx *Context) error {
			ctx.Pipeline().Add("late", &probe{j: j, name: "late"})
			return ctx.Pipeline().Remove("gone")
		}))
		return p.Add("gone", &probe{j: j, name: "gone"})
	})
	s.j.expect(t, "opening", "gone add", "late add", "late open", "gone remove")
}

// TestIgnoringHandlersAreSkipped: a handler that takes no part in an event costs no hop, unless it is on a pool that others
// follow, where the event keeps its place in the order.
func TestIgnoringHandlersAreSkipped(t *testing.T) {
	p, q := oneWorker(t, 100), oneWorker(t, 100)
	reads := func() any { return Handle(func(ctx *Context, m string) error { ctx.FireRead(m); return nil }) }
	for _, c := range []struct {
		name  string
		build func(p *Pipeline)
		hops  uint64
	}{
		{"ignored on the loop", func(b *Pipeline) { b.Add("1", reads()); b.Add("2", reads()); b.Add("e", &probe{j: &journal{}}) }, 0},
		{"ignored on the pool of the one before", func(b *Pipeline) {
			b.Add("e", eventsOnly{}, On(p))
			b.Add("1", reads(), On(p))
			b.Add("2", eventsOnly{}, On(p))
		}, 1},
		{"ignored on another pool", func(b *Pipeline) {
			b.Add("e", eventsOnly{}, On(p))
			b.Add("1", reads(), On(q))
			b.Add("2", eventsOnly{}, On(p))
		}, 3},
		{"nobody behind", func(b *Pipeline) { b.Add("1", reads(), On(p)) }, 0},
	} {
		s := newChangeStage(t, func(b *Pipeline, _ *journal) error { c.build(b); return nil })
		s.untilIdle()
		before := s.l.Counters[meter.Hops]
		s.c.fireEventFromHead("ev")
		s.untilIdle()
		if n := s.l.Counters[meter.Hops] - before; n != c.hops {
			t.Errorf("%s: %d hops, want %d", c.name, n, c.hops)
		}
	}
}

type eventsOnly struct{}

func (eventsOnly) HandleEvent(ctx *Context, ev any) error { ctx.FireEvent(ev); return nil }

// TestTakenOutPlacesAreBounded: while events keep a pool busy the places of handlers that are taken out are kept; how many is
// bounded, and they go when the pool rests.
func TestTakenOutPlacesAreBounded(t *testing.T) {
	pool := oneWorker(t, 100)
	s := newChangeStage(t, func(p *Pipeline, _ *journal) error {
		p.Add("busy", Handle(func(*Context, string) error { return nil }), On(pool))
		return p.Add("tail", eventsOnly{})
	})
	gate, entered := make(chan struct{}), make(chan struct{})
	pool.SubmitFunc(func() { close(entered); <-gate })
	<-entered
	s.c.fireReadFromHead("m")
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		s.p.AddAfter("busy", "x", eventsOnly{}, On(pool))
		err = s.p.Remove("x")
	}
	if !errors.Is(err, ErrSaturated) || n != maxLeaving+1 || !strings.Contains(err.Error(), "limit 64") {
		t.Errorf("Remove %d = %v", n, err)
	}
	if err := s.p.Replace("x", "x", eventsOnly{}); !errors.Is(err, ErrSaturated) || s.p.Context("x") == nil {
		t.Errorf("Replace = %v", err)
	}
	close(gate)
	s.until("rest", func() bool { return !s.c.shows(detour) })
	if err := s.p.Remove("x"); err != nil {
		t.Error(err)
	}
	s.until("rest", func() bool { return !s.c.shows(detour) })
	if s.c.head.next.Load() != s.c.tail || len(s.c.rarely().rewiring.barriers) != 0 {
		t.Error("places are kept for nobody")
	}
}

// TestDecoderBecomesFirst: bytes that a decoder has left from when it stood behind another handler come before those that it
// reads once that is gone.
func TestDecoderBecomesFirst(t *testing.T) {
	var got []string
	srv := &Server{Init: func(p *Pipeline) error {
		p.Add("preamble", Handle(func(ctx *Context, m interface{ Bytes() []byte }) error {
			ctx.FireRead(slices.Clone(m.Bytes()[4:]))
			return ctx.Pipeline().Remove("preamble")
		}))
		p.Add("cut", &cut{})
		return p.Add("app", Handle(func(_ *Context, m interface{ Bytes() []byte }) error {
			got = append(got, string(m.Bytes()))
			return nil
		}))
	}}
	st, l := newStage(t, srv)
	a := st.connect(l)
	for _, part := range []string{"PROXa;b", "c;d", ";e;"} {
		a.send(part)
		l.Iterate()
		l.Iterate()
	}
	if want := []string{"a", "bc", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("decoded %q, want %q", got, want)
	}
}

// TestUnorderedIsRemovedLast: HandleRemove of an unordered handler waits for the messages that are in it.
func TestUnorderedIsRemovedLast(t *testing.T) {
	pool, err := executor.NewFixed(executor.Options{Name: "side by side", Workers: 4, Queue: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	for _, how := range []string{"remove", "replace", "close"} {
		h := &slowProbe{probe: probe{j: &journal{}, name: "u"}, gate: make(chan struct{})}
		s := newChangeStage(t, func(p *Pipeline, j *journal) error {
			p.Add("u", h, OnUnordered(pool))
			return p.Add("tail", eventsOnly{})
		})
		s.untilIdle()
		h.j.expect(t, "opened", "u add", "u open")
		for range 3 {
			s.c.fireReadFromHead("m")
		}
		s.l.Iterate()
		s.until("three messages", func() bool { return len(h.inside()) == 3 })
		switch how {
		case "remove":
			s.p.Remove("u")
		case "replace":
			s.p.Replace("u", "u", &passOn{})
		case "close":
			s.c.Close(CloseNormal)
		}
		s.settle()
		h.j.expect(t, "while messages are in it", "u in", "u in", "u in")
		close(h.gate)
		s.untilIdle()
		got := h.j.take()
		if len(got) < 4 || got[len(got)-1] != "u remove" || !slices.Equal(got[:3], []string{"u out", "u out", "u out"}) {
			t.Errorf("%s: %q", how, got)
		}
	}
}

type slowProbe struct {
	probe
	gate chan struct{}
}

func (p *slowProbe) HandleRead(*Context, any) error {
	p.j.note("u in")
	<-p.gate
	p.j.note("u out")
	return nil
}

func (p *slowProbe) inside() []string {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	return p.j.lines
}
