package buf

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

// reports collects what a detector tells.
type reports struct {
	mu    sync.Mutex
	leaks []Leak
	log   bytes.Buffer
}

func (r *reports) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *reports) add(l Leak) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaks = append(r.leaks, l)
}

func (r *reports) all() ([]Leak, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Leak(nil), r.leaks...), r.log.String()
}

func detector(t *testing.T, level LeakLevel) (*Leaks, *reports) {
	t.Helper()
	r := new(reports)
	l, err := NewLeaks(level, slog.New(slog.NewTextHandler(r, nil)), r.add)
	if err != nil {
		t.Fatal(err)
	}
	return l, r
}

// collect runs the collector until the condition holds.
func collect(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, what, func() bool {
		if !ok() {
			runtime.GC()
		}
		return ok()
	})
}

// settle waits until everything that was dropped so far has been looked at: it drops one more and waits for that.
func settle(t *testing.T, l *Leaks) {
	t.Helper()
	for range 3 { // the runtime runs cleanups on several goroutines
		before := l.Found()
		dropOne(NewSharedPool(0, l))
		collect(t, "the last leak", func() bool { return l.Found() > before })
	}
}

//go:noinline
func dropOne(p *SharedPool) { p.Get(1).Touch("settle") }

//go:noinline
func forget(p *SharedPool, n int) {
	for range n {
		s := p.Copy(make([]byte, 1000))
		s.Retain()
		s.Release() // and once too few
	}
}

func TestLeakLevels(t *testing.T) {
	for _, c := range []struct {
		level    LeakLevel
		n        int
		min, max uint64
	}{
		{LeakSimple, 128 * 50, 25, 100},
		{LeakAdvanced, 128 * 50, 25, 100},
		{LeakParanoid, 100, 100, 100},
	} {
		t.Run(c.level.String(), func(t *testing.T) {
			l, r := detector(t, c.level)
			p := NewSharedPool(0, l)
			forget(p, c.n)
			collect(t, "every report", func() bool { return l.Found() >= c.min })
			if n := l.Found(); n > c.max {
				t.Errorf("%d of %d were watched, want at most %d", n, c.n, c.max)
			}
			collect(t, "the report", func() bool { leaks, _ := r.all(); return len(leaks) > 0 })
			leaks, log := r.all()
			if len(leaks) != 1 || strings.Count(log, "dropped without its release") != 1 {
				t.Fatalf("%d reports for one place:\n%s", len(leaks), log)
			}
			leak := leaks[0]
			if leak.Kind != "shared buffer" || leak.Size != 1000 || !strings.Contains(log, "bytes=1000 level="+c.level.String()) {
				t.Errorf("%+v\n%s", leak, log)
			}
			if c.level == LeakSimple {
				if leak.Origin != "" || leak.Touches != nil || !strings.Contains(log, "level advanced tells where") {
					t.Errorf("%+v\n%s", leak, log)
				}
				return
			}
			if !strings.HasPrefix(leak.Origin, "buf.forget buf/leaks_test.go:") || !strings.Contains(log, "origin=\"buf.forget buf/leaks_test.go:") {
				t.Errorf("allocated by %q\n%s", leak.Origin, log)
			}
			if len(leak.Touches) != 2 || !strings.HasPrefix(leak.Touches[0], "Release by buf.forget ") || !strings.HasPrefix(leak.Touches[1], "Retain by buf.forget ") {
				t.Errorf("touches %q", leak.Touches)
			}
		})
	}
}

// Only the last touches are kept, the latest first.
func TestLeakTouches(t *testing.T) {
	l, r := detector(t, LeakParanoid)
	func() {
		s := NewSharedPool(0, l).Get(10)
		for i := range 7 {
			s.Touch(fmt.Sprint("step ", i))
		}
	}()
	collect(t, "the report", func() bool { leaks, _ := r.all(); return len(leaks) == 1 })
	leaks, _ := r.all()
	var got []string
	for _, s := range leaks[0].Touches {
		what, _, _ := strings.Cut(s, " by ")
		got = append(got, what)
	}
	if want := "step 6,step 5,step 4,step 3"; strings.Join(got, ",") != want {
		t.Errorf("touches %v, want %s", got, want)
	}
}

// A released buffer is never reported, whatever its kind and whichever goroutine releases it.
func TestNoLeakNoReport(t *testing.T) {
	l, r := detector(t, LeakParanoid)
	func() {
		p, home := NewPool(0), NewSharedPool(0, l)
		p.Watch(l)
		for range 200 {
			a, b := p.Get(100), p.Get(2<<20)
			s := home.Copy([]byte("body"))
			c := &Composite{}
			c.AppendShared(s.Retain())
			a.Append([]byte("x"))
			seg := p.AdoptShared(s.Bytes(), s)
			p.Put(a)
			p.Put(b)
			p.Put(seg)
			c.Release()
		}
	}()
	settle(t, l)
	leaks, log := r.all()
	for _, leak := range leaks {
		if leak.Size != 1 {
			t.Errorf("%+v\n%s", leak, log)
		}
	}
}

//go:noinline
func loseSegment(p *Pool) { p.Get(600).Append([]byte("lost")) }

