package executor

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
)

func TestKeyedOrderAndExactlyOnce(t *testing.T) {
	const producers, keys, each = 4, 37, 3000
	p := newPool(t, Options{Workers: 4, Queue: 32})
	k := NewKeyed[int](p, 20, 200)
	var last [producers][keys]int // plain: per key the tasks must not race
	var ran atomic.Int64
	var all sync.WaitGroup
	for i := range producers {
		all.Go(func() {
			var sent [keys]int
			for n := range each {
				key := n * 7 % keys
				sent[key]++
				v := sent[key]
				task := func() {
					if last[i][key] != v-1 {
						t.Errorf("producer %d key %d: %d after %d", i, key, v, last[i][key])
					}
					last[i][key] = v
					ran.Add(1)
				}
				submit := func() error { return k.Submit(key, task) }
				if n%3 == 0 {
					submit = func() error {
						return k.SubmitAsync(key, func(done func()) { task(); go done() })
					}
				}
				for err := submit(); err != nil; err = submit() {
					if !errors.Is(err, ErrRejected) {
						t.Error(err)
						return
					}
					runtime.Gosched()
				}
			}
		})
	}
	all.Wait()
	testkit.Eventually(t, "all ran", func() bool { return ran.Load() == producers*each && k.Keys() == 0 })
	if k.Len() != 0 {
		t.Errorf("Len %d", k.Len())
	}
}

func TestKeyedLimits(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 2})
	k := NewKeyed[string](p, 2, 5)
	release := occupy(t, p, 1)
	var order []string
	submit := func(key string) error { return k.Submit(key, func() { order = append(order, key) }) }
	for _, c := range []struct{ key, want string }{
		{"a", ""}, {"a", ""}, {"a", "a key is at its limit of 2"},
		{"b", ""}, {"b", ""},
		{"c", "the queue of runners is at its limit of 2"}, // a third turn for a pool with two places
	} {
		err := submit(c.key)
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", c.key, err)
		}
		if c.want != "" && (!errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.key, err, c.want)
		}
	}
	if k.Len() != 4 || k.Keys() != 2 {
		t.Errorf("Len %d, Keys %d", k.Len(), k.Keys())
	}
	release()
	testkit.Eventually(t, "empty", func() bool { return k.Keys() == 0 })
	if !slices.Equal(order, []string{"a", "a", "b", "b"}) || k.Len() != 0 {
		t.Errorf("ran %v, Len %d", order, k.Len())
	}
	if n := len(k.keys); n != 0 {
		t.Errorf("%d keys in memory", n)
	}
}

func TestKeyedTotal(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 100})
	k := NewKeyed[int](p, 0, 5)
	release := occupy(t, p, 1)
	for key := range 5 {
		if err := k.Submit(key, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	for key := range 7 {
		if err := k.Submit(key, func() {}); !errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "limit of 5") {
			t.Errorf("above the total: %v", err)
		}
	}
	if st := p.Stats(); st.Rejected != 7 {
		t.Errorf("stats %+v", st)
	}
	release()
}

// A key that waits for done holds no worker, and its next task waits for it.
func TestKeyedAsync(t *testing.T) {
	p := newPool(t, Options{Workers: 1})
	k := NewKeyed[string](p, 0, 0)
	dones := make(chan func(), 1)
	ran := make(chan string, 10)
	if err := k.SubmitAsync("a", func(done func()) { dones <- done }); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if err := k.Submit(key, func() { ran <- key }); err != nil {
			t.Fatal(err)
		}
	}
	done := testkit.Receive(t, "done", dones)
	if got := testkit.Receive(t, "a run", ran); got != "b" { // on the only worker
		t.Fatalf("%s ran first", got)
	}
	testkit.Eventually(t, "worker free", func() bool { return p.Stats().Running == 0 })
	if k.Keys() != 1 || k.Len() != 1 {
		t.Errorf("Keys %d, Len %d", k.Keys(), k.Len())
	}
	done()
	done()
	if got := testkit.Receive(t, "a run", ran); got != "a" {
		t.Errorf("%s ran", got)
	}
	testkit.Eventually(t, "no key", func() bool { return k.Keys() == 0 })
	done() // long after
	if err := k.Submit("a", func() { ran <- "again" }); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "a run", ran)
}

// Inline done, panics before and after it, and Goexit: the key goes on exactly once.
func TestKeyedAsyncEndings(t *testing.T) {
	p := newPool(t, Options{Workers: 2, OnPanic: func(any, []byte) {}})
	k := NewKeyed[int](p, 0, 0)
	var late func()
	running, ran := 0, 0
	step := func(f func(func())) func(func()) {
		return func(done func()) {
			if running++; running != 1 {
				t.Error("two tasks of a key at once")
			}
			ran++
			running--
			f(done)
		}
	}
	for _, f := range []func(done func()){
		func(done func()) { done() },
		func(done func()) { done(); done() },
		func(done func()) { panic("before done") },
		func(done func()) { done(); panic("after done") },
		func(done func()) { late = done; panic("done comes later") },
		func(done func()) { late(); /* of another task: no effect */ done() },
		func(done func()) { runtime.Goexit() },
		func(done func()) { done(); runtime.Goexit() },
	} {
		if err := k.SubmitAsync(1, step(f)); err != nil {
			t.Fatal(err)
		}
	}
	last := make(chan int, 1)
	if err := k.Submit(1, func() { last <- ran }); err != nil {
		t.Fatal(err)
	}
	if n := testkit.Receive(t, "the last task", last); n != 8 {
		t.Errorf("ran %d of 8", n)
	}
	if st := p.Stats(); st.Panics != 3 {
		t.Errorf("panics %d", st.Panics)
	}
}

