package eddy

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/simhook"
)

var (
	modelSeeds = flag.Int("model-seeds", defaultSeeds(), "how many seeds TestPipelineModel runs")
	modelSeed  = flag.Uint64("model-seed", 1, "the first of them")
)

// defaultSeeds is less where each costs ten times as much; scripts/long asks for more than either.
func defaultSeeds() int {
	if raceDetector {
		return 300
	}
	return 1500
}

// TestPipelineModel changes pipelines at random, from the loop and from elsewhere, while events and messages pass through
// handlers on the loop and on two pools, and compares what the handlers see with what must hold: per direction they come
// in order, each once to every handler that was there all the time and never to one that was not; HandleAdd and
// HandleRemove come once, first and last; everything happens on the handler's executor, one thing at a time; each message
// ends once. The test decides by a seed who goes on, also in the middle of handlers, so that a run can be repeated.
func TestPipelineModel(t *testing.T) {
	changes := 0
	for seed := *modelSeed; seed < *modelSeed+uint64(*modelSeeds); seed++ {
		m := newModel(t, seed)
		m.run()
		changes += m.changes
		if m.failed != nil {
			t.Fatalf("seed %d: %v\nreplay: go test . -run TestPipelineModel -model-seeds 1 -model-seed %d -v", seed, m.failed, seed)
		}
	}
	t.Logf("%d seeds, %d changes", *modelSeeds, changes)
	if changes < 3**modelSeeds {
		t.Errorf("%d seeds made %d changes", *modelSeeds, changes)
	}
}

// baton runs the workers of pools one at a time, and only when the test says so.
type baton struct {
	rnd  *rand.Rand
	idle []*worker
	cur  *worker // nil: the loop, or the test
	back chan bool
}

// worker is the goroutine of a pool's worker that waits for the baton.
type worker struct {
	pool   string
	resume chan struct{}
}

func (b *baton) Go(name string, f func()) {
	w := &worker{pool: name, resume: make(chan struct{})}
	b.idle = append(b.idle, w)
	go func() {
		<-w.resume
		f()
		b.back <- true
	}()
}

// Pause lets others go on: between two tasks of a worker, and in the middle of handlers.
func (b *baton) Pause() {
	if w := b.cur; w != nil {
		b.back <- false
		<-w.resume
	}
}

func (b *baton) Await(_, _ <-chan struct{}) bool { panic("nobody waits here") }

// step lets one worker go on until it pauses or ends.
func (b *baton) step() bool {
	if len(b.idle) == 0 {
		return false
	}
	i := b.rnd.IntN(len(b.idle))
	w := b.idle[i]
	b.idle = slices.Delete(b.idle, i, i+1)
	before := b.cur
	b.cur = w
	w.resume <- struct{}{}
	ended := <-b.back
	b.cur = before
	if !ended {
		b.idle = append(b.idle, w)
	}
	return true
}

// model is one run.
type model struct {
	t      *testing.T
	seed   uint64
	rnd    *rand.Rand
	baton  *baton
	loop   *loop
	conn   *Conn
	pools  []*executor.Pool // nil is the loop
	names  map[*executor.Pool]string
	parts  []*part // all that ever were, in the order of their places
	in     stream
	out    stream
	clock  int
	ids    int
	live   int
	asked  int
	told   int
	closed bool

	changes int
	failed  error
}

// stream is one direction.
type stream struct {
	sent int
	done int // the last that came out
}

// item is one message or event.
type item struct {
	m      *model
	n      int
	event  bool
	born   int
	trail  []*part
	ended  bool
	held   *part // fired in HandleRemove by it
	inward bool
}

func (i *item) Release() {
	if i.ended {
		i.m.failf("item %d ended twice", i.n)
	}
	i.ended = true
	if !i.event { // what ends with its connection is released if it is a message
		i.m.live--
	}
}

func (m *model) failf(format string, args ...any) {
	if m.failed == nil {
		m.failed = fmt.Errorf(format, args...)
	}
}

// logf tells a replay's happenings.
func (m *model) logf(format string, args ...any) {
	if *modelSeeds == 1 && testing.Verbose() {
		m.t.Logf(format, args...)
	}
}

func (m *model) n(max int) int { return m.rnd.IntN(max) }

func (m *model) once(n int) bool { return m.n(n) == 0 }

// tick is the model's time.
func (m *model) tick() int { m.clock++; return m.clock }

// breathe is called in the middle of handlers.
func (m *model) breathe() {
	for m.once(2) {
		if m.baton.cur != nil {
			m.baton.Pause()
		} else if !m.baton.step() {
			return
		}
	}
}

