package eddy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// TestCutAgainstModel: what is cut out of a queue of own and adopted segments and files is gone, and nothing else; segments
// that nothing is left of are handed back.
func TestCutAgainstModel(t *testing.T) {
	const file = '#' // in the model, the place of a file
	pool := buf.NewPool(0)
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		var q outQueue
		var model []byte
		whole := map[int]bool{0: true} // offsets at which a cut may begin and end
		for range rnd.IntN(8) {
			text := []byte(strings.Repeat(string(rune('a'+rnd.IntN(26))), 1+rnd.IntN(5)))
			switch rnd.IntN(3) {
			case 0:
				q.push(pool.Adopt(nil))
				text = []byte{file}
			case 1:
				q.push(pool.Adopt(slices.Clone(text)))
			default:
				s := pool.Get(len(text))
				s.Append(text)
				q.push(s)
				for i := range text {
					whole[len(model)+i] = true
				}
			}
			model = append(model, text...)
			whole[len(model)] = true
		}
		if n := q.extent(); n != int64(len(model)) {
			t.Fatalf("seed %d: %q has the length %d", seed, model, n)
		}
		places := slices.Sorted(func(yield func(int) bool) {
			for at := range whole {
				if !yield(at) {
					return
				}
			}
		})
		i := rnd.IntN(len(places))
		from := places[i]
		to := places[i+rnd.IntN(len(places)-i)]
		bytes, out := q.cut(int64(from), int64(to-from))
		if want := to - from - strings.Count(string(model[from:to]), string(file)); bytes != want {
			t.Fatalf("seed %d: %d bytes cut out of %q[%d:%d], want %d", seed, bytes, model, from, to, want)
		}
		var got []byte
		last := q.head
		for s := q.head; s != nil; s = s.Next {
			if got = append(got, s.Bytes()...); s.Len() == 0 {
				got = append(got, file)
			}
			last = s
		}
		if want := slices.Delete(slices.Clone(model), from, to); !slices.Equal(got, want) || last != q.tail {
			t.Fatalf("seed %d: %q[%d:%d] is cut and leaves %q", seed, model, from, to, got)
		}
		for out.head != nil {
			pool.Put(out.pop())
		}
		if out.tail != nil {
			t.Fatalf("seed %d: the list of what is left over has no head and a tail", seed)
		}
	}
}

// TestMovedOffsets: what was before a stretch that has left moves up to its end, and what is behind it stays.
func TestMovedOffsets(t *testing.T) {
	out := mark{10, 14}
	for at, want := range map[int64]int64{3: 7, 10: 14, 11: 14, 14: 14, 15: 15, 40: 40} {
		if got := out.moved(at); got != want {
			t.Errorf("the offset %d becomes %d, want %d", at, got, want)
		}
	}
}

// TestReach: a call takes one file, or bytes up to a file, of as many segments as one call gathers.
func TestReach(t *testing.T) {
	pool := buf.NewPool(0)
	var q outQueue
	expect := func(what string, want int64) {
		t.Helper()
		if n := q.reach(); n != want {
			t.Errorf("%s: a call takes %d, want %d", what, n, want)
		}
	}
	expect("empty", 0)
	for range maxGather + 1 {
		q.push(pool.Adopt([]byte("ab")))
	}
	expect("many segments", 2*maxGather)
	for range maxGather - 3 {
		pool.Put(q.pop())
	}
	q.push(pool.Adopt(nil))
	q.push(pool.Adopt([]byte("behind")))
	expect("before a file", 8)
	for range 4 {
		pool.Put(q.pop())
	}
	expect("a file", 1)
}

// TestMarkBehindAnothersMessage: the future of a message during whose handling another one was queued, which then leaves the
// queue, does not wait for it.
func TestMarkBehindAnothersMessage(t *testing.T) {
	k := &MessageClass{Name: "full", Policy: OverflowKeepLatest, MaxMessages: 1}
	long := strings.Repeat("x", 1500)
	for name, c := range map[string]struct {
		leave func(l *loop, a *actor)
		want  string
	}{
		"superseded": {func(l *loop, a *actor) { submit(t, l, a, k.Wrap("[new]")) }, "first" + long + "[new]"},
		"dropped, last of all": {func(l *loop, a *actor) {
			a.room = len("irst" + long)
			l.Iterate()
			if !a.conn.dropOldest(k, ErrBackpressure) || a.conn.out.head != nil {
				t.Error("a message that the kernel took nothing of cannot be dropped")
			}
			a.conn.flush()
		}, "first" + long},
	} {
		srv := countedServer(func(p *Pipeline) error {
			return p.Add("marks", writabilityFunc(func(ctx *Context, w bool) error {
				if !w {
					return ctx.Write(k.Wrap("[full]"))
				}
				return nil
			}))
		})
		srv.Watermarks = Watermarks{Low: 100, High: 1000, Max: 10_000}
		_, l, a := blocked(t, srv)
		f := a.conn.WriteFuture(long)
		l.Iterate()
		c.leave(l, a)
		if got := a.drain(t, l); got != c.want || f.State() != FutureSucceeded {
			t.Errorf("%s: the future is %v, sent %d bytes, want %d", name, f.State(), len(got), len(c.want))
		}
	}
}

