package bot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

// Doer sends requests without blocking; *safehttp.Client is one.
type Doer interface {
	Do(r *http.Request, limit int64, done func(safehttp.Response, error))
}

// Webhook asks a program of the site's owner. At most Concurrency turns are under way and Queue more wait, so that a bot
// that hangs holds up no other. Any goroutine, a loop as well, may use it.
type Webhook struct {
	line
	c      *WebhookConfig
	client Doer
}

// NewWebhook returns a bot with checked settings (ParseWebhook). now is the clock of signatures and of the breaker; nil
// means time.Now.
func NewWebhook(c *WebhookConfig, client Doer, now func() time.Time) *Webhook {
	w := &Webhook{c: c, client: client}
	w.init(c.Concurrency, c.Queue, c.Timeout(), now)
	return w
}

// Config returns the settings.
func (w *Webhook) Config() *WebhookConfig { return w.c }

// Apology returns what a customer is told when the bot has failed, in the language of the customer's last text, or of
// the browser.
func (w *Webhook) Apology(text, locale string) string {
	return w.c.Apology.In(languageOf(text, locale), w.c.Language)
}

// Greet returns what is said before the customer's first message, nil if the program is to be asked for it.
func (w *Webhook) Greet(locale string) []store.Say { return greet(w.c.Greeting, w.c.Language, locale) }

// greet returns the greeting of a bot that has one, else nil.
func greet(t Text, language, locale string) []store.Say {
	if len(t) == 0 {
		return nil
	}
	return []store.Say{{Body: t.In(languageOf("", locale), language)}}
}

// Missed counts a turn that was accepted and never answered as a failure.
func (w *Webhook) Missed() {
	w.failures.Add(1)
	w.b.failed(false)
}

// Ask begins a turn and returns at once. done is called exactly once, perhaps before Ask returns, on any goroutine, and
// must not block. A turn takes at most one Timeout in the queue and one for each of its two attempts.
func (w *Webhook) Ask(t Turn, done func(Answer)) {
	if say := w.Greet(t.Locale); t.Opening && say != nil {
		done(Answer{Reply: Reply{Say: say}})
		return
	}
	body, err := w.c.encodeTurn(&t)
	if err != nil {
		done(Answer{Err: fmt.Errorf("bot: %w", err)})
		return
	}
	a := &ask{line: &w.line, done: done, send: func(a *ask, probe bool) { w.attempt(a, &t, body, probe) }}
	w.enter(a)
}

// attempt sends a turn once.
func (w *Webhook) attempt(a *ask, t *Turn, body []byte, probe bool) {
	ctx, cancel := context.WithTimeout(context.Background(), w.c.Timeout())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.c.URL, bytes.NewReader(body))
	if err != nil {
		cancel()
		a.failed(fmt.Errorf("bot: %w", err), probe, false)
		return
	}
	at := w.now().Unix()
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json", "User-Agent": userAgent,
		HeaderTurn: t.ID, HeaderTimestamp: strconv.FormatInt(at, 10), HeaderSignature: Sign(w.c.Secret, at, body),
	} {
		r.Header.Set(k, v)
	}
	traced(r, t)
	w.client.Do(r, MaxReplyBytes, func(resp safehttp.Response, err error) {
		cancel()
		w.received(a, resp, err, probe)
	})
}

// traced makes a request part of the trace of its turn.
func traced(r *http.Request, t *Turn) {
	if t.Trace != "" {
		r.Header.Set(trace.FieldTraceparent, t.Trace)
	}
}

// received handles the outcome of one attempt.
func (w *Webhook) received(a *ask, resp safehttp.Response, err error, probe bool) {
	switch {
	case err != nil:
		a.failed(err, probe, !errors.Is(err, safehttp.ErrForbidden) && !errors.Is(err, safehttp.ErrTooLong))
	case resp.Status == http.StatusAccepted:
		w.accepted.Add(1)
		a.answered(Answer{Accepted: true}, probe)
	case resp.Status == http.StatusNoContent:
		a.answered(Answer{}, probe)
	case resp.Status == http.StatusOK:
		reply, cut, err := DecodeReply(resp.Body)
		if err != nil {
			a.failed(err, probe, false)
			return
		}
		w.cut.Add(uint64(cut))
		a.answered(Answer{Reply: reply}, probe)
	default:
		a.refused(resp.Status, probe)
	}
}
