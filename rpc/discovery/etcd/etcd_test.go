package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

var greeter = discovery.Service{Interface: "org.example.Greeter", Group: "g", Version: "1.0.0", Protocol: "frame"}

// base is the prefix of greeter's keys.
const base = "/eddy/org.example.Greeter/g/1.0.0/"

func register(t *testing.T, r *Registry, s discovery.Service, addr string) discovery.Registration {
	t.Helper()
	reg, err := r.Register(s, discovery.Instance{Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

func registered(t *testing.T, reg discovery.Registration) {
	t.Helper()
	testkit.Eventually(t, "the registration", func() bool { return reg.Err() == nil })
}

// TestRegisterAndWatch: what is registered is found, with all that was said of it, and is gone when it is withdrawn.
func TestRegisterAndWatch(t *testing.T) {
	s := newServer(t)
	r := newRegistry(t, s.addr)
	w := follow(t, newRegistry(t, s.addr).Resolver(greeter))
	w.wants(t)
	since := time.UnixMilli(1_700_000_000_123)
	first, err := r.Register(greeter, discovery.Instance{Addr: "127.0.0.1:20001", Weight: 7, Zone: "a", Since: since, Attributes: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	w.wants(t, "127.0.0.1:20001")
	registered(t, first)
	if i := w.last[0]; i.Weight != 7 || i.Zone != "a" || !i.Since.Equal(since) || i.Attributes["k"] != "v" {
		t.Errorf("%+v", i)
	}
	if _, err := r.Register(greeter, discovery.Instance{Addr: "127.0.0.1:20001"}); err == nil || !strings.Contains(err.Error(), "is registered") {
		t.Errorf("twice: %v", err)
	}
	for _, other := range []discovery.Service{{Interface: greeter.Interface}, {Interface: greeter.Interface, Group: "g", Version: "1.0.0", Protocol: "tri"}} {
		registered(t, register(t, r, other, "127.0.0.1:20003"))
	}
	second := register(t, r, greeter, "[::1]:20002")
	w.wants(t, "127.0.0.1:20001", "[::1]:20002")
	if err := first.Withdraw(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if err := first.Withdraw(testkit.Context(t)); err != nil || !errors.Is(first.Err(), discovery.ErrUnregistered) {
		t.Errorf("again: %v, %v", err, first.Err())
	}
	w.wants(t, "[::1]:20002")
	registered(t, register(t, r, greeter, "127.0.0.1:20001"))
	w.wants(t, "127.0.0.1:20001", "[::1]:20002")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	w.wants(t)
	if !errors.Is(second.Err(), discovery.ErrUnregistered) {
		t.Error(second.Err())
	}
	if _, err := r.Register(greeter, discovery.Instance{Addr: "127.0.0.1:1"}); !errors.Is(err, discovery.ErrClosed) {
		t.Error(err)
	}
	if err := r.Resolver(greeter).Watch(t.Context(), nil); !errors.Is(err, discovery.ErrClosed) {
		t.Error(err)
	}
}

// TestOthersKeys: keys that others have written by the documented layout are found, and what does not parse changes nothing.
func TestOthersKeys(t *testing.T) {
	s := newServer(t)
	c := raw(t, s)
	put(t, c, base+"frame/a:1", `{"weight":3,"future":true}`)
	put(t, c, base+"frame/b:1", "")
	put(t, c, base+"-/c:1", "{}")
	put(t, c, base+"tri/d:1", "{}")
	put(t, c, base+"frame/e:1", "{")
	put(t, c, base+"frame/f", "{}")
	put(t, c, base+"frame", "{}")
	put(t, c, base+"frame/%zz", "{}")
	put(t, c, base+"frame/g:1", `{"weight":-1}`)
	put(t, c, base+"frame/h:1", strings.Repeat(" ", maxValue+1))
	w := follow(t, newRegistry(t, s.addr).Resolver(greeter))
	w.wants(t, "a:1", "b:1", "c:1")
	if w.last[0].Weight != 3 {
		t.Errorf("%+v", w.last[0])
	}
	for _, key := range []string{"frame/a:1", "frame/b:1"} {
		remove(t, c, base+key)
	}
	w.wants(t, "c:1")
	remove(t, c, base+"-/c:1")
	w.fails(t, "entries do not parse") // not an empty answer
	if got := w.addrs(); len(got) != 1 {
		t.Errorf("told %q", got)
	}
}

// TestKeyIsRemoved: a registration that somebody removes is made anew.
func TestKeyIsRemoved(t *testing.T) {
	s := newServer(t)
	reg := register(t, newRegistry(t, s.addr, func(r *Registry) { r.refresh = 100 * time.Millisecond }), greeter, "127.0.0.1:1")
	registered(t, reg)
	w := follow(t, newRegistry(t, s.addr).Resolver(greeter))
	w.wants(t, "127.0.0.1:1")
	c := raw(t, s)
	answer, err := c.Get(testkit.Context(t), base, clientv3.WithPrefix())
	if err != nil || len(answer.Kvs) != 1 {
		t.Fatalf("%v, %v", answer, err)
	}
	remove(t, c, base+"frame/127.0.0.1:1")
	testkit.Eventually(t, "another key", func() bool {
		now, err := c.Get(testkit.Context(t), base, clientv3.WithPrefix())
		return err == nil && len(now.Kvs) == 1 && now.Kvs[0].CreateRevision > answer.Kvs[0].CreateRevision
	})
	w.wants(t, "127.0.0.1:1")
}

// TestLeaseEnds: a lease that somebody revokes, or that ends while the network fails, is replaced.
func TestLeaseEnds(t *testing.T) {
	s := newServer(t)
	p := proxied(t, s)
	r := newRegistry(t, p.Addr())
	reg := register(t, r, greeter, "127.0.0.1:1")
	registered(t, reg)
	w := follow(t, newRegistry(t, s.addr).Resolver(greeter))
	w.wants(t, "127.0.0.1:1")
	c := raw(t, s)
	old := r.lease.id
	if _, err := c.Revoke(testkit.Context(t), old); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "another lease", func() bool {
		answer, err := c.Get(testkit.Context(t), base, clientv3.WithPrefix())
		return err == nil && len(answer.Kvs) == 1 && answer.Kvs[0].Lease != int64(old)
	})
	registered(t, reg)
	p.Refuse(true)
	p.Cut()
	w.wants(t)
	testkit.Eventually(t, "the registration to be in doubt", func() bool { return reg.Err() != nil })
	p.Refuse(false)
	w.wants(t, "127.0.0.1:1")
	registered(t, reg)
}

// TestMemoryLost: a server dies, and another one without any data comes back at its address. Receivers keep what they know, registrations come back.
func TestMemoryLost(t *testing.T) {
	old := newServer(t)
	p := proxied(t, old)
	for i := range 50 { // the watch is ahead of the new server
		put(t, raw(t, old), fmt.Sprintf("/x/%d", i), "")
	}
	r := newRegistry(t, p.Addr())
	clients := newRegistry(t, p.Addr(), func(r *Registry) { r.refresh = time.Second })
	reg := register(t, r, greeter, "127.0.0.1:1")
	w := follow(t, clients.Resolver(greeter))
	w.wants(t, "127.0.0.1:1")
	old.stop()
	testkit.Eventually(t, "the registration to be lost", func() bool { return reg.Err() != nil })
	if got := w.addrs(); len(got) != 1 {
		t.Errorf("told %q after the registry had died", got)
	}
	p.Redirect(newServer(t).addr)
	registered(t, reg)
	w.wants(t, "127.0.0.1:1")
	register(t, r, greeter, "127.0.0.1:2")
	w.wants(t, "127.0.0.1:1", "127.0.0.1:2")
}

// TestStalledServer: a server that says nothing ends neither the watch's context nor Close, and changes nothing.
func TestStalledServer(t *testing.T) {
	p := proxied(t, newServer(t))
	r := newRegistry(t, p.Addr())
	reg := register(t, r, greeter, "127.0.0.1:1")
	registered(t, reg)
	w := follow(t, r.Resolver(greeter))
	w.wants(t, "127.0.0.1:1")
	p.Stall(true)
	testkit.Eventually(t, "the registration to be in doubt", func() bool { return reg.Err() != nil })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reg.Withdraw(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawn: %v", err)
	}
	if err := r.Resolver(greeter).Watch(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	w.wants(t, "127.0.0.1:1")
	p.Stall(false)
	w.wants(t) // the withdrawal went on
	p.Stall(true)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestWhatIsNoEtcd: another server's answers are errors.
func TestWhatIsNoEtcd(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		tasks.Wait()
	})
	r := newRegistry(t, ln.Addr().String())
	w := follow(t, r.Resolver(greeter))
	reg := register(t, r, greeter, "127.0.0.1:1")
	w.fails(t, "reading "+base)
	testkit.Eventually(t, "an error", func() bool { return reg.Err() != nil && strings.Contains(reg.Err().Error(), "a lease") })
	if got := w.addrs(); got != nil {
		t.Errorf("told %q", got)
	}
}

// TestCompacted: a watch whose changes etcd has forgotten reads everything again.
func TestCompacted(t *testing.T) {
	s := newServer(t)
	c := raw(t, s)
	p := proxied(t, s)
	w := follow(t, newRegistry(t, p.Addr()).Resolver(greeter))
	put(t, c, base+"frame/a:1", "{}")
	w.wants(t, "a:1")
	p.Refuse(true)
	p.Cut()
	put(t, c, base+"frame/b:1", "{}")
	for range 20 {
		put(t, c, "/x", "")
	}
	answer, err := c.Get(testkit.Context(t), "/x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Compact(testkit.Context(t), answer.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	p.Refuse(false)
	w.wants(t, "a:1", "b:1")
}

// TestFlapping: a thousand entries that come and go are told as they are in the end, in few answers.
func TestFlapping(t *testing.T) {
	s := newServer(t)
	c := raw(t, s)
	put(t, c, base+"frame/a:1", "{}")
	w := follow(t, newRegistry(t, s.addr).Resolver(greeter))
	w.wants(t, "a:1")
	for range 2 {
		for i := 0; i < 1000; i += 100 {
			var ops []clientv3.Op
			for n := range 100 {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("%sframe/b:%d", base, i+n+1), "{}"))
			}
			if _, err := c.Txn(testkit.Context(t)).Then(ops...).Commit(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Delete(testkit.Context(t), base+"frame/b:", clientv3.WithPrefix()); err != nil {
			t.Fatal(err)
		}
	}
	w.wants(t, "a:1")
	if w.mu.Lock(); w.tells > 1000 {
		t.Errorf("%d answers for 4,001 changes", w.tells)
	}
	w.mu.Unlock()
}

// TestTwoRegistries: what one forgets is still at the other.
func TestTwoRegistries(t *testing.T) {
	one, two := newServer(t), newServer(t)
	for _, s := range []*server{one, two} {
		registered(t, register(t, newRegistry(t, s.addr), greeter, "127.0.0.1:1"))
	}
	a, b := follow(t, newRegistry(t, one.addr).Resolver(greeter)), follow(t, newRegistry(t, two.addr).Resolver(greeter))
	a.wants(t, "127.0.0.1:1")
	b.wants(t, "127.0.0.1:1")
	two.stop()
	register(t, newRegistry(t, one.addr), greeter, "127.0.0.1:2")
	a.wants(t, "127.0.0.1:1", "127.0.0.1:2")
	b.wants(t, "127.0.0.1:1")
}

// TestCloseInTheMiddle: Close at any moment of registrations and watches ends all of them, and TestMain finds no goroutine.
func TestCloseInTheMiddle(t *testing.T) {
	p := proxied(t, newServer(t))
	for n := range 12 {
		r := newRegistry(t, p.Addr())
		var tasks sync.WaitGroup
		for i := range 4 {
			service := discovery.Service{Interface: fmt.Sprintf("s%d", i)}
			tasks.Go(func() {
				for v := r.Resolver(service); ; {
					if err := v.Watch(t.Context(), func([]discovery.Instance) {}); errors.Is(err, discovery.ErrClosed) {
						return
					}
				}
			})
			tasks.Go(func() {
				for {
					reg, err := r.Register(service, discovery.Instance{Addr: "127.0.0.1:1"})
					if errors.Is(err, discovery.ErrClosed) {
						return
					}
					if err == nil && rand.IntN(2) == 0 {
						_ = reg.Withdraw(testkit.Context(t))
					}
				}
			})
		}
		for range rand.IntN(4) {
			if n%3 == 1 {
				p.Cut()
			}
			if reg, err := r.Register(discovery.Service{Interface: "x"}, discovery.Instance{Addr: "127.0.0.1:9"}); err == nil {
				_ = reg.Withdraw(testkit.Context(t))
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		tasks.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOptions: what makes no sense is refused, and the error names it.
func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"Endpoints is empty":  {},
		"limit 64":            {Endpoints: make([]string, 65)},
		"missing port":        {Endpoints: []string{"a"}},
		"http:// or https://": {Endpoints: []string{"ftp://a:1"}},
		"from 2s to 1h0m0s":   {Endpoints: []string{"a:1"}, TTL: time.Second},
		`Root is "a/b"`:       {Endpoints: []string{"a:1"}, Root: "a/b"},
		"without Username":    {Endpoints: []string{"a:1"}, Password: "p"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r := newRegistry(t, "http://127.0.0.1:1")
	for want, c := range map[string]struct {
		s discovery.Service
		i discovery.Instance
	}{
		"Interface is empty": {discovery.Service{}, discovery.Instance{Addr: "a:1"}},
		"missing port":       {greeter, discovery.Instance{Addr: "a"}},
		"limit 65536":        {greeter, discovery.Instance{Addr: "a:1", Attributes: map[string]string{"k": strings.Repeat("x", maxValue)}}},
	} {
		if _, err := r.Register(c.s, c.i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := r.Resolver(discovery.Service{}).Watch(t.Context(), nil); err == nil {
		t.Error("a watch of nothing")
	}
}

// TestKeys: parts of a key cannot be taken for others.
func TestKeys(t *testing.T) {
	r := newRegistry(t, "a:1")
	for want, s := range map[string]discovery.Service{
		"/eddy/i/-/-/":             {Interface: "i"},
		"/eddy/i/%2D/a%2Fb/":       {Interface: "i", Group: "-", Version: "a/b"},
		"/eddy/org.example.G/g/-/": {Interface: "org.example.G", Group: "g"},
	} {
		if got := r.prefix(s); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestEngine: an address of a file is a registry.
func TestEngine(t *testing.T) {
	g, err := Engine().Open("etcd3://u:p@a:2379?backup=b:2379&group=root&tls=true", "app")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if o := g.(*Registry).o; fmt.Sprint(o.Endpoints, o.Root, o.Username, o.Password) != "[https://a:2379 https://b:2379]rootup" {
		t.Errorf("%+v", o)
	}
	for _, address := range []string{"etcd://", "etcd://a?%zz"} {
		if _, err := Engine().Open(address, ""); err == nil {
			t.Errorf("%s: no error", address)
		}
	}
}