// part is what the model knows of one handler.
type part struct {
	m        *model
	id       int
	name     string
	pool     *executor.Pool
	fails    bool // its HandleAdd
	tracked  bool // has HandleAdd and HandleRemove
	reads    bool
	events   bool
	writes   bool
	fixed    bool
	hoards   bool
	from, to int // when it was there; to is 0 until it was taken out
	old      *part

	added, opened, closed, removed int
	inside                         bool
	lastIn, lastOut                int
	hoard                          *item
}

func (p *part) String() string { return fmt.Sprintf("%s(%s)", p.name, p.where()) }

func (p *part) where() string {
	if p.pool == nil {
		return ""
	}
	return p.m.names[p.pool]
}

// enter checks a call of any method.
func (p *part) enter(what string) (leave func()) {
	m := p.m
	at := ""
	if m.baton.cur != nil {
		at = m.baton.cur.pool
	}
	switch {
	case at != p.where():
		m.failf("%v: %s on executor %q", p, what, at)
	case p.removed > 0:
		m.failf("%v: %s after HandleRemove", p, what)
	case p.tracked && p.added == 0 && what != "HandleAdd":
		m.failf("%v: %s before HandleAdd", p, what)
	case p.inside && p.pool != nil:
		m.failf("%v: %s inside another call", p, what)
	}
	m.logf("%v: %s", p, what)
	was := p.inside
	p.inside = true
	m.breathe()
	return func() { p.inside = was }
}

// visit checks that an item comes to p rightly.
func (p *part) visit(it *item) {
	m := p.m
	last := &p.lastOut
	if it.inward {
		last = &p.lastIn
	}
	if it.n <= *last {
		m.failf("%v: item %d came after %d", p, it.n, *last)
	}
	*last = it.n
	m.logf("%v: item %d, inward %v, event %v", p, it.n, it.inward, it.event)
	if it.ended {
		m.failf("%v: item %d has ended", p, it.n)
	}
	place := slices.Index(m.parts, p)
	for _, o := range it.trail {
		at := slices.Index(m.parts, o)
		switch {
		case o == p:
			m.failf("%v: item %d came twice", p, it.n)
		case (o.old == p || p.old == o) && it.held == nil:
			m.failf("%v: item %d was in the one it replaced too", p, it.n)
		case it.inward && at > place || !it.inward && at < place:
			m.failf("%v: item %d came there behind %v", p, it.n, o)
		}
	}
	it.trail = append(it.trail, p)
}

// arrive ends an item's way and checks it.
func (m *model) arrive(it *item, s *stream) {
	if it.n <= s.done || it.n != s.done+1 && !m.closed {
		m.failf("item %d (inward %v) came out after %d", it.n, it.inward, s.done)
	}
	s.done = it.n
	for _, p := range m.parts {
		takes := it.inward && (it.event && p.events || !it.event && p.reads) || !it.inward && p.writes
		if takes && !p.fails && p.from < it.born && p.to == 0 && !slices.Contains(it.trail, p) {
			m.failf("item %d (inward %v, event %v) did not come to %v, only to %v", it.n, it.inward, it.event, p, it.trail)
		}
	}
	it.Release()
}

// The methods of handlers. Which of them a handler has depends on the type below that embeds base.
type base struct{ *part }

func (b base) open() error {
	defer b.enter("HandleOpen")()
	if b.opened++; b.opened > 1 {
		b.m.failf("%v opened twice", b.part)
	}
	return nil
}

func (b base) close() {
	if b.closed++; b.closed > 1 || b.removed > 0 {
		b.m.failf("%v closed %d times, removed %d", b.part, b.closed, b.removed)
	}
}

func (b base) read(ctx *Context, msg any) error {
	defer b.enter("HandleRead")()
	it := msg.(*item)
	b.visit(it)
	b.maybeChange(ctx)
	if b.hoards {
		b.hoarded(ctx, it)
		return nil
	}
	ctx.FireRead(it)
	return nil
}

// hoarded keeps an item until the next one comes.
func (b base) hoarded(ctx *Context, it *item) {
	b.letGo(ctx)
	if b.removed == 0 && b.m.once(3) {
		b.hoard = it
		return
	}
	ctx.FireRead(it)
}

func (b base) letGo(ctx *Context) {
	if it := b.hoard; it != nil {
		b.hoard = nil
		ctx.FireRead(it)
	}
}

func (b base) event(ctx *Context, ev any) error {
	defer b.enter("HandleEvent")()
	it := ev.(*item)
	b.visit(it)
	b.maybeChange(ctx)
	b.letGo(ctx)
	ctx.FireEvent(it)
	return nil
}

