package load

import (
	"runtime"
	"time"
)

// pace signals each connection when one of its requests is due, until stop is closed or the schedule ends. One goroutine
// does so for all, because the runtime's timers are up to a millisecond late where nothing else happens.
func pace(t schedule, ticks []chan struct{}, stop <-chan struct{}) {
	conns := int64(len(ticks))
	for k := int64(0); ; k++ {
		due := t.of(int(k % conns)).due(k / conns)
		if !due.Before(t.end) {
			return
		}
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			runtime.Gosched() // lets connections that were signalled run first
			nap(min(wait, longestNap))
			select {
			case <-stop:
				return
			default:
			}
		}
		select {
		case ticks[k%conns] <- struct{}{}:
		default: // the connection has been signalled
		}
	}
}

// longestNap bounds how late the end is noticed.
const longestNap = 20 * time.Millisecond
