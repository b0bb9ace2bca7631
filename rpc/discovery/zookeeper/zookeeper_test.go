package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/internal/zkserver"
	"github.com/go-eddy/eddy/rpc/discovery"
)

var greeter = discovery.Service{Interface: "org.example.Greeter", Group: "g", Version: "1.0.0", Protocol: "tri"}

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
	s := sharedServer(t)
	r := newRegistry(t, s.Addr)
	w := watch(t, newRegistry(t, s.Addr).Resolver(greeter))
	w.wants(t)

	since := time.UnixMilli(1_700_000_000_123)
	first, err := r.Register(greeter, discovery.Instance{Addr: "127.0.0.1:20001", Weight: 7, Zone: "a", Since: since, Attributes: map[string]string{"methods": "hello,log"}})
	if err != nil {
		t.Fatal(err)
	}
	w.wants(t, "127.0.0.1:20001")
	registered(t, first)
	if i := w.last[0]; i.Weight != 7 || i.Zone != "a" || !i.Since.Equal(since) || i.Attributes["methods"] != "hello,log" || i.Attributes["application"] != "eddy" {
		t.Errorf("%+v", i)
	}
	if _, err := r.Register(greeter, discovery.Instance{Addr: "127.0.0.1:20001"}); err == nil || !strings.Contains(err.Error(), "is registered") {
		t.Errorf("twice: %v", err)
	}
	other := greeter
	other.Version = "2.0.0"
	register(t, r, other, "127.0.0.1:20003")
	second := register(t, r, greeter, "[::1]:20002")
	w.wants(t, "127.0.0.1:20001", "[::1]:20002")

	if err := first.Withdraw(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if err := first.Withdraw(testkit.Context(t)); err != nil || !errors.Is(first.Err(), discovery.ErrUnregistered) {
		t.Errorf("again: %v, %v", err, first.Err())
	}
	w.wants(t, "[::1]:20002")
	again := register(t, r, greeter, "127.0.0.1:20001")
	w.wants(t, "127.0.0.1:20001", "[::1]:20002")
	registered(t, again)
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

// TestDubboProviders: a client finds the providers that Dubbo has written, by group, version and protocol, and what does not parse changes nothing.
func TestDubboProviders(t *testing.T) {
	s := sharedServer(t)
	c := raw(t, s)
	r := newRegistry(t, s.Addr)
	parent := r.providers(greeter.Interface)
	const one = "tri://10.0.0.1:50051/org.example.Greeter?anyhost=true&application=demo&background=false&deprecated=false&dubbo=2.0.2&dynamic=true" +
		"&generic=false&group=g&interface=org.example.Greeter&methods=greet&pid=1&release=3.2.0&service-name-mapping=true&side=provider&timestamp=1700000000000&version=1.0.0"
	put(t, c, parent, one)
	put(t, c, parent, strings.NewReplacer("10.0.0.1", "10.0.0.2", "version=1.0.0", "version=2.0.0").Replace(one))
	put(t, c, parent, strings.NewReplacer("10.0.0.1", "10.0.0.3", "group=g", "group=h").Replace(one))
	put(t, c, parent, strings.NewReplacer("10.0.0.1", "10.0.0.4", "tri:", "dubbo:").Replace(one))
	put(t, c, parent, strings.NewReplacer("10.0.0.1", "10.0.0.5", "tri:", "dubbo:").Replace(one)+"&ext.protocol=tri")
	put(t, c, parent, strings.NewReplacer("10.0.0.1", "10.0.0.6").Replace(one)+"&weight=0")
	put(t, c, parent, strings.NewReplacer("10.0.0.1", "10.0.0.7").Replace(one)+"&enabled=false")
	put(t, c, parent, "garbage")
	put(t, c, parent, "tri://10.0.0.8:99999/x?group=g&version=1.0.0")
	last := put(t, c, parent, strings.NewReplacer("10.0.0.1", "10.0.0.9").Replace(one)+"&weight=1000000")

	w := watch(t, r.Resolver(greeter))
	w.wants(t, "10.0.0.1:50051", "10.0.0.5:50051", "10.0.0.9:50051")
	if w.last[2].Weight != discovery.MaxWeight || w.last[0].Since.UnixMilli() != 1700000000000 {
		t.Errorf("%+v", w.last)
	}
	if err := c.Delete(last, -1); err != nil {
		t.Fatal(err)
	}
	w.wants(t, "10.0.0.1:50051", "10.0.0.5:50051")
}

// TestGarbageIsNoAnswer: entries of which none parses are an error. The receiver keeps what it knows, because it is not told that there is nothing.
func TestGarbageIsNoAnswer(t *testing.T) {
	s := sharedServer(t)
	r := newRegistry(t, s.Addr)
	c := raw(t, s)
	good := put(t, c, r.providers(greeter.Interface), "tri://10.0.0.1:1/org.example.Greeter?group=g&version=1.0.0")
	w := watch(t, r.Resolver(greeter))
	w.wants(t, "10.0.0.1:1")
	put(t, c, r.providers(greeter.Interface), "%zz")
	if err := c.Delete(good, -1); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "an error", func() bool { return w.err() != nil && strings.Contains(w.err().Error(), "1 of 1 entries do not parse") })
	w.wants(t, "10.0.0.1:1")
}

