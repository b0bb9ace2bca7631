package eddy

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/reactor"
)

// cut is a decoder of messages that end with a semicolon.
type cut struct{ msg buf.Bytes }

func (d *cut) Decode(ctx *Context, view []byte) (int, error) {
	i := bytes.IndexByte(view, ';')
	if i < 0 {
		return 0, nil
	}
	d.msg.Reset(view[:i])
	ctx.FireRead(&d.msg)
	return i + 1, nil
}

// cutServer gives each message to f.
func cutServer(f func(ctx *Context, msg string) error) *Server {
	return &Server{Loops: 1, Logger: slog.New(slog.DiscardHandler), Init: func(p *Pipeline) error {
		p.Add("cut", &cut{})
		return p.Add("app", Handle(func(ctx *Context, m *buf.Bytes) error { return f(ctx, string(m.Bytes())) }))
	}}
}

// TestIterationOrder: one turn of the loop with something to do in each phase does it in the documented order: wait,
// tasks, I/O, connections with frames in hand, deadlines, flush, closes.
func TestIterationOrder(t *testing.T) {
	var st *stage
	var other *actor
	srv := cutServer(func(ctx *Context, msg string) error {
		st.note("handle %s", msg)
		if msg == "io" {
			return other.conn.writeFromTail("x")
		}
		return nil
	})
	st, l := newStage(t, srv)
	ended, resumed, busy := st.connect(l), st.connect(l), st.connect(l)
	other = st.connect(l)
	resumed.send(strings.Repeat("first;", frameBudget) + "rest;")
	l.Serve(l.Wait()) // leaves one frame in hand
	if len(l.lists.ready) != 1 {
		t.Fatalf("%d connections hold frames, want 1", len(l.lists.ready))
	}
	if _, err := busy.conn.after(50*time.Millisecond, func() { st.note("deadline") }); err != nil {
		t.Fatal(err)
	}
	st.now.Add(int64(time.Second))
	ended.eof = true
	busy.send("io;")
	if err := l.Tasks.Push(task{kind: taskFunc, msg: func() { st.note("task") }}); err != nil {
		t.Fatal(err)
	}
	st.trace = nil
	l.Iterate()
	want := []string{"wait", "task", "handle io", "handle rest", "deadline", fmt.Sprint("write ", other.fd), fmt.Sprint("close ", ended.fd)}
	if got := st.noted("wait", "task", "handle", "deadline", "write", "close"); !slices.Equal(got, want) {
		t.Errorf("one iteration did %q, want %q", got, want)
	}
}

// TestConnectionsPerIteration: when very many connections have something to send, or frames in hand, so many as an iteration
// takes events have their turn, in order; the others follow, and what the peers send meanwhile is handled in between.
func TestConnectionsPerIteration(t *testing.T) {
	const most = 3
	var st *stage
	var all []*actor
	srv := cutServer(func(ctx *Context, msg string) error {
		if msg != "" {
			st.note("handle %s", msg)
		}
		if msg == "everybody" {
			for _, a := range all {
				if err := a.conn.writeFromTail("x"); err != nil {
					return err
				}
			}
		}
		return nil
	})
	srv.Loops, srv.Group = 0, &Group{Loops: 1, MaxEvents: most}
	st, l := newStage(t, srv)
	speaker := st.connect(l)
	for range 2*most + 1 {
		all = append(all, st.connect(l))
	}
	expect := func(list string, want ...string) {
		t.Helper()
		l.Iterate()
		if got := st.noted("handle", "write"); !slices.Equal(got, want) {
			t.Errorf("%s: an iteration did %q, want %q", list, got, want)
		}
	}
	write := func(i int) string { return fmt.Sprint("write ", all[i].fd) }
	speaker.send("everybody;")
	st.trace = nil
	expect("to send", "handle everybody", write(0), write(1), write(2))
	speaker.send("meanwhile;")
	expect("to send", "handle meanwhile", write(3), write(4), write(5))
	expect("to send", write(6))
	expect("to send")
	budget := strings.Repeat(";", frameBudget)
	all[0].send(budget + "0;" + budget + "again;") // again behind the others
	for i, a := range all[1:] {
		a.send(budget + fmt.Sprint(i+1) + ";")
	}
	for range 3 { // an event each, up to the phase that resumes
		l.Serve(l.Wait())
	}
	st.noted()
	if len(l.lists.ready) != len(all) {
		t.Fatalf("%d connections hold frames, want %d", len(l.lists.ready), len(all))
	}
	expect("frames in hand", "handle 0", "handle 1", "handle 2")
	speaker.send("meanwhile;")
	expect("frames in hand", "handle meanwhile", "handle 3", "handle 4", "handle 5")
	expect("frames in hand", "handle 6", "handle again")
}

