package rpc

import (
	"context"
	"errors"
	"net"
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

// TestDNSOfAClient: a client connects to what DNS finds.
func TestDNSOfAClient(t *testing.T) {
	if r, err := DNS("no port"); r != nil || err == nil {
		t.Errorf("%v, %v", r, err)
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
