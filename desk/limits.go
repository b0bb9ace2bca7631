package desk

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/sample"
)

const (
	limitsEvery = time.Second           // between two looks at what others have spent
	limitsPause = 50 * time.Millisecond // between two of them at least
)

// limits tell the other servers what this one has spent of limits that all count together, and spend what they have.
type limits struct {
	shared *auth.Shared
	store  store.Store
	now    func() time.Time
	logger *slog.Logger

	at     int64 // place up to which others have been heard
	cancel context.CancelFunc
	done   sync.WaitGroup
	failed sample.Seldom // of the log
}

// openLimits prepares the sharing of limits. A server that is alone shares none.
func (d *Desk) openLimits(ctx context.Context) error {
	if d.store.Node() == "" {
		return nil
	}
	secret, err := d.store.Secret(ctx, "limits")
	if err != nil {
		return err
	}
	d.limits = &limits{shared: auth.NewShared(secret), store: d.store, now: d.o.Now, logger: d.o.Logger}
	return nil
}

// counting returns what limits count together with, nil = nothing.
func (l *limits) counting() *auth.Shared {
	if l == nil {
		return nil
	}
	return l.shared
}

func (l *limits) start() {
	if l == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.done.Go(func() { l.run(ctx) })
}

func (l *limits) stop() {
	if l == nil || l.cancel == nil {
		return
	}
	l.cancel()
	l.done.Wait()
}

func (l *limits) run(ctx context.Context) {
	for {
		if err := l.exchange(ctx); err != nil && ctx.Err() == nil {
			if ok, held := l.failed.Allow(time.Minute); ok {
				l.logger.Warn("desk: limits count for this server alone, because the store failed", "err", err, "held_back", held)
			}
		}
		pause := time.NewTimer(limitsPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		look := time.NewTimer(limitsEvery)
		select {
		case <-l.shared.Hot():
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return
		}
		look.Stop()
	}
}

// exchange tells what has been spent here, and spends what was told.
func (l *limits) exchange(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limitsEvery)
	defer cancel()
	for {
		spent := l.shared.Spent(store.SpentRows, l.now())
		if err := l.store.ShareSpent(ctx, spent); err != nil {
			return err
		}
		others, at, more, err := l.store.Hot().OthersSpent(ctx, l.at)
		if err != nil {
			return err
		}
		l.at = at
		l.shared.Spend(others, l.now())
		if !more && len(spent) < store.SpentRows {
			return nil
		}
	}
}
