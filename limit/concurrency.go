package limit

import (
	"fmt"
	"math"
	"time"
)

const (
	// DefaultInitial is Options.Initial if the options do not say, where Options.Max is not less.
	DefaultInitial = 20

	minWindow     = 50 * time.Millisecond // for which a limit is tried at least
	maxWindow     = 2 * time.Second       // and at most
	runsPerWindow = 3                     // times that work takes in a window, so that most of what ends in it began in it
	longerWindow  = 2                     // times that a window may be longer because its mean is not exact enough
	exact         = 0.05                  // standard error of a mean that is exact enough, relative

	boundShare  = 0.5  // of a window in which the limit was reached, for it to be compared
	growth      = 1.5  // of the limit per window, until it is found
	dither      = 0.3  // distance of the two limits that are compared from their middle, relative, while the slope is not known well
	leastDither = 0.07 // the same, when it is
	leastStep   = 0.5  // the same, absolute
	gain        = 0.1  // how fast the limit follows, per window
	memory      = 0.8  // weight of a window in the next one
	doubt       = 0.25 // square of the standard error of a slope that counts half

	// The more work ends for nothing, the wider apart are the two limits, the faster the limit follows, and the more a doubt lets it fall.
	vainDither  = 0.4  // added to dither
	vainGain    = 3    // times gain, added to gain
	vainUnknown = 0.6  // added to unknown
	partly      = 0.25 // share of a window for nothing after which a limit that was not reached falls to the work in progress, unless more is known to do no harm

	// target is the slope at which the limit stays. Below the knee, more work at once takes the same time: the slope is 0. Above it, work takes longer by as much
	// as there is more of it: 1.
	target = 0.5
	// unknown is the slope that is believed where nothing was measured: below target, so that the limit rises rather than falls.
	unknown = 0.35
)

// Options bound a Concurrency.
type Options struct {
	Min     int // least limit; 0 = 1
	Max     int // greatest limit; required
	Initial int // limit at the start; 0 = DefaultInitial, within Min and Max
}

// check returns what is wrong, and fills in the defaults.
func (o *Options) check() error {
	if o.Min == 0 {
		o.Min = 1
	}
	if o.Initial == 0 {
		o.Initial = min(max(DefaultInitial, o.Min), o.Max)
	}
	switch {
	case o.Max < 1:
		return fmt.Errorf("limit: Options.Max is %d: it must be above 0", o.Max)
	case o.Min < 1 || o.Min > o.Max:
		return fmt.Errorf("limit: Options.Min is %d: it must be from 1 to Max, which is %d", o.Min, o.Max)
	case o.Initial < o.Min || o.Initial > o.Max:
		return fmt.Errorf("limit: Options.Initial is %d: it must be from Min to Max, %d to %d", o.Initial, o.Min, o.Max)
	}
	return nil
}

// Concurrency finds how much work may be done at once. It tries two limits that differ a little, in turn, and compares how long useful work takes. Where more at once
// only takes longer, the limit falls; where it takes the same time, the limit rises. Nothing needs to be known of the work, of its bottleneck, or of its time without load.
// A limit that is not reached is not changed.
//
// Work that ended for nothing, because its client has given up, makes the work that did not take longer by as much: nine such of ten, ten times. So the limit falls where
// clients give up because too much is done at once.
//
// It follows a change within seconds where some hundred pieces of work end per second, or where they all take about the same time. With fewer that differ much it
// takes minutes.
//
// Its methods must be called one at a time. Concurrency has no goroutine, timer or clock of its own.
type Concurrency struct {
	o      Options
	middle float64 // of the two limits
	high   bool    // the higher one is tried
	found  bool    // the middle has been near the knee
	now    int     // the limit

	descent descent
	busy    int // work in progress
	window  window
	last    sample // of the window before
	slope   slope

	mean   float64 // seconds that work took in the last window
	useful float64 // the same, of useful work
	rate   float64 // work per second that ended in it
}

// window is what one limit has shown so far.
type window struct {
	from, at time.Time
	count    int     // work that began and ended in it
	ended    int     // work that ended in it
	took     float64 // seconds, of count
	squares  float64 // of the seconds
	useful   int     // of count
	helped   float64 // seconds, of useful
	area     float64 // work in progress, times seconds
	bound    float64 // seconds in which the limit was reached
}

// sample is the result of a window.
type sample struct {
	work, took float64 // logarithms of the mean work in progress, and of the mean time
	lost       float64 // share of the work that was for nothing
	ok         bool    // the limit was reached
}

// NewConcurrency returns a Concurrency. The error names the option that is wrong.
func NewConcurrency(o Options) (*Concurrency, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return &Concurrency{o: o, middle: float64(o.Initial), now: o.Initial}, nil
}

// Limit returns how much work may be in progress.
func (c *Concurrency) Limit() int { return c.now }

// Mean returns how long useful work has taken of late, 0 when nothing is known.
func (c *Concurrency) Mean() time.Duration { return time.Duration(c.useful * float64(time.Second)) }

// Rate returns how much work has ended per second of late, 0 when nothing is known.
func (c *Concurrency) Rate() float64 { return c.rate }

