package eddy

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
)

// batchStage is a loop with connections whose handlers say what they do. A message that has an entry in do runs it; every
// message is answered with itself.
func batchStage(t *testing.T, conns int, do map[string]func(ctx *Context)) (*stage, *loop, []*actor) {
	t.Helper()
	var st *stage
	srv := cutServer(func(ctx *Context, msg string) error {
		st.note("handle %s", msg)
		if f := do[msg]; f != nil {
			f(ctx)
		}
		return ctx.Write([]byte(msg + ";"))
	})
	st, l := newStage(t, srv)
	var all []*actor
	for range conns {
		all = append(all, st.connect(l))
	}
	st.trace = nil
	return st, l, all
}

// runs returns how many notes beginning with one word stand between those beginning with the other.
func (st *stage) runs(word, other string) (lengths []int) {
	among := false
	for _, n := range st.noted(word, other) {
		if !strings.HasPrefix(n, word) {
			among = false
			continue
		}
		if !among {
			lengths = append(lengths, 0)
		}
		among = true
		lengths[len(lengths)-1]++
	}
	return lengths
}

// TestBatchSteps: connections that are readable are all read, then all handled, then all answered; one that is not merely
// readable goes its own way.
func TestBatchSteps(t *testing.T) {
	st, l, all := batchStage(t, 4, nil)
	a, b, c, d := all[0], all[1], all[2], all[3]
	d.room = 0
	d.send("d0;")
	l.Iterate() // d waits for room and will be writable and readable
	d.room = 100
	a.send("a;")
	b.send("b;")
	c.send("c;")
	d.send("d;")
	st.trace = nil
	l.Iterate()
	id := func(format string, x *actor) string { return fmt.Sprintf(format, x.fd) }
	want := []string{
		id("read %d", a), id("read %d", b), id("read %d", c), id("write %d", d), id("read %d", d), "handle d", id("write %d", d),
		"handle a", "handle b", "handle c", id("write %d", a), id("write %d", b), id("write %d", c),
	}
	if got := st.noted("read", "handle", "write"); !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	for i, want := range []string{"a;", "b;", "c;", "d0;d;"} {
		if got := string(all[i].out); got != want {
			t.Errorf("connection %d was sent %q, want %q", i, got, want)
		}
	}
}

// TestBatchLimits: a batch ends with its last place, and with so many bytes.
func TestBatchLimits(t *testing.T) {
	for _, x := range []struct {
		what          string
		conns, length int
		want          []int // messages handled between writes
	}{
		{"places", 2*batchMax + 3, 8, []int{batchMax, batchMax, 3}},
		{"bytes", 10, batchFull / 4, []int{4, 4, 2}},
		{"bytes, each with the next line", 5, batchFull/4 + 1, []int{4, 1}},
	} {
		st, l, all := batchStage(t, x.conns, nil)
		for _, a := range all {
			a.send(strings.Repeat("m", x.length-1) + ";")
		}
		l.Iterate()
		if got := st.runs("handle", "write"); !slices.Equal(got, x.want) {
			t.Errorf("%s: batches of %d, want %d", x.what, got, x.want)
		}
		for i, a := range all {
			if len(a.out) != x.length || len(a.writes) != 1 {
				t.Errorf("%s: connection %d was sent %d bytes in %d writes", x.what, i, len(a.out), len(a.writes))
			}
		}
	}
}

