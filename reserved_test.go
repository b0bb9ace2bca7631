package eddy

import (
	"errors"
	"testing"
)

// newReserving makes a stage whose connection has small watermarks and takes no byte of what is queued.
func newReserving(t *testing.T, srv *Server) (*actor, *loop) {
	t.Helper()
	srv.Watermarks = Watermarks{Low: 1 << 10, High: 20 << 10, Max: 40 << 10}
	st, l := newStage(t, srv)
	a := st.connect(l)
	a.room = 0
	return a, l
}

// TestReservedKeepsItsRoom: a message that was counted before is written though others have filled the queue since, and what
// it was granted is of no use to the next message.
func TestReservedKeepsItsRoom(t *testing.T) {
	a, l := newReserving(t, countedServer(nil))
	c := a.conn
	var m Reserved
	m.Init(c, make([]byte, 15<<10))
	if q, n := c.QueuedBytes(), m.Len(); q != 15<<10 || n != 15<<10 {
		t.Errorf("%d bytes count as queued while a message of %d waits", q, n)
	}
	if err := c.writeFromTail(make([]byte, 30<<10)); err != nil {
		t.Fatalf("a message below the high mark: %v", err)
	}
	if err := m.Write(c.head); err != nil {
		t.Fatalf("the reserved message found no room: %v", err)
	}
	if q := c.QueuedBytes(); q != 45<<10 || m.Len() != 0 {
		t.Errorf("%d bytes queued, want both messages; %d are still reserved", q, m.Len())
	}
	if err := c.writeFromTail(make([]byte, 1<<10)); !errors.Is(err, ErrBackpressure) {
		t.Errorf("a message beyond the maximum: %v", err)
	}
	if err := m.Write(c.head); err != nil || c.QueuedBytes() != 45<<10 {
		t.Errorf("without a message: %v, %d bytes queued", err, c.QueuedBytes())
	}
	m.Release()
	if l.inHand.granted != 0 {
		t.Errorf("%d bytes are granted to whoever writes next", l.inHand.granted)
	}
	a.room = 1 << 40
	l.Iterate()
	if len(a.out) != 45<<10 || c.QueuedBytes() != 0 {
		t.Errorf("%d bytes written, %d queued", len(a.out), c.QueuedBytes())
	}
}

// TestReservedPausesReads: reserved bytes above the high watermark make a connection unwritable and pause its reads, until
// they are dropped.
func TestReservedPausesReads(t *testing.T) {
	a, l := newReserving(t, countedServer(nil))
	c := a.conn
	var one, two Reserved
	one.Init(c, make([]byte, 19<<10))
	if l.Iterate(); !c.Writable() {
		t.Fatal("unwritable below the high watermark")
	}
	two.Init(c, make([]byte, 1<<10))
	if l.Iterate(); c.Writable() || !c.readPaused() {
		t.Errorf("at the high watermark: writable %v, reads paused %v", c.Writable(), c.readPaused())
	}
	if int64(c.held.out) != 20<<10 {
		t.Errorf("the memory budget counts %d bytes", c.held.out)
	}
	two.Release()
	one.Release()
	if l.Iterate(); !c.Writable() || c.readPaused() || c.held.out != 0 || c.QueuedBytes() != 0 {
		t.Errorf("nothing is left: writable %v, reads paused %v, %d bytes held, %d queued", c.Writable(), c.readPaused(), c.held.out, c.QueuedBytes())
	}
}

