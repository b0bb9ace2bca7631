package rpc

import (
	"fmt"
	"slices"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/overload"
)

// Overload returns the overload manager, for its numbers; nil without ServerOptions.Overload, and before Listen. Any goroutine.
func (s *Server) Overload() *overload.Manager {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.manager
}

// watchOverload starts the overload manager, if there is to be one.
func (s *Server) watchOverload() error {
	if s.o.Overload == nil {
		return nil
	}
	o := *s.o.Overload
	o.Servers = make([]*eddy.Server, len(s.ports))
	for i, p := range s.ports {
		o.Servers[i] = p.engine
	}
	if o.Logger == nil {
		o.Logger = s.log
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == serverEnding {
		return ErrClosed
	}
	o.Pools = append(slices.Clone(o.Pools), s.pools.All()...)
	for _, r := range s.registrations {
		if r.user != nil && !slices.Contains(o.Pools, r.user) {
			o.Pools = append(o.Pools, r.user)
		}
	}
	var err error
	if s.manager, err = overload.New(o); err != nil {
		return fmt.Errorf("rpc: ServerOptions.Overload: %w", err)
	}
	return nil
}