// Begin counts work that begins.
func (c *Concurrency) Begin(now time.Time) {
	c.pass(now)
	c.busy++
}

// End counts work that has ended and took so long. It was not useful if nobody waited for its result any more. End reports whether Limit, Mean and Rate are new.
func (c *Concurrency) End(now time.Time, took time.Duration, useful bool) bool {
	c.pass(now)
	c.busy--
	w := &c.window
	w.ended++
	if !now.Add(-took).Before(w.from) { // else most of its time belongs to another limit
		s := took.Seconds()
		w.count, w.took, w.squares = w.count+1, w.took+s, w.squares+s*s
		if useful {
			w.useful, w.helped = w.useful+1, w.helped+s
		}
	}
	return c.turn(now)
}

// Leave counts work that is not in progress any more and whose time tells nothing, such as work that waits for somebody else.
func (c *Concurrency) Leave(now time.Time) {
	c.pass(now)
	c.busy--
}

// pass adds the time up to now to the window.
func (c *Concurrency) pass(now time.Time) {
	w := &c.window
	if w.from.IsZero() {
		w.from, w.at = now, now
	}
	d := now.Sub(w.at).Seconds()
	if d <= 0 {
		return
	}
	w.at = now
	w.area += d * float64(c.busy)
	if c.busy >= c.now {
		w.bound += d
	}
}

// turn ends the window if it has lasted long enough.
func (c *Concurrency) turn(now time.Time) bool {
	w, length := &c.window, min(max(time.Duration(runsPerWindow*c.mean*float64(time.Second)), minWindow), maxWindow)
	d := now.Sub(w.from)
	if d < length || w.count == 0 {
		return false
	}
	n := float64(w.count)
	mean := w.took / n
	if variance := w.squares/n - mean*mean; c.found && d < min(longerWindow*length, maxWindow) && variance > n*exact*exact*mean*mean {
		return false
	}
	c.mean, c.rate = mean, float64(w.ended)/d.Seconds()
	if w.useful > 0 {
		c.useful = w.helped / float64(w.useful)
	}
	lost := float64(w.count-w.useful) / n
	work, reached := max(w.area/d.Seconds(), 0.01), w.bound >= boundShare*d.Seconds()
	if c.descent.goesOn(c, w.count, lost, work, float64(w.useful)/d.Seconds()) {
		c.found, c.last = true, sample{}
		c.begin(now)
		return true
	}
	if lost > vain { // and less at once does not help
		lost = 0
	}
	s := sample{work: math.Log(work), took: math.Log(max(mean, 1e-9) / (1 - lost*n/(n+0.5))), lost: lost, ok: reached}
	if !reached && lost > partly && w.count >= evidence && c.slope.believed(1) > target {
		c.found, c.middle = true, min(c.middle, work)
	}
	if s.ok {
		c.learn(s)
		c.high = !c.high
	}
	if s.ok || c.found { // a limit that grows is compared with the one before that was reached, however long ago
		c.last = s
	}
	c.begin(now)
	return true
}

// learn moves the middle.
func (c *Concurrency) learn(s sample) {
	work, took := s.work-c.last.work, s.took-c.last.took
	switch {
	case c.found && c.last.ok:
		c.slope.add(work, took)
		lost := max(s.lost, c.last.lost)
		c.middle *= math.Exp(gain * (1 + vainGain*lost) * (target - c.slope.believed(unknown+vainUnknown*lost)))
	case !c.found && c.last.ok && took > work/2:
		c.found = true
	case !c.found:
		c.middle *= growth
		c.found = c.middle >= float64(c.o.Max)
	}
	c.middle = min(max(c.middle, float64(c.o.Min)), float64(c.o.Max))
}

// begin chooses the limit of the next window.
func (c *Concurrency) begin(now time.Time) {
	sure := c.slope.sure
	step := max(c.middle*(leastDither*sure+(dither+vainDither*c.last.lost)*(1-sure)), leastStep)
	switch {
	case !c.found || c.descent.on:
		step = 0
	case !c.high:
		step = -step
	}
	c.now = min(max(int(math.Round(c.middle+step)), c.o.Min), c.o.Max)
	c.window = window{from: now, at: now}
}

// slope is how the logarithm of the time grows with that of the work in progress, from the differences between windows that follow each other. A time that changes for
// another reason counts up and down alike and falls out.
type slope struct {
	xx, xy, yy float64
	sure       float64 // from 0 to 1: how exact it is
}

func (s *slope) add(x, y float64) {
	s.xx, s.xy, s.yy = memory*s.xx+x*x, memory*s.xy+x*y, memory*s.yy+y*y
}

// believed returns the slope, the nearer to unknown the less exact it is.
func (s *slope) believed(unknown float64) float64 {
	if s.xx < 1e-6 {
		return unknown
	}
	measured := s.xy / s.xx
	wrong := max(s.yy-s.xy*measured, 0) * (1 - memory) / s.xx // square of the standard error
	s.sure = doubt / (doubt + wrong)
	return s.sure*min(max(measured, -0.5), 1.5) + (1-s.sure)*unknown
}