// TestBatchOfOthersDoings: what the handlers of one connection do to another one of the batch finds it with its bytes read
// and not handled, or handled and its answer not sent.
func TestBatchOfOthersDoings(t *testing.T) {
	var before, after *actor
	both := func(f func(c *Conn)) func(*Context) {
		return func(*Context) { f(before.conn); f(after.conn) }
	}
	const closed = "closed "
	for _, x := range []struct {
		what string
		do   func(*Context)
		want [2]string // what was sent to the one before and to the one behind, and how it ended
		then [2]string // the same when reads have been resumed
	}{
		{"nothing", func(*Context) {}, [2]string{"b;", "a;"}, [2]string{"b;", "a;"}},
		{"a write", both(func(c *Conn) { _ = c.Write([]byte("+")) }), [2]string{"b;+", "a;+"}, [2]string{"b;+", "a;+"}},
		{
			"a close", both(func(c *Conn) { c.beginClose(CloseNormal, nil) }),
			[2]string{closed + "normal ", closed + "normal "}, [2]string{closed + "normal ", closed + "normal "},
		},
		{
			"an end in order", both(func(c *Conn) { c.closeFlushed(CloseNormal, nil) }),
			[2]string{closed + "normal b;", closed + "normal "}, [2]string{closed + "normal b;", closed + "normal "},
		},
		{"a pause", both((*Conn).PauseRead), [2]string{"b;", ""}, [2]string{"b;", "a;"}},
	} {
		t.Run(x.what, func(t *testing.T) {
			_, l, all := batchStage(t, 3, map[string]func(*Context){"x": x.do})
			before, after = all[0], all[2]
			for i, m := range []string{"b;", "x;", "a;"} {
				all[i].send(m)
			}
			result := func() (r [2]string) {
				for i, a := range []*actor{before, after} {
					if e := a.conn.CloseError(); e != nil {
						r[i] = closed + e.Reason.String() + " "
					}
					r[i] += string(a.out)
				}
				return r
			}
			l.Iterate()
			l.Iterate() // tasks
			if got := result(); got != x.want {
				t.Errorf("%q, want %q", got, x.want)
			}
			before.conn.ResumeRead()
			after.conn.ResumeRead()
			l.Iterate()
			if got := result(); got != x.then {
				t.Errorf("at the end %q, want %q", got, x.then)
			}
			if got := string(all[1].out); got != "x;" {
				t.Errorf("the one that did it was sent %q", got)
			}
			if n := l.Counters[meter.BytesIn]; n != 6 {
				t.Errorf("%d bytes were counted, want 6, whatever became of them", n)
			}
		})
	}
}

// TestBatchFailures: what ends one connection of a batch, in its reading, its handler or its writing, ends that one with
// the right reason and no other.
func TestBatchFailures(t *testing.T) {
	for _, x := range []struct {
		what string
		fail func(a *actor)
		do   func(*Context)
		want CloseReason
	}{
		{"the peer's end", func(a *actor) { a.in, a.eof = nil, true }, nil, ClosePeerClosed},
		{"a reset", func(a *actor) { a.in, a.readErr = nil, syscall.ECONNRESET }, nil, CloseIOError},
		{"a panic", nil, func(*Context) { panic("x") }, CloseInternalError},
		{"a close", nil, func(ctx *Context) { ctx.Close(CloseNormal) }, CloseNormal},
		{"a reset in the write", func(a *actor) { a.writeErr = syscall.EPIPE }, nil, CloseIOError},
	} {
		t.Run(x.what, func(t *testing.T) {
			st, l, all := batchStage(t, 5, map[string]func(*Context){"2": x.do})
			l.Log = slog.New(slog.DiscardHandler)
			for i, a := range all {
				a.send(fmt.Sprint(i, ";"))
			}
			if x.fail != nil {
				x.fail(all[2])
			}
			l.Iterate()
			for i, a := range all {
				e, want := a.conn.CloseError(), fmt.Sprint(i, ";")
				switch {
				case i == 2 && (e == nil || e.Reason != x.want || len(a.out) > 0):
					t.Errorf("it was sent %q and ended with %v, want %v", a.out, e, x.want)
				case i != 2 && (e != nil || string(a.out) != want):
					t.Errorf("connection %d was sent %q and ended with %v", i, a.out, e)
				}
			}
			if n := l.Counters[meter.Faults]; n > 0 {
				t.Errorf("%d faults of the engine: %q", n, st.trace)
			}
		})
	}
}

