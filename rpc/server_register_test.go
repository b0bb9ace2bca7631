package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// memoryRegistry is a registry in this process that can misbehave.
type memoryRegistry struct {
	discovery.Registry
	mu     sync.Mutex
	has    map[string]discovery.Instance // by service, protocol and host
	refuse error                         // of Register
	hang   chan struct{}                 // if it is set, Withdraw waits for it, whatever its context says
	waits  int                           // Withdraw calls that wait
}

type memoryRegistration struct {
	r    *memoryRegistry
	name string
}

func (r *memoryRegistry) Register(s discovery.Service, i discovery.Instance) (discovery.Registration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	host, _, _ := net.SplitHostPort(i.Addr)
	name := s.String() + " " + s.Protocol + " " + host
	if r.has == nil {
		r.has = map[string]discovery.Instance{}
	}
	if _, ok := r.has[name+i.Addr]; ok {
		return nil, errors.New("twice")
	}
	r.has[name+i.Addr] = i
	return &memoryRegistration{r, name + i.Addr}, nil
}

func (o *memoryRegistration) Err() error { return nil }

func (o *memoryRegistration) Withdraw(context.Context) error {
	o.r.mu.Lock()
	hang := o.r.hang
	delete(o.r.has, o.name)
	o.r.waits++
	o.r.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return nil
}

// names are what is registered, without ports.
func (r *memoryRegistry) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := []string{}
	for name, i := range r.has {
		list = append(list, strings.TrimSuffix(name, i.Addr))
	}
	slices.Sort(list)
	return list
}

func (r *memoryRegistry) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waits
}

func expectNames(t *testing.T, r *memoryRegistry, want ...string) {
	t.Helper()
	if got := r.names(); !slices.Equal(got, want) {
		t.Errorf("registered %q, want %q", got, want)
	}
}

// TestServerRegisters: each service is registered on each of its ports by each protocol while it is served, and nothing else is.
func TestServerRegisters(t *testing.T) {
	r := &memoryRegistry{}
	s := newServer(t, ServerOptions{
		Ports: []PortOptions{{Name: "a"}, {Name: "b", Protocols: []Protocol{ProtocolFrame}}, {Name: "c", Protocols: []Protocol{ProtocolWeb}},
			{Name: "d", Offers: []string{"dubbo"}}, {Name: "e", Addr: "0.0.0.0:0", Offers: []string{}}},
		Discovery: DiscoveryOptions{Registry: r, Host: "here", Weight: 7, Zone: "z", Attributes: map[string]string{"k": "v"}, Grace: -1},
	})
	if err := s.Register(greeter(t, "g/test:1"), OnPorts("a", "c", "e")); err != nil {
		t.Fatal(err)
	}
	expectNames(t, r)
	serve(t, s)
	first := []string{"g/test:1 frame here", "g/test:1 http here", "g/test:1 tri here"}
	expectNames(t, r, first...)
	late, err := NewService(Key{Interface: "late"}, append(greeter(t, "late").Methods(), Raw("$echo", func(context.Context, []byte) ([]byte, error) { return nil, nil }))...)
	if err == nil {
		err = s.Register(late, OnPorts("b", "d"))
	}
	if err != nil {
		t.Fatal(err)
	}
	all := append(slices.Clone(first), "late dubbo here", "late frame here")
	expectNames(t, r, all...)
	for _, i := range r.has {
		_, port, _ := net.SplitHostPort(i.Addr)
		known := slices.ContainsFunc([]string{"a", "b", "c", "d"}, func(name string) bool { return strings.HasSuffix(s.Addr(name).String(), ":"+port) })
		if !known || i.Weight != 7 || i.Zone != "z" || i.Attributes["k"] != "v" || !strings.HasPrefix(i.Attributes["methods"], "Hello,Proto,") || strings.Contains(i.Attributes["methods"], "$") || i.Since.IsZero() {
			t.Errorf("%+v", i)
		}
	}
	for _, serving := range []bool{false, false, true, true} {
		if err := s.SetServing(Key{"g", "test", "1"}, serving); err != nil {
			t.Fatal(err)
		}
		if serving {
			expectNames(t, r, all...)
		} else {
			expectNames(t, r, all[len(all)-2:]...)
		}
	}
	if err := s.SetServing(HealthKey, true); err != nil {
		t.Fatal(err)
	}
	expectNames(t, r, all...)
	if _, err := s.Shutdown(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	expectNames(t, r)
	if err := s.SetServing(Key{"g", "test", "1"}, true); err != nil {
		t.Fatal(err)
	}
	expectNames(t, r)
}

// TestServerWithdrawsBeforeItDrains: clients that have not heard yet are served until the grace is over, and GOAWAY comes after that.
func TestServerWithdrawsBeforeItDrains(t *testing.T) {
	r := &memoryRegistry{}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, Discovery: DiscoveryOptions{Registry: r, Grace: time.Hour}}), greeter(t, "test"))
	c := dialRaw(t, s.Addr("port0"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Shutdown(ctx)
		ended <- err
	}()
	testkit.Eventually(t, "the withdrawal", func() bool { return len(r.names()) == 0 })
	c.json(1, "/test:", "Hello", `{"name":"you"}`)
	if got := c.expect(1, ok); !strings.Contains(got, "Hello, you") {
		t.Error(got)
	}
	late := dialRaw(t, s.Addr("port0"))
	late.json(1, "/test:", "Hello", `{"name":"late"}`)
	late.expect(1, ok)
	cancel()
	if err := testkit.Receive(t, "the end", ended); !errors.Is(err, context.Canceled) && err != nil {
		t.Error(err)
	}
}

