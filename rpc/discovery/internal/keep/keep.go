// Package keep is what registries have in common: registrations that are held until they are withdrawn, watches that end with their registry,
// and lists of instances that are checked and bounded.
package keep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/retry"
)

const (
	// MaxRegistrations bounds the registrations of one registry, those included that are being withdrawn.
	MaxRegistrations = 16_384

	leastPause   = 200 * time.Millisecond // after the first failure
	mostPause    = 15 * time.Second
	lastRemoval  = 3 * time.Second  // what a removal may take when the registry is closed
	patientCheck = 10 * time.Second // what a removal may take before
)

// errPending is the error of a registration that the registry has not answered yet.
var errPending = errors.New("discovery: the registry has not taken the registration yet")

// Keeper has the registrations and watches of one registry. Any goroutine may call its methods.
type Keeper struct {
	name  string // for errors and logs
	log   *slog.Logger
	ctx   context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.Mutex
	held    map[string]*registration // the last one of each name
	running int
	closed  bool
}

// New returns the keeper of the registry of that name. End it with Close.
func New(name string, log *slog.Logger) *Keeper {
	ctx, end := context.WithCancel(context.Background())
	return &Keeper{name: name, log: log.With("registry", name), ctx: ctx, end: end, held: make(map[string]*registration)}
}

// Log returns the logger with the name of the registry.
func (k *Keeper) Log() *slog.Logger { return k.log }

// Context ends with Close.
func (k *Keeper) Context() context.Context { return k.ctx }

// Close ends all watches and registrations, and waits for them. Each registration has a few seconds to be removed.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.end()
	k.tasks.Wait()
}

// begin counts a task, which calls tasks.Done. The error is ErrClosed.
func (k *Keeper) begin() error {
	if k.closed {
		return fmt.Errorf("%s: %w", k.name, discovery.ErrClosed)
	}
	k.tasks.Add(1)
	return nil
}

// Go runs f on a goroutine that Close waits for. The error is ErrClosed.
func (k *Keeper) Go(f func()) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.begin(); err != nil {
		return err
	}
	go func() {
		defer k.tasks.Done()
		f()
	}()
	return nil
}

// Watch calls watch with a context that ends with ctx and with Close, and returns its error. If one of them has ended, it returns their error instead.
func (k *Keeper) Watch(ctx context.Context, watch func(ctx context.Context) error) error {
	k.mu.Lock()
	err := k.begin()
	k.mu.Unlock()
	if err != nil {
		return err
	}
	defer k.tasks.Done()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	err = watch(inner)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case k.ctx.Err() != nil:
		return fmt.Errorf("%s: %w", k.name, discovery.ErrClosed)
	}
	return err
}

// askPause is between two attempts of Ask.
const askPause = 200 * time.Millisecond