// TestFrameBudget: a connection with many frames in hand gives way after 32, so that others of the same iteration are
// served, and goes on without new bytes.
func TestFrameBudget(t *testing.T) {
	var order []string
	srv := cutServer(func(_ *Context, msg string) error { order = append(order, msg); return nil })
	st, l := newStage(t, srv)
	greedy, modest := st.connect(l), st.connect(l)
	greedy.send(strings.Repeat("greedy;", 3*frameBudget+4))
	modest.send("modest;")
	for i, want := range []int{frameBudget + 1, frameBudget, frameBudget, 4, 0} {
		order = nil
		if i == 0 {
			l.Serve(l.Wait()) // an iteration up to the phase that resumes
		} else {
			l.Iterate()
		}
		if got := len(order); got != want {
			t.Errorf("step %d handled %d frames, want %d", i, got, want)
		}
		if i == 0 && order[len(order)-1] != "modest" {
			t.Error("the other connection was not served in the same iteration")
		}
	}
	if greedy.reads > 2 || len(l.lists.ready) > 0 {
		t.Errorf("%d reads, %d connections still hold frames", greedy.reads, len(l.lists.ready))
	}
}

// TestReadBudget: a peer that sends faster than it is read gets 256 KiB per iteration, and no more than 16 reads.
func TestReadBudget(t *testing.T) {
	handled := 0
	srv := &Server{Loops: 1, Init: func(p *Pipeline) error {
		return p.Add("count", Handle(func(_ *Context, m *buf.Bytes) error { handled += m.Len(); return nil }))
	}}
	st, l := newStage(t, srv)
	flood, modest := st.connect(l), st.connect(l)
	flood.endless = true
	modest.send("x")
	l.Iterate()
	if handled != readByteBudget+1 || flood.reads > readCallBudget || modest.reads == 0 {
		t.Errorf("%d bytes in %d reads, want %d of the flood and the other's one", handled, flood.reads, readByteBudget)
	}
	l.Iterate()
	if handled != 2*readByteBudget+1 {
		t.Errorf("%d bytes after two iterations", handled)
	}
}

// TestWriteBudget: a long queue to a fast reader goes out in 16 calls per iteration, whole and in order.
func TestWriteBudget(t *testing.T) {
	var want []byte
	srv := cutServer(func(ctx *Context, _ string) error {
		var bufs [][]byte
		for i := range 3000 {
			b := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, adoptSize/2)
			bufs = append(bufs, b)
			want = append(want, b...)
		}
		return ctx.Write(bufs)
	})
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send("go;")
	for i := range 5 {
		before := len(a.writes)
		l.Iterate()
		if n := len(a.writes) - before; n > writeCallBudget {
			t.Errorf("iteration %d made %d write calls, budget %d", i, n, writeCallBudget)
		}
	}
	if !bytes.Equal(a.out, want) || a.conn.QueuedBytes() != 0 {
		t.Errorf("%d of %d bytes written, %d queued", len(a.out), len(want), a.conn.QueuedBytes())
	}
}

