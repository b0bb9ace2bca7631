package eddy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-eddy/eddy/internal/transport"
)

// Deadlines are the time limits of one connection; zero is no limit. Each has the meaning of the Server's field named
// after it. All of them together cost a connection one entry in its loop's timing wheel.
type Deadlines struct {
	Idle         time.Duration
	Read         time.Duration
	Body         time.Duration
	Handler      time.Duration
	Write        time.Duration
	Backpressure time.Duration
}

// check returns an error that names the first negative field.
func (d *Deadlines) check() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"Idle", d.Idle}, {"Read", d.Read}, {"Body", d.Body},
		{"Handler", d.Handler}, {"Write", d.Write}, {"Backpressure", d.Backpressure},
	} {
		if f.value < 0 {
			return fmt.Errorf("eddy: Deadlines.%s is %v: it must not be negative", f.name, f.value)
		}
	}
	return nil
}

// SetDeadlines replaces the server's limits for this connection, for protocols that know better; nil restores the
// server's. Time that has run already counts. d may be shared by connections and must not be changed afterwards. Loop
// only. Errors: a negative field; ErrClosed.
func (c *Conn) SetDeadlines(d *Deadlines) error {
	if d != nil {
		if err := d.check(); err != nil {
			return err
		}
	}
	if c.phase >= PhaseClosing {
		return c.closedError()
	}
	c.extend().limits.Store(d)
	c.noteHandlerLimit(c.limits())
	c.unmark(watched) // for a limit that may have been longer
	c.watchProgress()
	if c.clock == 0 && c.incomplete() && !c.has(inputEnded) {
		c.startClock(c.readLimit(c.limits())) // there was no limit, so the true start is unknown
	}
	c.armDeadline()
	return nil
}

// Deadlines returns the connection's limits. Any goroutine.
func (c *Conn) Deadlines() Deadlines { return *c.limits() }

// limits returns the limits that hold for the connection.
func (c *Conn) limits() *Deadlines {
	if x := c.ext.Load(); x != nil {
		if d := x.limits.Load(); d != nil {
			return d
		}
	}
	return &c.set.limits
}

// HandshakeDone says that the protocol's handshake is over and Server.HandshakeTimeout no longer applies. Loop only.
func (c *Conn) HandshakeDone() {
	if !c.has(handshaking) {
		return
	}
	c.clear(handshaking)
	c.clock = 0
	if c.incomplete() && c.phase < PhaseClosing {
		c.startClock(c.readLimit(c.limits()))
	}
}

// DeadlineError is the cause of a close because a deadline has passed. errors.Is takes it for os.ErrDeadlineExceeded and
// for context.DeadlineExceeded.
type DeadlineError struct {
	Reason CloseReason   // which deadline
	Limit  time.Duration // how long it was
}

// Error names the deadline and the limit.
func (e *DeadlineError) Error() string {
	return fmt.Sprintf("eddy: %s (limit %v)", deadlineText(e.Reason), e.Limit)
}

// Is reports whether target is one of the standard library's errors for a passed deadline.
func (e *DeadlineError) Is(target error) bool {
	return target == os.ErrDeadlineExceeded || target == context.DeadlineExceeded
}

func deadlineText(r CloseReason) string {
	switch r {
	case CloseHandshakeFailed:
		return "the handshake was not done in time"
	case CloseReadTimeout:
		return "an incomplete header or frame was not completed in time"
	case CloseBodyTimeout:
		return "an incomplete body was not completed in time"
	case CloseHandlerTimeout:
		return "a request was not answered in time"
	case CloseWriteTimeout:
		return "the peer took too little of what is queued for it in time"
	case CloseBackpressureLimit:
		return "the outbound queue was above its high watermark for too long, and the peer took too little of it"
	}
	return "nothing was read or written in time"
}

var errFlush = errors.New("eddy: the peer did not take the last bytes in time")

// What runs, and since when (all times are monotonic ns of the loop):
//
//	idle          lastActive: the last read or write that moved bytes; not while a request is in flight
//	read          clock: the first byte of an incomplete header or frame, until its last
//	body          clock with the bit readingBody: from SetPhase(PhaseReadingBody) until SetPhase(PhaseReadingHeader)
//	handler       oldestRequest: the dispatch of the oldest unfinished request
//	write         Progress.Stuck: more waits than the kernel could take; what the peer takes moves it on
//	backpressure  Progress.High: the crossing of the high watermark, until the low one is reached. What the peer
//	              takes moves it on, and time in which nothing waits for the kernel does not count
//
// While clock says until when something must be over, neither read nor body time runs:
//
//	handshake     with the bit handshaking, which bounds what is read meanwhile too
//	closing       in phase Closing, or with pauseEnd: flush and linger
//
// Activity stores a time and nothing else. So the wheel entry may fire early; it is then armed again.

