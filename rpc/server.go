package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/overload"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/rpc/internal/pools"
)

const (
	// DefaultRetryAfter is ServerOptions.RetryAfter if the options do not say.
	DefaultRetryAfter = 50 * time.Millisecond
	// closeTimeout bounds how long Close waits for methods that run.
	closeTimeout = 10 * time.Second
)

// DefaultDrainGrace is ServerOptions.DrainGrace if the options do not say.
const DefaultDrainGrace = 250 * time.Millisecond

// ServerOptions say how a Server serves. At least one port is required.
type ServerOptions struct {
	Ports     []PortOptions
	Isolation Isolation

	// RetryAfter is the advice to clients whose call was not executed, in BUSY, UNAVAILABLE and GOAWAY; 0 =
	// DefaultRetryAfter, negative = none.
	RetryAfter time.Duration

	// DrainGrace is how long Shutdown keeps a connection open for calls that cross its GOAWAY. Such calls are answered
	// UNAVAILABLE and made elsewhere. Clients that obey GOAWAY end it earlier. 0 = DefaultDrainGrace, negative = none.
	DrainGrace time.Duration

	// Overload switches on the overload manager of package overload; &overload.Options{} has all its defaults. Its Servers are the
	// ports; its Pools those of the services that are registered before Listen, beside those that it names. nil = none.
	Overload *overload.Options

	Discovery DiscoveryOptions // where the services are registered

	Interceptors       []Interceptor       // around every method, the first one outermost
	StreamInterceptors []StreamInterceptor // around every method that streams, likewise

	// For the pools that the server makes, see executor.Options.
	Dumper      *executor.Dumper
	OnExhausted func(executor.Exhaustion)

	Logger *slog.Logger // nil = slog.Default()
}

// Server serves services on one or more ports. Make one with NewServer, then call Register and Listen. Each call gets
// exactly one response, whatever becomes of it, unless its connection ends before. All methods may be called by any
// goroutine.
type Server struct {
	o     ServerOptions
	log   *slog.Logger
	ports []*port
	pools pools.Set // those that the server has made

	small *executor.Pool // one of these, for what is answered while the others are full

	mu            sync.Mutex
	registrations []*registration
	changed       chan struct{} // closed when the health of a service changes
	state         serverState
	ended         chan struct{} // closed when nothing runs any more
	endOnce       sync.Once

	announcer *announcer        // nil without a registry
	manager   *overload.Manager // nil without ServerOptions.Overload, and before Listen
}

type serverState uint8

const (
	serverNew serverState = iota
	serverListening
	serverEnding
)

// NewServer returns a server with the services eddy.Health and eddy.Reflection. End the server with Shutdown or Close.
// The error names the option that makes no sense.
func NewServer(o ServerOptions) (*Server, error) {
	switch {
	case len(o.Ports) == 0:
		return nil, errors.New("rpc: ServerOptions.Ports is empty")
	case o.Isolation >= isolations:
		return nil, fmt.Errorf("rpc: ServerOptions.Isolation is %d: there is no such isolation", o.Isolation)
	}
	if err := o.Discovery.check(); err != nil {
		return nil, err
	}
	o.RetryAfter = max(cmp.Or(o.RetryAfter, DefaultRetryAfter), 0)
	o.DrainGrace = max(cmp.Or(o.DrainGrace, DefaultDrainGrace), 0)
	s := &Server{o: o, log: cmp.Or(o.Logger, slog.Default()), changed: make(chan struct{}), ended: make(chan struct{})}
	s.announcer = newAnnouncer(o.Discovery, s.log)
	if err := s.build(); err != nil {
		_ = s.pools.End(context.Background()) // nothing runs on them
		return nil, err
	}
	return s, nil
}

func (s *Server) build() error {
	for i, o := range s.o.Ports {
		p, err := s.newPort(i, o)
		if err != nil {
			return err
		}
		if s.port(p.o.Name) != nil {
			return fmt.Errorf("rpc: ServerOptions.Ports: two ports have the name %q", p.o.Name)
		}
		s.ports = append(s.ports, p)
	}
	if err := s.registerBuiltIn(); err != nil {
		return err
	}
	s.small = (*s.ports[0].table.Load())[ReflectionKey.String()]["List"].pool
	for _, p := range s.ports {
		if p.grpc != nil {
			s.exportGRPCServices(p.grpc)
		}
	}
	return nil
}

