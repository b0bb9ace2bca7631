package transport

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-eddy/eddy/buf"
)

// waiter waits for what was queued up to the cell numbered behind.
type waiter struct {
	span      Span
	behind    int
	alone     bool // its bytes lie in one piece
	cancelled bool
	offered   bool
	done      bool
	gone      bool // with its bytes
}

func (w *waiter) Span() *Span { return &w.span }

// file counts how often it was released.
type file struct{ released int }

func (f *file) Release() { f.released++ }

// cell is a byte of the stream, or the place of a file.
type cell struct {
	number int
	b      byte
	of     *piece
}

// piece is what one step has queued.
type piece struct {
	class string
	file  *file
	w     *waiter
}

// rig queues, sends, and cuts, and keeps beside the queue a list of all its cells.
type rig struct {
	t     *testing.T
	pool  *buf.Pool
	q     Queue
	m     Marks[string, *waiter]
	cells []cell
	last  int
	all   []*waiter
}

func newRig(t *testing.T) *rig { return &rig{t: t, pool: buf.NewPool(0)} }

// put queues text as plain bytes, as a message of a class, or as a file, and lets w wait for it unless w is nil.
func (r *rig) put(text, class string, f *file, w *waiter) {
	from := r.m.End()
	p := &piece{class, f, w}
	if f != nil {
		r.q.Push(r.pool.Adopt(nil))
	} else {
		s := r.pool.Get(len(text))
		s.Append([]byte(text))
		r.q.Push(s)
	}
	r.m.Grow(len(text))
	if class != "" || f != nil {
		u := Unit[string, *waiter]{Class: class}
		if f != nil {
			u.File, u.Left = f, 10
		}
		r.m.Add(u, len(text))
	}
	for _, b := range []byte(text) {
		r.last++
		r.cells = append(r.cells, cell{r.last, b, p})
	}
	if w != nil {
		r.wait(w, from, len(text))
	}
}

// wait lets w wait for the end of the queue, whose last n cells are its own.
func (r *rig) wait(w *waiter, from int64, n int) {
	w.alone, w.behind = n > 0 && r.m.InOnePiece(from, n), r.last
	if !w.alone {
		from = r.m.End()
	}
	r.m.Wait(w, from)
	r.all = append(r.all, w)
}

// cut takes the cells of p out of the queue.
func (r *rig) cut(out Span, p *piece) {
	u, n, segments := r.m.Cut(&r.q, out)
	for segments.Head != nil {
		r.pool.Put(segments.Pop())
	}
	if u.Class != p.class || (u.File != nil) != (p.file != nil) || p.file == nil && int64(n) != out.To-out.From {
		r.t.Fatalf("%v is cut: a unit of %q, %d bytes", out, u.Class, n)
	}
	r.cells = slices.DeleteFunc(r.cells, func(c cell) bool { return c.of == p })
	if p.w != nil && !p.w.done {
		r.m.Unwait(p.w)
		p.w.gone = true
	}
}

// leave takes the bytes of a cancelled waiter out.
func (r *rig) leave(w *waiter) bool {
	out := w.span
	if w.offered && out.From < out.To {
		r.t.Fatal("a waiter whose bytes were offered is asked to leave")
	}
	if out.From == out.To || !w.cancelled {
		w.offered = true
		return false
	}
	i := slices.IndexFunc(r.cells, func(c cell) bool { return c.of.w == w })
	r.m.Unwait(w)
	r.cut(out, r.cells[i].of)
	return true
}

// send sends at most n of what one call takes.
func (r *rig) send(n int) {
	r.m.Offer(&r.q, r.leave)
	n = min(n, int(r.q.reach()))
	for left := n; left > 0; {
		s := r.q.Head
		k := min(left, int(extentOf(s)))
		if left -= k; k == int(extentOf(s)) {
			r.pool.Put(r.q.Pop())
		} else {
			s.Consume(k)
		}
	}
	r.cells = r.cells[n:]
	r.m.Pass(n, func(w *waiter) {
		if w.done || w.gone || w.span != (Span{}) {
			r.t.Fatal("a waiter is told twice, or keeps its place")
		}
		w.done = true
	})
}

