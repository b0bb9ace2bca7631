package eddy

import (
	"errors"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// answering answers each message with a thousand bytes for each of its own.
func answering(budget int) *Server {
	srv := cutServer(thousandfold)
	srv.MemoryBudget = budget
	return srv
}

func thousandfold(ctx *Context, msg string) error {
	return ctx.Write(strings.Repeat("x", 1000*len(msg)))
}

// stuck makes a connection whose peer has asked for so many kilobytes and takes none.
func (st *stage) stuck(l *loop, kilobytes int) *actor {
	a := st.connect(l)
	a.room = 0
	a.ask(kilobytes)
	l.Iterate()
	return a
}

func (a *actor) ask(kilobytes int) { a.send(strings.Repeat("a", kilobytes) + ";") }

// answered returns the kilobytes that the peer has got.
func (a *actor) answered() int { return len(a.out) / 1000 }

// elapse lets time go by, a tick of the budget in each iteration.
func (st *stage) elapse(d time.Duration) {
	for end := st.now.Load() + int64(d); st.now.Load() < end; {
		st.now.Add(int64(pressureTick))
		for _, l := range st.loops {
			l.Iterate()
		}
	}
}

func (st *stage) expectMemory(what string, out, in int64) {
	st.t.Helper()
	m := st.srv.endpoint.budget.snapshot()
	var loopOut, loopIn int64
	for _, l := range st.loops {
		loopOut += l.snapshot().OutboundBytes
		loopIn += l.snapshot().InboundBytes
	}
	if m.Outbound != out || m.Inbound != in || loopOut != out || loopIn != in || st.srv.endpoint.budget.held.Load() != out+in {
		st.t.Errorf("%s: %d bytes outbound, %d inbound; by loops %d and %d; want %d and %d", what, m.Outbound, m.Inbound, loopOut, loopIn, out, in)
	}
}

// TestMemoryIsCounted: what is queued for peers and what is not decoded yet counts, for the server and for each loop,
// until it is sent, decoded or dropped with its connection.
func TestMemoryIsCounted(t *testing.T) {
	st, l := newStage(t, answering(0))
	other := st.loop("worker-1")
	a, b := st.stuck(l, 30), st.stuck(other, 5)
	st.expectMemory("two answers", 35_000, 0)
	if n := st.loops[0].handle.Load().Outbound; n != 30_000 {
		t.Errorf("a chooser is told that %d bytes are queued", n)
	}
	a.ask(2)
	b.send("not the end")
	st.elapse(pressureTick)
	st.expectMemory("another answer behind the first and a part of a frame", 37_000, 11)
	a.room = 10_000
	st.elapse(pressureTick)
	st.expectMemory("the peer took some", 27_000, 11)
	b.send(" yet;")
	st.elapse(pressureTick)
	st.expectMemory("the frame is complete", 27_000+15_000, 0)
	b.send("again")
	if err := a.conn.Write([]byte("from elsewhere")); err != nil {
		t.Fatal(err)
	}
	st.elapse(pressureTick)
	st.expectMemory("a write from another goroutine", 42_014, 5)
	a.conn.Close(CloseNormal)
	if err := b.conn.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	st.elapse(pressureTick)
	st.expectMemory("one is closed", 20_004, 5)
	b.room = 1 << 30
	b.eof = true
	st.elapse(2 * pressureTick)
	st.expectMemory("the other one, too", 0, 0)
}

// TestBudgetPausesReads: above the budget nothing is read on any loop, without a spin; when a tenth is free all go on.
func TestBudgetPausesReads(t *testing.T) {
	st, l := newStage(t, answering(100_000))
	other := st.loop("worker-1")
	big := st.stuck(l, 100)
	near, far := st.connect(l), st.connect(other)
	near.ask(1)
	st.elapse(pressureTick)
	if near.answered() != 1 || st.srv.endpoint.budget.pressed.Load() {
		t.Fatal("at the budget, not above it, reads pause")
	}
	st.stuck(other, 1)
	st.elapse(pressureTick)
	m := st.srv.endpoint.budget.snapshot()
	if !m.Pressure || m.Pressures != 1 {
		t.Fatalf("above the budget: %+v", m)
	}
	near.ask(2)
	far.ask(3)
	reads := near.reads + far.reads
	st.elapse(50 * time.Millisecond)
	if n := near.reads + far.reads - reads; n != 0 || near.answered() != 1 {
		t.Errorf("%d reads under pressure", n)
	}
	for i, a := range []*actor{near, far} {
		if in := st.loops[i].Poller.(*stagePoller).regs[a.fd].in; in&sys.Read != 0 {
			t.Errorf("the poller still reports what connection %d has to read", i)
		}
	}
	big.room = 10_000 // leaves 91 kB, which is below the budget, but not by a tenth
	st.elapse(30 * time.Millisecond)
	if near.answered() != 1 || far.answered() != 0 {
		t.Error("reads went on before a tenth of the budget was free")
	}
	big.room = 2_000
	st.elapse(50 * time.Millisecond)
	if near.answered() != 3 || far.answered() != 3 {
		t.Errorf("%d and %d kB answered after the pressure, want 3 and 3", near.answered(), far.answered())
	}
	if m := st.srv.endpoint.budget.snapshot(); m.Pressure || m.Closed != 0 {
		t.Errorf("after the pressure: %+v", m)
	}
	for i, l := range st.loops {
		if l.memory.pressed != 0 || l.deadlines.wheel.Len() != 0 {
			t.Errorf("loop %d: %d pressures, %d timers left", i, l.memory.pressed, l.deadlines.wheel.Len())
		}
	}
}

// TestBudgetPausesWithinABatch: a loop that is in the middle of a batch of reads when the budget is passed, by itself or
// by another loop, does not read the rest of the batch.
func TestBudgetPausesWithinABatch(t *testing.T) {
	st, l := newStage(t, answering(100_000))
	other := st.loop("worker-1")
	var all []*actor
	for range 10 {
		all = append(all, st.connect(other))
	}
	for _, a := range all {
		a.room = 0
		a.ask(20)
	}
	st.stuck(l, 101)
	other.Serve(other.Wait()) // the batch; the task that tells it has not run yet
	if out := st.srv.endpoint.budget.held.Load(); out != 121_000 {
		t.Errorf("%d bytes are held, want those of one answer more than when the budget was passed", out)
	}
	for _, a := range all[1:] {
		if a.reads > 0 {
			t.Error("the rest of the batch was read")
		}
	}
}

// TestBudgetPausesWithinARead: of messages that came in one read those behind the one whose answer passes the budget wait,
// also when a decoder further down takes them; small answers are counted together.
func TestBudgetPausesWithinARead(t *testing.T) {
	plain := func(s string) string { return s }
	for _, tc := range []struct {
		name    string
		message int // kilobytes of its answer
		srv     *Server
		wrap    func(string) string
	}{
		{"large answers", 30, answering(0), plain},
		{"small answers", 2, answering(0), plain},
		{"inside an envelope", 30, innerServer(1, thousandfold), envelope},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.srv.MemoryBudget = 100_000
			st, l := newStage(t, tc.srv)
			a, big := st.connect(l), st.connect(l)
			a.room, big.room = 0, 0
			big.send(tc.wrap(strings.Repeat("a", 80) + ";"))
			l.Iterate()
			a.send(tc.wrap(strings.Repeat(strings.Repeat("a", tc.message)+";", 20)))
			l.Iterate()
			if held, most := st.srv.endpoint.budget.held.Load(), int64(100_000+countAtOnce+1000*tc.message); held <= 100_000 || held > most {
				t.Errorf("%d bytes are held, want more than 100000 and at most %d", held, most)
			}
			if !a.conn.has(heldBack) {
				t.Error("the messages behind do not wait")
			}
			a.room = 1 << 20
			st.elapse(50 * pressureTick)
			if a.answered() != 20*tc.message {
				t.Errorf("%d kB answered, want %d", a.answered(), 20*tc.message)
			}
		})
	}
}