func (b base) write(ctx *Context, msg any) error {
	defer b.enter("HandleWrite")()
	it := msg.(*item)
	b.visit(it)
	b.maybeChange(ctx)
	return ctx.Write(it)
}

func (b base) add(ctx *Context) error {
	defer b.enter("HandleAdd")()
	if b.added++; b.added > 1 {
		b.m.failf("%v added twice", b.part)
	}
	ctx.SetState(b.part)
	b.maybeChange(ctx)
	if b.fails {
		return errRefuses
	}
	return nil
}

func (b base) remove(ctx *Context) {
	leave := b.enter("HandleRemove")
	if b.hoard != nil {
		it := b.hoard
		b.hoard, it.held = nil, b.part
		ctx.FireRead(it)
	}
	leave()
	b.removed++
	if b.added == 0 || ctx.State() != b.part {
		b.m.failf("%v removed, added %d, state %v", b.part, b.added, ctx.State())
	}
}

// maybeChange changes the pipeline in the middle of an event.
func (p *part) maybeChange(ctx *Context) {
	m := p.m
	if m.closed || !m.once(12) {
		return
	}
	if p.pool == nil && m.once(2) {
		_ = m.change(ctx.Pipeline())
		return
	}
	m.submit()
}

type (
	all     struct{ base } // everything
	reader  struct{ base }
	hoarder struct{ reader } // holds a message back until something comes
	writer  struct{ base }
	plain   struct{ base } // no callbacks
	idler   struct{ base } // only callbacks
)

func (h all) HandleOpen(*Context) error                        { return h.open() }
func (h all) HandleRead(ctx *Context, msg any) error           { return h.read(ctx, msg) }
func (h all) HandleEvent(ctx *Context, ev any) error           { return h.event(ctx, ev) }
func (h all) HandleWrite(ctx *Context, msg any) error          { return h.write(ctx, msg) }
func (h all) HandleAdd(ctx *Context) error                     { return h.add(ctx) }
func (h all) HandleRemove(ctx *Context)                        { h.remove(ctx) }
func (h all) HandleClose(*Context, CloseReason, error)         { h.close() }
func (h reader) HandleRead(ctx *Context, msg any) error        { return h.read(ctx, msg) }
func (h reader) HandleAdd(ctx *Context) error                  { return h.add(ctx) }
func (h reader) HandleRemove(ctx *Context)                     { h.remove(ctx) }
func (h hoarder) HandleEvent(ctx *Context, ev any) error       { return h.event(ctx, ev) }
func (h writer) HandleWrite(ctx *Context, msg any) error       { return h.write(ctx, msg) }
func (h writer) HandleAdd(ctx *Context) error                  { return h.add(ctx) }
func (h writer) HandleRemove(ctx *Context)                     { h.remove(ctx) }
func (h plain) HandleOpen(*Context) error                      { return h.open() }
func (h plain) HandleRead(ctx *Context, msg any) error         { return h.read(ctx, msg) }
func (h plain) HandleEvent(ctx *Context, ev any) error         { return h.event(ctx, ev) }
func (h plain) HandleWrite(ctx *Context, msg any) error        { return h.write(ctx, msg) }
func (h idler) HandleAdd(ctx *Context) error                   { return h.add(ctx) }
func (h idler) HandleRemove(ctx *Context)                      { h.remove(ctx) }
func (h idler) HandleOpen(*Context) error                      { return h.open() }
func (h idler) HandleClose(_ *Context, _ CloseReason, _ error) { h.close() }

// mouth is the first handler: messages leave through it.
type mouth struct{ base }

func (h mouth) HandleWrite(_ *Context, msg any) error {
	it := msg.(*item)
	h.visit(it)
	h.m.arrive(it, &h.m.out)
	return nil
}

// tail is the last handler: messages and events end there, and errors.
type tail struct{ base }

func (h tail) HandleRead(_ *Context, msg any) error {
	it := msg.(*item)
	h.visit(it)
	h.m.arrive(it, &h.m.in)
	return nil
}

func (h tail) HandleEvent(ctx *Context, ev any) error { return h.HandleRead(ctx, ev) }

func (h tail) HandleError(_ *Context, err error) error {
	if errors.Is(err, errRefuses) {
		return nil
	}
	return err
}

var errRefuses = errors.New("refuses")

