package rpc

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
)

const (
	// DefaultWithdrawGrace is DiscoveryOptions.Grace if the options do not say.
	DefaultWithdrawGrace = time.Second
	// withdrawTimeout bounds how long Shutdown waits for a registry.
	withdrawTimeout = 2 * time.Second
)

// DiscoveryOptions say where a server registers its services, and as what. Services are registered from Listen or Register on, on each of their
// ports, while SetServing does not say otherwise. Shutdown withdraws them before it drains. A registry that is down stops neither Listen nor
// Shutdown, and hears of the services when it is back.
type DiscoveryOptions struct {
	Registry discovery.Registry // nil = the services are not registered. The caller closes it after the server

	// Host is where clients reach the ports. "" is that of PortOptions.Addr, or an address of this machine if the port listens on all.
	Host string

	Weight     int               // share of the calls, compared with other instances; 0 = discovery.DefaultWeight
	Zone       string            // where the server runs; may be empty
	Attributes map[string]string // whatever else the registry is to tell

	// Grace is how long Shutdown goes on as before when the services are withdrawn, so that clients hear of it. It waits two seconds more at most for the registry.
	// 0 = DefaultWithdrawGrace, negative = none.
	Grace time.Duration
}

// check returns what is wrong with the options. The error names the field.
func (o DiscoveryOptions) check() error {
	i := discovery.Instance{Addr: net.JoinHostPort(o.Host, "1"), Weight: o.Weight}
	if err := i.Check(); err != nil {
		return fmt.Errorf("rpc: ServerOptions.Discovery: %w", err)
	}
	return nil
}

// offers are the protocols as which the port's services are registered. Registries that Dubbo uses, too, know gRPC as tri.
func (p *port) offers() []string {
	if p.o.Offers != nil {
		return p.o.Offers
	}
	var list []string
	if p.speaks(ProtocolFrame) {
		list = append(list, "frame")
	}
	if p.speaks(ProtocolGRPC) {
		list = append(list, "tri")
	}
	if list == nil {
		list = append(list, "http")
	}
	return list
}

// announcer has the server's services registered. Any goroutine may call its methods, also those of nil, which do nothing.
type announcer struct {
	o        DiscoveryOptions
	log      *slog.Logger
	patience time.Duration // with the registry, in withdraw

	mu     sync.Mutex
	since  time.Time // zero before Listen
	over   bool
	offers map[*registration][]discovery.Registration
	cut    chan struct{} // closed by Close: nobody waits any more
}

// newAnnouncer returns nil without a registry.
func newAnnouncer(o DiscoveryOptions, log *slog.Logger) *announcer {
	if o.Registry == nil {
		return nil
	}
	o.Grace = max(cmp.Or(o.Grace, DefaultWithdrawGrace), 0)
	return &announcer{o: o, log: log, patience: withdrawTimeout, offers: make(map[*registration][]discovery.Registration), cut: make(chan struct{})}
}

// ended is the context of those who do not wait.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// listening notes that the ports serve, from now on.
func (a *announcer) listening() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = time.Now()
}

// update registers the service on ports, or withdraws it if it is not served.
func (a *announcer) update(r *registration, ports []*port) {
	if a == nil || r.builtIn {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	offers, served := a.offers[r], r.serving.Load()
	switch {
	case a.over || a.since.IsZero():
	case served && offers == nil:
		a.offers[r] = a.register(r, ports)
	case !served:
		for _, o := range offers {
			_ = o.Withdraw(ended()) // It goes on.
		}
		delete(a.offers, r)
	}
}

// register offers the service on each port, by each of its protocols. What the registry refuses is logged.
func (a *announcer) register(r *registration, ports []*port) []discovery.Registration {
	list := []discovery.Registration{}
	for _, p := range ports {
		addr, ok := p.engine.Addr().(*net.TCPAddr)
		if !ok {
			continue // its Listen has failed
		}
		i := discovery.Instance{Addr: net.JoinHostPort(a.host(p), strconv.Itoa(addr.Port)), Weight: a.o.Weight, Zone: a.o.Zone, Since: a.since, Attributes: a.attributes(r)}
		for _, protocol := range p.offers() {
			s := discovery.Service{Interface: r.svc.key.Interface, Group: r.svc.key.Group, Version: r.svc.key.Version, Protocol: protocol}
			o, err := a.o.Registry.Register(s, i)
			if err != nil {
				a.log.Error("rpc: not registered", "service", r.svc.key.String(), "port", p.o.Name, "err", err)
				continue
			}
			list = append(list, o)
		}
	}
	return list
}

// attributes are those of the options and what Dubbo's tools show.
func (a *announcer) attributes(r *registration) map[string]string {
	m := map[string]string{}
	var names []string
	for i := range r.svc.methods {
		if name := r.svc.methods[i].name; !strings.HasPrefix(name, "$") { // Dubbo's services all have $echo and $invoke, and do not say so
			names = append(names, name)
		}
	}
	m["methods"] = strings.Join(names, ",")
	maps.Copy(m, a.o.Attributes)
	return m
}

// host is where clients reach the port.
func (a *announcer) host(p *port) string {
	if a.o.Host != "" {
		return a.o.Host
	}
	host, _, _ := net.SplitHostPort(p.addr)
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		return host
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		a.log.Warn("rpc: the addresses of this machine are not known: services are registered as of this machine only", "err", err)
	}
	return outward(addrs)
}

// outward returns the address by which others reach this machine: the first one of version 4, or else of version 6. Without a network it is the loopback's.
func outward(addrs []net.Addr) string {
	var six string
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		ip := prefix.Addr()
		switch {
		case err != nil || !ip.IsGlobalUnicast():
		case ip.Is4():
			return ip.String()
		case six == "":
			six = ip.String()
		}
	}
	return cmp.Or(six, "127.0.0.1")
}

// withdraw takes all services out of the registry, and returns when clients have had the time to hear of it. It returns at once when ctx ends, or with
// close.
func (a *announcer) withdraw(ctx context.Context) {
	all := a.end()
	if len(all) == 0 {
		return
	}
	waiting, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	done := make(chan struct{})
	go func() { // It ends with the registrations' Withdraw, which ends with waiting.
		defer close(done)
		var wg sync.WaitGroup
		for _, o := range all {
			wg.Go(func() {
				if err := o.Withdraw(waiting); err != nil {
					a.log.Warn("rpc: not withdrawn in time", "err", err)
				}
			})
		}
		wg.Wait()
	}()
	select {
	case <-done:
	case <-waiting.Done():
		return // Nobody hears anything.
	case <-a.cut:
		return
	}
	grace := time.NewTimer(a.o.Grace)
	defer grace.Stop()
	select {
	case <-grace.C:
	case <-a.cut:
	case <-ctx.Done():
	}
}

// close takes all services out of the registry and waits for nothing. A withdraw that is under way is cut short.
func (a *announcer) close() {
	if a == nil {
		return
	}
	for _, o := range a.end() {
		_ = o.Withdraw(ended())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.cut:
	default:
		close(a.cut)
	}
}

// end returns all registrations, once. There are no more from then on.
func (a *announcer) end() []discovery.Registration {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	all := slices.Concat(slices.Collect(maps.Values(a.offers))...)
	clear(a.offers)
	return all
}