// TestBudgetClosesTheSlowest: what stays above the budget for a second closes the slowest connections, one at a time,
// until there is room; the others live.
func TestBudgetClosesTheSlowest(t *testing.T) {
	st, l := newStage(t, answering(100_000))
	other := st.loop("worker-1")
	small := st.stuck(l, 1)
	biggest, third := st.stuck(l, 35), st.stuck(l, 10)
	second := st.stuck(other, 15)
	moving := st.stuck(other, 60) // holds more than any, but its peer reads
	paused := st.connect(l)
	paused.ask(1)
	for range 90 { // the moving one's peer takes three bytes at each tick, 300 a second
		moving.room = 3
		st.elapse(pressureTick)
	}
	if m := st.srv.endpoint.budget.snapshot(); m.Closed != 0 || !m.Pressure {
		t.Fatalf("within the second of grace: %+v", m)
	}
	for range 30 {
		moving.room = 3
		st.elapse(pressureTick)
	}
	if biggest.closed != 1 || second.closed+third.closed+moving.closed+small.closed != 0 {
		t.Errorf("the biggest was closed %d times, the second %d, the third %d, the moving one %d, the small one %d; want the biggest alone",
			biggest.closed, second.closed, third.closed, moving.closed, small.closed)
	}
	if e := biggest.conn.CloseError(); e == nil || e.Reason != CloseBackpressureLimit || !errors.Is(e, errBudget) {
		t.Errorf("it was closed with %v", e)
	}
	if paused.answered() != 1 {
		t.Error("the connection that was paused does not go on")
	}
	if n := st.srv.endpoint.closed[CloseBackpressureLimit].Load(); n != 1 || st.srv.endpoint.budget.snapshot().Closed != 1 {
		t.Errorf("%d closes counted", n)
	}
}