// check compares the queue and its marks with the cells.
func (r *rig) check(passed bool) {
	r.t.Helper()
	if err := r.m.Check(&r.q); err != nil {
		r.t.Fatal(err)
	}
	var got, want []byte
	for s := r.q.Head; s != nil; s = s.Next {
		if got = append(got, s.Bytes()...); s.Len() == 0 {
			got = append(got, '#')
		}
	}
	bytes := map[string]int{}
	for _, c := range r.cells {
		want = append(want, c.b)
		bytes[c.of.class]++
	}
	if string(got) != string(want) {
		r.t.Fatalf("the queue holds %q, want %q", got, want)
	}
	for _, u := range r.m.Units() {
		if u.Class != "" && r.m.Tally(u.Class).Bytes > bytes[u.Class] {
			r.t.Fatalf("%d bytes of %q are counted, %d wait", r.m.Tally(u.Class).Bytes, u.Class, bytes[u.Class])
		}
	}
	waiting := 0
	for i, w := range r.all {
		over := len(r.cells) == 0 || r.cells[0].number > w.behind
		if w.done && !over || passed && over && !w.done && !w.gone {
			r.t.Fatalf("waiter %d waits up to %d: done %v, the queue begins with %v", i, w.behind, w.done, r.cells[:min(1, len(r.cells))])
		}
		if !w.done && !w.gone {
			waiting++
		}
	}
	if waiting != r.m.Waiting() {
		r.t.Fatalf("%d wait, %d have a place", waiting, r.m.Waiting())
	}
}

// TestMarksAgainstModel: what is sent and cut out of a queue of bytes, messages of classes and files leaves the marks where
// their cells are. Every waiter is told once, when its last byte is gone, unless its bytes left unsent.
func TestMarksAgainstModel(t *testing.T) {
	classes := []string{"a", "b"}
	cuts, left := 0, 0
	for seed := range uint64(500) {
		rnd, r := rand.New(rand.NewPCG(seed, 9)), newRig(t)
		var files []*file
		for range 60 {
			text := "abcdefgh"[:1+rnd.IntN(8)]
			var w *waiter
			if rnd.IntN(2) == 0 {
				w = new(waiter)
			}
			passed := false
			switch rnd.IntN(8) {
			case 0, 1:
				r.put(text, "", nil, w)
			case 2:
				r.put(text, classes[rnd.IntN(2)], nil, w)
			case 3:
				files = append(files, new(file))
				r.put("#", "", files[len(files)-1], w)
			case 4:
				if len(r.cells) > 0 {
					r.wait(new(waiter), 0, 0)
				}
			case 5:
				if units := r.m.Units(); len(units) > 0 {
					at := units[rnd.IntN(len(units))].Span
					r.cut(at, r.cells[at.From-r.m.sent].of)
					cuts++
				}
			case 6:
				for _, w := range r.all {
					w.cancelled = w.cancelled || w.alone && !w.done && rnd.IntN(3) == 0
				}
			default:
				r.send(rnd.IntN(12))
				passed = true
			}
			r.check(passed)
		}
		for len(r.cells) > 0 {
			r.send(5)
		}
		r.send(0)
		r.check(true)
		for _, w := range r.all {
			if w.cancelled && w.gone {
				left++
			}
		}
		if r.m.Waiting() > 0 || len(r.m.Units()) > 0 {
			t.Fatalf("seed %d: an empty queue has %d waiters and %d units", seed, r.m.Waiting(), len(r.m.Units()))
		}
	}
	if cuts == 0 || left == 0 {
		t.Errorf("%d units and %d cancelled writes were cut out", cuts, left)
	}
}

// TestTalliesEndWithTheirMessages: classes of which nothing waits are not remembered, also while other bytes wait.
func TestTalliesEndWithTheirMessages(t *testing.T) {
	r := newRig(t)
	for _, class := range []string{"a", "b", "c", "a"} {
		r.put("xy", class, nil, nil)
	}
	r.put("last", "", nil, nil)
	if a := r.m.Tally("a"); len(r.m.tallies) != 3 || a.Messages != 2 || a.Bytes != 4 {
		t.Errorf("%d classes are counted, %+v of the first", len(r.m.tallies), a)
	}
	r.send(3)
	if a := r.m.Tally("a"); a.Messages != 1 || a.Bytes != 2 {
		t.Errorf("%+v of the first class are counted after its first message", a)
	}
	if r.send(6); len(r.m.tallies) > 0 {
		t.Errorf("%d classes are counted after their messages", len(r.m.tallies))
	}
}