// TestWaitTimeout: the loop waits until the next deadline, without limit when there is none, and not at all while work
// is pending.
func TestWaitTimeout(t *testing.T) {
	srv := cutServer(func(*Context, string) error { return nil })
	st, l := newStage(t, srv)
	p := st.nextPoller
	a := st.connect(l)
	waited := func() time.Duration {
		l.Iterate()
		return p.timeouts[len(p.timeouts)-1]
	}
	if d := waited(); d >= 0 {
		t.Errorf("nothing scheduled, waited %v", d)
	}
	fired := 0
	if _, err := a.conn.after(50*time.Millisecond, func() { fired++ }); err != nil {
		t.Fatal(err)
	}
	if d := waited(); d != 50*time.Millisecond {
		t.Errorf("a deadline in 50 ms, waited %v", d)
	}
	st.now.Add(int64(20*time.Millisecond + 1))
	if d := waited(); d != 30*time.Millisecond-1 || fired != 0 {
		t.Errorf("a deadline in just under 30 ms, waited %v, fired %d", d, fired)
	}
	st.now.Add(int64(time.Minute))
	if d := waited(); d != 0 || fired != 1 {
		t.Errorf("an overdue deadline, waited %v, fired %d", d, fired)
	}
	for range defaultMinTasks + 1 {
		if err := l.Tasks.Push(task{kind: taskFunc, msg: func() {}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if d := waited(); d != 0 {
			t.Errorf("%d tasks were pending, waited %v", l.Tasks.Depth(), d)
		}
	}
	a.send(strings.Repeat(";", 3*frameBudget+1))
	l.Serve(l.Wait())
	if d := waited(); d != 0 {
		t.Errorf("frames were in hand, waited %v", d)
	}
	for range 3 {
		l.Iterate()
	}
	if d := waited(); d >= 0 {
		t.Errorf("everything done, waited %v", d)
	}
}

// TestWatermarks: exactly at High reads pause, exactly at Low they resume, the count follows the bytes the kernel took,
// and a pause by the application outlives the one by backpressure.
func TestWatermarks(t *testing.T) {
	handled := 0
	srv := cutServer(func(*Context, string) error { handled++; return nil })
	srv.Watermarks = Watermarks{Low: 100, High: 200, Max: 1000}
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.room = 0
	step := func(what string, write, room int, queued int64, writable bool, want int) {
		t.Helper()
		if write > 0 {
			if err := a.conn.writeFromTail(make([]byte, write)); err != nil {
				t.Fatal(err)
			}
		}
		a.room += room
		a.send(";")
		for range 8 { // each reads one message
			l.Iterate()
		}
		if q := a.conn.QueuedBytes(); q != queued {
			t.Errorf("%s: %d bytes queued, want %d", what, q, queued)
		}
		if a.conn.Writable() != writable {
			t.Errorf("%s: writable %v", what, !writable)
		}
		if handled != want {
			t.Errorf("%s: %d messages handled, want %d", what, handled, want)
		}
	}
	step("below High", 199, 0, 199, true, 1)
	step("at High", 1, 0, 200, false, 1)
	step("above Low", 0, 99, 101, false, 1)
	step("at Low", 0, 1, 100, true, 4)
	step("above Low again", 50, 0, 150, true, 5)
	a.conn.PauseRead()
	step("both pauses", 50, 0, 200, false, 5)
	step("drained, the application's pause holds", 0, 200, 0, true, 5)
	a.conn.ResumeRead()
	step("resumed", 0, 0, 0, true, 8)
}

// TestGatheredWrite: what the handlers of one batch queued goes out in one call: small writes joined, large ones by
// reference.
func TestGatheredWrite(t *testing.T) {
	var large [][]byte
	srv := cutServer(func(ctx *Context, msg string) error {
		if msg == "small" {
			return ctx.WriteBytes([]byte("small"))
		}
		b := bytes.Repeat([]byte(msg), adoptSize)
		large = append(large, b)
		return ctx.Write(b)
	})
	st, l := newStage(t, srv)
	a, b := st.connect(l), st.connect(l)
	a.send(strings.Repeat("L;", 10))
	b.send(strings.Repeat("small;", 20))
	waits := len(st.nextPoller.timeouts)
	l.Iterate()
	if !slices.Equal(a.writes, []int{10}) || len(a.out) != 10*adoptSize {
		t.Errorf("10 large writes took calls with %v buffers, %d bytes", a.writes, len(a.out))
	}
	for i := range large {
		if a.first[i] != &large[i][0] {
			t.Errorf("large write %d was copied", i)
		}
	}
	if !slices.Equal(b.writes, []int{1}) || string(b.out) != strings.Repeat("small", 20) {
		t.Errorf("20 small writes took calls with %v buffers: %q", b.writes, b.out)
	}
	if n := len(st.nextPoller.timeouts) - waits; n != 1 {
		t.Errorf("two ready connections took %d waits", n)
	}
}

// TestEmptyWritesAreIgnored: writes of nothing cost nothing and disturb nothing.
func TestEmptyWritesAreIgnored(t *testing.T) {
	srv := cutServer(func(ctx *Context, _ string) error {
		for _, msg := range []any{[]byte{}, []byte(nil), "", [][]byte{}, [][]byte{{}, nil}, new(buf.Bytes)} {
			if err := ctx.Write(msg); err != nil {
				t.Errorf("Write(%T) = %v", msg, err)
			}
		}
		return ctx.WriteBytes(nil)
	})
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.send("go;")
	for range 3 {
		l.Iterate()
	}
	if len(a.writes) != 0 || a.conn.QueuedBytes() != 0 || l.writeInterest != 0 || a.conn.out.Head != nil {
		t.Errorf("%d write calls, %d bytes queued, write interest %d", len(a.writes), a.conn.QueuedBytes(), l.writeInterest)
	}
}

// TestInterestFollowsNeed: a descriptor is registered once, for reading; write interest comes with the first byte that
// does not fit and goes with the last one.
func TestInterestFollowsNeed(t *testing.T) {
	srv := cutServer(func(ctx *Context, msg string) error { return ctx.WriteBytes([]byte(msg)) })
	st, l := newStage(t, srv)
	a := st.connect(l)
	fd := a.fd
	for i, s := range []struct {
		what       string
		send       string
		room       int
		want       []string
		iterations int
	}{
		{"registration", "", 0, []string{fmt.Sprintf("add %d 1", fd)}, 1},
		{"a write that fits", "12345;", 1 << 20, nil, 1},
		{"a write that does not fit", "1234567890;", 4, []string{fmt.Sprintf("modify %d 3", fd)}, 3},
		{"more of it", "", 3, nil, 3},
		{"the rest", "", 3, []string{fmt.Sprintf("modify %d 1", fd)}, 3},
		{"idle", "", 1 << 20, nil, 3},
	} {
		a.room = s.room
		if s.send != "" {
			a.send(s.send)
		}
		if i > 0 {
			for range s.iterations {
				l.Iterate()
			}
		}
		if got := st.noted("add", "modify", "remove"); !slices.Equal(got, s.want) {
			t.Errorf("%s: %q, want %q", s.what, got, s.want)
		}
	}
	if string(a.out) != "123451234567890" {
		t.Errorf("written %q", a.out)
	}
}

// TestSegmentsComeBack: whatever way a connection takes, in the end the loop's pool holds every segment it gave.
func TestSegmentsComeBack(t *testing.T) {
	srv := cutServer(func(ctx *Context, msg string) error {
		if msg == "panic" {
			panic("as asked")
		}
		return ctx.WriteBytes([]byte(msg))
	})
	st, l := newStage(t, srv)
	run := func(what string, play func(a *actor)) {
		t.Helper()
		var got []*buf.Segment
		for _, size := range []int{512, 1024, 2048, 4096, 4096, 8192, 8192} { // make sure the pool holds some
			got = append(got, l.mem.segments.Get(size))
		}
		for _, s := range got {
			l.mem.segments.Put(s)
		}
		before := l.mem.segments.Retained()
		a := st.connect(l)
		play(a)
		for range 3 {
			l.Iterate()
		}
		if a.closed != 1 {
			t.Fatalf("%s: closed %d times", what, a.closed)
		}
		if now := l.mem.segments.Retained(); now != before {
			t.Errorf("%s: the pool held %d bytes, now %d", what, before, now)
		}
	}
	run("full write", func(a *actor) { a.send("hello;"); l.Iterate(); a.eof = true })
	run("partial writes", func(a *actor) {
		a.room = 3
		a.send("hello;world;")
		l.Iterate()
		a.room = 100
		l.Iterate()
		a.eof = true
	})
	run("close before the write", func(a *actor) {
		a.room = 0
		a.send("hello;")
		l.Iterate()
		a.conn.Close(CloseNormal)
	})
	run("close inside a frame", func(a *actor) { a.send("hel"); l.Iterate(); a.eof = true })
	run("panic with a frame behind", func(a *actor) {
		a.send("pa")
		l.Iterate()
		a.send("nic;more")
		l.Iterate()
		a.eof = true
	})
}

// TestFramesInHandWaitForTheBudget: under memory pressure a connection with frames in hand is paused as one that has
// something to read is, and goes on afterwards.
func TestFramesInHandWaitForTheBudget(t *testing.T) {
	got := 0
	srv := cutServer(func(*Context, string) error { got++; return nil })
	srv.MemoryBudget = 1 << 20
	st, l := newStage(t, srv)
	a, stuck := st.connect(l), st.connect(l)
	stuck.room = 0
	a.send(strings.Repeat("m;", 3*frameBudget))
	l.Serve(l.Wait())
	if got != frameBudget || !a.conn.has(listedReady) {
		t.Fatalf("%d messages at once, want %d and the others in hand", got, frameBudget)
	}
	write(t, stuck.conn, make([]byte, 1<<20+1<<10)) // above the limit, below the one at which writes are refused
	stuck.conn.account()
	l.publishMemory()
	if l.memory.pressed == 0 {
		t.Fatal("there is no pressure")
	}
	for range 3 {
		l.Iterate()
	}
	if got != frameBudget || a.conn.paused&pauseBudget == 0 {
		t.Fatalf("%d messages under pressure, want none after the first %d; pauses %b", got, frameBudget, a.conn.paused)
	}
	stuck.room = 1 << 40
	st.pass(l, time.Second, 10*time.Millisecond)
	if got != 3*frameBudget || a.conn.paused != 0 {
		t.Errorf("%d messages after the pressure, want %d; pauses %b", got, 3*frameBudget, a.conn.paused)
	}
}

// TestClosesBeforeTheSecondPoll: the descriptors of the connections that the events of a wait have ended are gone when the
// poller is asked for the second time in an iteration.
func TestClosesBeforeTheSecondPoll(t *testing.T) {
	srv := cutServer(func(ctx *Context, _ string) error { ctx.Close(CloseNormal); return nil })
	srv.Group = &Group{MaxEvents: 2 * reactor.RepollAfter}
	srv.Loops = 0
	st, l := newStage(t, srv)
	var all []*actor
	for range reactor.RepollAfter + 1 {
		all = append(all, st.connect(l))
	}
	st.growEvents(l, all)
	for _, a := range all {
		a.send("bye;")
	}
	var open []int // at each poll
	st.nextPoller.onWait = func() {
		n := 0
		for _, a := range all {
			if a.closed == 0 || st.nextPoller.regs[a.fd] != nil {
				n++
			}
		}
		open = append(open, n)
	}
	l.Serve(l.Wait())
	if !slices.Equal(open, []int{len(all), 0}) {
		t.Errorf("%v descriptors open at the polls, want all %d and none", open, len(all))
	}
}
