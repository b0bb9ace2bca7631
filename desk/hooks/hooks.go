package hooks

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/desk/lease"
	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/trace"
)

// Options configure a Hooks. Store, Tell and Turn are required.
type Options struct {
	Store store.Store
	// Tell returns the body of a request about a row, nil if there is nothing to tell any more.
	Tell func(ctx context.Context, r *store.OutboxRow) (json.RawMessage, error)
	// Turn waits until the store may be read, and returns what ends that.
	Turn func(ctx context.Context) (release func(), err error)

	Keep     time.Duration     // for how long the outbox keeps rows, default DefaultKeep
	KeepRows int64             // how many at most, default DefaultKeepRows
	Hold     lease.Hold        // one of several servers sends; default lease.Alone
	Resolver safehttp.Resolver // of the addresses of webhooks; default net.DefaultResolver
	TLS      *tls.Config       // of connections to them; default the roots of the system
	Trace    *trace.Recorder   // makes spans of requests that belong to a trace, see safehttp.Options; default none
	Logger   *slog.Logger      // default slog.Default()
	Now      func() time.Time  // default time.Now
	// After returns a channel that gets a value when Now has advanced by d, and a function that gives it up. Default is
	// a time.Timer.
	After func(d time.Duration) (<-chan time.Time, func() bool)

	client func(private bool) (doer, error) // of tests
}

// Numbers of the outbox and of webhooks.
const (
	DefaultKeep     = 7 * 24 * time.Hour
	DefaultKeepRows = 1_000_000

	Timeout   = 10 * time.Second // of one request
	GiveUp    = 24 * time.Hour   // an event that is older is given up with its next failure
	firstWait = 10 * time.Second // after the first failure of an event; doubles
	maxWait   = time.Hour
	maxRest   = 10 * time.Minute // between two tries of a webhook that fails

	lanes      = 8  // requests of one webhook at once
	pageRows   = 64 // rows of the outbox that one round looks at
	breakAfter = 5  // lanes that fail without a success between, after which a webhook gets one request at a time
	trimEvery  = time.Minute
	trimRows   = 1000 // rows of one command
	lookAgain  = time.Minute
	storePause = time.Second // after the store has failed; doubles
	maxPause   = 30 * time.Second
)

