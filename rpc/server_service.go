package rpc

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// Service is a set of methods under one key, which can be registered with any number of servers.
type Service struct {
	key     Key
	methods []Method
}

// NewService returns a service of methods, which Unary, OneWay, Raw and the functions for streams make. The error names the key or the method
// that makes no sense.
func NewService(key Key, methods ...Method) (*Service, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if n := payload.PrefixFixed + len(key.String()); n > MaxPrefix {
		return nil, fmt.Errorf("rpc: a key of %d bytes, limit %d", len(key.String()), MaxPrefix-payload.PrefixFixed)
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("rpc: service %v has no methods", key)
	}
	names := map[string]bool{}
	for _, m := range methods {
		switch {
		case m.name == "":
			return nil, fmt.Errorf("rpc: service %v: a method without a name", key)
		case names[m.name]:
			return nil, fmt.Errorf("rpc: service %v has two methods %q", key, m.name)
		case m.call == nil && m.raw == nil && m.stream == nil:
			return nil, fmt.Errorf("rpc: service %v: method %q has no function", key, m.name)
		}
		names[m.name] = true
	}
	return &Service{key: key, methods: slices.Clone(methods)}, nil
}

// Key returns the service's key.
func (s *Service) Key() Key { return s.key }

// Methods returns the service's methods, in the order in which they were given.
func (s *Service) Methods() []Method { return slices.Clone(s.methods) }

// RegisterOption is a setting of a service, or of one of its methods, on a server.
type RegisterOption func(*registration) error

// Timeout bounds how long a call of the service may take, from its arrival to its response. The smaller of d and the
// client's timeout applies. 0 = the client's.
func Timeout(d time.Duration) RegisterOption {
	return func(r *registration) error {
		if d < 0 {
			return fmt.Errorf("Timeout of %v: it must not be negative", d)
		}
		r.timeout = d
		return nil
	}
}

// Class says how much the calls of the service matter to pools that are adaptive, see PoolOptions.Adaptive. Without it they are limit.Critical. Calls on a port with
// PortOptions.TrustClass may say otherwise.
func Class(c limit.Class) RegisterOption {
	return func(r *registration) error {
		if !c.Valid() {
			return fmt.Errorf("Class of %v: it must be one of those of package limit", c)
		}
		r.class = c
		return nil
	}
}

// OnPorts exports the service on the ports of these names only. Without it the service is on all.
func OnPorts(names ...string) RegisterOption {
	return func(r *registration) error {
		if len(names) == 0 {
			return errors.New("OnPorts without a port")
		}
		r.portNames = append(r.portNames, names...)
		return nil
	}
}

// WithPool runs the service's calls on p, on all its ports. The caller ends p after the server. Only PerService uses p;
// with Shared it is ignored, with a warning in the log.
func WithPool(p *executor.Pool) RegisterOption {
	return func(r *registration) error {
		if p == nil {
			return errors.New("WithPool of nil")
		}
		return r.setPool(p, nil)
	}
}

// WithPoolOptions is WithPool with a pool of these limits that the server makes and ends.
func WithPoolOptions(o PoolOptions) RegisterOption {
	return func(r *registration) error { return r.setPool(nil, &o) }
}

// OnMethod gives one method of the service settings of its own: Timeout, Class, InFlight, WithPool and WithPoolOptions. What it does not say is as
// the service has it. Several OnMethod for one method all count. A pool of its own, for one that finds its limit by itself, keeps a method that has become slow from the others. InFlight of the
// service counts the calls of all methods, whatever a method has of its own.
func OnMethod(name string, options ...RegisterOption) RegisterOption {
	return func(r *registration) error {
		r.methods = append(r.methods, methodOptions{name, options})
		return nil
	}
}

// methodOptions are what OnMethod was given.
type methodOptions struct {
	name    string
	options []RegisterOption
}

// InFlight bounds how many calls of the service are in flight on the server, those that wait included; more are answered
// BUSY. 0 = no bound but that of the pool.
func InFlight(n int) RegisterOption {
	return func(r *registration) error {
		if n < 0 {
			return fmt.Errorf("InFlight of %d: it must not be negative", n)
		}
		r.limit = int64(n)
		return nil
	}
}
