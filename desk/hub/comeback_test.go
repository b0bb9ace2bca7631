package hub

import (
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
)

// TestComeback: one refusal does not make the next client wait, a crowd is spread out, no longer than the bound, and forgotten in time.
func TestComeback(t *testing.T) {
	var c comeback
	now := time.Unix(1_700_000_000, 0)
	if got := c.place(now); got != 0 {
		t.Errorf("the first one waits %v", got)
	}
	if got := c.place(now.Add(time.Second)); got != 0 {
		t.Errorf("one after a second waits %v", got)
	}
	now = now.Add(2 * time.Second)
	const crowd = 4000
	var places sync.Map
	var tasks sync.WaitGroup
	for range 4 {
		tasks.Go(func() {
			for range crowd / 4 {
				if _, again := places.LoadOrStore(c.place(now), true); again {
					t.Error("two have one place")
				}
			}
		})
	}
	tasks.Wait()
	if got, want := c.place(now), crowd*comebackEvery; got != want {
		t.Errorf("behind %d others: %v, want %v", crowd, got, want)
	}
	for range 100_000 {
		if got := c.place(now); got > comebackMost {
			t.Fatalf("a place in %v", got)
		}
	}
	if got := c.place(now.Add(comebackMost + time.Second)); got != 0 {
		t.Errorf("when they have gone: %v", got)
	}
}

func TestComebackSpreads(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		e       proto.Error
		retryMS int64
	}{
		{proto.Error{Code: proto.CodeBusy, RetryMS: 500}, 501},
		{proto.Error{Code: proto.CodeUnavailable, RetryMS: 500}, 501},
		{proto.Error{Code: proto.CodeRateLimited, RetryMS: 500}, 500},
		{proto.Error{Code: proto.CodeBusy, RetryMS: 500, Reason: "queue_full"}, 500},
		{proto.Error{Code: proto.CodeConflict}, 0},
	} {
		var crowd comeback
		for range 3 {
			crowd.place(now)
		}
		before := c.e
		if got := crowd.spread(&c.e, now).RetryMS; got != c.retryMS || c.e != before {
			t.Errorf("%+v: retry in %d ms, want %d", before, got, c.retryMS)
		}
	}
}
