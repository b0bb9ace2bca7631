package otel

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/trace"
)

const (
	// gatherTime is how long a request that is over waits for others, so that a few wake-ups serve all.
	gatherTime = 200 * time.Millisecond
	// maxEnds bounds the requests that wait so.
	maxEnds = 8192
)

// ends are requests that are over and whose spans have not ended yet. They end on a goroutine of their own, because what the
// library does then may block.
type ends struct {
	finish  func(ended)
	dropped atomic.Uint64

	mu      sync.Mutex
	waiting []ended
	timer   *time.Timer // runs flush; nil while nothing waits
	running sync.Mutex  // held by flush
}

type ended struct {
	ctx context.Context
	s   *trace.Summary
}

// add takes a request that is over. Beyond maxEnds it is dropped and counted.
func (e *ends) add(one ended) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= maxEnds {
		e.dropped.Add(1)
		return
	}
	e.waiting = append(e.waiting, one)
	if e.timer == nil {
		e.timer = time.AfterFunc(gatherTime, e.flush)
	}
}

// flush ends the spans of all that wait, and returns when it and any other flush have.
func (e *ends) flush() {
	e.running.Lock()
	defer e.running.Unlock()
	e.mu.Lock()
	list := e.waiting
	e.waiting = nil
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	e.mu.Unlock()
	for _, one := range list {
		e.finish(one)
	}
}
