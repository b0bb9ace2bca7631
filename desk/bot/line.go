package bot

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of Ask, besides those of the request itself.
var (
	ErrBreakerOpen = errors.New("bot: not asked, because it has failed too often")
	ErrQueueFull   = errors.New("bot: not asked, because too many turns wait")
	ErrClosed      = errors.New("bot: closed")
)

// Answer is the result of asking a bot elsewhere.
type Answer struct {
	Reply    Reply
	Accepted bool  // the bot will call back; Reply is empty
	Err      error // there was no answer, or no usable one
	Note     error // for the log: what is wrong though there is a Reply
}

// WebhookStats are the numbers of one bot elsewhere. All but the first three only grow.
type WebhookStats struct {
	Breaker  BreakerState
	Running  int // turns under way
	Waiting  int // turns that wait for a place
	Asked    uint64
	Retried  uint64
	Accepted uint64
	Failed   uint64 // turns
	Refused  uint64 // turns not tried, because the breaker was open or the queue full
	Cut      uint64 // messages over the limit of one turn
	Opened   uint64 // times the breaker opened
}

// line is the way to a bot elsewhere. A bounded number of turns is under way and a bounded number waits, so that a bot
// that hangs holds up no other. What may pass is tried once more. Any goroutine may use it.
type line struct {
	places, room int           // turns under way, and turns that wait
	patience     time.Duration // of a turn that waits
	now          func() time.Time
	b            breaker

	mu      sync.Mutex
	running int
	queue   []*ask
	closed  bool

	asked, retried, accepted, failures, declined, cut atomic.Uint64
}

// ask is one turn on its way. Its attempts come one after the other.
type ask struct {
	line  *line
	send  func(a *ask, probe bool) // makes one attempt, which ends with answered, failed or dropped
	done  func(Answer)
	again bool        // the second attempt
	wait  *time.Timer // in the queue
}

const (
	retryDelay = 250 * time.Millisecond
	userAgent  = "Eddy-Desk-Bot/1"
)

func (l *line) init(places, room int, patience time.Duration, now func() time.Time) {
	if now == nil {
		now = time.Now
	}
	l.places, l.room, l.patience, l.now, l.b.now = places, room, patience, now, now
}

// Shut reports whether a turn that came now would be refused by the breaker.
func (l *line) Shut() bool { return l.b.shut() }

// Stats returns the numbers.
func (l *line) Stats() WebhookStats {
	l.mu.Lock()
	running, waiting := l.running, len(l.queue)
	l.mu.Unlock()
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return WebhookStats{
		Breaker: l.b.state(), Running: running, Waiting: waiting, Asked: l.asked.Load(), Retried: l.retried.Load(), Accepted: l.accepted.Load(),
		Failed: l.failures.Load(), Refused: l.declined.Load(), Cut: l.cut.Load(), Opened: l.b.opens,
	}
}

// enter starts a turn, lets it wait or refuses it.
func (l *line) enter(a *ask) {
	if err := l.admit(a); err != nil {
		l.declined.Add(1)
		a.done(Answer{Err: err})
	}
}

func (l *line) admit(a *ask) error {
	if l.b.shut() {
		return ErrBreakerOpen
	}
	l.mu.Lock()
	switch {
	case l.closed:
		l.mu.Unlock()
		return ErrClosed
	case l.running < l.places:
		l.running++
		l.mu.Unlock()
		a.attempt()
	case len(l.queue) >= l.room:
		l.mu.Unlock()
		return fmt.Errorf("%w: %d, the limit", ErrQueueFull, l.room)
	default:
		a.wait = time.AfterFunc(l.patience, a.waited)
		l.queue = append(l.queue, a)
		l.mu.Unlock()
	}
	return nil
}

// waited ends a turn that has waited too long.
func (a *ask) waited() {
	l := a.line
	l.mu.Lock()
	i := -1
	for j, q := range l.queue {
		if q == a {
			i = j
		}
	}
	if i >= 0 {
		l.queue = append(l.queue[:i], l.queue[i+1:]...)
	}
	l.mu.Unlock()
	if i >= 0 {
		l.declined.Add(1)
		a.done(Answer{Err: fmt.Errorf("%w: no place within %v", ErrQueueFull, l.patience)})
	}
}

// leave gives the place of a finished turn to the next, and reports the outcome.
func (a *ask) leave(answer Answer) {
	l := a.line
	l.mu.Lock()
	var next *ask
	if len(l.queue) > 0 {
		next, l.queue = l.queue[0], l.queue[1:]
		next.wait.Stop()
	} else {
		l.running--
	}
	l.mu.Unlock()
	a.done(answer)
	if next != nil {
		next.attempt()
	}
}

// attempt makes an attempt if the breaker lets it.
func (a *ask) attempt() {
	ok, probe := a.line.b.allow()
	switch {
	case !ok:
		a.line.failures.Add(1)
		a.leave(Answer{Err: ErrBreakerOpen})
		return
	case a.again:
		a.line.retried.Add(1)
	default:
		a.line.asked.Add(1)
	}
	a.send(a, probe)
}

// answered ends an attempt that has an answer.
func (a *ask) answered(answer Answer, probe bool) {
	a.line.b.succeeded(probe)
	a.leave(answer)
}

// dropped ends an attempt that nobody waits for any more. It says nothing about the bot.
func (a *ask) dropped(err error, probe bool) {
	a.line.b.dropped(probe)
	a.leave(Answer{Err: err})
}

// refused ends an attempt that was answered with a status of failure.
func (a *ask) refused(status int, probe bool) {
	err := fmt.Errorf("bot: answered status %d", status)
	if status/100 == 3 {
		err = fmt.Errorf("%w: redirects are not followed", err)
	}
	a.failed(err, probe, status >= http.StatusInternalServerError || status == http.StatusTooManyRequests)
}

// failed tries a failure that may pass once more, and gives up otherwise.
func (a *ask) failed(err error, probe, retry bool) {
	l := a.line
	opened := l.b.failed(probe)
	l.mu.Lock()
	retry = retry && !a.again && !opened && !l.closed
	l.mu.Unlock()
	if !retry {
		l.failures.Add(1)
		a.leave(Answer{Err: err})
		return
	}
	a.again = true
	time.AfterFunc(retryDelay, a.attempt)
}

// Close refuses later turns and those that wait, with ErrClosed. Turns under way end when the client does.
func (l *line) Close() {
	l.mu.Lock()
	l.closed = true
	left := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, a := range left {
		a.wait.Stop()
		a.done(Answer{Err: ErrClosed})
	}
}
