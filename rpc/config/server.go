package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// Config is what a file says. Server and Client may be changed before they are used, to add what a file cannot say:
// interceptors, listeners, loggers, shared loops.
type Config struct {
	Server   rpc.ServerOptions    // Ports is empty if the file has no protocols
	Client   *rpc.ClientOptions   // nil if the file has no client
	Services []Service            // in the order of the file
	Defaults []rpc.RegisterOption // of services that are not in the file, if it has none
	Warnings []string             // keys without effect and old spellings; each begins with file and line

	Application string // the program's name in the registry; may be empty

	// Registry is the address of the registry that NewServer opens, and that is closed with the server. NewServer leaves Server.Discovery.Registry alone
	// if it is set. "" = none.
	Registry string

	file    string
	engines Engines
	pools   []namedPool
}

// RegistryName is the registry's address without its password and keys, "" if there is none.
func (c *Config) RegistryName() string {
	a, err := discovery.ParseAddress(c.Registry)
	if err != nil {
		return ""
	}
	return a.String()
}

// Service is what a file says of a service.
type Service struct {
	Key     rpc.Key
	Options []rpc.RegisterOption // without the pools that it and its methods name in pools

	pool      string
	ofMethods []methodPool
	line      int
}

// methodPool is the name of a pool that a method names.
type methodPool struct{ method, pool string }

type namedPool struct {
	name string
	o    rpc.PoolOptions
}

// config turns the document into options. It is nil for none.
func (d *document) config(r *reader) *Config {
	if d == nil {
		return nil
	}
	c := &Config{file: r.file, engines: r.engines, Warnings: r.told(), Application: d.application.name, Defaults: d.defaults.options().Options}
	a := &d.application
	for _, g := range d.registries {
		if g.address != "" {
			c.Registry, c.Server.Discovery.Zone = g.address, g.zone
		}
	}
	if a.isolation {
		c.Server.Isolation = rpc.PerService
	}
	c.Server.Dumper = &executor.Dumper{Dir: a.dumpDir, Disabled: a.dumpOff}
	c.Server.Overload = a.overload
	if a.retryAfter != nil {
		if c.Server.RetryAfter = *a.retryAfter; c.Server.RetryAfter == 0 {
			c.Server.RetryAfter = -1 // none, where 0 is the default
		}
	}
	for i := range d.protocols {
		c.Server.Ports = append(c.Server.Ports, d.protocols[i].options())
	}
	for _, p := range d.pools {
		if p.used {
			c.pools = append(c.pools, namedPool{p.name, p.options()})
		}
	}
	for i := range d.services {
		c.Services = append(c.Services, d.services[i].options())
	}
	if d.client != nil {
		c.Client = d.client.options()
	}
	return c
}

func (p *protocol) options() rpc.PortOptions {
	o := rpc.PortOptions{
		Name:           p.name,
		Addr:           p.addr(),
		Dispatcher:     p.dispatcher,
		Pool:           p.pool.options(),
		Ordering:       p.ordering,
		InFlight:       p.inFlight,
		MaxPayload:     p.payload,
		IdleTimeout:    p.idle,
		Accepts:        p.accepts,
		Loops:          p.loops,
		ConnectQueue:   p.connectQueue,
		ConnectWarning: p.connectWarning,
	}
	p.wires.set(&o)
	if p.port == -1 {
		o.FirstPort = p.firstPort
	}
	if p.wire != nil {
		p.wire.Port(&o)
	}
	return o
}

func (s *service) options() Service {
	out := Service{Key: s.key, pool: s.pool}
	if s.node != nil {
		out.line = s.node.Line
	}
	if len(s.ports) > 0 {
		out.Options = append(out.Options, rpc.OnPorts(s.ports...))
	}
	out.Options = append(out.Options, s.bounds.options()...)
	for i := range s.methods {
		m := &s.methods[i]
		out.Options = append(out.Options, rpc.OnMethod(m.name, m.options()...))
		if m.pool != "" {
			out.ofMethods = append(out.ofMethods, methodPool{m.name, m.pool})
		}
	}
	return out
}

func (c *client) options() *rpc.ClientOptions {
	o := &rpc.ClientOptions{
		Addrs:        c.addresses,
		ConnsPerAddr: c.connections,
		Balance:      balance.Options{Policy: c.balance},
		Codec:        c.codec,
		Timeout:      c.timeout,
		MaxPending:   c.pending,
		MaxPayload:   c.payload,
		Consumer:     c.consumer,
		Dispatcher:   c.dispatcher,
		Backoff:      rpc.Backoff{Min: c.backoffMin, Max: c.backoffMax},
		DialTimeout:  c.dial,
		Heartbeat:    c.heartbeat,
	}
	if c.jitter != nil {
		if o.Backoff.Jitter = float64(*c.jitter) / 100; *c.jitter == 0 {
			o.Backoff.Jitter = -1 // none, where 0 is the default
		}
	}
	return o
}

// Server is an rpc.Server with the pools that its file names. The pools end with the server.
type Server struct {
	*rpc.Server
	pools    []*executor.Pool
	registry discovery.Registry // that of the file, nil if there is none
}

// Pools returns the pools of the ports and services and those of the file, for inspection only. Any goroutine.
func (s *Server) Pools() []*executor.Pool { return append(s.Server.Pools(), s.pools...) }

// Stats returns the numbers of the rpc.Server with those of the pools that the file names, as "pool NAME".
func (s *Server) Stats() rpc.ServerStats {
	st := s.Server.Stats()
	for _, p := range s.pools {
		st.Pools[p.Name()] = p.Stats()
	}
	return st
}