// TestBudgetSparesReaders: while the pressure lasts half a minute at most and less than twice the budget is held, nobody closes
// whose peer reads. Then the slowest does.
func TestBudgetSparesReaders(t *testing.T) {
	reading := func(st *stage, a *actor, d time.Duration) {
		for range d / pressureTick { // three bytes at each tick, 300 a second
			a.room = 3
			st.elapse(pressureTick)
		}
	}
	st, l := newStage(t, answering(100_000))
	slow := st.stuck(l, 140) // beyond the hard limit, too
	reading(st, slow, readersGrace-10*pressureTick)
	if m := st.srv.endpoint.budget.snapshot(); !m.Pressure || m.Closed != 0 {
		t.Fatalf("within half a minute: %+v", m)
	}
	reading(st, slow, 20*pressureTick)
	if slow.closed != 1 {
		t.Error("after half a minute the slowest was not closed")
	}
	st, l = newStage(t, answering(100_000))
	slow = st.stuck(l, 201)
	reading(st, slow, 10*pressureTick)
	if slow.closed != 1 {
		t.Error("above twice the budget the slowest was not closed")
	}
}

// TestBudgetGraceIsGivenOnce: when the pressure comes back at once, peers that were stuck all the time get no second grace;
// after a quiet second they do.
func TestBudgetGraceIsGivenOnce(t *testing.T) {
	st, l := newStage(t, answering(100_000))
	first, second := st.stuck(l, 60), st.stuck(l, 45)
	st.elapse(budgetGrace + 3*pressureTick)
	if first.closed != 1 || second.closed != 0 {
		t.Fatalf("after the grace the first was closed %d times, the second %d", first.closed, second.closed)
	}
	third := st.stuck(l, 60)
	st.elapse(5 * pressureTick)
	if second.closed != 1 || third.closed != 0 {
		t.Errorf("when the pressure came back the second was closed %d times, the third %d; want the second, which is stuck", second.closed, third.closed)
	}
	st.elapse(2 * budgetGrace) // without pressure
	fourth := st.stuck(l, 45)
	st.elapse(budgetGrace - 5*pressureTick)
	if third.closed+fourth.closed != 0 {
		t.Error("after a quiet time there was no grace")
	}
	st.elapse(10 * pressureTick)
	if third.closed != 1 || fourth.closed != 0 {
		t.Errorf("after the grace the third was closed %d times, the fourth %d", third.closed, fourth.closed)
	}
}

