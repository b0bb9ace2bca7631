package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/retry"
)

// The pauses after a Watch that has failed, of a Book.
const (
	leastPause = 100 * time.Millisecond
	mostPause  = 10 * time.Second
	jitter     = 0.2
)

// logEvery is the least time between two lines about a resolver.
const logEvery = time.Second

var (
	// ErrNone is the error of Pick when the resolver has named no instance.
	ErrNone = errors.New("no address: the resolver has returned none")
	// ErrEnded is the error of Pick after Close.
	ErrEnded = errors.New("the client was closed")
)

// Book is what a client that makes connections as it needs them knows of its servers. All methods may be called by any goroutine.
type Book struct {
	*balance.Balancer

	Context context.Context // ends with Close

	cancel   context.CancelFunc
	tasks    sync.WaitGroup
	mu       sync.Mutex
	closed   bool      // no more tasks
	follower *Follower // nil without a resolver
	logs     sample.Seldom
	ready    chan struct{} // closed with the first answer, or the first error
	once     sync.Once
	reason   atomic.Pointer[error] // the first error
}

// NewBook returns a Book without instances. Fill it with Update, or call Follow.
func NewBook(o balance.Options) (*Book, error) {
	b := &Book{ready: make(chan struct{})}
	var err error
	if b.Balancer, err = balance.New(o); err != nil {
		return nil, err //nolint:wrapcheck // says what is wrong
	}
	b.Context, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// Follow follows a resolver from now on. attach and detach are called for each Node that comes and goes, and may be nil.
func (b *Book) Follow(r discovery.Resolver, log *slog.Logger, attach, detach func(*balance.Node)) {
	b.follower = &Follower{
		Resolver: r,
		Pauses:   retry.Schedule{Min: leastPause, Max: mostPause, Jitter: jitter, Random: rand.Float64},
		Apply: func(list []discovery.Instance) {
			before := b.Nodes()
			b.Update(list, attach)
			stays := make(map[*balance.Node]bool)
			for _, n := range b.Nodes() {
				stays[n] = true
			}
			for _, n := range before {
				if !stays[n] && detach != nil {
					detach(n)
				}
			}
			b.answered()
		},
		Failed: func(err error, first bool) {
			if ok, held := b.logs.Allow(logEvery); ok {
				log.Warn("rpc: resolving failed; the servers stay as they are", "err", err, "held_back", held)
			}
			if first {
				err = fmt.Errorf("resolving: %w", err)
				b.reason.Store(&err)
				b.answered()
			}
		},
	}
	b.Go(func() { b.follower.Run(b.Context) })
}

func (b *Book) answered() { b.once.Do(func() { close(b.ready) }) }

// PickOrWait is Pick that waits for the first answer of the resolver, as long as ctx allows and until by, which may be zero. The errors are that of ctx,
// context.DeadlineExceeded, ErrEnded, ErrNone and the resolver's.
func (b *Book) PickOrWait(ctx context.Context, by time.Time, hash uint64, tried []*balance.Node) (*balance.Node, error) {
	if n := b.Pick(hash, tried); n != nil {
		return n, nil
	}
	if b.follower != nil {
		if err := b.await(ctx, by); err != nil {
			return nil, err
		}
	}
	if n := b.Pick(hash, tried); n != nil {
		return n, nil
	}
	if why := b.reason.Load(); why != nil {
		return nil, *why
	}
	return nil, ErrNone
}

func (b *Book) await(ctx context.Context, by time.Time) error {
	if !by.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, by)
		defer cancel()
	}
	select {
	case <-b.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-b.Context.Done():
		return ErrEnded
	}
}

// Refresh has the resolver asked before its time, if there is one that can be.
func (b *Book) Refresh() {
	if b.follower != nil {
		b.follower.Refresh()
	}
}

// Put sets the numbers of the balancer and the resolver in s.
func (b *Book) Put(s *balance.Stats) {
	*s = b.Balancer.Stats()
	if b.follower != nil {
		b.follower.Put(s)
	}
}

// Go runs f, which ends with Context, on a goroutine that Close waits for. After Close it does nothing.
func (b *Book) Go(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.tasks.Go(f)
	}
}

// Close ends the goroutines and waits for them.
func (b *Book) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.tasks.Wait()
}