// TestNodeIsTakenAway: a registration that somebody removes, or that an earlier session still holds, is made anew.
func TestNodeIsTakenAway(t *testing.T) {
	s := sharedServer(t)
	r := newRegistry(t, s.Addr)
	c := raw(t, s)
	i := discovery.Instance{Addr: "127.0.0.1:1"}
	u, err := r.urlOf(greeter, i)
	if err != nil {
		t.Fatal(err)
	}
	path := put(t, c, r.providers(greeter.Interface), u)
	reg := register(t, r, greeter, i.Addr)
	registered(t, reg)
	ours := func() bool {
		_, st, err := c.Get(path)
		return err == nil && st.EphemeralOwner != c.SessionID()
	}
	if !ours() {
		t.Error("the node of the earlier session was not replaced")
	}
	_, st, err := c.Get(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "another node", func() bool {
		_, now, err := c.Get(path)
		return err == nil && now.Czxid != st.Czxid
	})
	if _, st, _ = c.Get(path); st.EphemeralOwner != r.connected().conn.SessionID() {
		t.Error("the node is not of the session")
	}
}

// TestMemoryLost: a server dies, and another one without any data comes back at its address. Receivers keep what they know, registrations come back.
func TestMemoryLost(t *testing.T) {
	old := zkserver.New(t)
	p := proxied(t, old)
	r, clients := newRegistry(t, p.Addr()), newRegistry(t, p.Addr())
	reg := register(t, r, greeter, "127.0.0.1:1")
	w := watch(t, clients.Resolver(greeter))
	w.wants(t, "127.0.0.1:1")

	old.Stop()
	testkit.Eventually(t, "the registration to be lost", func() bool { return reg.Err() != nil })
	if got := w.addrs(); len(got) != 1 {
		t.Errorf("told %q after the registry had died", got)
	}
	p.Redirect(zkserver.New(t).Addr)
	registered(t, reg)
	w.wants(t, "127.0.0.1:1")
	register(t, r, greeter, "127.0.0.1:2")
	w.wants(t, "127.0.0.1:1", "127.0.0.1:2")
}

// TestSessionEnds: a network that fails for longer than the session lasts has the server drop the registration, which comes back with the network.
func TestSessionEnds(t *testing.T) {
	s := sharedServer(t)
	p := proxied(t, s)
	r := newRegistry(t, p.Addr())
	reg := register(t, r, greeter, "127.0.0.1:1")
	registered(t, reg)
	before := r.connected().conn.SessionID()
	w := watch(t, newRegistry(t, s.Addr).Resolver(greeter))
	w.wants(t, "127.0.0.1:1")

	p.Refuse(true)
	p.Cut()
	w.wants(t) // the session has ended
	if err := reg.Err(); err == nil {
		t.Error("the registration has no error")
	}
	p.Refuse(false)
	w.wants(t, "127.0.0.1:1")
	registered(t, reg)
	if r.connected().conn.SessionID() == before {
		t.Error("the session is the same")
	}
}

// TestStalledServer: a server that takes connections and says nothing ends neither the watch's context nor Close, and changes nothing.
func TestStalledServer(t *testing.T) {
	p := proxied(t, sharedServer(t))
	r := newRegistry(t, p.Addr())
	reg := register(t, r, greeter, "127.0.0.1:1")
	w := watch(t, r.Resolver(greeter))
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

// TestWhatIsNoZooKeeper: answers of other servers are errors that say so, and neither memory, nor a panic, nor a hang.
func TestWhatIsNoZooKeeper(t *testing.T) {
	greeting := func(timeout uint32, password uint32) string {
		b := binary.BigEndian.AppendUint32(nil, 36)
		b = binary.BigEndian.AppendUint32(b, 0)
		b = binary.BigEndian.AppendUint32(b, timeout)
		b = binary.BigEndian.AppendUint64(b, 77)
		b = binary.BigEndian.AppendUint32(b, password)
		return string(append(b, make([]byte, 16)...))
	}
	answer := func(n, count uint32) string { // of the first request
		b := binary.BigEndian.AppendUint32(nil, n)
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint64(b, 1)
		b = binary.BigEndian.AppendUint32(b, 0)
		return string(binary.BigEndian.AppendUint32(b, count))
	}
	good := greeting(1000, 16)
	for what, c := range map[string]struct{ text, want string }{
		"http":           {"HTTP/1.1 400 Bad Request\r\n\r\n", "no server of ZooKeeper"},
		"huge":           {"\xff\xff\xff\xff\x00\x00", "no server of ZooKeeper"},
		"short":          {"\x00\x00\x00\x01\x00", "no server of ZooKeeper"},
		"half":           {"\x00\x00\x00\x24\x00", ""},
		"no timeout":     {greeting(0, 16), "a session of 0s"},
		"negative":       {greeting(1<<31, 16), "a session of -"},
		"password":       {greeting(1000, 1<<30), "password of 1073741824"},
		"short answer":   {good + answer(3, 0), "an answer of 3 bytes"},
		"long answer":    {good + answer(1<<31, 0), "an answer of 2147483648 bytes"},
		"many names":     {good + answer(20, 1<<31-1), "an answer of 20 bytes that speaks of 2147483647"},
		"negative names": {good + answer(20, 1<<31), "that speaks of -2147483648"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t, silly(t, c.text), func(o *Options) { o.Root = "x" })
			w := watch(t, r.Resolver(greeter))
			reg := register(t, r, greeter, "127.0.0.1:1")
			testkit.Eventually(t, "an error", func() bool {
				return w.err() != nil && strings.Contains(w.err().Error(), c.want) && reg.Err() != nil
			})
			if got := w.addrs(); got != nil {
				t.Errorf("told %q", got)
			}
		})
	}
}