// TestBudgetIsNotHalfRelieved: reads do not stay paused for good when what is left lies between the mark at which they
// pause and the one at which they go on.
func TestBudgetIsNotHalfRelieved(t *testing.T) {
	st, l := newStage(t, answering(100_000))
	first, second := st.stuck(l, 55), st.stuck(l, 50)
	second.room = 10_000
	st.elapse(budgetGrace - 5*pressureTick)
	if m := st.srv.endpoint.budget.snapshot(); m.Outbound != 95_000 || !m.Pressure || m.Closed != 0 {
		t.Fatalf("%+v", m)
	}
	st.elapse(10 * pressureTick)
	if m := st.srv.endpoint.budget.snapshot(); m.Pressure || first.closed != 1 || second.closed != 0 {
		t.Errorf("%+v, the first was closed %d times, the second %d", m, first.closed, second.closed)
	}
}

// TestBudgetTakesWritesBack: writes from other goroutines count against the budget only until the loop has them.
func TestBudgetTakesWritesBack(t *testing.T) {
	st, l := newStage(t, answering(100_000))
	a := st.connect(l)
	for i := range 200 {
		if err := a.conn.Write(make([]byte, 5000)); err != nil {
			t.Fatalf("write %d of what adds up to ten budgets, one after the other: %v", i, err)
		}
		l.Iterate()
	}
	var err error
	for range 30 { // the loop takes none
		if err = a.conn.Write(make([]byte, 5000)); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrBackpressure) {
		t.Errorf("more than the budget on its way to a loop that does not take it: %v", err)
	}
	l.Iterate()
	if a.answered() < 1000 || a.closed != 0 {
		t.Errorf("%d kB sent, closed %d times", a.answered(), a.closed)
	}
}

// TestBudgetExcess: a quarter above the budget there is no grace for the slowest connection, and writes from other
// goroutines are refused without ending theirs.
func TestBudgetExcess(t *testing.T) {
	st, l := newStage(t, answering(100_000))
	healthy := st.connect(l)
	write := func(what string) error {
		err := healthy.conn.Write([]byte(what))
		l.Iterate()
		return err
	}
	first, huge := st.stuck(l, 85), st.stuck(l, 45)
	if m := st.srv.endpoint.budget.snapshot(); m.Outbound != 130_000 || !m.Pressure {
		t.Fatalf("%+v", m)
	}
	if err := write("above"); !errors.Is(err, ErrBackpressure) {
		t.Errorf("Write far above the budget: %v", err)
	}
	if err := healthy.conn.Write([]byte("above")); !errors.Is(err, ErrBackpressure) || l.Tasks.Waiting() {
		t.Errorf("Write far above the budget: %v, and gives the loop work: %v", err, l.Tasks.Waiting())
	}
	huge.conn.Close(CloseNormal)
	l.Iterate()
	if err := write("between"); err != nil {
		t.Errorf("Write below the excess: %v", err)
	}
	huge = st.stuck(l, 60)
	st.elapse(stuckGrace + 3*pressureTick)
	if first.closed != 1 || huge.closed != 0 { // stuck for longer
		t.Errorf("the first was closed %d times, the huge one %d; want the first", first.closed, huge.closed)
	}
	if err := write("after"); err != nil {
		t.Errorf("Write after the pressure: %v", err)
	}
	if string(healthy.out) != "betweenafter" {
		t.Errorf("the healthy connection's peer got %q", healthy.out)
	}
	if m := st.srv.endpoint.budget.snapshot(); m.Refused != 2 || m.Closed != 1 || m.Pressures != 2 {
		t.Errorf("%+v", m)
	}
}