// Ask calls ask until it has no error, or one that will not go away, which Ask returns. If ctx ends first, its error comes with the last failure.
func (k *Keeper) Ask(ctx context.Context, ask func(ctx context.Context) (refused bool, err error)) error {
	var why error
	err := k.Watch(ctx, func(ctx context.Context) error {
		for {
			refused, err := ask(ctx)
			if err == nil || refused {
				return err
			}
			if ctx.Err() == nil {
				why = err
			}
			if err := Pause(ctx, askPause); err != nil {
				return err
			}
		}
	})
	if err != nil && err == ctx.Err() && why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// Pause waits for d. The error is that of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Holding is how a registry has one instance.
type Holding struct {
	// Name tells registrations apart that are two entries of the registry.
	Name string
	// Keep offers the instance, calls has when the registry has it, and blocks until ctx ends. It returns earlier only with the
	// error because of which the registry does not have the instance. Then Keep is called again.
	Keep func(ctx context.Context, has func()) error
	// Remove takes the instance out, if it is there.
	Remove func(ctx context.Context) error
	// Wake, if it is set, returns what ends the pause before Keep is called again.
	Wake func() <-chan struct{}
}

// Hold keeps an instance in the registry until the registration is withdrawn, or Close. The error says that the name is taken, that
// there are MaxRegistrations, or ErrClosed.
func (k *Keeper) Hold(h Holding) (discovery.Registration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.held[h.Name]
	switch {
	case before != nil && before.ctx.Err() == nil:
		return nil, fmt.Errorf("discovery: %s: %s is registered", k.name, h.Name)
	case k.running >= MaxRegistrations:
		return nil, fmt.Errorf("discovery: %s: more than %d registrations", k.name, MaxRegistrations)
	}
	if err := k.begin(); err != nil {
		return nil, err
	}
	r := &registration{k: k, Holding: h, gone: make(chan struct{}), err: errPending}
	r.ctx, r.withdraw = context.WithCancel(k.ctx)
	k.held[h.Name] = r
	k.running++
	go r.run(before)
	return r, nil
}

// registration is one instance, which a goroutine keeps in the registry.
type registration struct {
	Holding
	k        *Keeper
	ctx      context.Context // ends with withdraw and Close
	withdraw context.CancelFunc
	gone     chan struct{} // closed when the goroutine has ended

	mu  sync.Mutex
	err error
}

// run keeps the instance and removes it in the end. before is what had the name: it ends first, or it would remove the later instance.
func (r *registration) run(before *registration) {
	defer r.k.tasks.Done()
	defer r.leave()
	if before != nil {
		<-before.gone
	}
	if r.ctx.Err() == nil {
		r.keep()
		r.remove()
	}
}

func (r *registration) leave() {
	r.withdraw()
	r.k.mu.Lock()
	defer r.k.mu.Unlock()
	r.k.running--
	if r.k.held[r.Name] == r {
		delete(r.k.held, r.Name)
	}
	close(r.gone)
}

func (r *registration) keep() {
	pauses := newPauses()
	for {
		began := time.Now()
		err := r.Keep(r.ctx, r.taken)
		if r.ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("discovery: the registration ended")
		}
		if time.Since(began) > mostPause {
			pauses.Succeeded()
		}
		pause := pauses.Failed()
		if r.set(err) {
			r.k.log.Warn("not registered", "instance", r.Name, "err", err, "again", pause)
		}
		if r.pause(pause) != nil {
			return
		}
	}
}

// pause waits for d, or until Wake says that it is worth another try.
func (r *registration) pause(d time.Duration) error {
	if r.Wake == nil {
		return Pause(r.ctx, d)
	}
	ctx, cancel := context.WithTimeout(r.ctx, d)
	defer cancel()
	select {
	case <-r.Wake():
	case <-ctx.Done():
	}
	return r.ctx.Err()
}

// remove tries until the instance is gone. Behind Close it tries once.
func (r *registration) remove() {
	r.set(discovery.ErrUnregistered)
	for pauses := newPauses(); r.k.ctx.Err() == nil; {
		ctx, cancel := context.WithTimeout(r.k.ctx, patientCheck)
		err := r.Remove(ctx)
		cancel()
		if err == nil {
			return
		}
		pause := pauses.Failed()
		r.k.log.Warn("not withdrawn", "instance", r.Name, "err", err, "again", pause)
		_ = Pause(r.k.ctx, pause)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastRemoval)
	defer cancel()
	if err := r.Remove(ctx); err != nil {
		r.k.log.Warn("not withdrawn", "instance", r.Name, "err", err)
	}
}

// taken notes that the registry has the instance.
func (r *registration) taken() {
	r.mu.Lock()
	was := r.err
	r.err = nil
	r.mu.Unlock()
	if was != nil {
		r.k.log.Info("registered", "instance", r.Name)
	}
}

// set notes why the registry does not have the instance. It reports whether this is news, and not one more try that failed.
func (r *registration) set(err error) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	news = r.err == nil || errors.Is(r.err, errPending)
	r.err = err
	return news
}

// Withdraw implements discovery.Registration.
func (r *registration) Withdraw(ctx context.Context) error {
	r.withdraw()
	select {
	case <-r.gone:
		return nil
	case <-ctx.Done():
		select {
		case <-r.gone:
			return nil
		default:
			return fmt.Errorf("discovery: %s: %s may still be registered: %w", r.k.name, r.Name, ctx.Err())
		}
	}
}

// Err implements discovery.Registration.
func (r *registration) Err() error {
	if r.ctx.Err() != nil {
		return discovery.ErrUnregistered
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func newPauses() retry.Schedule {
	return retry.Schedule{Min: leastPause, Max: mostPause, Jitter: 0.2, Random: rand.Float64}
}