// TestCancelBehindWhatIsOffered: a write beyond what one call takes can be cancelled, also when it comes after a file.
func TestCancelBehindWhatIsOffered(t *testing.T) {
	file, data := tempFile(t, 3000)
	spare, _ := tempFile(t, 10)
	_, l, a := blocked(t, echoServer())
	before := a.conn.WriteFuture("before")
	submit(t, l, a, &File{File: file, Length: 3000})
	behind := a.conn.WriteFuture("behind")
	l.Iterate()
	a.room = 1
	l.Iterate() // offers everything before the file
	if before.Cancel() || !behind.Cancel() {
		t.Errorf("the one before is %v, the one behind %v", before.State(), behind.State())
	}
	last := a.conn.WriteFuture(&File{File: spare, Length: 10})
	l.Iterate()
	if !last.Cancel() {
		t.Error("a file that was not offered cannot be cancelled")
	}
	if l.Iterate(); !isClosed(spare) {
		t.Error("the file of a cancelled write is open")
	}
	if got := a.drain(t, l); got != "firstbefore"+string(data) {
		t.Errorf("sent %d bytes", len(got))
	}
}

// TestSupersededInsideAFuture: a message that takes the place of the only marked one, in the handling of a future, can be
// cancelled.
func TestSupersededInsideAFuture(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	k := &MessageClass{Policy: OverflowKeepLatest, MaxMessages: 1}
	submit(t, l, a, k.Wrap("[old]"))
	f := a.conn.WriteFuture(k.Wrap("[new]"))
	l.Iterate()
	if q := a.conn.QueuedBytes(); q != int64(len("irst[new]")) || !f.Cancel() {
		t.Errorf("%d bytes queued; the future is %v", q, f.State())
	}
	if got := a.drain(t, l); got != "first" {
		t.Errorf("sent %q", got)
	}
}

// TestCancelSparesOthers: the future of a message in whose handling a handler has also ended another's hold cannot be
// cancelled, because the other's bytes would go with it.
func TestCancelSparesOthers(t *testing.T) {
	var hold *FutureHold
	k := &MessageClass{Policy: OverflowKeepLatest}
	st, l := newStage(t, encodedBy(func(ctx *Context, msg any) error {
		if msg == "held" {
			hold = ctx.HoldFuture()
			return nil
		}
		if hold != nil {
			if err := hold.Write(func() error { return ctx.Write("held,") }); err != nil {
				return err
			}
		}
		return ctx.Write(msg)
	}))
	a := st.connect(l)
	a.room = 1
	submit(t, l, a, "first")
	held := a.conn.WriteFuture("held")
	l.Iterate()
	f := a.conn.WriteFuture(k.Wrap("second"))
	l.Iterate()
	if f.Cancel() {
		t.Errorf("cancelled; the held one is %v, %v", held.State(), held.Err())
	}
	if got := a.drain(t, l); got != "firstheld,second" || held.State() != FutureSucceeded || f.State() != FutureSucceeded {
		t.Errorf("sent %q; the held one is %v, the other one %v", got, held.State(), f.State())
	}
}

// TestNoCancelOfWhatWasOffered: what was offered to the kernel cannot be cancelled, also when that was in the middle of the
// handling, or by the call that takes a cancelled message before it out of the way. What was sent there has succeeded.
func TestNoCancelOfWhatWasOffered(t *testing.T) {
	st, l := newStage(t, encodedBy(func(ctx *Context, msg any) error {
		if err := ctx.Write(msg); err != nil {
			return err
		}
		ctx.FireError(errEncoder) // closes the connection in order
		return nil
	}))
	a := st.connect(l)
	f := a.conn.WriteFuture("whole")
	if l.Iterate(); string(a.out) != "whole" || f.State() != FutureSucceeded {
		t.Errorf("%q was sent; the future is %v, %v", a.out, f.State(), f.Err())
	}
	a = st.connect(l)
	a.room = 2
	f = a.conn.WriteFuture("message")
	if l.Iterate(); string(a.out) != "me" || f.Cancel() {
		t.Errorf("%q was sent; the future is %v", a.out, f.State())
	}
	if got := a.drain(t, l); got != "message" || f.State() != FutureSucceeded {
		t.Errorf("sent %q, the future is %v", got, f.State())
	}

	_, l, a = blocked(t, echoServer())
	a.room = len("irst")
	l.Iterate()
	parts := make([][]byte, maxGather)
	for i := range parts {
		parts[i] = make([]byte, adoptSize)
	}
	many, behind := a.conn.head.WriteFuture(parts), a.conn.head.WriteFuture("behind")
	if !many.Cancel() {
		t.Fatal("what was not offered cannot be cancelled")
	}
	a.conn.flush()
	if behind.Cancel() {
		t.Error("what was offered was cancelled")
	}
	if got := a.drain(t, l); got != "firstbehind" {
		t.Errorf("sent %d bytes", len(got))
	}
}

