package rpc

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
)

// registration is a service on a server, or a method of one that has settings of its own.
type registration struct {
	svc       *Service
	method    string          // "" = the service
	above     *registration   // of the service, for a method
	own       []*registration // of its methods
	timeout   time.Duration
	portNames []string
	user      *executor.Pool   // of WithPool
	options   *PoolOptions     // of WithPoolOptions
	pools     []*executor.Pool // on each port
	builtIn   bool             // one of the server's own: isolation and dispatcher do not apply
	onLoop    bool
	class     limit.Class
	methods   []methodOptions
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
	if o != nil {
		return o.check()
	}
	return nil
}

// String names the service or the method, as errors and pools do.
func (r *registration) String() string {
	if r.method != "" {
		return fmt.Sprintf("method %v/%s", r.svc.key, r.method)
	}
	return "service " + r.svc.key.String()
}

// set applies options, then those of methods. retryAfter is what a call beyond InFlight is told.
func (r *registration) set(options []RegisterOption, retryAfter time.Duration) error {
	for _, o := range options {
		if err := o(r); err != nil {
			return fmt.Errorf("rpc: %v: %w", r, err)
		}
	}
	r.full = &frame.StatusError{
		Status:     frame.StatusBusy,
		RetryAfter: retryAfter,
		Message:    fmt.Sprintf("%v is at its limit of %d calls in flight", r, r.limit),
	}
	switch {
	case r.above == nil:
	case r.portNames != nil:
		return fmt.Errorf("rpc: %v: OnPorts is for a whole service", r)
	case r.methods != nil:
		return fmt.Errorf("rpc: %v: OnMethod in an OnMethod", r)
	}
	for _, m := range r.methods {
		own := r.of(m.name)
		switch {
		case !slices.ContainsFunc(r.svc.methods, func(o Method) bool { return o.name == m.name }):
			return fmt.Errorf("rpc: %v: OnMethod: there is no method %q", r, m.name)
		case own == r:
			own = &registration{svc: r.svc, method: m.name, above: r, timeout: r.timeout, class: r.class}
			r.own = append(r.own, own)
		}
		if err := own.set(m.options, retryAfter); err != nil {
			return err
		}
	}
	return nil
}

// of returns what has the settings of a method: r itself if the method has none of its own.
func (r *registration) of(method string) *registration {
	for _, own := range r.own {
		if own.method == method {
			return own
		}
	}
	return r
}

// enter counts a call, or returns the answer to one beyond a bound. Whoever has entered leaves once.
func (r *registration) enter() error {
	for at := r; at != nil; at = at.above {
		if n := at.inFlight.Add(1); at.limit > 0 && n > at.limit {
			r.leave(at)
			for refused := r; refused != nil; refused = refused.above {
				refused.limited.Add(1)
			}
			return at.full
		}
	}
	for at := r; at != nil; at = at.above {
		at.calls.Add(1)
	}
	return nil
}

// leave uncounts a call, up to last, nil for all.
func (r *registration) leave(last *registration) {
	for at := r; at != nil; at = at.above {
		at.inFlight.Add(-1)
		if at == last {
			return
		}
	}
}

func (r *registration) stats() ServiceStats {
	st := ServiceStats{Calls: r.calls.Load(), InFlight: r.inFlight.Load(), Limited: r.limited.Load()}
	for _, own := range r.own {
		if st.Methods == nil {
			st.Methods = make(map[string]ServiceStats)
		}
		st.Methods[own.method] = own.stats()
	}
	return st
}