// NewServer returns a server with the given services, each with the options that the file has for its key. End the server
// with Shutdown or Close. The error names a service that is in the file and was not given, or the other way round. A file without services takes all,
// with Defaults.
func (c *Config) NewServer(services ...*rpc.Service) (*Server, error) {
	byKey := map[rpc.Key]*rpc.Service{}
	for _, svc := range services {
		if svc == nil {
			return nil, errors.New("config: NewServer with a nil service")
		}
		if byKey[svc.Key()] != nil {
			return nil, fmt.Errorf("config: NewServer with two services %v", svc.Key())
		}
		byKey[svc.Key()] = svc
	}
	list := c.Services
	if len(list) == 0 {
		for _, svc := range services {
			list = append(list, Service{Key: svc.Key(), Options: c.Defaults})
		}
	}
	if err := c.match(list, byKey); err != nil {
		return nil, err
	}
	s := &Server{}
	o := c.Server
	if c.Registry != "" && o.Discovery.Registry == nil {
		g, err := c.openRegistry()
		if err != nil {
			return nil, err
		}
		s.registry, o.Discovery.Registry = g, g
	}
	var err error
	if s.Server, err = rpc.NewServer(o); err != nil {
		return nil, errors.Join(fmt.Errorf("config: %s: %w", c.file, err), s.closeRegistry())
	}
	if err := s.register(c, list, byKey); err != nil {
		return nil, errors.Join(fmt.Errorf("config: %s: %w", c.file, err), s.Close())
	}
	return s, nil
}

// match reports a service of the file that was not given, or one that was given and is not in the file.
func (c *Config) match(list []Service, given map[rpc.Key]*rpc.Service) error {
	named := map[rpc.Key]bool{}
	for _, s := range list {
		if given[s.Key] == nil {
			return fmt.Errorf("config: %s:%d: service %v is not among those given to NewServer", c.file, s.line, s.Key)
		}
		named[s.Key] = true
	}
	for key := range given {
		if !named[key] {
			return fmt.Errorf("config: service %v is not among the services of %s", key, c.file)
		}
	}
	return nil
}

func (c *Config) openRegistry() (discovery.Registry, error) {
	e, err := discovery.Find(c.engines.Registries, c.Registry)
	if err != nil {
		return nil, fmt.Errorf("config: %s: the registry %s %w", c.file, c.RegistryName(), err)
	}
	g, err := e.Open(c.Registry, c.Application)
	if err != nil {
		return nil, fmt.Errorf("config: %s: the registry: %w", c.file, err)
	}
	return g, nil
}

func (s *Server) register(c *Config, list []Service, services map[rpc.Key]*rpc.Service) error {
	pools := map[string]*executor.Pool{}
	if c.Server.Isolation == rpc.PerService {
		base := executor.Options{Dumper: c.Server.Dumper, OnExhausted: c.Server.OnExhausted, Logger: c.Server.Logger}
		for _, p := range c.pools {
			pool, err := p.o.NewPool("pool "+p.name, base)
			if err != nil {
				return err
			}
			pools[p.name], s.pools = pool, append(s.pools, pool)
		}
	}
	for _, svc := range list {
		options := slices.Clone(svc.Options)
		if pool := pools[svc.pool]; pool != nil {
			options = append(options, rpc.WithPool(pool))
		}
		for _, m := range svc.ofMethods {
			if pool := pools[m.pool]; pool != nil {
				options = append(options, rpc.OnMethod(m.method, rpc.WithPool(pool)))
			}
		}
		if err := s.Register(services[svc.Key], options...); err != nil {
			return fmt.Errorf("line %d: %w", svc.line, err)
		}
	}
	return nil
}

// Shutdown is that of rpc.Server, and then ends the pools that the file names. On a worker of one of them it returns
// eddy.ErrOnPool. Where it returns that or eddy.ErrOnLoop, it has done nothing.
func (s *Server) Shutdown(ctx context.Context) (eddy.DrainReport, error) {
	if s.onWorker() {
		return eddy.DrainReport{}, eddy.ErrOnPool
	}
	r, err := s.Server.Shutdown(ctx)
	return r, s.andPools(ctx, err)
}

// closeTimeout bounds how long Close waits for methods that run on the pools that the file names.
const closeTimeout = 10 * time.Second

// Close is that of rpc.Server, and then ends the pools that the file names. Where Shutdown would do nothing, Close does
// nothing.
func (s *Server) Close() error {
	if s.onWorker() {
		return eddy.ErrOnPool
	}
	err := s.Server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return s.andPools(ctx, err)
}

// onWorker reports whether a worker of one of the file's pools calls, which would wait for itself.
func (s *Server) onWorker() bool { return slices.ContainsFunc(s.pools, (*executor.Pool).OnWorker) }

// andPools ends the pools of a server that has ended with err, unless it refused to end.
func (s *Server) andPools(ctx context.Context, err error) error {
	if errors.Is(err, eddy.ErrOnLoop) || errors.Is(err, eddy.ErrOnPool) {
		return err
	}
	return errors.Join(err, s.end(ctx), s.closeRegistry())
}

// closeRegistry closes the registry of the file, whose registrations the server has withdrawn.
func (s *Server) closeRegistry() error {
	if s.registry == nil {
		return nil
	}
	return s.registry.Close()
}

// end ends the pools side by side.
func (s *Server) end(ctx context.Context) error {
	errs := make(chan error, len(s.pools))
	for _, p := range s.pools {
		go func() {
			_, err := p.Shutdown(ctx)
			errs <- err
		}()
	}
	var all []error
	for range s.pools {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
