package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
)

// Isolation says which services share a pool. docs/rpc.md compares the default with Dubbo's.
type Isolation uint8

const (
	// Shared runs the services of a port on the pool of the port. The default.
	Shared Isolation = iota
	// PerService gives each service a pool of its own, so that a service without a free worker takes nothing from the
	// others. A pool that the service was registered with serves all its ports. Without one, each port gets a pool for
	// the service, with the limits of the port's pool.
	PerService
	isolations
)

var isolationNames = [isolations]string{"shared", "service"}

// String returns the name that configurations use.
func (i Isolation) String() string { return nameOf(i, isolationNames[:], "isolation") }

// ParseIsolation returns the isolation of that name: shared or service.
func ParseIsolation(name string) (Isolation, error) {
	return parseName[Isolation](name, isolationNames[:], "isolation")
}

// registration is a service on a server.
type registration struct {
	svc       *Service
	timeout   time.Duration
	portNames []string
	user      *executor.Pool // of WithPool
	options   *PoolOptions   // of WithPoolOptions
	builtIn   bool           // one of the server's own: isolation and dispatcher do not apply
	onLoop    bool
	limit     int64 // calls in flight, 0 = none
	full      error // the answer beyond limit
	serving   atomic.Bool

	calls    atomic.Uint64
	limited  atomic.Uint64
	inFlight atomic.Int64
}

func (r *registration) setPool(p *executor.Pool, o *PoolOptions) error {
	if r.user != nil || r.options != nil {
		return errors.New("two pools: WithPool and WithPoolOptions are alternatives")
	}
	r.user, r.options = p, o
	return nil
}

// limitError returns the answer to a call beyond InFlight.
func (r *registration) limitError(retryAfter time.Duration) error {
	return &frame.StatusError{
		Status:     frame.StatusBusy,
		RetryAfter: retryAfter,
		Message:    fmt.Sprintf("service %v is at its limit of %d calls in flight", r.svc.key, r.limit),
	}
}

// repository holds the pools that the server has made.
type repository struct {
	base executor.Options // what the server's options say of all pools

	mu    sync.Mutex
	pools []*executor.Pool
}

// make makes a pool and keeps it for end.
func (r *repository) make(name string, o PoolOptions) (*executor.Pool, error) {
	p, err := o.NewPool(name, r.base)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pools = append(r.pools, p)
	return p, nil
}

func (r *repository) all() []*executor.Pool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*executor.Pool(nil), r.pools...)
}

// onWorker reports whether the caller runs on a worker of the pools, which must not wait for their end.
func (r *repository) onWorker() bool {
	for _, p := range r.all() {
		if p.OnWorker() {
			return true
		}
	}
	return false
}

// end ends the pools side by side, and returns when the last worker or ctx has ended.
func (r *repository) end(ctx context.Context) error {
	var wg sync.WaitGroup
	pools := r.all()
	errs := make([]error, len(pools))
	for i, p := range pools {
		wg.Go(func() { _, errs[i] = p.Shutdown(ctx) }) // nothing is left: the connections are gone
	}
	wg.Wait()
	return errors.Join(errs...)
}

// poolsOf chooses the pool of a service on each of its ports, in their order.
func (s *Server) poolsOf(r *registration, ports []*port) ([]*executor.Pool, error) {
	pools := make([]*executor.Pool, len(ports))
	if r.onLoop {
		return pools, nil
	}
	own := r.user
	if s.o.Isolation == Shared && !r.builtIn {
		if r.user != nil || r.options != nil {
			s.log.Warn("rpc: the service's own pool is ignored: isolation is shared", "service", r.svc.key.String())
		}
		for i, p := range ports {
			pools[i] = p.pool
		}
		return pools, nil
	}
	if r.options != nil {
		var err error
		if own, err = s.pools.make("service "+r.svc.key.String(), *r.options); err != nil {
			return nil, err
		}
	}
	for i, p := range ports {
		if pools[i] = own; own == nil {
			var err error
			if pools[i], err = s.pools.make("service "+r.svc.key.String()+" on "+p.o.Name, p.o.Pool); err != nil {
				return nil, err
			}
		}
	}
	return pools, nil
}
