package rpc

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/testkit"
)

// addrBook is a Resolver whose answer a test changes.
type addrBook struct {
	mu    sync.Mutex
	addrs []string
	err   error
	asked int
}

func (b *addrBook) Resolve(context.Context) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	return slices.Clone(b.addrs), b.err
}

func (b *addrBook) set(err error, addrs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addrs, b.err = addrs, err
}

// TestResolverChanges: new addresses are used, those that are gone take no new calls, finish what is in flight and are
// disconnected; errors change nothing, and no address at all is an answer.
func TestResolverChanges(t *testing.T) {
	release := make(chan struct{})
	gone := make(chan struct{})
	a := newStub(t, func(c *stubConn) {
		for q := c.next(); q != nil; q = c.next() {
			if q.method == "Hold" {
				go func() { <-release; c.answer(q.id, 0, "held") }()
				continue
			}
			c.answer(q.id, 0, "a")
		}
		close(gone)
	})
	b := newStub(t, names("b"))
	book := &addrBook{}
	book.set(nil, a.addr(), a.addr())
	cl := client(t, ClientOptions{Resolver: book, ResolveEvery: time.Millisecond})
	held := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
	if name, err := invoke(context.Background(), cl, "Who", ""); name != "a" || err != nil {
		t.Fatalf("%q, %v", name, err)
	}
	book.set(errors.New("no such luck"))
	testkit.Eventually(t, "failures", func() bool { return cl.Stats().ResolveFailures > 2 })
	book.set(nil, "127.0.0.1:0")
	testkit.Eventually(t, "more failures", func() bool { return cl.Stats().ResolveFailures > 4 })
	if name, err := invoke(context.Background(), cl, "Who", ""); name != "a" || err != nil {
		t.Fatalf("%q, %v", name, err)
	}
	book.set(nil, b.addr())
	testkit.Eventually(t, "the change", func() bool {
		name, err := invoke(context.Background(), cl, "Who", "")
		if err != nil && !errors.Is(err, ErrConnection) {
			t.Error(err)
		}
		return name == "b"
	})
	for range 10 {
		if name, err := invoke(context.Background(), cl, "Who", ""); name != "b" || err != nil {
			t.Errorf("%q, %v", name, err)
		}
	}
	close(release)
	if resp, err := held.Wait(context.Background()); err != nil || string(*resp) != "held" {
		t.Errorf("%v", err)
	}
	<-gone
	book.set(nil)
	testkit.Eventually(t, "no addresses", func() bool { return cl.Stats().Addresses == 0 && cl.Stats().Connections == 0 })
	_, err := invoke(context.Background(), cl, "Who", "")
	if e := asError(t, err); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrConnection) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "no address") {
		t.Errorf("%+v", e)
	}
}

// TestResolverNeverAnswers: calls wait for the first answer, and fail when it is an error.
func TestResolverNeverAnswers(t *testing.T) {
	gate := make(chan struct{})
	cl := client(t, ClientOptions{Resolver: resolverFunc(func(ctx context.Context) ([]string, error) {
		select {
		case <-gate:
			return nil, errors.New("no such host")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})})
	_, err := invoke(context.Background(), cl, "Echo", "", CallTimeout(time.Millisecond))
	if e := asError(t, err); !errors.Is(err, ErrDeadline) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text(""))
	close(gate)
	_, err = f.Wait(context.Background())
	if e := asError(t, err); !errors.Is(err, ErrUnavailable) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("%+v", e)
	}
}

// TestDNS: every address of a name is one.
func TestDNS(t *testing.T) {
	r, err := DNS("localhost:7000")
	if err != nil {
		t.Fatal(err)
	}
	d := r.(*dnsResolver)
	d.lookup = func(_ context.Context, network, host string) ([]netip.Addr, error) {
		if network != "ip" || host != "localhost" {
			t.Errorf("%s %s", network, host)
		}
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.2"), netip.MustParseAddr("fe80::1")}, nil
	}
	got, err := r.Resolve(context.Background())
	if want := []string{"10.0.0.1:7000", "10.0.0.2:7000", "[fe80::1]:7000"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	d.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, nil }
	if _, err := r.Resolve(context.Background()); err == nil {
		t.Error("no address was an answer")
	}
	lost := &net.DNSError{Err: "no such host", Name: "localhost", IsNotFound: true}
	d.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return nil, lost }
	if _, err := r.Resolve(context.Background()); !errors.Is(err, lost) {
		t.Error(err)
	}
	for _, bad := range []string{"", "host", "host:", "host:http", "host:70000", "a:b:c"} {
		if _, err := DNS(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	s := newStub(t, names("local"))
	_, port, _ := net.SplitHostPort(s.addr())
	real, err := DNS("127.0.0.1:" + port)
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, ClientOptions{Resolver: real})
	if name, err := invoke(context.Background(), cl, "Who", ""); name != "local" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}

// TestTooManyAddresses are an error, as is what is no address.
func TestTooManyAddresses(t *testing.T) {
	cl := client(t, ClientOptions{}, newStub(t, echoes).addr())
	if err := cl.checkAddrs(make([]string, maxAddrs+1)); err == nil || !strings.Contains(err.Error(), "limit 1024") {
		t.Error(err)
	}
	if err := cl.checkAddrs([]string{"x"}); err == nil {
		t.Error("x is an address")
	}
}