// TestReservedIsKept: a message that a handler keeps leaves nothing behind in the counts, and makes the connection writable
// again.
func TestReservedIsKept(t *testing.T) {
	a, l := newReserving(t, countedServer(func(p *Pipeline) error {
		p.Add("keep", writeFunc(func(*Context, any) error { return nil }))
		return p.Add("app", Handle(func(*Context, struct{}) error { return nil }))
	}))
	c := a.conn
	var m Reserved
	var back Signal
	back.Init(c, func() {})
	write := func() {
		if err := m.Write(c.named("app")); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{30 << 10, 5 << 10} {
		m.Init(c, make([]byte, n))
		if err := back.Raise(); err != nil {
			t.Fatal(err)
		}
		if l.Iterate(); c.Writable() != (n < 20<<10) || c.held.out != uint32(n) {
			t.Errorf("%d bytes reserved: writable %v, %d held", n, c.Writable(), c.held.out)
		}
		if err := c.Post(write); err != nil {
			t.Fatal(err)
		}
		if l.Iterate(); !c.Writable() || c.QueuedBytes() != 0 || c.held.out != 0 {
			t.Errorf("%d bytes written: writable %v, %d bytes queued, %d held", n, c.Writable(), c.QueuedBytes(), c.held.out)
		}
	}
}

// TestReservedCountsForTheBudget: bytes on their way to the loop count for the server's MemoryBudget until the loop has
// them. Those beyond its hard limit, too, are taken and counted.
func TestReservedCountsForTheBudget(t *testing.T) {
	const each = 50_000
	srv := countedServer(nil)
	srv.MemoryBudget = 2 * each
	st, l := newStage(t, srv)
	a := st.connect(l)
	c, b := a.conn, &a.conn.set.owner.budget
	var ms [3]Reserved
	var back Signal
	back.Init(c, func() {
		for i := range ms {
			if err := ms[i].Write(c.head); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 { // what has left is room again
		for i := range ms {
			ms[i].Init(c, make([]byte, each))
		}
		if got := c.cell().pending.Load(); got != 3*each {
			t.Errorf("%d bytes count for the budget on their way to the loop, want %d", got, 3*each)
		}
		if err := back.Raise(); err != nil {
			t.Fatal(err)
		}
		l.Iterate()
		if n := c.cell().pending.Load(); n != 0 {
			t.Fatalf("%d bytes count as on their way when the loop has them", n)
		}
	}
	if err := c.closedError(); err != nil || b.refused.Load() != 0 || len(a.out) != 9*each || c.QueuedBytes() != 0 {
		t.Errorf("%d bytes written, %d queued, closed with %v, %d refused", len(a.out), c.QueuedBytes(), err, b.refused.Load())
	}
}

// TestSignalCountsWhatIsReserved: the loop counts messages that wait for their turn when a Signal has told of them.
func TestSignalCountsWhatIsReserved(t *testing.T) {
	a, l := newReserving(t, countedServer(nil))
	c := a.conn
	var m Reserved
	var back Signal
	back.Init(c, func() {})
	for _, n := range []int{5000, 0} {
		if m.Release(); n > 0 {
			m.Init(c, make([]byte, n))
		}
		if err := back.Raise(); err != nil {
			t.Fatal(err)
		}
		if l.Iterate(); c.held.out != uint32(n) {
			t.Errorf("the memory budget counts %d bytes, want %d", c.held.out, n)
		}
	}
}

// TestReservedAfterTheClose: a message is released exactly once, whatever comes first.
func TestReservedAfterTheClose(t *testing.T) {
	a, l := newReserving(t, countedServer(nil))
	c := a.conn
	message := func() Releaser { return c.Buffers().Copy([]byte("0123456789")) }
	var early, late, dropped Reserved
	early.Init(c, message())
	c.beginClose(CloseNormal, nil)
	l.Iterate()
	late.Init(c, message())
	dropped.Init(c, message())
	for _, m := range []*Reserved{&early, &late} {
		if err := m.Write(c.head); !errors.Is(err, ErrClosed) {
			t.Errorf("Write after the close: %v", err)
		}
	}
	dropped.Release()
	dropped.Release()
	l.Iterate()
	if n, live := c.QueuedBytes(), c.Buffers().Live(); n != 0 || live != 0 {
		t.Errorf("%d bytes count as queued, %d messages live", n, live)
	}
}

// TestWatermarksAreTold: a connection tells the watermarks that hold for it, the defaults included.
func TestWatermarksAreTold(t *testing.T) {
	srv := countedServer(nil)
	srv.Watermarks = Watermarks{High: 2 << 20}
	st, l := newStage(t, srv)
	if w := st.connect(l).conn.Watermarks(); w != (Watermarks{defaultLowWatermark, 2 << 20, defaultMaxOutbound}) {
		t.Errorf("%+v", w)
	}
}

// TestReservedMeetsTheWindow: bytes that are reserved make the connection unwritable at the watermark that holds now, which is
// a part of the default on a new connection.
func TestReservedMeetsTheWindow(t *testing.T) {
	st, l := newStage(t, echoServer())
	c := st.connect(l).conn
	var m Reserved
	m.Init(c, make([]byte, c.high()))
	l.Iterate()
	if !c.shows(unwritable) || c.paused&pauseOutbound == 0 {
		t.Error("the loop has not seen that the connection is above its high watermark")
	}
	m.Release()
	l.Iterate()
	if c.shows(unwritable) || c.paused&pauseOutbound != 0 {
		t.Error("the loop has not seen that the connection is below its low watermark")
	}
}
