package push

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	webpush "github.com/SherClockHolmes/webpush-go"

	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
)

// Timeout is how long one request may take.
const Timeout = 10 * time.Second

const (
	life       = time.Hour        // for which a push service keeps a call for a browser that is not there
	recordSize = 2048             // bytes of every request: its length tells nothing
	maxAnswer  = 4 << 10          // bytes; the body of an answer is not looked at
	firstWait  = 15 * time.Second // after the first failure of an endpoint; doubles
	maxWait    = time.Hour
	maxTries   = 6
	topic      = "desk" // a call takes the place of the one before that its browser has not fetched
	noContact  = "https://desk.invalid"
)

// doer sends requests without blocking; *safehttp.Client is one.
type doer interface {
	Do(r *http.Request, limit int64, done func(safehttp.Response, error))
}

// poster is a doer as the library wants it.
type poster struct {
	push *Push
	doer doer
}

var errSlow = fmt.Errorf("no answer within %v", Timeout)

// Do implements webpush.HTTPClient. It blocks.
func (c poster) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	type outcome struct {
		resp safehttp.Response
		err  error
	}
	ended := make(chan outcome, 1)
	c.doer.Do(r.WithContext(ctx), maxAnswer, func(resp safehttp.Response, err error) { ended <- outcome{resp, err} })
	after, stop := c.push.o.After(Timeout)
	defer stop()
	select {
	case o := <-ended:
		if o.err != nil && !errors.Is(o.err, safehttp.ErrTooLong) {
			return nil, o.err
		}
		return &http.Response{StatusCode: o.resp.Status, Header: o.resp.Header, Body: http.NoBody}, nil
	case <-after:
		return nil, errSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// send makes one request, and notes what became of it.
func (p *Push) send(a *account, s *store.PushSubscription, n news) {
	resp, err := p.post(s, n)
	now := p.o.Now()
	switch {
	case p.ctx.Err() != nil:
		return
	case err == nil && resp.StatusCode/100 == 2:
		p.n.sent.Add(1)
		p.told(a, s)
		return
	case err == nil && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone):
		p.n.gone.Add(1)
		p.told(a, s)
		p.drop(s)
		return
	case err == nil:
		err = fmt.Errorf("answered status %d", resp.StatusCode)
	}
	p.n.failed.Add(1)
	p.warn("desk: a push service did not take a call", "host", host(s.Endpoint), "err", err)
	if errors.Is(err, safehttp.ErrForbidden) || resp != nil && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode/100 != 5 {
		p.n.lost.Add(1)
		p.told(a, s) // another try would end the same
		return
	}
	var wait time.Duration
	if resp != nil {
		wait = retryAfter(resp.Header, now)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !a.later(s.Endpoint, wait, now) {
		p.n.lost.Add(1)
	}
}

func (p *Push) told(a *account, s *store.PushSubscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.told(s.Endpoint)
}

// drop removes a subscription that its push service does not know, unless the browser has given another one meanwhile.
func (p *Push) drop(s *store.PushSubscription) {
	ctx, cancel := context.WithTimeout(p.ctx, storeWithin)
	defer cancel()
	err := p.o.Store.DropPush(ctx, s.Login, s.Endpoint)
	if err != nil && !errors.Is(err, store.ErrNotFound) && p.ctx.Err() == nil {
		p.warn("desk: a subscription that has ended could not be removed", "host", host(s.Endpoint), "err", err) // the next call tries it again
	}
}

// post encrypts and sends a call.
func (p *Push) post(s *store.PushSubscription, n news) (*http.Response, error) {
	client, err := p.o.client()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(n.words(s.Locale))
	if err != nil {
		return nil, err
	}
	contact := p.o.Contact
	if contact == "" {
		contact = noContact
	}
	to := &webpush.Subscription{Endpoint: s.Endpoint, Keys: webpush.Keys{P256dh: base64.RawURLEncoding.EncodeToString(s.Key), Auth: base64.RawURLEncoding.EncodeToString(s.Auth)}}
	return webpush.SendNotificationWithContext(p.ctx, body, to, &webpush.Options{
		HTTPClient: poster{p, client}, RecordSize: recordSize, Subscriber: contact, Topic: topic, TTL: int(life.Seconds()), Urgency: webpush.UrgencyHigh,
		VAPIDPublicKey: p.keys.public, VAPIDPrivateKey: p.keys.private,
	})
}

// host returns that of an endpoint. The rest of its address is a secret.
func host(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}

// retryAfter returns how long an answer asks to wait, 0 = it does not say (RFC 9110, section 10.2.3).
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
