package reactor

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// lagTick is the period of the tick by which a loop's lag is measured.
	lagTick = int64(100 * time.Millisecond)
	// lagWindow is how long a histogram of lags is filled. The numbers cover the current window and the one before.
	lagWindow = int64(30 * time.Second)
	// loadWindow is the interval over which utilisation is taken.
	loadWindow = int64(time.Second)
)

// Lag says how late a loop does what is due: the distribution over the last 30 to 60 seconds. A tick that is due every
// 100 ms stands for a task that notes how late it runs. A tick that falls into an iteration waits for the end of it, and one
// that falls into the loop's sleep does not wait. Nothing wakes an idle loop for its ticks; those of a sleep are counted when
// the sleep is over. Also counted, at most once per tick, is how late the system let the loop wake for a deadline.
type Lag struct {
	Ticks         uint64
	P50, P95, P99 time.Duration // at most a quarter too high
	Max           time.Duration
}

// LagMeter measures one loop's lag and utilisation. The loop writes, any goroutine reads.
type LagMeter struct {
	next     int64 // the next tick
	nextLate int64 // when the next late wake may be counted
	windows  [2]lagHistogram
	current  atomic.Int32

	busy     int64 // total, by the loop
	markTime atomic.Int64
	markBusy atomic.Int64
	total    atomic.Int64 // busy
	load     atomic.Int64 // of the last complete interval, in millionths
}

func (m *LagMeter) start(now int64) {
	m.next = now + lagTick
	m.windows[0].begin.Store(now)
	m.markTime.Store(now)
}

// ran follows an iteration.
func (m *LagMeter) ran(from, to int64) {
	m.busy += to - from
	m.total.Store(m.busy)
	if to >= m.next {
		m.tick(to)
	}
	if since := to - m.markTime.Load(); since >= loadWindow {
		m.load.Store((m.busy - m.markBusy.Load()) * 1e6 / since)
		m.markBusy.Store(m.busy)
		m.markTime.Store(to)
	}
}

// tick notes how late the ticks of an iteration are, which ended at now.
func (m *LagMeter) tick(now int64) {
	h := m.window(now)
	for range 1024 { // a stall of minutes need not be told tick by tick
		h.add(now-m.next, 1)
		if m.next += lagTick; m.next > now {
			return
		}
	}
	m.skip(now)
}

// idle counts the ticks that fell into a sleep which is over now.
func (m *LagMeter) idle(now int64) {
	if now >= m.next {
		m.window(now).add(0, uint64(m.skip(now)))
	}
}

// skip moves on to the first tick after now and returns how many ticks that left out.
func (m *LagMeter) skip(now int64) int64 {
	n := (now-m.next)/lagTick + 1
	m.next += n * lagTick
	return n
}

// Busy returns how long the loop has been running. Any goroutine.
func (m *LagMeter) Busy() time.Duration { return time.Duration(m.total.Load()) }

// late notes that the loop woke late for a deadline.
func (m *LagMeter) late(now, by int64) {
	if now >= m.nextLate {
		m.nextLate = now + lagTick
		m.window(now).add(by, 1)
	}
}

// window returns the histogram for the present.
func (m *LagMeter) window(now int64) *lagHistogram {
	i := m.current.Load()
	if now-m.windows[i].begin.Load() < lagWindow {
		return &m.windows[i]
	}
	i = 1 - i
	m.windows[i].reset(now)
	m.current.Store(i)
	return &m.windows[i]
}

// Snapshot returns the distribution as of now. Any goroutine.
func (m *LagMeter) Snapshot(now int64) Lag {
	var counts [lagBuckets]uint64
	var s Lag
	for i := range m.windows {
		h := &m.windows[i]
		if begin := h.begin.Load(); begin == 0 || now-begin >= 2*lagWindow {
			continue
		}
		for b := range counts {
			n := h.counts[b].Load()
			counts[b] += n
			s.Ticks += n
		}
		s.Max = max(s.Max, time.Duration(h.max.Load()))
	}
	s.P50 = min(s.Max, lagQuantile(&counts, s.Ticks, 50))
	s.P95 = min(s.Max, lagQuantile(&counts, s.Ticks, 95))
	s.P99 = min(s.Max, lagQuantile(&counts, s.Ticks, 99))
	return s
}

// Utilisation is the busy share of the last complete second, or of the time since, if that is longer. Any goroutine.
func (m *LagMeter) Utilisation(now int64) float64 {
	mark, busy := m.markTime.Load(), m.markBusy.Load()
	if since := now - mark; since > loadWindow {
		return min(1, float64(m.total.Load()-busy)/float64(since))
	}
	return min(1, float64(m.load.Load())/1e6)
}

// The buckets of a lagHistogram: four per power of two microseconds, up to 67 s and beyond.
const (
	lagFirst   = 4 // buckets of one microsecond each
	lagOctaves = 24
	lagBuckets = lagFirst + 4*lagOctaves
)

type lagHistogram struct {
	begin  atomic.Int64
	max    atomic.Int64
	counts [lagBuckets]atomic.Uint64
}

func (h *lagHistogram) add(ns int64, n uint64) {
	h.counts[lagBucket(ns)].Add(n)
	if ns > h.max.Load() {
		h.max.Store(ns)
	}
}

func (h *lagHistogram) reset(now int64) {
	for i := range h.counts {
		h.counts[i].Store(0)
	}
	h.max.Store(0)
	h.begin.Store(now)
}

func lagBucket(ns int64) int {
	us := uint64(max(ns, 0)) / 1000
	if us < lagFirst {
		return int(us)
	}
	octave := bits.Len64(us) - 3
	return min(lagFirst+4*octave+int(us>>octave)-4, lagBuckets-1)
}

// lagLimit is the upper bound of a bucket.
func lagLimit(b int) time.Duration {
	if b < lagFirst {
		return time.Duration(b+1) * time.Microsecond
	}
	octave, quarter := (b-lagFirst)/4, (b-lagFirst)%4
	return time.Duration(quarter+5) << octave * time.Microsecond
}

// lagQuantile returns the bound of the bucket in which the given percentage of the total is reached.
func lagQuantile(counts *[lagBuckets]uint64, total uint64, percent uint64) time.Duration {
	need := (total*percent + 99) / 100
	var sum uint64
	for b, n := range counts {
		if sum += n; n > 0 && sum >= need {
			return lagLimit(b)
		}
	}
	return 0
}

// account ends the accounts of an iteration: its I/O time, the loop's lag and utilisation, and whether it was a stall.
func (l *Loop[T]) account(end int64) {
	begin := l.Now
	l.budget.measure(end)
	l.Lag.ran(begin, end)
	if l.Set.Stall > 0 && end-begin >= int64(l.Set.Stall) && l.Vitals.noteStall(begin) {
		l.Log.Warn("eddy: a loop was stalled", "loop", l.Name, "for", time.Duration(end-begin))
	}
}