// TestBatchSurvivesGoexit: a handler that ends the goroutine of the loop takes nothing from the others of its batch, whose
// bytes the kernel has given away.
func TestBatchSurvivesGoexit(t *testing.T) {
	for _, at := range []int{0, 2, 4} {
		_, l, all := batchStage(t, 5, map[string]func(*Context){fmt.Sprint(at): func(*Context) { runtime.Goexit() }})
		l.Log = slog.New(slog.DiscardHandler)
		for i, a := range all {
			a.send(fmt.Sprint(i, ";"))
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			l.Iterate()
		}()
		<-over
		all[(at+1)%5].send("more;")
		l.Orphaned()
		l.Iterate()
		l.Iterate()
		for i, a := range all {
			want := fmt.Sprint(i, ";")
			if i == (at+1)%5 {
				want += "more;"
			}
			if i == at {
				want = ""
			}
			if e := a.conn.CloseError(); string(a.out) != want || (e != nil) != (i == at) {
				t.Errorf("handler %d of 5 ended the goroutine: connection %d was sent %q, want %q, and ended with %v", at, i, a.out, want, e)
			}
		}
	}
}

// TestBatchLeftComesFirst: what is left of a batch is handled before a task can make the loop read on.
func TestBatchLeftComesFirst(t *testing.T) {
	_, l, all := batchStage(t, 2, map[string]func(*Context){"exit": func(*Context) { runtime.Goexit() }})
	l.Log = slog.New(slog.DiscardHandler)
	all[0].send("exit;")
	all[1].send("first;")
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.Iterate()
	}()
	<-over
	l.Orphaned()
	all[1].send("second;")
	if err := all[1].conn.Post(func() { l.drainConn(all[1].conn) }); err != nil {
		t.Fatal(err)
	}
	l.Iterate()
	if got := string(all[1].out); got != "first;second;" {
		t.Errorf("sent %q", got)
	}
}

// TestBatchWritesPartly: what the kernel does not take of an answer leaves when there is room, once and in order, also
// when more comes meanwhile.
func TestBatchWritesPartly(t *testing.T) {
	_, l, all := batchStage(t, 3, nil)
	for _, room := range []int{0, 2} {
		for i, a := range all {
			a.out, a.room = nil, 1<<40
			a.send(fmt.Sprint("first", i, ";"))
		}
		all[1].room = room
		l.Iterate()
		if got := all[1].conn.QueuedBytes(); got != int64(7-room) {
			t.Errorf("room for %d bytes: %d are queued", room, got)
		}
		all[1].send("second;")
		l.Iterate()
		all[1].room = 1 << 40
		l.Iterate()
		for i, want := range []string{"first0;", "first1;second;", "first2;"} {
			if got := string(all[i].out); got != want {
				t.Errorf("room for %d bytes: connection %d was sent %q, want %q", room, i, got, want)
			}
		}
		if q := all[1].conn.QueuedBytes(); q != 0 {
			t.Errorf("%d bytes are still counted", q)
		}
	}
}

// TestBatchEndsAfterTheWrites: a handler that is told that its connection is writable again, when the answers of the batch
// are out and not all told yet, may end or feed another one whose answer is out: none is sent twice.
func TestBatchEndsAfterTheWrites(t *testing.T) {
	for _, what := range []string{"end", "write"} {
		var other *actor
		srv := &Server{Loops: 1, Watermarks: Watermarks{Low: 1, High: 4, Max: 1 << 20}, Init: func(p *Pipeline) error {
			p.Add("cut", &cut{})
			return p.Add("app", writableAgain(func(ctx *Context) {
				if other == nil || ctx.conn == other.conn {
					return
				}
				if what == "end" {
					other.conn.closeFlushed(CloseNormal, nil)
					return
				}
				other.conn.enqueueCopy([]byte("+"))
			}))
		}}
		st, l := newStage(t, srv)
		first, second := st.connect(l), st.connect(l)
		other = second
		first.send("1234567;")
		second.send("1;")
		l.Iterate()
		l.Iterate()
		want := map[string]string{"end": "1;", "write": "1;+"}[what]
		if string(first.out) != "1234567;" || string(second.out) != want {
			t.Errorf("%s: sent %q and %q", what, first.out, second.out)
		}
		if e := second.conn.CloseError(); (e != nil) != (what == "end") {
			t.Errorf("%s: ended with %v", what, e)
		}
	}
}