// newPart makes a handler of any kind on any executor.
func (m *model) newPart() (*part, any) {
	m.ids++
	p := &part{m: m, id: m.ids, name: fmt.Sprint("h", m.ids), pool: m.pools[m.n(len(m.pools))]}
	b := base{p}
	switch m.n(6) {
	case 0:
		p.reads, p.tracked = true, true
		if m.once(2) {
			p.events, p.hoards = true, true
			return p, hoarder{reader{b}}
		}
		return p, reader{b}
	case 1:
		p.writes, p.tracked = true, true
		return p, writer{b}
	case 2:
		p.reads, p.events, p.writes = true, true, true
		return p, plain{b}
	case 3:
		p.tracked = true
		return p, idler{b}
	}
	p.reads, p.events, p.writes, p.tracked = true, true, true, true
	return p, all{b}
}

func (p *part) options() []AddOption {
	if p.pool == nil {
		return nil
	}
	return []AddOption{On(p.pool)}
}

// current returns the places of the handlers that stand there and may be replaced.
func (m *model) current() (at []int) {
	for i, p := range m.parts {
		if p.to == 0 && !p.fixed && p.added >= 0 {
			at = append(at, i)
		}
	}
	return at
}

// change makes one change. It runs on the loop.
func (m *model) change(p *Pipeline) error {
	m.changes++
	at := m.current()
	if len(at) == 0 || len(at) < 6 && m.once(2) {
		return m.changeAdd(p)
	}
	i := at[m.n(len(at))]
	old := m.parts[i]
	if old.fails { // it is gone or will be
		return nil
	}
	if m.once(2) {
		return m.changeReplace(p, i, old)
	}
	old.to = m.tick()
	m.logf("remove %v", old)
	err := p.Remove(old.name)
	if errors.Is(err, ErrSaturated) {
		old.to = 0
		return nil
	}
	return err
}

func (m *model) changeAdd(p *Pipeline) error {
	var standing []int
	for i, o := range m.parts {
		if o.to == 0 && !o.fails {
			standing = append(standing, i)
		}
	}
	i := standing[m.n(len(standing))]
	base := m.parts[i]
	n, h := m.newPart()
	n.fails = n.tracked && m.once(8)
	after := i == 0 || i < len(m.parts)-1 && m.once(2)
	if after {
		i++
	} else {
		for m.parts[i].old != nil { // one that was replaced has the same place
			i--
		}
	}
	n.from = m.tick()
	m.parts = slices.Insert(m.parts, i, n)
	m.logf("add %v, after %v, base %v, fails %v: %v", n, after, base, n.fails, m.parts)
	if after {
		return p.AddAfter(base.name, n.name, h, n.options()...)
	}
	return p.AddBefore(base.name, n.name, h, n.options()...)
}

func (m *model) changeReplace(p *Pipeline, i int, old *part) error {
	n, h := m.newPart()
	for old.hoards && n.hoards { // the one would keep what the other lets go, and what is inside it goes ahead
		n, h = m.newPart()
	}
	if old.hoards {
		n.pool = old.pool // the order of what it holds back is kept on one executor
	}
	if m.once(2) {
		n.name = old.name
	}
	n.fails = n.tracked && !old.hoards && m.once(8)
	n.old = old
	n.from = m.tick()
	old.to = m.tick()
	m.parts = slices.Insert(m.parts, i+1, n)
	m.logf("replace %v by %v (%s), fails %v", old, n, n.name, n.fails)
	err := p.Replace(old.name, n.name, h, n.options()...)
	if errors.Is(err, ErrSaturated) {
		old.to = 0
		m.parts = slices.DeleteFunc(m.parts, func(o *part) bool { return o == n })
		return nil
	}
	return err
}

// submit changes the pipeline as another goroutine does.
func (m *model) submit() {
	f := func(p *Pipeline) error {
		if m.closed {
			return nil
		}
		return m.change(p)
	}
	done := func(err error) {
		m.told++
		if err != nil && !errors.Is(err, ErrClosed) {
			m.failf("a change failed: %v", err)
		}
	}
	if err := m.conn.Change(f, done); err == nil {
		m.asked++
	} else if !errors.Is(err, ErrClosed) {
		m.failf("Change: %v", err)
	}
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 7))}
	m.baton = &baton{rnd: m.rnd, back: make(chan bool)}
	m.names = map[*executor.Pool]string{}
	m.pools = []*executor.Pool{nil, m.pool("P"), m.pool("Q")}
	log := slog.New(slog.DiscardHandler)
	if *modelSeeds == 1 {
		log = slog.Default()
	}
	srv := &Server{Logger: log, Init: func(p *Pipeline) error {
		first := &part{m: m, name: "mouth", fixed: true, writes: true}
		last := &part{m: m, name: "tail", fixed: true, reads: true, events: true}
		first.pool, last.pool = m.pools[m.n(3)], m.pools[m.n(3)]
		m.conn, m.parts = p.Conn(), []*part{first}
		p.Add("mouth", mouth{base{first}}, first.options()...)
		for range m.n(5) {
			n, h := m.newPart()
			m.parts = append(m.parts, n)
			p.Add(n.name, h, n.options()...)
		}
		m.parts = append(m.parts, last)
		return p.Add("tail", tail{base{last}}, last.options()...)
	}}
	st, l := newStage(t, srv)
	m.loop = l
	l.Vitals.Goroutine.Store(1) // nobody's: who calls Change is not on the loop
	st.connect(l)
	return m
}