// port returns the port of that name, nil if there is none.
func (s *Server) port(name string) *port {
	for _, p := range s.ports {
		if p.o.Name == name {
			return p
		}
	}
	return nil
}

// Register adds a service, also while the server listens. The error names the option that makes no sense, a port that
// is not there, or a key that is taken.
func (s *Server) Register(svc *Service, options ...RegisterOption) error {
	if svc == nil {
		return errors.New("rpc: Register of a nil Service")
	}
	return s.register(&registration{svc: svc}, options)
}

func (s *Server) register(r *registration, options []RegisterOption) error {
	if err := r.set(options, s.o.RetryAfter); err != nil {
		return err
	}
	r.serving.Store(true)
	ports, err := s.portsOf(r)
	if err == nil {
		err = s.export(r, ports)
	}
	if err == nil {
		s.announcer.update(r, ports)
	}
	return err
}

// export adds a service to ports.
func (s *Server) export(r *registration, ports []*port) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == serverEnding {
		return fmt.Errorf("rpc: service %v: %w", r.svc.key, ErrClosed)
	}
	if s.registration(r.svc.key) != nil {
		return fmt.Errorf("rpc: service %v is registered", r.svc.key)
	}
	if err := s.givePools(r, ports); err != nil {
		return err
	}
	s.registrations = append(s.registrations, r)
	s.healthChanged()
	for i, p := range ports {
		p.export(r, i)
	}
	return nil
}

// registration returns the registration of a key, nil if there is none. s.mu is held.
func (s *Server) registration(key Key) *registration {
	i := slices.IndexFunc(s.registrations, func(r *registration) bool { return r.svc.key == key })
	if i < 0 {
		return nil
	}
	return s.registrations[i]
}

func (s *Server) portsOf(r *registration) ([]*port, error) {
	if len(r.portNames) == 0 {
		return s.ports, nil
	}
	var list []*port
	for _, name := range r.portNames {
		p := s.port(name)
		switch {
		case p == nil:
			return nil, fmt.Errorf("rpc: service %v: OnPorts: there is no port %q", r.svc.key, name)
		case slices.Contains(list, p):
			return nil, fmt.Errorf("rpc: service %v: OnPorts: port %q twice", r.svc.key, name)
		}
		list = append(list, p)
	}
	return list, nil
}

// Listen binds the ports and returns when all of them serve. If that fails, the error names the port, no port serves, and
// the server is closed. After Shutdown or Close the error is ErrClosed.
func (s *Server) Listen() error {
	s.mu.Lock()
	state := s.state
	if state == serverNew {
		s.state = serverListening
	}
	s.mu.Unlock()
	switch state {
	case serverListening:
		return errors.New("rpc: Server.Listen was called before; a Server serves once")
	case serverEnding:
		return ErrClosed
	}
	for _, p := range s.ports {
		if err := p.listen(); err != nil {
			_ = s.Close()
			return fmt.Errorf("rpc: port %q: %w", p.o.Name, err)
		}
	}
	if err := s.watchOverload(); err != nil {
		return errors.Join(err, s.Close())
	}
	s.announcer.listening()
	s.mu.Lock()
	registrations := slices.Clone(s.registrations)
	s.mu.Unlock()
	for _, r := range registrations {
		s.announce(r)
	}
	return nil
}

// announce tells the registry whether a service is served.
func (s *Server) announce(r *registration) {
	if ports, err := s.portsOf(r); err == nil { // or Register would have said so
		s.announcer.update(r, ports)
	}
}

// Addr returns the address of the port of that name, nil if there is none or it does not listen.
func (s *Server) Addr(name string) net.Addr {
	if p := s.port(name); p != nil {
		return p.engine.Addr()
	}
	return nil
}

// Wait returns when the server has ended.
func (s *Server) Wait() { <-s.ended }

// mayWait returns an error on a loop and on a worker of the server, which must not wait for the server's end.
func (s *Server) mayWait() error {
	switch {
	case eddy.OnLoop():
		return eddy.ErrOnLoop
	case s.pools.OnWorker(), slices.ContainsFunc(s.ports, func(p *port) bool { return p.events.onWorker() }):
		return eddy.ErrOnPool
	}
	return nil
}