// done is called while the pool has no room: the key's turn waits all the same.
func TestKeyedDoneWithAFullPool(t *testing.T) {
	p := newPool(t, Options{Workers: 1, Queue: 1})
	k := NewKeyed[int](p, 0, 0)
	dones := make(chan func(), 1)
	ran := make(chan int, 1)
	if err := k.SubmitAsync(1, func(done func()) { dones <- done }); err != nil {
		t.Fatal(err)
	}
	if err := k.Submit(1, func() { ran <- 1 }); err != nil {
		t.Fatal(err)
	}
	done := testkit.Receive(t, "done", dones)
	release := occupy(t, p, 1)
	if err := p.SubmitFunc(func() {}); err != nil {
		t.Fatal(err)
	}
	done()
	release()
	testkit.Receive(t, "a run", ran)
}

// Shutdown waits for done calls and runs what comes behind them; with its context over
// it does not.
func TestShutdownWaitsForDone(t *testing.T) {
	for _, patient := range []bool{true, false} {
		p := newPool(t, Options{Workers: 1})
		k := NewKeyed[int](p, 0, 0)
		dones := make(chan func(), 1)
		var ran atomic.Int64
		if err := k.SubmitAsync(1, func(done func()) { dones <- done }); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := k.Submit(1, func() { ran.Add(1) }); err != nil {
				t.Fatal(err)
			}
		}
		done := testkit.Receive(t, "done", dones)
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() { _, err := p.Shutdown(ctx); result <- err }()
		testkit.Eventually(t, "draining", p.closed.Load)
		if patient {
			done()
			if err := testkit.Receive(t, "the result", result); err != nil || ran.Load() != 3 || k.Keys() != 0 {
				t.Errorf("err %v, ran %d, keys %d", err, ran.Load(), k.Keys())
			}
			cancel()
			continue
		}
		cancel()
		if err := testkit.Receive(t, "the result", result); !errors.Is(err, context.Canceled) {
			t.Errorf("err %v", err)
		}
		done()
		if ran.Load() != 0 || k.Len() != 3 {
			t.Errorf("ran %d, Len %d", ran.Load(), k.Len())
		}
	}
}

func TestKeyedForgetsManyKeys(t *testing.T) {
	p := newPool(t, Options{Workers: 2, Queue: 5000})
	k := NewKeyed[int](p, 0, 5000)
	release := occupy(t, p, 2)
	for key := range 5000 {
		if err := k.Submit(key, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if k.Keys() != 5000 || k.Len() != 5000 {
		t.Errorf("Keys %d, Len %d", k.Keys(), k.Len())
	}
	release()
	testkit.Eventually(t, "no key", func() bool { return k.Keys() == 0 })
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.spares > maxSpare || k.peak != 0 {
		t.Errorf("%d spare queues, peak %d", k.spares, k.peak)
	}
}

func TestKeyedSubmitAllocatesNothing(t *testing.T) {
	p := newPool(t, Options{Workers: 2})
	k := NewKeyed[int](p, 100, 100)
	f := func() {}
	key := 0
	if n := testing.AllocsPerRun(5000, func() {
		key = (key + 1) % 20
		for k.Submit(key, f) != nil {
			runtime.Gosched()
		}
	}); n != 0 {
		t.Errorf("%v allocations per Submit", n)
	}
}

// TestKeyedStats: tasks are counted where they wait, and refusals by the limit that refused them.
func TestKeyedStats(t *testing.T) {
	for _, c := range []struct {
		name          string
		queue         int // of the pool
		perKey, total int
		keys          string // one task each; all but the last are taken, and the first runs
		want          KeyedStats
	}{
		{"key", 8, 2, 8, "aaaa", KeyedStats{Keys: 1, Waiting: 2, Limit: 8, RejectedKey: 1}},
		{"share", 8, 8, 4, "aaaa", KeyedStats{Keys: 1, Waiting: 2, Limit: 4, RejectedKey: 1}},
		{"total", 8, 8, 3, "aabcd", KeyedStats{Keys: 3, Waiting: 3, Limit: 3, RejectedTotal: 1}},
		{"pool", 1, 8, 8, "aabc", KeyedStats{Keys: 2, Waiting: 2, Limit: 8, RejectedPool: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPool(t, Options{Workers: 1, Queue: c.queue})
			k := NewKeyed[rune](p, c.perKey, c.total)
			gate, started := make(chan struct{}), make(chan struct{})
			for i, key := range c.keys {
				err := k.Submit(key, func() {
					if i == 0 {
						close(started)
					}
					<-gate
				})
				if last := i == len(c.keys)-1; last != errors.Is(err, ErrRejected) || !last && err != nil {
					t.Errorf("task %d: %v", i, err)
				}
				<-started
			}
			if st := k.Stats(); st != c.want {
				t.Errorf("%+v, want %+v", st, c.want)
			}
			close(gate)
			if _, err := p.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			c.want.Keys, c.want.Waiting = 0, 0
			if st := k.Stats(); st != c.want {
				t.Errorf("%+v at the end, want %+v", st, c.want)
			}
		})
	}
}
