package http2

import (
	"hash/fnv"
	"time"
)

// limitAge ends the connection at Options.MaxAge.
func (sc *serverConn) limitAge() {
	age, grace := sc.f.opts.MaxAge, sc.f.opts.MaxAgeGrace
	if age <= 0 {
		return
	}
	_, _ = sc.ctx.After(spread(age, sc.remoteAddr()), func() { // an error means that the connection is ending
		sc.goAway(sc.lastResponse)
		if grace > 0 {
			_, _ = sc.ctx.After(drainGrace+grace, sc.resetAll)
		}
	})
}

// resetAll resets what is in flight.
func (sc *serverConn) resetAll() {
	for st := range sc.inOrder() {
		sc.abort(st, &StreamError{Stream: st.id, Code: CodeCancel, Text: "the connection has reached its age, and its requests have had their time"})
	}
	sc.leave()
}

// spread returns age, a tenth more or less: always the same for one client, and another for the next one.
func spread(age time.Duration, client string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(client)) // never fails
	return time.Duration(float64(age) * (0.9 + 0.2*float64(h.Sum32())/(1<<32)))
}
