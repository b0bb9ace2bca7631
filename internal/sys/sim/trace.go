package sim

import (
	"fmt"
	"strings"
	"time"
)

// traceLines is how many of the last happenings a world remembers.
const traceLines = 1 << 12

// happening is one line of the trace.
type happening struct {
	at   int64
	who  string
	what string
	a, b int
	err  error
}

// tracer remembers the last happenings and a digest of all.
type tracer struct {
	ring   []happening
	n      uint64
	digest uint64
}

// trace notes something.
func (w *World) trace(what string, a, b int, err error) {
	l := &w.log
	if l.ring == nil {
		l.ring = make([]happening, traceLines)
	}
	h := happening{at: w.now, what: what, a: a, b: b, err: err}
	if w.cur != nil {
		h.who = w.cur.name
	}
	l.ring[l.n%traceLines] = h
	l.n++
	d := l.digest ^ uint64(w.now) ^ uint64(a)<<32 ^ uint64(b)
	if err != nil {
		d ^= 0x5bd1e995
	}
	for i := range len(what) {
		d = (d ^ uint64(what[i])) * 1099511628211
	}
	l.digest = d*6364136223846793005 + 1442695040888963407
}

// Digest stands for everything that has happened: two runs of one seed have the same.
func (w *World) Digest() uint64 { return w.log.digest }

// Trace returns the last happenings, oldest first.
func (w *World) Trace(lines int) string {
	l := &w.log
	from := uint64(0)
	if most := uint64(min(lines, traceLines)); l.n > most {
		from = l.n - most
	}
	var b strings.Builder
	for i := from; i < l.n; i++ {
		h := l.ring[i%traceLines]
		fmt.Fprintf(&b, "%12v %-10s %s %d", time.Duration(h.at-startTime), h.who, h.what, h.a)
		switch {
		case h.what == "fault":
			fmt.Fprintf(&b, " (%v)", Fault(h.a))
		case h.err != nil:
			fmt.Fprintf(&b, " = %v", h.err)
		default:
			fmt.Fprintf(&b, " = %d", h.b)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