// TestGraceIsBounded: the grace ends by itself, and Shutdown drains then.
func TestGraceIsBounded(t *testing.T) {
	r := &memoryRegistry{}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, Discovery: DiscoveryOptions{Registry: r, Grace: time.Millisecond}}), greeter(t, "test"))
	if _, err := s.Shutdown(testkit.Context(t)); err != nil {
		t.Error(err)
	}
}

// TestRegistryHangs: a registry that never answers a withdrawal stops neither Shutdown, whose wait for it is bounded, nor Close.
func TestRegistryHangs(t *testing.T) {
	for _, how := range []string{"bounded", "canceled", "closed"} {
		t.Run(how, func(t *testing.T) {
			r := &memoryRegistry{hang: make(chan struct{})}
			defer close(r.hang)
			s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, Discovery: DiscoveryOptions{Registry: r, Grace: time.Hour}}), greeter(t, "test"))
			if how != "bounded" {
				s.announcer.patience = time.Hour
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := s.Shutdown(ctx)
				ended <- err
			}()
			testkit.Eventually(t, "the withdrawal", func() bool { return r.waiting() > 0 })
			switch how {
			case "canceled":
				cancel()
			case "closed":
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := testkit.Receive(t, "the end", ended); how == "bounded" && err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCloseWithdraws: Close withdraws what is registered, and waits for no grace.
func TestCloseWithdraws(t *testing.T) {
	r := &memoryRegistry{}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, Discovery: DiscoveryOptions{Registry: r, Grace: time.Hour}}), greeter(t, "test"))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	expectNames(t, r)
}

// TestCloseCutsTheGrace: Close ends a Shutdown that waits for its clients to hear of it.
func TestCloseCutsTheGrace(t *testing.T) {
	r := &memoryRegistry{}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, Discovery: DiscoveryOptions{Registry: r, Grace: time.Hour}}), greeter(t, "test"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Shutdown(t.Context())
	}()
	testkit.Eventually(t, "the withdrawal", func() bool { return r.waiting() > 0 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	testkit.Receive(t, "the end", ended)
}

// TestRegistryRefuses: what a registry refuses is logged, and the server serves.
func TestRegistryRefuses(t *testing.T) {
	var out testkit.Output
	r := &memoryRegistry{refuse: errors.New("no such names here")}
	s := serve(t, newServer(t, ServerOptions{Ports: []PortOptions{{}}, Logger: slog.New(slog.NewTextHandler(&out, nil)), Discovery: DiscoveryOptions{Registry: r}}), greeter(t, "test"))
	if got := out.String(); !strings.Contains(got, "no such names here") || !strings.Contains(got, "service=/test:") {
		t.Error(got)
	}
	c := dialRaw(t, s.Addr("port0"))
	c.json(1, "/test:", "Hello", `{"name":"you"}`)
	c.expect(1, ok)
	_ = c.Close()
	if _, err := s.Shutdown(testkit.Context(t)); err != nil {
		t.Error(err)
	}
}

// TestAdvertisedHost: a port that listens on all addresses is registered by one that others can reach, and the others by their own.
func TestAdvertisedHost(t *testing.T) {
	var addrs []net.Addr
	for _, text := range []string{"127.0.0.1/8", "fe80::1/64", "2001:db8::5/64", "10.1.2.3/8", "10.1.2.4/8"} {
		p := netip.MustParsePrefix(text)
		addrs = append(addrs, &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())})
	}
	for n, want := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "2001:db8::5", "10.1.2.3", "10.1.2.3"} {
		if got := outward(addrs[:n]); got != want {
			t.Errorf("of %v: %s, want %s", addrs[:n], got, want)
		}
	}
	a := newAnnouncer(DiscoveryOptions{Registry: &memoryRegistry{}}, quiet)
	for addr, want := range map[string]string{"127.0.0.1:0": "127.0.0.1", "host.example:1": "host.example", "[::1]:0": "::1"} {
		if got := a.host(&port{addr: addr}); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		if ip, err := netip.ParseAddr(a.host(&port{addr: addr})); err != nil || ip.IsUnspecified() {
			t.Errorf("%s: %v, %v", addr, ip, err)
		}
	}
}

// TestDiscoveryOptions: what makes no sense is refused, and the error names it.
func TestDiscoveryOptions(t *testing.T) {
	for want, o := range map[string]ServerOptions{
		"weight of":   {Discovery: DiscoveryOptions{Weight: discovery.MaxWeight + 1}},
		"no host":     {Discovery: DiscoveryOptions{Host: "a b"}},
		"PortOptions": {Ports: []PortOptions{{Addr: ":0", Offers: []string{"a b"}}}},
	} {
		if o.Ports == nil {
			o.Ports = []PortOptions{{Addr: ":0"}}
		}
		if _, err := NewServer(o); err == nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
