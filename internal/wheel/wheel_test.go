package wheel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

func TestFiresNeverEarlyAndAtMostOneTickLate(t *testing.T) {
	w := New(10*time.Millisecond, 3*ms)
	fired := int64(-1)
	now := int64(0)
	w.Schedule(25*ms, 7)
	for now = 3 * ms; now < 60*ms; now += ms {
		w.Advance(now, 10, func(_ Handle, p uint64) {
			if p != 7 {
				t.Fatalf("payload %d", p)
			}
			fired = now
		})
	}
	if fired < 25*ms || fired >= 35*ms {
		t.Fatalf("armed for 25 ms, fired at %v", time.Duration(fired))
	}
}

// model is the naive wheel: a map scanned in full.
type model struct {
	tick, base, now int64
	armed           map[Handle]item
}

type item struct {
	due     int64 // first Advance time at which it must fire
	when    int64
	payload uint64
}

func (m *model) set(h Handle, when int64, payload uint64) {
	due := when
	if when <= m.now {
		due = m.now
	} else if r := (when - m.base) % m.tick; r != 0 {
		due += m.tick - r
	}
	m.armed[h] = item{due, when, payload}
}

func (m *model) any(r *rand.Rand) Handle {
	for h := range m.armed {
		if r.IntN(4) == 0 {
			return h
		}
	}
	return 0
}

// horizon gives deltas from below a tick to weeks.
func horizon(r *rand.Rand) int64 {
	return r.Int64N(int64(1)<<(10+r.IntN(41))) - 1000
}

func TestAgainstModel(t *testing.T) {
	for range 60 {
		seed := rand.Uint64()
		if !agree(t, seed, 4000) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzAgainstModel(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		if !agree(t, seed, 500) {
			t.Fatalf("seed %d", seed)
		}
	})
}

func agree(t *testing.T, seed uint64, ops int) bool {
	r := rand.New(rand.NewPCG(seed, 1))
	ticks := []int64{1, 7, 1000, 10 * ms, 1000 * ms}
	tick := ticks[r.IntN(len(ticks))]
	base := r.Int64N(1 << 40)
	w := New(time.Duration(tick), base)
	w.relinks = 1 + r.IntN(50)
	m := &model{tick: tick, base: base, now: base, armed: map[Handle]item{}}
	payload := uint64(0)
	arm := func(when int64) {
		payload++
		h := w.Schedule(when, payload)
		if _, dup := m.armed[h]; dup || h == 0 {
			t.Errorf("handle %d given twice", h)
		}
		m.set(h, when, payload)
	}
	for range ops {
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			arm(m.now + horizon(r))
		case 4:
			h := m.any(r)
			w.Cancel(h)
			delete(m.armed, h)
		case 5, 6:
			if h := m.any(r); h != 0 {
				when := m.now + horizon(r)
				w.Move(h, when)
				m.set(h, when, m.armed[h].payload)
			}
		default:
			if !advance(t, w, m, r, arm) {
				return false
			}
		}
		if w.Len() != len(m.armed) {
			t.Errorf("Len %d, model %d", w.Len(), len(m.armed))
		}
		if t.Failed() {
			return false
		}
	}
	return true
}

func advance(t *testing.T, w *Wheel, m *model, r *rand.Rand, arm func(int64)) bool {
	now := m.now + horizon(r)
	if next, ok := w.Next(); ok && r.IntN(3) == 0 {
		now = next - int64(r.IntN(2))
		for _, it := range m.armed {
			if it.due < next && next > m.now {
				t.Errorf("Next says %d, an entry is due at %d", next, it.due)
			}
		}
	}
	m.now = max(m.now, now)
	before := len(m.armed)
	limit := r.IntN(before + 2)
	got := 0
	fired := w.Advance(now, limit, func(h Handle, p uint64) {
		got++
		it, ok := m.armed[h]
		if !ok || it.payload != p {
			t.Errorf("fired %d with payload %d, model has %v %v", h, p, it, ok)
			return
		}
		if it.due > m.now {
			t.Errorf("fired at %d before it was due at %d", m.now, it.due)
		}
		delete(m.armed, h)
		if r.IntN(3) == 0 {
			arm(m.now + horizon(r))
		}
		if h := m.any(r); h != 0 && r.IntN(4) == 0 {
			w.Cancel(h)
			delete(m.armed, h)
		}
	})
	if fired != got || fired > limit {
		t.Errorf("returned %d, fired %d, limit %d", fired, got, limit)
	}
	return settle(t, w, m)
}