func TestLostSegmentIsReported(t *testing.T) {
	l, r := detector(t, LeakParanoid)
	p := NewPool(0)
	p.Watch(l)
	p.Put(p.Get(600)) // the one that is lost comes from the free list
	loseSegment(p)
	collect(t, "the report", func() bool { leaks, _ := r.all(); return len(leaks) == 1 })
	leaks, _ := r.all()
	leak := leaks[0]
	if leak.Kind != "segment" || leak.Size != 1024 || !strings.HasPrefix(leak.Origin, "buf.loseSegment ") ||
		len(leak.Touches) != 1 || !strings.HasPrefix(leak.Touches[0], "Append by buf.loseSegment ") {
		t.Errorf("%+v", leak)
	}
}

// A lost composite is found by the counted buffers in it.
func TestLostCompositeIsReported(t *testing.T) {
	l, r := detector(t, LeakParanoid)
	func() {
		c := &Composite{}
		c.AppendShared(NewSharedPool(0, l).Get(77))
	}()
	collect(t, "the report", func() bool { leaks, _ := r.all(); return len(leaks) == 1 })
	if leaks, _ := r.all(); leaks[0].Size != 77 {
		t.Errorf("%+v", leaks[0])
	}
}

// The report's memory is bounded: beyond so many places leaks are counted, and that is said once.
func TestLeakSitesAreBounded(t *testing.T) {
	l, r := detector(t, LeakAdvanced)
	for round := range 2 {
		for i := range 3 * maxLeakSites {
			tr := &trace{leaks: l, kind: "segment", history: new(history)}
			tr.history.origin[0] = uintptr(i + 1)
			l.report(tr)
		}
		leaks, log := r.all()
		if len(leaks) != maxLeakSites || len(l.sites) != maxLeakSites || strings.Count(log, "too many places") != 1 {
			t.Errorf("%d reports, %d places kept, log:\n%.500s", len(leaks), len(l.sites), log)
		}
		if n := l.Found(); n != uint64(3*maxLeakSites*(round+1)) {
			t.Errorf("%d counted", n)
		}
	}
}

func TestLeakListenerMayPanic(t *testing.T) {
	r := new(reports)
	l, err := NewLeaks(LeakSimple, slog.New(slog.NewTextHandler(r, nil)), func(Leak) { panic("in the listener") })
	if err != nil {
		t.Fatal(err)
	}
	l.report(&trace{leaks: l, kind: "segment"})
	if _, log := r.all(); !strings.Contains(log, "panic in the leak listener") || !strings.Contains(log, "in the listener") {
		t.Errorf("log %q", log)
	}
}

// TestSampling: one in 128 on average, and no allocation pattern stays unseen.
func TestSampling(t *testing.T) {
	l, _ := detector(t, LeakAdvanced)
	for _, period := range []int{1, 2, 64, 128, 256} {
		var s sampler
		const n = 128 * 20_000
		seen := make([]int, period)
		total := 0
		for i := range n {
			if s.next(l) {
				seen[i%period]++
				total++
			}
		}
		if dev := math.Abs(float64(total)/(n/128) - 1); dev > 0.05 {
			t.Errorf("%d of %d were watched", total, n)
		}
		for i, k := range seen {
			if want := float64(total) / float64(period); float64(k) < want/2 {
				t.Errorf("period %d: allocation %d was watched %d times, want about %.0f", period, i, k, want)
			}
		}
	}
}

func TestLeakLevelNames(t *testing.T) {
	for l := LeakOff; l < leakLevels; l++ {
		if got, err := ParseLeakLevel(l.String()); got != l || err != nil {
			t.Errorf("ParseLeakLevel(%q) = %v, %v", l, got, err)
		}
	}
	if l, err := ParseLeakLevel(""); l != LeakDefault || err != nil {
		t.Errorf(`ParseLeakLevel("") = %v, %v`, l, err)
	}
	for _, bad := range []string{"on", "PARANOID", "leak_level_9"} {
		if _, err := ParseLeakLevel(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("ParseLeakLevel(%q): %v", bad, err)
		}
	}
	if l, err := NewLeaks(9, nil, nil); l != nil || err == nil {
		t.Errorf("NewLeaks(9) = %v, %v", l, err)
	}
	for _, level := range []LeakLevel{LeakDefault, LeakOff} {
		l, err := NewLeaks(level, nil, nil)
		if l != nil || err != nil || l.Level() != LeakOff || l.Found() != 0 {
			t.Errorf("NewLeaks(%v) = %v, %v", level, l, err)
		}
	}
	if l, _ := detector(t, LeakSimple); l.Level() != LeakSimple {
		t.Errorf("level %v", l.Level())
	}
}

// With the origin known, misuse is told with it.
func TestMisuseNamesTheOrigin(t *testing.T) {
	l, _ := detector(t, LeakParanoid)
	s := NewSharedPool(0, l).Get(10)
	s.Release()
	mustPanic(t, "after its final release, allocated by buf.TestMisuseNamesTheOrigin buf/leaks_test.go:", func() { s.Retain() })
	mustPanic(t, "last touched: Release by buf.TestMisuseNamesTheOrigin ", func() { s.Retain() })
}