// ending reports whether the end is settled, or put off until writes have left their pools. From then on only clock
// counts.
func (c *Conn) ending() bool { return c.phase >= PhaseClosing || c.paused&pauseEnd != 0 }

// startClock starts the time of the header, frame or body being read.
func (c *Conn) startClock(limit time.Duration) {
	if limit > 0 && !c.ending() && c.clock.Until() == 0 {
		c.clock = transport.Since(c.loop.Now)
		c.armAt(transport.Due(c.loop.Now, limit))
	}
}

// stopClock undoes startClock.
func (c *Conn) stopClock() {
	if c.clock.Since() != 0 {
		c.clock = 0
	}
}

// startDeadlines arms the deadlines of a new connection.
func (c *Conn) startDeadlines() {
	if limit := c.set.handshake; limit > 0 {
		c.raise(handshaking)
		c.clock = transport.Until(c.loop.timeout(limit))
	}
	c.noteHandlerLimit(&c.set.limits)
	c.armDeadline()
}

func (c *Conn) noteHandlerLimit(d *Deadlines) {
	if d.Handler > 0 {
		c.raise(timed)
	} else {
		c.clear(timed)
	}
}

// nextDeadline returns the connection's earliest deadline, 0 for none.
func (c *Conn) nextDeadline() int64 {
	next := c.clock.Until()
	if c.ending() {
		return next
	}
	d := c.limits()
	next = transport.Earlier(next, transport.Due(c.lastActive, d.Idle))
	next = transport.Earlier(next, transport.Due(c.clock.Since(), c.readLimit(d)))
	p := c.progress()
	next = transport.Earlier(next, transport.Due(p.Stuck, d.Write))
	next = transport.Earlier(next, transport.Due(p.High, d.Backpressure))
	next = transport.Earlier(next, p.NextQuestion(d.Write, d.Idle, d.Backpressure))
	if d.Handler > 0 && c.counts.inflight.Load() > 0 {
		since := c.oldestRequest()
		if since == 0 { // a request begins to run at this moment: look again
			since = c.loop.Now
		}
		next = transport.Earlier(next, transport.Due(since, d.Handler))
	}
	return next
}

// readLimit returns the limit for the header, frame or body being read.
func (c *Conn) readLimit(d *Deadlines) time.Duration {
	if c.has(readingBody) {
		return d.Body
	}
	return d.Read
}

// armDeadline makes the wheel fire at the earliest deadline, or before.
func (c *Conn) armDeadline() {
	if next := c.nextDeadline(); next != 0 {
		c.armAt(next)
	}
}

// armAt makes the wheel fire at next, or before.
func (c *Conn) armAt(next int64) {
	l := c.loop
	if c.timer == 0 {
		c.timer = l.deadlines.wheel.Schedule(next, c.token())
	} else if next < l.deadlines.wheel.When(c.timer) {
		l.deadlines.wheel.Move(c.timer, next)
	}
}

// checkDeadlines ends the connection if a deadline has passed and re-arms otherwise.
func (c *Conn) checkDeadlines() {
	l := c.loop
	defer l.contain(c)
	l.serving.Store(c)
	c.unmark(watched) // before the look at the requests; one that begins from here on requests a new look
	if t := c.clock.Until(); t != 0 && l.Now >= t && !c.has(handshaking) {
		c.finishLate()
		return
	}
	if !c.ending() {
		if e := c.overdue(); e != nil {
			c.expire(e)
			l.afterActivity(c)
			return
		}
	}
	c.armDeadline()
}