// TestHugeBudget: the largest budget that can be set is one that nothing exceeds.
func TestHugeBudget(t *testing.T) {
	st, l := newStage(t, answering(math.MaxInt))
	a := st.connect(l)
	submit(t, l, a, "from elsewhere")
	a.ask(1)
	st.elapse(pressureTick)
	if m := st.srv.endpoint.budget.snapshot(); m.Refused != 0 || m.Pressure || len(a.out) != 14+1000 {
		t.Errorf("%+v; %d bytes sent", m, len(a.out))
	}
}

// TestBudgetForgetsRefusedWrites: what the connection's own bound refuses does not stay claimed from the budget.
func TestBudgetForgetsRefusedWrites(t *testing.T) {
	srv := answering(1_000_000)
	srv.Watermarks = Watermarks{Low: 1, High: 2, Max: 100}
	st, l := newStage(t, srv)
	c := st.stuck(l, 1).conn
	for what, write := range map[string]func() error{
		"a write": func() error { return c.Write(make([]byte, 1000)) },
	} {
		if err := write(); !errors.Is(err, ErrBackpressure) {
			t.Errorf("%s: %v", what, err)
		}
		if n := c.cell().pending.Load(); n != 0 {
			t.Errorf("%s: %d bytes stay claimed", what, n)
		}
	}
}

// TestBudgetIsOfAllLoops: what other goroutines have submitted to one loop counts for those that write to another.
func TestBudgetIsOfAllLoops(t *testing.T) {
	st, _ := newStage(t, answering(100_000))
	st.loop("worker-1")
	st.loop("worker-2")
	var all []*actor
	for _, l := range st.loops {
		all = append(all, st.connect(l))
	}
	taken := 0
	for range 200 {
		for _, a := range all {
			err := a.conn.Write(make([]byte, 1000))
			if err == nil {
				taken++
			} else if !errors.Is(err, ErrBackpressure) {
				t.Fatal(err)
			}
		}
	}
	if len(all) != 3 || taken != 125 {
		t.Errorf("%d loops were given %d kB, want 125 on 3", len(all), taken)
	}
	for _, l := range st.loops {
		l.Iterate()
	}
	if err := all[0].conn.Write([]byte("more")); err != nil {
		t.Errorf("after they have been sent: %v", err)
	}
	st.loops[0].Iterate()
}

// TestBudgetCountsSubmitted: what waits for a loop that does not take it counts for the reads of the others. A loop does not
// end the pressure because it does not know of bytes that came since it looked.
func TestBudgetCountsSubmitted(t *testing.T) {
	st, l := newStage(t, answering(100_000))
	late := st.loop("worker-1")
	far, near := st.connect(late), st.connect(l)
	near.room = 0
	if err := far.conn.Write(make([]byte, 60_000)); err != nil {
		t.Fatal(err)
	}
	b := &st.srv.endpoint.budget
	for range 10 {
		near.ask(10)
		l.Iterate()
	}
	if held := b.held.Load(); !b.pressed.Load() || held+60_000 > b.hard {
		t.Errorf("%d bytes are held beside 60000 submitted, pressure %v", held, b.pressed.Load())
	}
	b.pressed.Store(false) // as another loop does that has looked before
	held := b.held.Load()
	st.now.Add(int64(pressureTick))
	l.Iterate()
	if !b.pressed.Load() || b.held.Load() != held {
		t.Errorf("%d bytes more are held, pressure %v", b.held.Load()-held, b.pressed.Load())
	}
	st.elapse(3 * pressureTick)
	if b.pressed.Load() {
		t.Error("the pressure lasts although the loop has sent what was submitted")
	}
	if err := far.conn.Write(make([]byte, 60_000)); err != nil {
		t.Fatal(err)
	}
	near.room = 1 << 20
	far.room = 0
	episodes := b.episodes.Load()
	st.elapse(3 * pressureTick)
	if b.episodes.Load() != episodes {
		t.Error("a write of 60 % of the budget counts twice")
	}
}

