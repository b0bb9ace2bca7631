package trace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"
)

// Defaults of Options.
const (
	DefaultKeep   = 100
	DefaultWithin = 10 * time.Minute
)

// maxKeep is the largest Options.Keep.
const maxKeep = 10_000

// Options configure a [Recorder]. The zero value samples nothing but what a trusted client asks for.
type Options struct {
	// Sample is the share of requests, from 0 to 1, that are sampled when no trusted client has decided.
	Sample float64
	// Keep is how many requests Slowest returns at most, up to 10,000. 0 = DefaultKeep.
	Keep int
	// Within is how long a request stays among the slowest after its end. 0 = DefaultWithin.
	Within time.Duration
	// Tracer makes the spans of a tracing library of sampled requests. nil = none; the stages are recorded all the same.
	Tracer Tracer
	// Now returns the time. nil = time.Now.
	Now func() time.Time
}

// Tracer makes the spans of a tracing library. Any goroutine may call it, loops included, so it must not block.
type Tracer interface {
	// Begin begins the span of a request and returns a context that holds the span: the request's context has its values.
	// The trace that Begin returns is what the log and the page show, and what travels on. A request that is not sampled
	// needs a context that keeps the library from sampling below it; its own trace may be invalid.
	Begin(r *Request) (context.Context, Parent)
	// End ends the span of a sampled request. ctx is that of Begin.
	End(ctx context.Context, s *Summary)
}

// Recorder samples requests and keeps the slowest of them. One Recorder serves any number of servers. Any goroutine may call
// its methods.
type Recorder struct {
	o         Options
	threshold uint64 // of a random number, below which a request is sampled
	unsampled *Request
	slowest   slowest
	times     times
	counts    counts
}

type counts struct {
	sampled, unsampled, ended, received, untrusted, malformed, oversized, crowded atomic.Uint64
}

// Stats counts what a Recorder has seen since it was made.
type Stats struct {
	Sampled   uint64 // requests that were recorded
	Unsampled uint64 // requests that were not
	Ended     uint64 // of the recorded ones, those that are over and recorded in full. Ended == Sampled: none is under way
	Received  uint64 // requests that continue the trace of a trusted client
	Untrusted uint64 // requests whose trace fields were ignored because the listener trusts nobody
	Malformed uint64 // values of trusted clients that were ignored because they do not parse
	Oversized uint64 // values of trusted clients that were ignored because they are over a limit
	Crowded   uint64 // stages that were not recorded because a request had too many
}

// New returns a Recorder. The error names the option that is out of range.
func New(o Options) (*Recorder, error) {
	switch {
	case !(o.Sample >= 0 && o.Sample <= 1): // also NaN
		return nil, fmt.Errorf("trace: Options.Sample is %v: it must be from 0 to 1", o.Sample)
	case o.Keep < 0 || o.Keep > maxKeep:
		return nil, fmt.Errorf("trace: Options.Keep is %d: it must be from 0 to %d", o.Keep, maxKeep)
	case o.Within < 0:
		return nil, fmt.Errorf("trace: Options.Within is %v: it must not be negative", o.Within)
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.Within == 0 {
		o.Within = DefaultWithin
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	rec := &Recorder{o: o, threshold: uint64(o.Sample * math.MaxUint64)}
	if o.Sample == 1 {
		rec.threshold = math.MaxUint64
	}
	rec.slowest.keep, rec.slowest.within = o.Keep, o.Within
	rec.unsampled = rec.without(Parent{})
	return rec, nil
}

// Stats returns the counts.
func (rec *Recorder) Stats() Stats {
	c := &rec.counts
	ended := c.ended.Load() // before sampled, which it must not exceed
	return Stats{
		Sampled: c.sampled.Load(), Unsampled: c.unsampled.Load(), Ended: ended, Received: c.received.Load(),
		Untrusted: c.untrusted.Load(), Malformed: c.malformed.Load(), Oversized: c.oversized.Load(), Crowded: c.crowded.Load(),
	}
}

// Receive returns the trace that a request continues, as its fields say. Without trust the fields are ignored. What is
// ignored is counted, and is no error of the request.
func (rec *Recorder) Receive(trust bool, f Fields) Parent {
	switch {
	case f.empty():
		return Parent{}
	case !trust:
		rec.counts.untrusted.Add(1)
		return Parent{}
	}
	p, wrong := f.parse()
	for _, err := range wrong {
		if errors.Is(err, errOversized) {
			rec.counts.oversized.Add(1)
		} else {
			rec.counts.malformed.Add(1)
		}
	}
	if p.Valid() {
		rec.counts.received.Add(1)
	}
	return p
}

// About says what a request is.
type About struct {
	Protocol string         // such as frame, grpc, http1
	Name     string         // such as demo.Greeter/Hello. It has few values: no ids, no paths of clients
	Peer     netip.AddrPort // the client; zero if it is not recorded
	Waited   time.Duration  // how long the request has waited for the loop, see eddy.Loop.Behind
}

// Sample decides about a request that continues from, which Receive has returned. A valid trace has decided already.
func (rec *Recorder) Sample(from *Parent) bool {
	if from.Valid() {
		return from.Sampled
	}
	return rec.threshold != 0 && rand.Uint64() <= rec.threshold
}

// Unsampled returns the request that stands for one that is not sampled. It records nothing. Its context keeps what runs
// below from beginning a trace of its own, and hands on the decision and the baggage of a trusted client.
func (rec *Recorder) Unsampled(from Parent) *Request {
	rec.counts.unsampled.Add(1)
	if from.Valid() || from.Baggage != "" {
		return rec.without(from)
	}
	return rec.unsampled
}

// Below returns a value of the context of requests that are not sampled, as Request.Value does.
func (rec *Recorder) Below(key any) any { return rec.unsampled.Value(key) }

func (rec *Recorder) without(from Parent) *Request {
	from.Sampled = false
	r := &Request{rec: rec, from: from, self: from, ctx: context.Background()}
	if t := rec.o.Tracer; t != nil {
		r.ctx, r.self = t.Begin(r)
	}
	return r
}

// Begin records a request that Sample has chosen, from now on. The request is in the stage Dispatch. Call End, or Done or
// Written with its connection, when it is over.
func (rec *Recorder) Begin(from Parent, about About) *Request {
	rec.counts.sampled.Add(1)
	now := rec.o.Now()
	r := &Request{rec: rec, sampled: true, from: from, about: about, began: now.Add(-about.Waited), ctx: context.Background()}
	r.marks = r.memory[:0]
	if about.Waited > 0 {
		r.marks = append(r.marks, mark{stage: LoopWait, at: r.began})
	}
	r.marks = append(r.marks, mark{stage: Dispatch, at: now})
	if t := rec.o.Tracer; t != nil {
		r.ctx, r.self = t.Begin(r)
		return r
	}
	r.self = from
	if !r.self.Valid() {
		for i := range r.self.Trace {
			r.self.Trace[i] = byte(rand.Uint32())
		}
	}
	for i := range r.self.Span {
		r.self.Span[i] = byte(rand.Uint32())
	}
	r.self.Sampled = true
	return r
}

// Slowest returns the slowest of the sampled requests that have ended within Options.Within, the slowest first.
func (rec *Recorder) Slowest() []*Summary { return rec.slowest.list(rec.o.Now()) }

// Find returns a request of Slowest by its number, nil if it is not there any more.
func (rec *Recorder) Find(number uint64) *Summary { return rec.slowest.find(rec.o.Now(), number) }

// Times returns the histogram of each stage's time, and of the whole requests', over all sampled requests.
func (rec *Recorder) Times() []Times { return rec.times.list() }
