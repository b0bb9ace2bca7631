package sim

import (
	"fmt"
	"regexp"
	"time"
)

// traceLines is how many happenings a world remembers, unless Remember was called.
const traceLines = 1 << 10

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

// Remember sets how many of the last happenings the world remembers. Call it before anything happens.
func (w *World) Remember(lines int) { w.log.ring = make([]happening, max(lines, 1)) }

// trace adds a happening.
func (w *World) trace(what string, a, b int, err error) {
	l := &w.log
	if l.ring == nil {
		w.Remember(traceLines)
	}
	h := happening{at: w.now, what: what, a: a, b: b, err: err}
	if w.cur != nil {
		h.who = w.cur.name
	}
	l.ring[l.n%uint64(len(l.ring))] = h
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

// Digest returns a digest of everything that has happened. Two runs of one seed have the same.
func (w *World) Digest() uint64 { return w.log.digest }

// Trace returns the last happenings whose line matches, oldest first.
func (w *World) Trace(lines int, match *regexp.Regexp) string {
	l := &w.log
	from := uint64(0)
	if most := uint64(min(lines, len(l.ring))); l.n > most {
		from = l.n - most
	}
	var all []byte
	for i := from; i < l.n; i++ {
		h := l.ring[i%uint64(len(l.ring))]
		if line := h.append(nil); match.Match(line) {
			all = append(all, line...)
		}
	}
	return string(all)
}

func (h happening) append(b []byte) []byte {
	b = fmt.Appendf(b, "%12v %-10s %s %d", time.Duration(h.at-startTime), h.who, h.what, h.a)
	switch {
	case h.what == "fault":
		b = fmt.Appendf(b, " (%v)", Fault(h.a))
	case h.err != nil:
		b = fmt.Appendf(b, " = %v", h.err)
	default:
		b = fmt.Appendf(b, " = %d", h.b)
	}
	return append(b, '\n')
}