// Shutdown ends the server in order. It withdraws the services from the registry, see DiscoveryOptions, stops accepting, says GOAWAY, answers later calls UNAVAILABLE, lets calls in
// flight finish and their responses go out, and closes the connections. When ctx ends, Shutdown does the rest at once and
// returns the error of ctx. If the server has ended before, the error is ErrClosed. The report adds up those of the
// ports.
//
// A method of the server would wait for itself: there Shutdown returns eddy.ErrOnPool or eddy.ErrOnLoop, and the server
// is as it was.
func (s *Server) Shutdown(ctx context.Context) (eddy.DrainReport, error) {
	if err := s.mayWait(); err != nil {
		return eddy.DrainReport{}, err
	}
	if !s.end() {
		return eddy.DrainReport{}, ErrClosed
	}
	s.announcer.withdraw(ctx)
	reports := make([]eddy.DrainReport, len(s.ports))
	errs := s.endPorts(func(i int, p *port) (err error) {
		if p.engine.Addr() != nil {
			reports[i], err = p.engine.Shutdown(ctx)
		}
		return err
	})
	err := s.endPools(ctx, errs)
	var total eddy.DrainReport
	for _, r := range reports {
		total.Drained += r.Drained
		total.Forced += r.Forced
		total.Dropped += r.Dropped
	}
	return total, err
}

// end notes that the server takes no more services, and reports whether this was the first call.
func (s *Server) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.state
	s.state = serverEnding
	s.healthChanged()
	return was != serverEnding
}

// Close ends the server at once: connections are closed and calls are cancelled. Close waits ten seconds at most for
// methods that run; the error says if that was too short. A Shutdown that is under way is cut short. Methods of the
// server get the errors that Shutdown returns to them.
func (s *Server) Close() error {
	if err := s.mayWait(); err != nil {
		return err
	}
	s.end()
	s.announcer.close()
	errs := s.endPorts(func(_ int, p *port) error { return p.engine.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return s.endPools(ctx, errs)
}

// endPorts calls end for the ports side by side.
func (s *Server) endPorts(end func(i int, p *port) error) []error {
	errs := make([]error, len(s.ports))
	var wg sync.WaitGroup
	for i, p := range s.ports {
		wg.Go(func() { errs[i] = end(i, p) })
	}
	wg.Wait()
	return errs
}

// endPools ends the pools and with them the server. The result has errs, too.
func (s *Server) endPools(ctx context.Context, errs []error) error {
	if m := s.Overload(); m != nil {
		m.Close()
	}
	errs = append(errs, s.pools.End(ctx))
	s.endOnce.Do(func() { close(s.ended) })
	return errors.Join(errs...)
}

// ServerStats are the numbers of a server.
type ServerStats struct {
	Ports    map[string]PortStats
	Services map[Key]ServiceStats
	Pools    map[string]executor.Stats // those that the server has made: "port NAME", "service KEY" or "service KEY on NAME"
}

// PortStats are the numbers of a port.
type PortStats struct {
	Engine eddy.Stats
	// Requests counts the requests that did not go the usual way. Rejected ones were answered BUSY, or dropped if they
	// were one-way; Dropped counts the latter.
	Requests responder.Stats
	Answers  map[frame.Status]uint64 // responses by status; statuses without any are there, too
	GRPC     map[Code]uint64         // calls by gRPC that were answered, by code; nil if the port does not serve it
	Events   EventStats              // what the Listener was told
}

// ServiceStats are the numbers of a service on all ports.
type ServiceStats struct {
	Calls    uint64 // routed to it
	InFlight int64  // not answered, or still running
	Limited  uint64 // refused because of InFlight; Calls does not count them

	Methods map[string]ServiceStats // of those methods that have settings of their own, see OnMethod; the numbers above count them, too
}

// Pools returns the pools that the server has made, for inspection only. Any goroutine.
func (s *Server) Pools() []*executor.Pool { return s.pools.All() }

// Stats returns the numbers so far. After the end of the server they stay as they were.
func (s *Server) Stats() ServerStats {
	st := ServerStats{
		Ports:    make(map[string]PortStats),
		Services: make(map[Key]ServiceStats),
		Pools:    make(map[string]executor.Stats),
	}
	for _, p := range s.ports {
		st.Ports[p.o.Name] = PortStats{
			Engine: p.engine.Stats(), Requests: p.frames.Stats(), Answers: p.frames.Answered(), GRPC: p.grpc.counts(), Events: p.events.stats(),
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.registrations {
		st.Services[r.svc.key] = r.stats()
	}
	for _, p := range s.pools.All() {
		st.Pools[p.Name()] = p.Stats()
	}
	return st
}
