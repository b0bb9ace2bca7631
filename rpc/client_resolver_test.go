package rpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// addrBook is a Resolver that says what a test says: an error, which ends a Watch, or a list of instances.
type addrBook chan any

func (b addrBook) Watch(ctx context.Context, tell func([]discovery.Instance)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case v := <-b:
			switch v := v.(type) {
			case error:
				return v
			case []discovery.Instance:
				tell(v)
			}
		}
	}
}

// TestResolverChanges: new addresses are used, those that are gone take no new calls, finish what is in flight and are
// disconnected. Errors, garbage and no address at all change nothing.
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
	book := make(addrBook)
	cl := client(t, ClientOptions{Resolver: book})
	book <- discovery.Addrs(a.addr(), a.addr())
	held := InvokeAsync[[]byte](context.Background(), cl, testKey, "Hold", text(""))
	still := func(want string) {
		t.Helper()
		if name, err := invoke(context.Background(), cl, "Who", ""); name != want || err != nil {
			t.Fatalf("%q, %v", name, err)
		}
	}
	still("a")
	book <- errors.New("no such luck")
	testkit.Eventually(t, "a failure", func() bool { return cl.Stats().Balance.ResolveFailures == 1 })
	still("a")
	book <- discovery.Addrs("127.0.0.1:0")
	testkit.Eventually(t, "garbage", func() bool { return cl.Stats().Balance.ResolveRefused == 1 })
	still("a")
	book <- []discovery.Instance{}
	testkit.Eventually(t, "nothing", func() bool { return cl.Stats().Balance.ResolveEmpty == 1 })
	still("a")
	book <- discovery.Addrs(b.addr())
	testkit.Eventually(t, "the change", func() bool {
		name, err := invoke(context.Background(), cl, "Who", "")
		if err != nil && !errors.Is(err, ErrConnection) {
			t.Error(err)
		}
		return name == "b"
	})
	for range 10 {
		still("b")
	}
	close(release)
	if resp, err := held.Wait(context.Background()); err != nil || string(*resp) != "held" {
		t.Errorf("%v", err)
	}
	<-gone
}

// TestNoInstance: an empty answer is one when nothing else is known, and calls fail.
func TestNoInstance(t *testing.T) {
	book := make(addrBook)
	cl := client(t, ClientOptions{Resolver: book})
	book <- []discovery.Instance{}
	_, err := invoke(context.Background(), cl, "Who", "")
	if e := asError(t, err); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrConnection) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "no address") {
		t.Errorf("%+v", e)
	}
}

// TestResolverNeverAnswers: calls wait for the first answer, and fail when it is an error.
func TestResolverNeverAnswers(t *testing.T) {
	book := make(addrBook)
	cl := client(t, ClientOptions{Resolver: book})
	_, err := invoke(context.Background(), cl, "Echo", "", CallTimeout(1e6))
	if e := asError(t, err); !errors.Is(err, ErrDeadline) || e.Executed != ExecutedNo {
		t.Errorf("%+v", e)
	}
	f := InvokeAsync[[]byte](context.Background(), cl, testKey, "Echo", text(""))
	book <- errors.New("no such host")
	_, err = f.Wait(context.Background())
	if e := asError(t, err); !errors.Is(err, ErrUnavailable) || e.Executed != ExecutedNo || !strings.Contains(err.Error(), "no such host") {
		t.Errorf("%+v", e)
	}
}

// TestDNSOfAClient: a client connects to what DNS finds.
func TestDNSOfAClient(t *testing.T) {
	s := newStub(t, names("local"))
	_, port, _ := net.SplitHostPort(s.addr())
	real, err := discovery.DNS("127.0.0.1:"+port, 0)
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, ClientOptions{Resolver: real})
	if name, err := invoke(context.Background(), cl, "Who", ""); name != "local" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}