// writableAgain answers each message with itself and calls f when the connection is writable again.
type writableAgain func(ctx *Context)

func (writableAgain) HandleRead(ctx *Context, msg any) error {
	return ctx.Write([]byte(string(msg.(*buf.Bytes).Bytes()) + ";"))
}

func (f writableAgain) HandleWritability(ctx *Context, writable bool) error {
	if writable {
		f(ctx)
	}
	return nil
}

// TestBatchAdapts: slow handlers make the batches smaller at once, down to one connection whose answer leaves before the
// next handler runs; quick ones make them longer again.
func TestBatchAdapts(t *testing.T) {
	cost := time.Duration(0)
	var st *stage
	srv := cutServer(func(ctx *Context, msg string) error {
		st.now.Add(int64(cost))
		return ctx.Write([]byte(msg))
	})
	st, l := newStage(t, srv)
	var all []*actor
	for range batchMax {
		all = append(all, st.connect(l))
	}
	turn := func() int {
		for _, a := range all {
			a.send("m;")
		}
		l.Iterate()
		return l.io.limit
	}
	if got := turn(); got != batchMax {
		t.Errorf("limit %d for handlers that take no time, want %d", got, batchMax)
	}
	cost = batchTime / batchMax * 2
	if got := turn(); got != batchMax/2 {
		t.Errorf("limit %d for handlers that take twice as long as they may, want %d", got, batchMax/2)
	}
	if got := turn(); got != batchMax/2 {
		t.Errorf("limit %d when they go on like that, want %d", got, batchMax/2)
	}
	cost = 10 * time.Millisecond
	if got := turn(); got != 1 {
		t.Errorf("limit %d for handlers of 10 ms, want 1", got)
	}
	st.trace = nil
	turn()
	if got := st.noted("read", "write"); len(got) != 2*batchMax || !strings.HasPrefix(got[0], "read") || !strings.HasPrefix(got[1], "write") {
		t.Errorf("slow handlers: %q, want each answer before the next read", got)
	}
	cost = 0
	st.trace = nil
	if got := turn(); got != batchMax {
		t.Errorf("limit %d after %d quick messages, want %d", got, batchMax, batchMax)
	}
	if got, want := st.runs("read", "write"), []int{1, 2, 4, 8, 1}; !slices.Equal(got, want) {
		t.Errorf("batches of %d as the handlers become quick, want %d", got, want)
	}
}

// TestBatchContainsLatePanics: a handler that panics when it is told of the queue, after the writes, ends its connection
// and no other.
func TestBatchContainsLatePanics(t *testing.T) {
	var bad *actor
	srv := &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Watermarks: Watermarks{Low: 1, High: 4, Max: 1 << 20}, Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		return p.Add("app", writableAgain(func(ctx *Context) {
			if bad != nil && ctx.conn == bad.conn {
				panic("x")
			}
		}))
	}}
	st, l := newStage(t, srv)
	all := []*actor{st.connect(l), st.connect(l), st.connect(l)}
	bad = all[1]
	for _, a := range all {
		a.send("1234567;")
	}
	l.Iterate()
	for i, a := range all {
		if e := a.conn.CloseError(); string(a.out) != "1234567;" || (e != nil) != (a == bad) {
			t.Errorf("connection %d was sent %q and ended with %v", i, a.out, e)
		}
	}
	if n := l.Counters[meter.Faults]; n > 0 {
		t.Errorf("%d faults of the engine", n)
	}
}

