package rpc

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
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
	class     limit.Class
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

// newPool makes a pool that ends with the server.
func (s *Server) newPool(name string, o PoolOptions) (*executor.Pool, error) {
	p, err := o.NewPool(name, executor.Options{Dumper: s.o.Dumper, OnExhausted: s.o.OnExhausted, Logger: s.log})
	if err == nil {
		s.pools.Add(p)
	}
	return p, err
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
		if own, err = s.newPool("service "+r.svc.key.String(), *r.options); err != nil {
			return nil, err
		}
	}
	for i, p := range ports {
		if pools[i] = own; own == nil {
			var err error
			if pools[i], err = s.newPool("service "+r.svc.key.String()+" on "+p.o.Name, p.o.Pool); err != nil {
				return nil, err
			}
		}
	}
	return pools, nil
}
