package load

import (
	"runtime"
	"time"
)

// pace tells each connection when a request of it is due, until stop is closed or the schedule ends. One goroutine does so for all, because
// the runtime's timers are late by up to a millisecond where nothing else happens.
func pace(t schedule, ticks []chan struct{}, stop <-chan struct{}) {
	conns := int64(len(ticks))
	for k := int64(0); ; k++ {
		due := t.of(int(k % conns)).due(k / conns)
		if !due.Before(t.end) {
			return
		}
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			runtime.Gosched() // who was told runs first
			nap(min(wait, longestNap))
			select {
			case <-stop:
				return
			default:
			}
		}
		select {
		case ticks[k%conns] <- struct{}{}:
		default: // it has been told
		}
	}
}

// longestNap is how soon the end is noticed.
const longestNap = 20 * time.Millisecond