// TestNoCancelAroundAUnit: a message that a handler has made other bytes and a file of cannot be cancelled.
func TestNoCancelAroundAUnit(t *testing.T) {
	file, data := tempFile(t, 100)
	st, l := newStage(t, encodedBy(severalWrites))
	a := st.connect(l)
	a.room = 1
	submit(t, l, a, "first")
	f := a.conn.WriteFuture(&File{File: file, Length: 100})
	if l.Iterate(); f.Cancel() {
		t.Errorf("the future is %v", f.State())
	}
	if got := a.drain(t, l); got != "<first><"+string(data)+">" || f.State() != FutureSucceeded {
		t.Errorf("sent %d bytes, the future is %v", len(got), f.State())
	}
}

// TestTalliesEndWithTheirMessages: classes of which nothing waits are not remembered, also while other bytes wait.
func TestTalliesEndWithTheirMessages(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	c := a.conn
	for range 3 {
		submit(t, l, a, new(MessageClass).Wrap("x"))
	}
	submit(t, l, a, "last")
	if n := len(c.outMarks().tallies); n != 3 {
		t.Errorf("%d classes are counted, want 3", n)
	}
	a.room = len("irstxxx")
	if l.Iterate(); len(c.outMarks().tallies) > 0 {
		t.Errorf("%d classes are counted after their messages", len(c.outMarks().tallies))
	}
	a.drain(t, l)
}

// TestMarksOfIdleQueues: a queue that is empty has no marks, and keeps memory for a few futures only.
func TestMarksOfIdleQueues(t *testing.T) {
	for _, n := range []int{1, maxIdleWaits + 1} {
		_, l, a := blocked(t, echoServer())
		for range n {
			a.conn.WriteFuture("x")
		}
		for range 2 {
			l.Iterate()
		}
		a.drain(t, l)
		m := a.conn.ext.Load().marks
		if kept := cap(m.waits); len(m.waits) > 0 || (kept > 0) != (n == 1) || kept > maxIdleWaits || m.queued != 0 {
			t.Errorf("%d futures: %d wait, room for %d is kept, counted to %d", n, len(m.waits), kept, m.queued)
		}
	}
}

// TestMarksAreInspected: marks that do not fit the queue are found.
func TestMarksAreInspected(t *testing.T) {
	_, l, a := blocked(t, echoServer())
	c := a.conn
	f := c.WriteFuture("one")
	submit(t, l, a, new(MessageClass).Wrap("two"))
	c.WriteFuture("three")
	l.Iterate()
	m := c.outMarks()
	if err := c.checkMarks(m); err != nil || len(m.waits) != 2 || len(m.units) != 1 {
		t.Fatalf("%v, %d futures, %d messages", err, len(m.waits), len(m.units))
	}
	for name, spoil := range map[string]func(){
		"a byte more":                func() { m.queued++ },
		"a byte less":                func() { m.sent++ },
		"offered too little":         func() { m.offered = m.sent - 1 },
		"offered too much":           func() { m.offered = m.queued + 1 },
		"a message in another":       func() { m.units = append(m.units, m.units[0]) },
		"a message behind the end":   func() { m.units[0].to = m.queued + 1 },
		"an empty message":           func() { m.units[0].to = m.units[0].from },
		"a message of no kind":       func() { m.units[0].class = nil },
		"a future that is over":      func() { m.waits[0].mark = mark{m.sent, m.sent} },
		"a future turned round":      func() { m.waits[0].mark.from = m.waits[0].mark.to + 1 },
		"a future behind the end":    func() { m.waits[1].mark.to = m.queued + 1 },
		"futures in the wrong order": func() { slices.Reverse(m.waits) },
		"marks without a count":      func() { c.clear(marked) },
	} {
		was, units, waits := *m, slices.Clone(m.units), slices.Clone(m.waits)
		marks := []mark{waits[0].mark, waits[1].mark}
		spoil()
		if c.checkMarks(m) == nil {
			t.Errorf("%s is not found", name)
		}
		*m, m.units, m.waits = was, units, waits
		waits[0].mark, waits[1].mark = marks[0], marks[1]
		c.raise(marked)
	}
	if got := a.drain(t, l); got != "firstonetwothree" || f.State() != FutureSucceeded {
		t.Errorf("sent %q, %v", got, f.State())
	}
}
