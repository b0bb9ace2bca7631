package otel

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/trace"
)

// TestEnds: requests that are over wait for each other, up to a bound, and Flush does not wait.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		e := ends{finish: func(ended) { n.Add(1) }}
		for range 3 {
			e.add(ended{s: new(trace.Summary)})
		}
		if n.Load() > 0 {
			t.Error("a span ended at once")
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if n.Load() != 3 {
			t.Errorf("%d spans ended", n.Load())
		}
		for range maxEnds + 2 {
			e.add(ended{s: new(trace.Summary)})
		}
		e.flush()
		if n.Load() != 3+maxEnds || e.dropped.Load() != 2 {
			t.Errorf("%d spans ended, %d were dropped", n.Load(), e.dropped.Load())
		}
		e.flush()
		e.add(ended{s: new(trace.Summary)})
		<-time.After(time.Minute)
		synctest.Wait()
		if n.Load() != 4+maxEnds {
			t.Errorf("%d spans ended after a flush", n.Load())
		}
	})
}
