package discovery

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The pauses of a Poller.
const (
	// DefaultEvery is the interval of a Poller that is given none.
	DefaultEvery = 30 * time.Second
	// MinGap is the least time between two questions of a Poller, however often Refresh is called.
	MinGap = time.Second
)

// Refresher is a Resolver that can be asked before its time. Clients call Refresh when they lose a connection. Refresh does not block.
type Refresher interface{ Refresh() }

// Poller is a Resolver that asks again and again. Any number of goroutines may call its methods.
type Poller struct {
	every time.Duration
	ask   func(ctx context.Context) ([]Instance, error)

	mu    sync.Mutex
	wakes map[chan struct{}]bool // one for each Watch
}

// Poll returns a Resolver that calls ask at once and then every so often; 0 and less are DefaultEvery. It tells answers that differ from the one
// before, in whatever order their instances come. An error of ask ends the Watch. ask may block until its context ends.
func Poll(every time.Duration, ask func(ctx context.Context) ([]Instance, error)) *Poller {
	if every <= 0 {
		every = DefaultEvery
	}
	return &Poller{every: every, ask: ask, wakes: make(map[chan struct{}]bool)}
}

// Refresh implements Refresher.
func (p *Poller) Refresh() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for wake := range p.wakes {
		select {
		case wake <- struct{}{}:
		default: // it will come anyway
		}
	}
}

// Watch implements Resolver.
func (p *Poller) Watch(ctx context.Context, tell func([]Instance)) error {
	wake := make(chan struct{}, 1)
	p.mu.Lock()
	p.wakes[wake] = true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.wakes, wake)
		p.mu.Unlock()
	}()
	var last []Instance
	for first := true; ; first = false {
		list, err := p.ask(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		slices.SortFunc(list, func(a, b Instance) int { return strings.Compare(a.Addr, b.Addr) })
		if first || !slices.EqualFunc(list, last, Instance.Equal) {
			last = slices.Clone(list)
			tell(list)
		}
		gap := min(p.every, MinGap)
		if !pause(ctx, gap, nil) || !pause(ctx, p.every-gap, wake) {
			return ctx.Err()
		}
	}
}

// pause waits for d, or until wake says that it is enough, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// static is a Resolver whose answer never changes.
type static []Instance

// Static returns a Resolver whose answer never changes. Host names are looked up each time a connection is made.
func Static(instances ...Instance) Resolver { return static(slices.Clone(instances)) }

// Addrs returns an instance for each address, for Static.
func Addrs(addrs ...string) []Instance {
	list := make([]Instance, len(addrs))
	for i, a := range addrs {
		list[i].Addr = a
	}
	return list
}

// Watch implements Resolver.
func (s static) Watch(ctx context.Context, tell func([]Instance)) error {
	tell(slices.Clone(s))
	<-ctx.Done()
	return ctx.Err()
}

// lookup is what DNS and SRV need of a net.Resolver.
type lookup interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// DNS returns a Resolver that looks up the host of host:port every so often, see Poll. Each of its addresses is an instance, so that calls are spread
// over all of them. The error says what is wrong with the address.
func DNS(address string, every time.Duration) (Resolver, error) {
	return newDNS(net.DefaultResolver, address, every)
}

func newDNS(by lookup, address string, every time.Duration) (Resolver, error) {
	if err := (Instance{Addr: address}).Check(); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(address) // Check has done it
	if host == "" {
		host = "localhost"
	}
	return Poll(every, func(ctx context.Context) ([]Instance, error) {
		ips, err := by.LookupHost(ctx, host)
		if err != nil {
			return nil, fmt.Errorf("discovery: looking up %s: %w", host, err)
		}
		list := make([]Instance, len(ips))
		for i, ip := range ips {
			list[i].Addr = net.JoinHostPort(ip, port)
		}
		return list, nil
	}), nil
}

// SRV returns a Resolver that looks up the SRV records _service._proto.name every so often, see Poll. With an empty service and proto it looks up name
// itself. Of the records, those of the lowest priority are instances, with their weights. The error says that the name is empty.
func SRV(service, proto, name string, every time.Duration) (Resolver, error) {
	return newSRV(net.DefaultResolver, service, proto, name, every)
}

func newSRV(by lookup, service, proto, name string, every time.Duration) (Resolver, error) {
	if name == "" {
		return nil, fmt.Errorf("discovery: the name of the SRV records of service %q is empty", service)
	}
	return Poll(every, func(ctx context.Context) ([]Instance, error) {
		_, records, err := by.LookupSRV(ctx, service, proto, name)
		if err != nil {
			return nil, fmt.Errorf("discovery: looking up SRV records of %s: %w", name, err)
		}
		var list []Instance
		for _, r := range records { // by priority, then by chance
			if r.Priority != records[0].Priority {
				break
			}
			i := Instance{Addr: net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port)))}
			i.Weight = max(1, int(r.Weight)*MaxWeight/65535) // RFC 2782: 0 is a very small chance
			list = append(list, i)
		}
		return list, nil
	}), nil
}