func (o *Options) fill() error {
	if o.Store == nil || o.Tell == nil || o.Turn == nil {
		return errors.New("hooks: Options.Store, Options.Tell and Options.Turn are required")
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.KeepRows == 0 {
		o.KeepRows = DefaultKeepRows
	}
	if o.Hold == nil {
		o.Hold = lease.Alone
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = func(d time.Duration) (<-chan time.Time, func() bool) {
			t := time.NewTimer(d)
			return t.C, t.Stop
		}
	}
	return nil
}

// Hooks sends what happens to every webhook, each on a goroutine of its own, so that none waits for another. Any
// goroutine may call its methods.
type Hooks struct {
	o       Options
	clients *safehttp.Pair
	pool    *executor.Pool // TLS handshakes
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	changed chan struct{} // holds one element while webhooks have to be read again

	mu      sync.Mutex
	workers map[string]*worker // by id of the webhook
}

// New returns a Hooks. Start makes it work.
func New(o Options) (*Hooks, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	h := &Hooks{o: o, changed: make(chan struct{}, 1), workers: make(map[string]*worker)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// Start begins to send, with what a crash has left. Call it once; Stop ends it.
func (h *Hooks) Start() error {
	pool, err := executor.NewFixed(executor.Options{Name: "hooks", Workers: 2, Queue: 64, Logger: h.o.Logger})
	if err != nil {
		return err
	}
	h.pool = pool
	h.clients = safehttp.NewPair("desk-hooks", safehttp.Options{Handshakes: pool, TLS: h.o.TLS, Resolver: h.o.Resolver, Logger: h.o.Logger, Trace: h.o.Trace})
	if h.o.client == nil {
		h.o.client = func(private bool) (doer, error) { return h.clients.Client(private) }
	}
	h.running.Go(func() { h.o.Hold(h.ctx, h.work) })
	return nil
}

// work sends until ctx ends.
func (h *Hooks) work(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { h.trim(ctx) })
	h.manage(ctx, &running)
	running.Wait()
}

// Stop ends everything. Requests under way are cut off, and sent again by the next start. A second call does nothing.
func (h *Hooks) Stop() error {
	h.cancel()
	h.running.Wait()
	if h.pool == nil {
		return nil
	}
	err := h.clients.Close()
	h.pool.Close()
	_, down := h.pool.Shutdown(context.Background())
	h.pool = nil
	return errors.Join(err, down)
}

// Changed tells that webhooks were made, changed or removed. It does not block.
func (h *Hooks) Changed() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// manage starts a worker for each webhook, and wakes them when something about webhooks has changed.
func (h *Hooks) manage(ctx context.Context, running *sync.WaitGroup) {
	for changed := true; ctx.Err() == nil; {
		pause := lookAgain
		if err := h.look(ctx, running, changed); err != nil && ctx.Err() == nil {
			h.o.Logger.Warn("desk: the webhooks could not be read", "err", err)
			pause = storePause
		}
		changed = h.wait(ctx, pause, h.changed)
	}
}

// wait returns after d, at the end of ctx, or with true when something comes from ch.
func (h *Hooks) wait(ctx context.Context, d time.Duration, ch <-chan struct{}) bool {
	after, stop := h.o.After(d)
	defer stop()
	select {
	case <-ch:
		return true
	case <-after:
	case <-ctx.Done():
	}
	return false
}

// look reads the webhooks. kick makes each try at once.
func (h *Hooks) look(ctx context.Context, running *sync.WaitGroup, kick bool) error {
	release, err := h.o.Turn(ctx)
	if err != nil {
		return err
	}
	all, err := h.o.Store.Cold().Webhooks(ctx)
	release()
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range all {
		w, known := h.workers[all[i].ID]
		if !known {
			w = newWorker(h, all[i].ID)
			h.workers[w.id] = w
		}
		w.wake(&all[i], known && kick)
		if !known {
			running.Go(func() { w.run(ctx) })
		}
	}
	for id, w := range h.workers {
		if !slices.ContainsFunc(all, func(hook store.Webhook) bool { return hook.ID == id }) {
			w.look() // and end
		}
	}
	return nil
}

// ended forgets a worker whose webhook is gone.
func (h *Hooks) ended(w *worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.workers, w.id)
}

// trim keeps the outbox small.
func (h *Hooks) trim(ctx context.Context) {
	for ctx.Err() == nil {
		more, err := h.o.Store.TrimOutbox(ctx, store.OutboxTrim{Before: h.o.Now().Add(-h.o.Keep).UnixMilli(), Keep: h.o.KeepRows, Limit: trimRows})
		switch {
		case err != nil && ctx.Err() == nil:
			h.o.Logger.Warn("desk: old events could not be deleted", "err", err)
		case more:
			continue
		}
		h.wait(ctx, trimEvery, nil)
	}
}

// Stats are the numbers of one webhook. All but Failing, Behind and Waiting only grow.
type Stats struct {
	ID        string
	Host      string // of its URL
	Failing   bool   // it gets one request at a time, because it has failed too often
	Behind    int64  // numbers of the outbox that it has still to be told, events for others included
	Waiting   int    // events that it has failed, with those behind them
	Delivered uint64
	Failed    uint64 // requests
	Dead      uint64 // events given up
	Lost      uint64 // events deleted undelivered
}

// Stats returns the numbers of the webhooks since this server sends, by id.
func (h *Hooks) Stats() []Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Stats, 0, len(h.workers))
	for _, w := range h.workers {
		all = append(all, w.stats())
	}
	slices.SortFunc(all, func(a, b Stats) int { return strings.Compare(a.ID, b.ID) })
	return all
}
