package hooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
)

// HeaderEvent is the header field with the id of the event. Those of time and signature are bot.HeaderTimestamp and
// bot.HeaderSignature.
const HeaderEvent = "Eddy-Event"

const (
	maxAnswer  = 64 << 10 // bytes; the body of an answer is not looked at
	maxFailure = 200      // bytes
)

// doer sends requests without blocking; *safehttp.Client is one.
type doer interface {
	Do(r *http.Request, limit int64, done func(safehttp.Response, error))
}

// Signature returns the signatures of a body by all secrets of a webhook, at a time in seconds since 1970.
func Signature(secrets []string, timestamp int64, body []byte) string {
	all := make([]string, len(secrets))
	for i, s := range secrets {
		all[i] = bot.Sign(s, timestamp, body)
	}
	return strings.Join(all, ",")
}

var errSlow = fmt.Errorf("no answer within %v", Timeout)

// post sends an event. It blocks, and returns nil if the receiver has answered with a status of 200 to 299.
func (w *worker) post(ctx context.Context, hook *store.Webhook, e *store.HookEvent, body []byte) error {
	client, err := w.h.o.client(hook.Private)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(body))
	if err != nil {
		return shorten(err)
	}
	at := w.h.o.Now().Unix()
	for k, v := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Eddy-Desk-Hook/1", HeaderEvent: e.ID,
		bot.HeaderTimestamp: strconv.FormatInt(at, 10), bot.HeaderSignature: Signature(hook.Secrets, at, body),
	} {
		r.Header.Set(k, v)
	}
	if e.Trace != "" {
		r.Header.Set(trace.FieldTraceparent, e.Trace)
	}
	ended := make(chan error, 1)
	client.Do(r, maxAnswer, func(resp safehttp.Response, err error) { ended <- verdict(resp, err) })
	after, stop := w.h.o.After(Timeout)
	defer stop()
	select {
	case err := <-ended:
		return shorten(err)
	case <-after:
		return errSlow
	case <-ctx.Done():
		return ctx.Err()
	}
}

// verdict returns nil for an answer that takes the event.
func verdict(resp safehttp.Response, err error) error {
	switch {
	case resp.Status/100 == 2 && (err == nil || errors.Is(err, safehttp.ErrTooLong)):
		return nil
	case err != nil:
		return err
	case resp.Status/100 == 3:
		return fmt.Errorf("answered status %d: redirects are not followed", resp.Status)
	}
	return fmt.Errorf("answered status %d", resp.Status)
}

// shorten keeps the beginning of an error, which may have the receiver's words in it.
func shorten(err error) error {
	if err == nil || len(err.Error()) <= maxFailure {
		return err
	}
	return errors.New(strings.ToValidUTF8(err.Error()[:maxFailure], "") + "…")
}