// TestBudgetCountsInput: input that is never completed holds memory, too; what holds most closes first, and nobody is
// starved by the others for longer than the grace.
func TestBudgetCountsInput(t *testing.T) {
	srv := answering(100_000)
	srv.Init = func(p *Pipeline) error { return p.Add("cut", &cut{}) }
	st, l := newStage(t, srv)
	var half []*actor
	for i := range 5 {
		a := st.connect(l)
		a.send(strings.Repeat("a", 19_000+1000*i))
		half = append(half, a)
		l.Iterate()
	}
	if m := srv.endpoint.budget.snapshot(); !m.Pressure || m.Inbound != 105_000 {
		t.Fatalf("%+v", m)
	}
	half[0].send("end;")
	st.elapse(900 * time.Millisecond)
	if !half[0].conn.in.Held() {
		t.Fatal("the rest was read under pressure")
	}
	st.elapse(200 * time.Millisecond)
	if half[4].closed != 1 || half[0].conn.in.Held() || half[1].closed+half[2].closed+half[3].closed != 0 {
		t.Errorf("the one that held most was closed %d times; the first is complete: %v", half[4].closed, !half[0].conn.in.Held())
	}
}

// TestBudgetResumesAll: many more connections than one tick resumes all go on, those first that were paused first.
func TestBudgetResumesAll(t *testing.T) {
	srv := answering(100_000)
	srv.Watermarks = wholeWindow
	st, l := newStage(t, srv)
	big := st.stuck(l, 101)
	all := make([]*actor, budgetResume+50)
	for i := range all {
		all[i] = st.connect(l)
		all[i].ask(1)
	}
	for range 12 { // event by event array
		l.Iterate()
	}
	if n := len(st.srv.endpoint.budget.cells[0].paused); n != len(all) {
		t.Fatalf("%d connections are paused, want %d", n, len(all))
	}
	big.room = 1 << 20
	st.elapse(pressureTick)
	left := st.srv.endpoint.budget.cells[0].paused
	if len(left) != 50 || left[49] != all[len(all)-1].conn.token() {
		t.Errorf("%d are still paused after the first tick, want the last 50", len(left))
	}
	st.elapse(15 * pressureTick)
	for i, a := range all {
		if a.answered() != 1 {
			t.Fatalf("connection %d was not resumed", i)
		}
	}
}

// TestBudgetRefusesConnections: under pressure new connections meet the admission's decision.
func TestBudgetRefusesConnections(t *testing.T) {
	for _, d := range []Decision{DecisionReject, DecisionPause} {
		srv := answering(100_000)
		srv.Admission.OnLimit = d
		g := newGateStage(t, 1, srv)
		big := g.stuck(g.workers[0], 101)
		if d == DecisionReject {
			g.expect("under pressure", g.arrive("::1"), "x")
			g.expectRefused(map[RefuseCause]uint64{RefuseMemory: 1})
			continue
		}
		g.expect("under pressure", g.arrive("::1"), "")
		if g.pending != 1 || g.listening() {
			t.Error("the listener does not rest under pressure")
		}
		big.room = 1 << 20
		g.elapse(2 * pressureTick)
		if g.pending != 0 || !g.listening() {
			t.Error("the listener does not wake after the pressure")
		}
	}
}

// TestMemoryBudgetDefault: a server that sets no budget has what its system says, one that sets one has that, and a
// negative one is no limit.
func TestMemoryBudgetDefault(t *testing.T) {
	known := &kernel{memory: func() int { return 1000 }}
	for _, c := range []struct {
		set, want int
		k         *kernel
	}{{0, 1000, known}, {500, 500, known}, {-1, 0, known}, {0, 0, &kernel{}}} {
		if n := (&Server{MemoryBudget: c.set}).memoryBudget(c.k); n != c.want {
			t.Errorf("MemoryBudget %d: %d bytes, want %d", c.set, n, c.want)
		}
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 20))
	if n := realKernel("").memory(); n != 1<<20 {
		t.Errorf("with a GOMEMLIMIT of 4 MiB the default is %d bytes", n)
	}
}
