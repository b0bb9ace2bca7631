package reactor

import (
	"math"
	"testing"
	"time"
)

// TestLagBuckets: every lag falls into a bucket whose bound is not below it, and at most a quarter (or a microsecond)
// above.
func TestLagBuckets(t *testing.T) {
	last := -1
	for ns := int64(0); ns < int64(60*time.Second); ns = ns*101/100 + 37 {
		b := lagBucket(ns)
		if b < last {
			t.Fatalf("%v is in bucket %d, something shorter in %d", time.Duration(ns), b, last)
		}
		last = b
		limit := int64(lagLimit(b))
		if limit < ns || limit > ns+ns/4+1001 {
			t.Errorf("%v is in a bucket up to %v", time.Duration(ns), time.Duration(limit))
		}
	}
	if lagBucket(math.MaxInt64) != lagBuckets-1 || lagBucket(-1) != 0 {
		t.Error("the ends do not hold")
	}
}

func (r *rig) busy(d time.Duration) {
	r.t.Helper()
	r.submit(1, d, new(int))
	r.Iterate()
}

func (r *rig) asleep(d time.Duration) { r.perWait = d; r.Iterate(); r.perWait = 0 }

// TestLag: the distribution is that of a task which is due every 100 ms: an iteration of 1 s makes ten ticks late by up
// to 900 ms, a sleep makes none late, and after a minute all is forgotten. Nothing wakes the loop for it.
func TestLag(t *testing.T) {
	r := newRig(t, Settings{})
	r.asleep(2 * time.Second) // 20 ticks on time
	if p := r.poller.timeouts; p[len(p)-1] >= 0 {
		t.Errorf("an idle loop waits %v", p[len(p)-1])
	}
	r.busy(time.Second) // 10 late by 900 ms to 0
	r.Iterate()
	lag := r.Lag.Snapshot(r.now)
	if lag.Ticks != 30 {
		t.Errorf("%d ticks in 3 s, want 30", lag.Ticks)
	}
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/4+time.Microsecond }
	if lag.P50 > time.Microsecond || !near(lag.P95, 800*time.Millisecond) || lag.P99 != 900*time.Millisecond || lag.Max != lag.P99 {
		t.Errorf("lag %+v, want p50 0, p95 0.8 s, p99 and max 0.9 s", lag)
	}
	for range 300 { // half a minute of iterations of 1 ms: a tick in each hundredth
		r.busy(time.Millisecond)
		r.asleep(99 * time.Millisecond)
	}
	if lag := r.Lag.Snapshot(r.now); lag.Max != 900*time.Millisecond {
		t.Errorf("the window before is forgotten already: %+v", lag)
	}
	for range 600 {
		r.busy(time.Millisecond)
		r.asleep(99 * time.Millisecond)
	}
	if lag := r.Lag.Snapshot(r.now); lag.Max > 2*time.Millisecond || lag.Ticks < 290 || lag.Ticks > 610 {
		t.Errorf("after another minute: %+v", lag)
	}
	r.now += int64(time.Hour) // without any iteration
	if lag := r.Lag.Snapshot(r.now); lag != (Lag{}) {
		t.Errorf("after an hour: %+v", lag)
	}
	r.asleep(0)
	r.busy(10 * time.Minute) // not tick by tick
	r.Iterate()
	if lag := r.Lag.Snapshot(r.now); lag.Max < 9*time.Minute {
		t.Errorf("after a stall of 10 minutes: %+v", lag)
	}
}

// TestLagOfDeadlines: what the system adds to the wait for a deadline counts as lag.
func TestLagOfDeadlines(t *testing.T) {
	r := newRig(t, Settings{})
	for range 10 {
		r.after(150*time.Millisecond, func() {})
		r.asleep(170 * time.Millisecond)
	}
	lag := r.Lag.Snapshot(r.now)
	if lag.Max != 20*time.Millisecond || lag.P99 != 20*time.Millisecond || lag.P50 > time.Microsecond {
		t.Errorf("wakeups 20 ms late: %+v", lag)
	}
}

// TestUtilisation is the busy share of the last second.
func TestUtilisation(t *testing.T) {
	r := newRig(t, Settings{})
	run := func(busy, asleep time.Duration, n int) {
		for range n {
			r.busy(busy)
			r.asleep(asleep)
		}
	}
	about := func(want float64) {
		t.Helper()
		if got := r.Lag.Utilisation(r.now); math.Abs(got-want) > 0.02 {
			t.Errorf("utilisation %v, want %v", got, want)
		}
	}
	run(3*time.Millisecond, 7*time.Millisecond, 300)
	about(0.3)
	run(9*time.Millisecond, time.Millisecond, 300)
	about(0.9)
	if b := r.Lag.Busy(); b < 3500*time.Millisecond || b > 3700*time.Millisecond {
		t.Errorf("busy for %v in all, want 3.6 s", b)
	}
	r.now += int64(100 * time.Second) // asleep: no iteration says so
	if got := r.Lag.Utilisation(r.now); got > 0.02 {
		t.Errorf("utilisation %v of a loop that sleeps", got)
	}
}