func (m *model) pool(name string) *executor.Pool {
	p, err := executor.NewFixed(executor.Options{Name: name, Workers: 1 + m.n(2), Queue: 1000})
	if err != nil {
		m.t.Fatal(err)
	}
	simhook.SimulatePool(p, m.baton)
	m.names[p] = name
	return p
}

// run sends items both ways and changes the pipeline meanwhile.
func (m *model) run() {
	for range 100 + m.n(200) {
		switch m.n(10) {
		case 0, 1:
			m.sendIn()
		case 2:
			m.sendOut()
		case 3:
			if m.once(3) {
				m.submit()
			}
		case 4, 5, 6:
			m.loop.Iterate()
		default:
			m.baton.step()
		}
		if m.failed != nil {
			break
		}
	}
	if m.once(2) {
		m.drain()
		m.verdict()
	}
	m.closed = true
	m.conn.Close(CloseNormal)
	m.drain()
	m.aftermath()
}

// drain lets everything go on until nothing is left to do.
func (m *model) drain() {
	for rest := 0; rest < 3; rest++ {
		m.loop.Iterate()
		for m.baton.step() {
			rest = 0
		}
	}
}

func (m *model) sendIn() {
	s := &m.in
	s.sent++
	it := &item{m: m, n: s.sent, event: m.once(3), born: m.tick(), inward: true}
	if !it.event {
		m.live++
	}
	f := func() { m.conn.fireReadFromHead(it) }
	if it.event {
		f = func() { m.conn.fireEventFromHead(it) }
	}
	if err := m.conn.Post(func() { it.born = m.tick(); f() }); err != nil {
		m.failf("Post: %v", err)
	}
}

func (m *model) sendOut() {
	s := &m.out
	s.sent++
	it := &item{m: m, n: s.sent, born: m.tick()}
	m.live++
	if err := m.conn.Write(it); err != nil {
		m.failf("Write: %v", err)
	}
}

// verdict follows a drain of an open connection.
func (m *model) verdict() {
	hoarded := false
	for _, p := range m.parts {
		hoarded = hoarded || p.hoard != nil
		if p.tracked && p.to != 0 && p.removed != min(p.added, 1) {
			m.failf("%v was taken out: added %d, removed %d", p, p.added, p.removed)
		}
		if p.tracked && p.to == 0 && !p.fails && (p.added != 1 || p.removed != 0) {
			m.failf("%v stands there: added %d, removed %d", p, p.added, p.removed)
		}
	}
	if (m.in.done != m.in.sent && !hoarded) || m.out.done != m.out.sent {
		m.failf("of %d and %d items %d and %d came out", m.in.sent, m.out.sent, m.in.done, m.out.done)
	}
	if m.conn.shows(detour) || len(m.conn.rarely().rewiring.barriers) > 0 {
		m.failf("the pipeline did not settle: inflight %d encoding %d transit %d, fenced %v seq %d hopped %d, bits %b", m.conn.counts.inflight.Load(), m.conn.counts.encoding.Load(), m.conn.counts.transit.Load(), m.conn.rarely().rewiring.fenced, m.conn.rarely().rewiring.seq, m.conn.hopped(), m.conn.shared.Load())
	}
}

// aftermath follows the close.
func (m *model) aftermath() {
	for _, p := range m.parts {
		if p.tracked && p.removed != min(p.added, 1) {
			m.failf("%v at the end: added %d, removed %d", p, p.added, p.removed)
		}
	}
	if m.asked != m.told {
		m.failf("%d changes asked for, %d told", m.asked, m.told)
	}
	if n := m.conn.counts.inflight.Load() + m.conn.counts.encoding.Load() + m.conn.counts.transit.Load(); n != 0 {
		m.failf("%d in flight at the end", n)
	}
	for _, p := range m.pools[1:] {
		if left := p.Close(); len(left) > 0 {
			m.failf("pool %s was left %d runners", m.names[p], len(left))
		}
	}
	if m.live != 0 && m.failed == nil {
		m.failf("%d items did not end", m.live)
	}
}
