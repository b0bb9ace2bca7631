package lease

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/sample"
)

// DefaultLife is Options.Life unless it is set.
const DefaultLife = 10 * time.Second

const (
	claims   = 4  // in a life
	margin   = 10 // part of a life for the work to end
	logEvery = time.Minute
)

// Options configure leases. Store is required. Any goroutine may use them.
type Options struct {
	Store  store.Leases
	Life   time.Duration // of a claim: when its server has died, another one goes on after so long; default DefaultLife
	Logger *slog.Logger  // default slog.Default()
}

// Hold runs work while the server is the one to do it, and returns when ctx has ended and the work with it. The work must
// end soon after its own context. It may be run again after that.
type Hold func(ctx context.Context, work func(ctx context.Context))

// Alone is the Hold of a server that is alone.
func Alone(ctx context.Context, work func(ctx context.Context)) { work(ctx) }

// Hold returns the Hold of work that one server does at a time, by the name of its lease.
func (o Options) Hold(name string) Hold {
	if o.Life <= 0 {
		o.Life = DefaultLife
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return func(ctx context.Context, work func(ctx context.Context)) {
		(&holder{o: o, name: name, work: work}).run(ctx)
	}
}

// holder holds one name, or waits for it.
type holder struct {
	o        Options
	name     string
	work     func(ctx context.Context)
	failures sample.Seldom // of the log
}

func (h *holder) run(ctx context.Context) {
	for ctx.Err() == nil {
		end := h.end(time.Now())
		l, err := h.claim(ctx, end)
		switch {
		case err == nil && l.Token == 0:
			h.work(ctx)
		case err == nil:
			h.hold(ctx, l, end)
		}
		h.pause(ctx, h.o.Life/claims, nil)
	}
}

// end returns when the work has to end that follows from a claim: before another server may begin, so that it has time.
func (h *holder) end(claimed time.Time) time.Time { return claimed.Add(h.o.Life - h.o.Life/margin) }

// claim claims the name. An answer after an end is none.
func (h *holder) claim(ctx context.Context, end time.Time) (store.Lease, error) {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	l, err := h.o.Store.Claim(ctx, h.name, h.o.Life)
	if err != nil && !errors.Is(err, store.ErrLeased) && ctx.Err() == nil {
		if ok, held := h.failures.Allow(logEvery); ok {
			h.o.Logger.Warn("desk: a lease could not be claimed", "lease", h.name, "err", err, "held_back", held)
		}
	}
	return l, err
}

// pause waits between two claims. It reports whether it was cut short.
func (h *holder) pause(ctx context.Context, d time.Duration, done <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-done:
	case <-ctx.Done():
	}
	return true
}

// hold does the work until the lease is lost or ctx ends, and gives the lease back when the work has ended.
func (h *holder) hold(ctx context.Context, l store.Lease, end time.Time) {
	h.o.Logger.Debug("desk: this server has a lease", "lease", h.name, "token", l.Token)
	working, stop := context.WithCancel(l.Bind(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.work(working)
	}()
	h.renew(ctx, l, end, done)
	stop()
	<-done
	giving, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.o.Life/claims)
	defer cancel()
	if err := h.o.Store.Release(giving, l); err != nil {
		h.o.Logger.Debug("desk: a lease could not be given back, and ends by itself", "lease", h.name, "err", err)
	}
}

// renew claims the name again and again. It returns when ctx or the work has ended, when another server has had the name, and
// when the last claim that was answered counts no more.
func (h *holder) renew(ctx context.Context, l store.Lease, end time.Time, done <-chan struct{}) {
	for !h.pause(ctx, min(h.o.Life/claims, time.Until(end)), done) {
		now := time.Now()
		again, err := h.claim(ctx, end)
		lost := errors.Is(err, store.ErrLeased) || err == nil && again.Token != l.Token
		switch {
		case lost || !time.Now().Before(end):
			if ctx.Err() == nil {
				h.o.Logger.Warn("desk: this server has lost a lease and leaves its work to another one", "lease", h.name, "err", err)
			}
			return
		case err == nil:
			end = h.end(now)
		}
	}
}