// TestFlapping: a thousand entries that come and go are told as they are in the end, in few answers.
func TestFlapping(t *testing.T) {
	s := sharedServer(t)
	r := newRegistry(t, s.Addr)
	c := raw(t, s)
	parent := r.providers(greeter.Interface)
	put(t, c, parent, "tri://10.0.0.1:1/org.example.Greeter?group=g&version=1.0.0")
	w := watch(t, r.Resolver(greeter))
	w.wants(t, "10.0.0.1:1")
	name := func(i int) string {
		return fmt.Sprintf("tri://10.0.1.1:%d/org.example.Greeter?group=g&version=1.0.0", i+1)
	}
	for range 3 {
		var ops []any
		for i := range 1000 {
			ops = append(ops, &zk.CreateRequest{Path: parent + "/" + url.QueryEscape(name(i)), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
		}
		if _, err := c.Multi(ops...); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if err := c.Delete(parent+"/"+url.QueryEscape(name(i)), -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.wants(t, "10.0.0.1:1")
	if w.mu.Lock(); w.tells > 1000 {
		t.Errorf("%d answers for 3,003 changes", w.tells)
	}
	w.mu.Unlock()
}

// TestTooMany: of more instances than the limit the first are told.
func TestTooMany(t *testing.T) {
	s := sharedServer(t)
	r := newRegistry(t, s.Addr)
	c := raw(t, s)
	parent := r.providers(greeter.Interface)
	put(t, c, parent, "tri://10.0.0.1:1/x?group=g&version=1.0.0")
	for i := 0; i < discovery.MaxInstances+10; i += 1000 {
		var ops []any
		for n := range 1000 {
			u := fmt.Sprintf("tri://10.1.%d.%d:1/x?group=g&version=1.0.0", (i+n)/256, (i+n)%256)
			ops = append(ops, &zk.CreateRequest{Path: parent + "/" + url.QueryEscape(u), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
		}
		if _, err := c.Multi(ops...); err != nil {
			t.Fatal(err)
		}
	}
	w := watch(t, r.Resolver(greeter))
	testkit.Eventually(t, "as many as may be", func() bool { return len(w.addrs()) == discovery.MaxInstances })
}

// TestTwoRegistries: what one server forgets is still at the other; each has registrations and watches of its own.
func TestTwoRegistries(t *testing.T) {
	one, two := sharedServer(t), zkserver.New(t)
	for _, s := range []*zkserver.Server{one, two} {
		r := newRegistry(t, s.Addr)
		registered(t, register(t, r, greeter, "127.0.0.1:1"))
	}
	a, b := watch(t, newRegistry(t, one.Addr).Resolver(greeter)), watch(t, newRegistry(t, two.Addr).Resolver(greeter))
	a.wants(t, "127.0.0.1:1")
	b.wants(t, "127.0.0.1:1")
	two.Stop()
	r := newRegistry(t, one.Addr)
	registered(t, register(t, r, greeter, "127.0.0.1:2"))
	a.wants(t, "127.0.0.1:1", "127.0.0.1:2")
	b.wants(t, "127.0.0.1:1")
}

// TestCloseInTheMiddle: Close at any moment of registrations and watches ends all of them, and TestMain finds no goroutine.
func TestCloseInTheMiddle(t *testing.T) {
	p := proxied(t, sharedServer(t))
	for n := range 12 {
		r := newRegistry(t, p.Addr(), func(o *Options) { o.Root = fmt.Sprintf("close%d", n) })
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
			reg, err := r.Register(discovery.Service{Interface: "x"}, discovery.Instance{Addr: "127.0.0.1:9"})
			if err == nil {
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

// TestCredentials: with a user's name the nodes are that user's, and others may not read them.
func TestCredentials(t *testing.T) {
	s := sharedServer(t)
	mine := func(o *Options) { o.Username, o.Password = "eddy", "secret" }
	r := newRegistry(t, s.Addr, mine)
	registered(t, register(t, r, greeter, "127.0.0.1:1"))
	w := watch(t, newRegistry(t, s.Addr, mine).Resolver(greeter))
	w.wants(t, "127.0.0.1:1")
	other := watch(t, newRegistry(t, s.Addr).Resolver(greeter))
	testkit.Eventually(t, "a refusal", func() bool { return errors.Is(other.err(), zk.ErrNoAuth) })
}