// settle lets the wheel finish what the limit or the filing budget left, at the same
// time, and checks that nothing due stays armed.
func settle(t *testing.T, w *Wheel, m *model) bool {
	for i := 0; ; i++ {
		next, ok := w.Next()
		if !ok || next > m.now {
			break
		}
		if i > 100000 {
			t.Errorf("no progress: Next %d at %d", next, m.now)
			return false
		}
		w.Advance(m.now, 3, func(h Handle, p uint64) {
			if it := m.armed[h]; it.payload != p || it.due > m.now {
				t.Errorf("fired %d payload %d at %d, model %v", h, p, m.now, it)
			}
			delete(m.armed, h)
		})
	}
	for h, it := range m.armed {
		if it.due <= m.now {
			t.Errorf("entry %d was due at %d, still armed at %d", h, it.due, m.now)
			return false
		}
	}
	return !t.Failed()
}

// collect returns a fire function that appends the payloads to p.
func collect(p *[]uint64) func(Handle, uint64) {
	return func(_ Handle, v uint64) { *p = append(*p, v) }
}

// The cost of a jump depends on the armed entries, not on the ticks passed, which are 10^17 here.
func TestHugeJump(t *testing.T) {
	w := New(1, 0)
	hour := int64(time.Hour)
	for i := range int64(1000) {
		w.Schedule((1000-i)*30*hour, uint64(1000-i))
	}
	var fired []uint64
	if n := w.Advance(30_000*hour, 1<<30, collect(&fired)); n != 1000 || w.Len() != 0 {
		t.Fatalf("fired %d, %d armed", n, w.Len())
	}
	if !slices.IsSorted(fired) {
		t.Error("not in the order of their ticks")
	}
	w.Schedule(math.MaxInt64, 1)
	if n := w.Advance(math.MaxInt64, 10, collect(&fired)); n != 1 {
		t.Errorf("the last time there is fired %d", n)
	}
}

func TestTimeGoingBackwardsIsIgnored(t *testing.T) {
	w := New(10*time.Millisecond, 1000*ms)
	w.Schedule(1100*ms, 1)
	var fired []uint64
	for _, now := range []int64{1090 * ms, 5 * ms, -1, 1099 * ms, 1000 * ms} {
		w.Advance(now, 10, collect(&fired))
	}
	if len(fired) != 0 {
		t.Fatalf("fired %v early", fired)
	}
	w.Schedule(1050*ms, 2) // past, although the last Advance said 1000
	w.Advance(1000*ms, 10, collect(&fired))
	if !slices.Equal(fired, []uint64{2}) {
		t.Errorf("fired %v, want the past one", fired)
	}
	w.Advance(1100*ms, 10, collect(&fired))
	if !slices.Equal(fired, []uint64{2, 1}) {
		t.Errorf("fired %v", fired)
	}
}

func TestLimitLeavesTheRestForTheNextAdvance(t *testing.T) {
	w := New(10*time.Millisecond, 0)
	for i := range 100 {
		w.Schedule(int64(1+i/10)*10*ms, uint64(i/10))
	}
	var fired []uint64
	for round := range 10 {
		if n := w.Advance(100*ms, 10, collect(&fired)); n != 10 {
			t.Fatalf("round %d fired %d", round, n)
		}
		next, ok := w.Next()
		if left := 90 - 10*round; w.Len() != left || ok != (left > 0) || ok && next > 100*ms {
			t.Fatalf("round %d: %d armed, Next %d %v", round, w.Len(), next, ok)
		}
	}
	if !slices.IsSorted(fired) {
		t.Errorf("fired in the order %v", fired)
	}
}

// An entry that fire arms for the past fires in the next Advance, so a handler that re-arms at once cannot keep the
// loop.
func TestRearmingInFireDoesNotSpin(t *testing.T) {
	w := New(10*time.Millisecond, 0)
	w.Schedule(0, 0)
	for round := range uint64(5) {
		n := w.Advance(int64(round)*ms, 1000, func(_ Handle, p uint64) {
			if p != round {
				t.Errorf("payload %d in round %d", p, round)
			}
			w.Schedule(-5, p+1)
		})
		if n != 1 {
			t.Fatalf("round %d fired %d", round, n)
		}
	}
}

// A slot with very many entries is spread over several calls, and nothing is lost or
// early in between.
func TestFullSlotIsSpreadInSteps(t *testing.T) {
	w := New(10*time.Millisecond, 0)
	const n = 3*maxRelinks + 5
	for i := range n {
		w.Schedule(60_000*ms+int64(i%1000)*ms, uint64(i))
	}
	calls, fired := 0, 0
	for w.Len() > 0 {
		next, _ := w.Next()
		calls++
		fired += w.Advance(next, 1<<30, func(_ Handle, p uint64) {
			if when := 60_000*ms + int64(p%1000)*ms; when > next {
				t.Fatalf("fired at %d, armed for %d", next, when)
			}
		})
	}
	if fired != n || calls < 4 {
		t.Errorf("fired %d of %d in %d calls", fired, n, calls)
	}
}

