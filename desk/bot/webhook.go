package bot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/safehttp"
)

// Errors of Webhook.Ask, besides those of the request itself.
var (
	ErrBreakerOpen = errors.New("bot: not asked, because it has failed too often")
	ErrQueueFull   = errors.New("bot: not asked, because too many turns wait")
	ErrClosed      = errors.New("bot: closed")
)

// Doer sends requests without blocking; *safehttp.Client is one.
type Doer interface {
	Do(r *http.Request, limit int64, done func(safehttp.Response, error))
}

// Answer is the result of asking a webhook bot.
type Answer struct {
	Reply    Reply
	Accepted bool  // the bot will call back; Reply is empty
	Err      error // there was no answer, or no usable one
}

// WebhookStats are the numbers of one webhook bot. All but the first three only grow.
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

// Webhook asks a program of the site's owner. At most Concurrency turns are under way and Queue more wait, so that a bot
// that hangs holds up no other. Any goroutine, a loop as well, may use it.
type Webhook struct {
	c      *WebhookConfig
	client Doer
	now    func() time.Time
	b      breaker

	mu      sync.Mutex
	running int
	queue   []*ask
	closed  bool

	asked, retried, accepted, failures, refused, cut atomic.Uint64
}

// ask is one turn on its way. Its attempts come one after the other.
type ask struct {
	w     *Webhook
	id    string
	body  []byte
	done  func(Answer)
	again bool        // the second attempt
	wait  *time.Timer // in the queue
}

const retryDelay = 250 * time.Millisecond

// NewWebhook returns a bot with checked settings (ParseWebhook). now is the clock of signatures and of the breaker; nil
// means time.Now.
func NewWebhook(c *WebhookConfig, client Doer, now func() time.Time) *Webhook {
	if now == nil {
		now = time.Now
	}
	return &Webhook{c: c, client: client, now: now, b: breaker{now: now}}
}

// Config returns the settings.
func (w *Webhook) Config() *WebhookConfig { return w.c }

// Shut reports whether a turn that came now would be refused by the breaker.
func (w *Webhook) Shut() bool { return w.b.shut() }

// Stats returns the numbers.
func (w *Webhook) Stats() WebhookStats {
	w.mu.Lock()
	running, waiting := w.running, len(w.queue)
	w.mu.Unlock()
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	return WebhookStats{
		Breaker: w.b.state(), Running: running, Waiting: waiting, Asked: w.asked.Load(), Retried: w.retried.Load(), Accepted: w.accepted.Load(),
		Failed: w.failures.Load(), Refused: w.refused.Load(), Cut: w.cut.Load(), Opened: w.b.opens,
	}
}

// Missed counts a turn that was accepted and never answered as a failure.
func (w *Webhook) Missed() {
	w.failures.Add(1)
	w.b.failed(false)
}

// Ask begins a turn and returns at once. done is called exactly once, perhaps before Ask returns, on any goroutine, and
// must not block. A turn takes at most one Timeout in the queue and one for each of its two attempts.
func (w *Webhook) Ask(t Turn, done func(Answer)) {
	body, err := w.c.encodeTurn(&t)
	if err != nil {
		done(Answer{Err: fmt.Errorf("bot: %w", err)})
		return
	}
	a := &ask{w: w, id: t.ID, body: body, done: done}
	if err := w.enter(a); err != nil {
		w.refused.Add(1)
		done(Answer{Err: err})
	}
}

// enter starts a turn, lets it wait or refuses it.
func (w *Webhook) enter(a *ask) error {
	if w.b.shut() {
		return ErrBreakerOpen
	}
	w.mu.Lock()
	switch {
	case w.closed:
		w.mu.Unlock()
		return ErrClosed
	case w.running < w.c.Concurrency:
		w.running++
		w.mu.Unlock()
		a.attempt()
	case len(w.queue) >= w.c.Queue:
		w.mu.Unlock()
		return fmt.Errorf("%w: %d, the limit", ErrQueueFull, w.c.Queue)
	default:
		a.wait = time.AfterFunc(w.c.Timeout(), a.waited)
		w.queue = append(w.queue, a)
		w.mu.Unlock()
	}
	return nil
}

