package ring

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

func everybody() bool { return true }
func nobody() bool    { return false }

// TestBlocker: a producer that may wait gets the room that becomes free; one that may not is refused at once and did not
// wait; after the timeout there was none.
func TestBlocker(t *testing.T) {
	for name, wait := range map[string]Waiter{
		"spin": Spin(0), "yield": Yield(0), "sleep": Sleep(time.Microsecond, 0), "back-off": BackOff(time.Microsecond, time.Microsecond, time.Millisecond),
		"composite": Compose(Spin(100), Yield(100), Sleep(100*time.Microsecond, 0)),
	} {
		q := must(NewSPSC[int](2))
		b := must(NewBlocker(everybody, wait, time.Minute))
		done := make(chan error, 1)
		go func() {
			for i := range 100 {
				if err := SendBlocking(b, q, i); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		for i := 0; i < 100; {
			if v, ok := q.Recv(); ok {
				if v != i {
					t.Fatalf("%s: got %d, want %d", name, v, i)
				}
				i++
			} else {
				runtime.Gosched()
			}
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// countWaits is a Waiter that counts, and resets.
type countWaits struct{ waits, resets int }

func (c *countWaits) Wait() bool { c.waits++; return false }
func (c *countWaits) Reset()     { c.resets++ }

func TestBlockerRefuses(t *testing.T) {
	q := must(NewSPSC[int](1))
	w := new(countWaits)
	b := must(NewBlocker(nobody, w, time.Minute))
	if err := SendBlocking(b, q, 1); err != nil {
		t.Errorf("into an empty ring: %v", err)
	}
	if err := SendBlocking(b, q, 2); !errors.Is(err, ErrMayNotWait) || w.waits != 0 || q.Len() != 1 {
		t.Errorf("a goroutine that may not wait: %v after %d waits, %d in the ring", err, w.waits, q.Len())
	}
	b = must(NewBlocker(everybody, w, time.Millisecond))
	if err := SendBlocking(b, q, 3); !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "1ms") || w.waits == 0 || w.resets != 1 {
		t.Errorf("no room: %v after %d waits and %d resets", err, w.waits, w.resets)
	}
	if v, ok := q.Recv(); !ok || v != 1 {
		t.Errorf("in the ring is %d, %v", v, ok)
	}
	for _, c := range []struct {
		may     func() bool
		wait    Waiter
		timeout time.Duration
		want    string
	}{
		{nil, w, time.Second, "needs a function that says who may wait"},
		{everybody, nil, time.Second, "and a Waiter"},
		{everybody, w, 0, "timeout of a Blocker is 0s"},
	} {
		if _, err := NewBlocker(c.may, c.wait, c.timeout); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestBlockingAllocatesNothing while there is room.
func TestBlockingAllocatesNothing(t *testing.T) {
	q := must(NewSPSC[[4]int](2))
	b := must(NewBlocker(nobody, Spin(0), time.Second))
	if n := testing.AllocsPerRun(100, func() {
		if err := SendBlocking(b, q, [4]int{1}); err != nil {
			t.Fatal(err)
		}
		q.Recv()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