// TestBatchLeavesBulkAlone: a connection that sends more than a batch has room for is read on at once, and for itself from
// then on, until it sends little.
func TestBatchLeavesBulkAlone(t *testing.T) {
	_, l, all := batchStage(t, 2, nil)
	big, small := all[0], all[1]
	message := strings.Repeat("m", 3*batchRead) + ";"
	for i, want := range []int{2, 1, 1} { // a read that fills its room in the batch and one of the rest, then one of all
		big.send(message)
		small.send("s;")
		big.reads = 0
		l.Iterate()
		if big.reads != want {
			t.Errorf("turn %d: %d reads, want %d", i, big.reads, want)
		}
	}
	if want := strings.Repeat(message, 3); string(big.out) != want {
		t.Errorf("%d bytes came back, want %d", len(big.out), len(want))
	}
	big.send("little;")
	l.Iterate()
	if big.conn.has(bulk) {
		t.Error("it stays outside although it sends little")
	}
}

// TestBatchShowsLongAnswers: an answer that is long leaves before the next handler runs, so that the bytes queued at a
// time stay few.
func TestBatchShowsLongAnswers(t *testing.T) {
	var l *loop
	most := int64(0)
	srv := cutServer(func(ctx *Context, _ string) error {
		queued := int64(0)
		for c := range l.table.All() {
			queued += c.QueuedBytes()
		}
		most = max(most, queued)
		return ctx.Write(make([]byte, 100_000))
	})
	st, l := newStage(t, srv)
	var all []*actor
	for range 8 {
		all = append(all, st.connect(l))
	}
	for _, a := range all {
		a.send("m;")
	}
	l.Iterate()
	if most > 0 {
		t.Errorf("%d bytes were queued for others when a handler ran", most)
	}
	for i, a := range all {
		if len(a.out) != 100_000 {
			t.Errorf("connection %d was sent %d bytes", i, len(a.out))
		}
	}
}

// TestBatchesNeedRoomInTheBudget: above half of the memory budget connections are read one by one, as are those of a
// budget that is smaller than two batches.
func TestBatchesNeedRoomInTheBudget(t *testing.T) {
	for _, x := range []struct {
		limit int
		held  int64
		want  bool
	}{
		{0, 1 << 40, true}, {1 << 20, 0, true}, {1 << 20, 1<<19 - batchHolds, true}, {1 << 20, 1<<19 - batchHolds + 1, false}, {2*batchHolds - 2, 0, false},
	} {
		srv := cutServer(func(*Context, string) error { return nil })
		srv.MemoryBudget = x.limit
		st, l := newStage(t, srv)
		a := st.connect(l)
		srv.endpoint.budget.held.Store(x.held)
		if got := a.conn.batchable(); got != x.want {
			t.Errorf("%d bytes held, budget %d: batched %v", x.held, x.limit, got)
		}
		srv.endpoint.budget.held.Store(0)
	}
}

// TestBatchPausesForTheBudget: a batch that passes the memory budget stops there. What it has read of the others is handled
// when there is room again.
func TestBatchPausesForTheBudget(t *testing.T) {
	st, l := newStage(t, answering(1_000_000))
	var all []*actor
	for range 10 {
		all = append(all, st.connect(l))
	}
	for _, a := range all {
		a.room = 0
		a.ask(400)
	}
	l.Serve(l.Wait())
	st.expectMemory("after the batch", 3*400_000, 7*401)
	for _, a := range all {
		a.room = 1 << 40
	}
	st.elapse(time.Second)
	for i, a := range all {
		if a.answered() != 400 || a.conn.CloseError() != nil {
			t.Errorf("connection %d got %d kB and ended with %v", i, a.answered(), a.conn.CloseError())
		}
	}
	st.expectMemory("at the end", 0, 0)
}

// TestBatchAllocatesNothing: on the way of a message through a batch.
func TestBatchAllocatesNothing(t *testing.T) {
	l := hotLoop(t, 2*batchMax+1)
	l.Iterate()
	if n := testing.AllocsPerRun(100, func() { l.Iterate() }); n != 0 {
		t.Errorf("%v allocations for %d messages", n, 2*batchMax+1)
	}
}
