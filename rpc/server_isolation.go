package rpc

import (
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

// newPool makes a pool that ends with the server.
func (s *Server) newPool(name string, o PoolOptions) (*executor.Pool, error) {
	p, err := o.NewPool(name, executor.Options{Dumper: s.o.Dumper, OnExhausted: s.o.OnExhausted, Logger: s.log})
	if err == nil {
		s.pools.Add(p)
	}
	return p, err
}

// givePools chooses the pools of a service, and of its methods, on each of its ports.
func (s *Server) givePools(r *registration, ports []*port) error {
	if r.onLoop {
		r.pools = make([]*executor.Pool, len(ports))
		return nil
	}
	shared := s.o.Isolation == Shared && !r.builtIn
	if shared && (r.user != nil || r.options != nil) {
		s.log.Warn("rpc: WithPool is ignored: isolation is shared", "of", r.String())
	}
	own := r.user
	if r.options != nil && !shared {
		var err error
		if own, err = s.newPool(r.String(), *r.options); err != nil {
			return err
		}
	}
	for i, p := range ports {
		pool := own
		switch {
		case shared:
			pool = p.pool
		case own == nil && r.above != nil:
			pool = r.above.pools[i]
		case own == nil:
			var err error
			if pool, err = s.newPool(r.String()+" on "+p.o.Name, p.o.Pool); err != nil {
				return err
			}
		}
		r.pools = append(r.pools, pool)
	}
	for _, m := range r.own {
		if err := s.givePools(m, ports); err != nil {
			return err
		}
	}
	return nil
}