// TestResetMarks: after a count there are no marks, and memory for a few waiters only.
func TestResetMarks(t *testing.T) {
	for _, n := range []int{1, maxIdleWaits + 1} {
		r := newRig(t)
		for range n {
			r.put("x", "", nil, new(waiter))
		}
		r.send(n)
		r.m.Reset()
		if kept := cap(r.m.waits); r.m.Waiting() > 0 || (kept > 0) != (n == 1) || kept > maxIdleWaits || r.m.End() != 0 {
			t.Errorf("%d waiters: %d wait, room for %d is kept, counted to %d", n, r.m.Waiting(), kept, r.m.End())
		}
	}
}

// TestSweep: waiters that are over lose their places, the others keep theirs.
func TestSweep(t *testing.T) {
	r := newRig(t)
	for i := range 4 {
		r.put("x", "", nil, &waiter{cancelled: i%2 == 0})
	}
	r.m.Sweep(func(w *waiter) bool { return w.cancelled })
	for i, w := range r.all {
		w.gone = w.cancelled
		if has := w.span != (Span{}); has == w.cancelled {
			t.Errorf("waiter %d has a place: %v", i, has)
		}
	}
	r.check(true)
}

// TestMarksAreChecked: marks that do not fit the queue are found.
func TestMarksAreChecked(t *testing.T) {
	r := newRig(t)
	r.put("one", "", nil, new(waiter))
	r.put("two", "a", nil, nil)
	r.put("three", "", nil, new(waiter))
	r.send(1)
	r.check(true)
	m := &r.m
	for name, spoil := range map[string]func(){
		"a byte more":                func() { m.queued++ },
		"a byte less":                func() { m.sent++ },
		"offered too little":         func() { m.offered = m.sent - 1 },
		"offered too much":           func() { m.offered = m.queued + 1 },
		"a message in another":       func() { m.units = append(m.units, m.units[0]) },
		"a message behind the end":   func() { m.units[0].To = m.queued + 1 },
		"an empty message":           func() { m.units[0].To = m.units[0].From },
		"a message of no kind":       func() { m.units[0].Class = "" },
		"a waiter that is over":      func() { m.waits[0].span = Span{m.sent - 1, m.sent - 1} },
		"a waiter turned round":      func() { m.waits[0].span.From = m.waits[0].span.To + 1 },
		"a waiter behind the end":    func() { m.waits[1].span.To = m.queued + 1 },
		"waiters in the wrong order": func() { slices.Reverse(m.waits) },
	} {
		was, units, waits := *m, slices.Clone(m.units), slices.Clone(m.waits)
		spans := []Span{waits[0].span, waits[1].span}
		spoil()
		if m.Check(&r.q) == nil {
			t.Errorf("%s is not found", name)
		}
		*m, m.units, m.waits = was, units, waits
		waits[0].span, waits[1].span = spans[0], spans[1]
	}
	r.check(true)
}

// TestInOnePiece: only what was not offered, is nothing that others wait for, and holds no unit beside other bytes can be
// taken out in one piece.
func TestInOnePiece(t *testing.T) {
	r := newRig(t)
	expect := func(what string, from int64, n int, want bool) {
		t.Helper()
		if r.m.InOnePiece(from, n) != want {
			t.Errorf("%s: %v", what, !want)
		}
	}
	r.put("ab", "", nil, nil)
	expect("bytes", 0, 2, true)
	expect("other bytes among them", 0, 1, false)
	r.send(0)
	expect("offered bytes", 0, 2, false)
	r.put("c", "", nil, nil)
	expect("bytes behind what was offered", 2, 1, true)
	r.wait(new(waiter), 2, 1)
	expect("bytes that another waits for", 2, 1, false)
	r.put("d", "a", nil, nil)
	expect("a message", 3, 1, true)
	r.put("e", "", nil, nil)
	expect("a message and more", 3, 2, false)
}