// overdue returns the deadline that has passed, nil for none.
func (c *Conn) overdue() *DeadlineError {
	d := c.limits()
	now := c.loop.Now
	passed := func(since int64, limit time.Duration) bool {
		t := transport.Due(since, limit)
		return t != 0 && now >= t
	}
	c.askProgress()
	if c.progress().High != 0 && c.out.Head == nil { // answers wait for their turn, not for the peer
		c.rare().progress.High = now
	}
	if c.clock.Since() != 0 && c.readPaused() { // the peer could not go on, so its time begins anew
		c.clock = transport.Since(now)
	}
	requests := c.counts.inflight.Load() > 0
	if requests && passed(c.lastActive, d.Idle) {
		c.lastActive = now
	}
	switch p := c.progress(); {
	case passed(p.Stuck, d.Write):
		return &DeadlineError{CloseWriteTimeout, d.Write}
	case passed(p.High, d.Backpressure):
		return &DeadlineError{CloseBackpressureLimit, d.Backpressure}
	case c.has(handshaking) && now >= c.clock.Until():
		return &DeadlineError{CloseHandshakeFailed, c.set.handshake}
	case c.has(readingBody) && passed(c.clock.Since(), d.Body):
		return &DeadlineError{CloseBodyTimeout, d.Body}
	case !c.has(readingBody) && passed(c.clock.Since(), d.Read):
		return &DeadlineError{CloseReadTimeout, d.Read}
	case requests && d.Handler > 0 && passed(c.oldestRequest(), d.Handler):
		return &DeadlineError{CloseHandlerTimeout, d.Handler}
	case passed(c.lastActive, d.Idle):
		return &DeadlineError{CloseIdleTimeout, d.Idle}
	}
	return nil
}

// expire ends the connection. Where the peer may still be listening, the ErrorHandlers on the loop have a last word,
// which is sent before the end.
func (c *Conn) expire(e *DeadlineError) {
	switch e.Reason {
	case CloseIdleTimeout, CloseWriteTimeout, CloseBackpressureLimit:
		c.beginClose(e.Reason, e)
		return
	}
	c.clear(handshaking)
	c.clock = 0
	if c.head != nil {
		c.head.offerError(e)
	}
	if c.later() != 0 && c.phase < PhaseClosing { // a FlushHandler may hold the last word
		c.runLater()
	}
	switch {
	case c.phase >= PhaseClosing: // a handler has closed the connection
	case c.queued.Load() == 0 && c.counts.encoding.Load() == 0:
		c.beginClose(e.Reason, e)
	default:
		c.closeFlushed(e.Reason, e)
	}
}

// awaitsRest reports whether a decoder that has consumed nothing waits for the rest of a header or frame, and starts its time. The bytes
// of one that has paused reads are in hand until they resume: they may be whole frames.
func (c *Conn) awaitsRest() bool {
	switch {
	case c.phase >= PhaseClosing:
		return false
	case c.readPaused():
		c.raise(heldBack)
		return false
	case c.clock == 0:
		c.startClock(c.readLimit(c.limits()))
	}
	return true
}

// incomplete reports whether a part of a header, frame or body has come.
func (c *Conn) incomplete() bool { return c.has(partial|readingBody) || c.innerShort() }

// frameComplete ends the time of a header or frame, unless a body is timed or a decoder further down has a part of a
// frame.
func (c *Conn) frameComplete() {
	if !c.has(readingBody) && !c.innerShort() {
		c.stopClock()
	}
}

// bodyBegins starts the time of a body; bodyEnds ends it.
func (c *Conn) bodyBegins() {
	if c.has(readingBody) {
		return
	}
	c.raise(readingBody)
	c.stopClock()
	c.startClock(c.limits().Body)
}

func (c *Conn) bodyEnds() {
	if c.has(readingBody) {
		c.clear(readingBody)
		c.stopClock()
	}
}

// readsResumed restarts the time of what is incomplete, because the peer could not go on while reads were paused.
func (c *Conn) readsResumed() {
	c.clear(heldBack)
	if c.clock.Since() != 0 {
		c.clock = transport.Since(c.loop.Now)
	}
}

// wheelTick is the resolution of the deadlines of connections.
const wheelTick = 10 * time.Millisecond

// expireDeadlines is the phase that closes what is overdue and runs timers.
func (l *loop) expireDeadlines() {
	if l.deadlines.wheel.Len() > 0 {
		l.deadlines.wheel.Advance(l.Now, deadlineBudget, l.deadlines.expire)
	}
	l.RunTimers(deadlineBudget)
}

// expire handles one fired wheel entry; its payload is the connection's token.
func (l *loop) expire(_ wheelHandle, payload uint64) {
	if c := l.table.Lookup(payload); c != nil {
		c.timer = 0
		c.checkDeadlines()
	}
}