func TestDeadHandles(t *testing.T) {
	w := New(10*time.Millisecond, 0)
	w.Cancel(0)
	fired := w.Schedule(0, 1)
	w.Advance(0, 1, func(Handle, uint64) {})
	canceled := w.Schedule(ms, 1)
	w.Cancel(canceled)
	for _, h := range []Handle{fired, canceled, 1, w.due, 1 << 20} {
		for op, f := range map[string]func(){
			"Cancel": func() { w.Cancel(h) },
			"Move":   func() { w.Move(h, ms) },
		} {
			if msg := panicOf(f); !strings.Contains(msg, "wheel: "+op) {
				t.Errorf("%s of dead handle %d: panic %q", op, h, msg)
			}
		}
	}
	if w.Len() != 0 {
		t.Errorf("Len %d", w.Len())
	}
}

func panicOf(f func()) (msg string) {
	defer func() { msg = fmt.Sprint(recover()) }()
	f()
	return
}

func TestNextOfAnEmptyWheel(t *testing.T) {
	w := New(10*time.Millisecond, 0)
	if _, ok := w.Next(); ok {
		t.Error("Next of an empty wheel")
	}
	h := w.Schedule(25*ms, 1)
	if next, ok := w.Next(); !ok || next != 30*ms {
		t.Errorf("Next %d %v, want 30 ms", next, ok)
	}
	w.Cancel(h)
	if _, ok := w.Next(); ok {
		t.Error("Next after Cancel")
	}
}

func TestNoAllocationAfterWarmUp(t *testing.T) {
	w := New(10*time.Millisecond, 0)
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		h := w.Schedule(now+3000*ms, 1)
		w.Schedule(now+50*ms, 2)
		w.Move(h, now+20*ms)
		w.Cancel(h)
		now += 7 * ms
		w.Advance(now, 100, func(Handle, uint64) {})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWhatIsTakenOutWakesNobody: a cancelled or moved entry leaves no time to wake for, in whatever list it was. An
// entry that shares its slot keeps its time.
func TestWhatIsTakenOutWakesNobody(t *testing.T) {
	const far = int64(1) << 50
	for _, when := range []int64{-5, 30 * ms, 50 * ms, 5_000 * ms, 700_000 * ms} {
		w := New(10*time.Millisecond, 0)
		w.Schedule(far, 1)
		want, _ := w.Next()
		first, second, third := w.Schedule(when, 2), w.Schedule(when, 3), w.Schedule(when, 4)
		soon, _ := w.Next()
		if soon >= want || soon > max(when, 0) {
			t.Fatalf("armed for %d, Next %d", when, soon)
		}
		w.Cancel(second)
		w.Move(first, far)
		if next, ok := w.Next(); !ok || next != soon {
			t.Errorf("armed for %d: Next %d %v with one of three left, want %d", when, next, ok, soon)
		}
		w.Cancel(third)
		if next, ok := w.Next(); !ok || next != want {
			t.Errorf("armed for %d and taken out: Next %d %v, want %d", when, next, ok, want)
		}
		w = New(10*time.Millisecond, 0)
		w.Schedule(far, 1)
		w.Move(w.Schedule(when, 2), far)
		if next, ok := w.Next(); !ok || next != want {
			t.Errorf("armed for %d and moved: Next %d %v, want %d", when, next, ok, want)
		}
	}
}

// TestMovesOfOneCall: a call moves 16,384 entries down a level, not one more, and the next call goes on at once.
func TestMovesOfOneCall(t *testing.T) {
	const most, n = 16_384, 2*16_384 + 1
	w := New(10*time.Millisecond, 0)
	for range n {
		w.Schedule(60_000*ms, 1)
	}
	left := func() (k int) {
		for h := w.slab.at(w.cascade).next; h != w.cascade; h = w.slab.at(h).next {
			k++
		}
		return k
	}
	now, _ := w.Next()
	for _, want := range []int{n - most, n - 2*most, 0} {
		if next, ok := w.Next(); !ok || next > now {
			t.Fatalf("with %d to move Next is %d %v at %d", left(), next, ok, now)
		}
		if fired := w.Advance(now, n, func(Handle, uint64) {}); fired != 0 || left() != want {
			t.Fatalf("%d fired early, %d are still to be moved, want %d", fired, left(), want)
		}
	}
	if next, _ := w.Next(); next <= now {
		t.Errorf("Next is %d at %d with nothing left to move", next, now)
	}
}

// TestTheEndOfTime: a tick that ends beyond the largest time is reported as that time, not as one in the past.
func TestTheEndOfTime(t *testing.T) {
	for _, base := range []int64{0, 3, -1, math.MinInt64, math.MaxInt64 - 5*ms} {
		w := New(10*time.Millisecond, base)
		if when := w.When(w.Schedule(math.MaxInt64, 1)); when != math.MaxInt64 {
			t.Errorf("from %d on: armed for the last time there is, When %d", base, when)
		}
		if next, ok := w.Next(); !ok || next <= base {
			t.Errorf("from %d on: Next %d %v", base, next, ok)
		}
		if fired := w.Advance(math.MaxInt64-1, 1, func(Handle, uint64) {}); fired != 0 {
			t.Errorf("from %d on: fired early", base)
		}
	}
}
