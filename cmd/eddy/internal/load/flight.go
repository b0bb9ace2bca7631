package load

import "time"

// flight holds the time at which each request in flight was sent, or was due. It is not safe for several goroutines.
type flight struct {
	times   []time.Time // by place; zero: free
	oldest  int         // place of the oldest one, of protocols that answer in order
	waiting int
	any     unordered // nil: in order
	refuser refuser   // nil: never
}

func newFlight(p protocol, limit int) *flight {
	f := &flight{times: make([]time.Time, limit)}
	f.any, _ = p.(unordered)
	f.refuser, _ = p.(refuser)
	return f
}

// room returns how many more requests may be sent.
func (f *flight) room() int { return len(f.times) - f.waiting }

// sent records the n requests that the protocol has just made. from returns the time of the ith.
func (f *flight) sent(n int, from func(i int) time.Time) {
	for i := range n {
		place := (f.oldest + f.waiting) % len(f.times)
		if f.any != nil {
			place = f.any.asked()[i]
		}
		f.times[place] = from(i)
		f.waiting++
	}
}

// answered removes the n requests that have just been answered, and calls tell for each. An answer without a request is
// an error.
func (f *flight) answered(n int, tell func(from time.Time, refused bool)) error {
	if n > f.waiting {
		return wrong("%d answers to %d requests", n, f.waiting)
	}
	var refused []bool
	if f.refuser != nil {
		refused = f.refuser.refused()
	}
	var places []int
	if f.any != nil && n > 0 {
		places = f.any.answered()
	}
	for i := range n {
		place := f.oldest
		if f.any != nil {
			place = places[i]
		} else {
			f.oldest = (f.oldest + 1) % len(f.times)
		}
		from := f.times[place]
		f.times[place] = time.Time{}
		f.waiting--
		tell(from, refused != nil && refused[i])
	}
	return nil
}

// unanswered calls tell for each request that is still in flight.
func (f *flight) unanswered(tell func(from time.Time)) {
	for _, from := range f.times {
		if !from.IsZero() {
			tell(from)
		}
	}
}