// waited ends a turn that has waited too long.
func (a *ask) waited() {
	w := a.w
	w.mu.Lock()
	i := -1
	for j, q := range w.queue {
		if q == a {
			i = j
		}
	}
	if i >= 0 {
		w.queue = append(w.queue[:i], w.queue[i+1:]...)
	}
	w.mu.Unlock()
	if i >= 0 {
		w.refused.Add(1)
		a.done(Answer{Err: fmt.Errorf("%w: no place within %v", ErrQueueFull, w.c.Timeout())})
	}
}

// leave gives the place of a finished turn to the next, and reports the outcome.
func (a *ask) leave(answer Answer) {
	w := a.w
	w.mu.Lock()
	var next *ask
	if len(w.queue) > 0 {
		next, w.queue = w.queue[0], w.queue[1:]
		next.wait.Stop()
	} else {
		w.running--
	}
	w.mu.Unlock()
	if answer.Err != nil {
		w.failures.Add(1)
	}
	a.done(answer)
	if next != nil {
		next.attempt()
	}
}

// attempt sends the turn once.
func (a *ask) attempt() {
	w := a.w
	ok, probe := w.b.allow()
	if !ok {
		a.leave(Answer{Err: ErrBreakerOpen})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.c.Timeout())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.c.URL, bytes.NewReader(a.body))
	if err != nil {
		cancel()
		a.failed(fmt.Errorf("bot: %w", err), probe, false)
		return
	}
	at := w.now().Unix()
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "Eddy-Desk-Bot/1",
		HeaderTurn: a.id, HeaderTimestamp: strconv.FormatInt(at, 10), HeaderSignature: Sign(w.c.Secret, at, a.body),
	} {
		r.Header.Set(k, v)
	}
	if a.again {
		w.retried.Add(1)
	} else {
		w.asked.Add(1)
	}
	w.client.Do(r, MaxReplyBytes, func(resp safehttp.Response, err error) {
		cancel()
		a.received(resp, err, probe)
	})
}

// received handles the outcome of one attempt.
func (a *ask) received(resp safehttp.Response, err error, probe bool) {
	w := a.w
	switch {
	case err != nil:
		a.failed(err, probe, !errors.Is(err, safehttp.ErrForbidden) && !errors.Is(err, safehttp.ErrTooLong))
	case resp.Status == http.StatusAccepted:
		w.b.succeeded(probe)
		w.accepted.Add(1)
		a.leave(Answer{Accepted: true})
	case resp.Status == http.StatusNoContent:
		w.b.succeeded(probe)
		a.leave(Answer{})
	case resp.Status == http.StatusOK:
		reply, cut, err := DecodeReply(resp.Body)
		if err != nil {
			a.failed(err, probe, false)
			return
		}
		w.cut.Add(uint64(cut))
		w.b.succeeded(probe)
		a.leave(Answer{Reply: reply})
	case resp.Status/100 == 3:
		a.failed(fmt.Errorf("bot: answered status %d: redirects are not followed", resp.Status), probe, false)
	default:
		a.failed(fmt.Errorf("bot: answered status %d", resp.Status), probe, resp.Status >= 500 || resp.Status == http.StatusTooManyRequests)
	}
}

// failed tries a failure that may pass once more, and gives up otherwise.
func (a *ask) failed(err error, probe, retry bool) {
	w := a.w
	opened := w.b.failed(probe)
	w.mu.Lock()
	retry = retry && !a.again && !opened && !w.closed
	w.mu.Unlock()
	if !retry {
		a.leave(Answer{Err: err})
		return
	}
	a.again = true
	time.AfterFunc(retryDelay, a.attempt)
}

// Close refuses later turns and those that wait, with ErrClosed. Turns under way end when the client does.
func (w *Webhook) Close() {
	w.mu.Lock()
	w.closed = true
	left := w.queue
	w.queue = nil
	w.mu.Unlock()
	for _, a := range left {
		a.wait.Stop()
		a.done(Answer{Err: ErrClosed})
	}
}
