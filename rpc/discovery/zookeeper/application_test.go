package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/internal/zkserver"
	"github.com/go-eddy/eddy/rpc/discovery"
)

func byApplication(app string, mode Mode) func(*Options) {
	return func(o *Options) { o.Application, o.Register = app, mode }
}

// read returns what a node has; ok is false if it is not there.
func read(t *testing.T, c *zk.Conn, path string) (data string, ok bool) {
	t.Helper()
	var text []byte
	testkit.Eventually(t, "an answer about "+path, func() (answered bool) {
		var err error
		text, _, err = c.Get(path)
		ok = err == nil
		return ok || errors.Is(err, zk.ErrNoNode)
	})
	return string(text), ok
}

// write makes a node that stays, and those above it, and sets what it has.
func write(t *testing.T, c *zk.Conn, path, data string) {
	t.Helper()
	testkit.Eventually(t, "the connection", func() bool { _, _, err := c.Exists("/"); return err == nil })
	for at := 1; at <= len(path); at++ {
		if at == len(path) || path[at] == '/' {
			if _, err := c.Create(path[:at], nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				t.Fatal(err)
			}
		}
	}
	if _, err := c.Set(path, []byte(data), -1); err != nil {
		t.Fatal(err)
	}
}

// entryOf returns the node of an address, as a consumer reads it, nil if it is not there.
func entryOf(t *testing.T, c *zk.Conn, app, addr string) *entry {
	t.Helper()
	text, ok := read(t, c, applications+"/"+app+"/"+addr)
	if !ok {
		return nil
	}
	var e entry
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return &e
}

// services returns the match keys of what an address serves, read as consumers do, from where those in Java and those in Go look.
func services(t *testing.T, c *zk.Conn, root, app, addr string) []string {
	t.Helper()
	e := entryOf(t, c, app, addr)
	if e == nil {
		return nil
	}
	revision := e.Payload.Metadata["dubbo.metadata.revision"]
	java, ok := read(t, c, "/"+root+"/metadata/"+app+"/"+revision)
	other, also := read(t, c, "/"+root+"/"+app+"/"+revision)
	if !ok || !also || java != other {
		t.Fatalf("metadata of %s: %q, %q", revision, java, other)
	}
	var m metadata
	if err := json.Unmarshal([]byte(java), &m); err != nil || m.App != app || m.Revision != revision {
		t.Fatalf("%v: %s", err, java)
	}
	var keys []string
	for key, o := range m.Services {
		if o.Path != o.Name || o.Params["side"] != "provider" || o.Params["pid"] != "" || o.Params["timestamp"] != "" {
			t.Errorf("%s: %+v", key, o)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// revisions is how many revisions an application has had.
func revisions(t *testing.T, c *zk.Conn, root, app string) int {
	t.Helper()
	names, _, err := c.Children("/" + root + "/metadata/" + app)
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestRegisterByApplication: the addresses of an application are nodes that name what they serve. A service that comes or goes changes the node, and the last one
// takes it away.
func TestRegisterByApplication(t *testing.T) {
	s := sharedServer(t)
	c, app, root := raw(t, s), "shop-"+strings.ToLower(t.Name()), strings.ToLower(t.Name())
	r := newRegistry(t, s.Addr, byApplication(app, ByBoth))
	plain := discovery.Service{Interface: "org.example.Clock", Version: "0.0.0"}
	first, second := register(t, r, greeter, "127.0.0.1:20001"), register(t, r, plain, "127.0.0.1:20001")
	registered(t, register(t, r, discovery.Service{Interface: "org.example.Clock", Protocol: "dubbo"}, "[::1]:20002"))
	registered(t, first)
	registered(t, second)
	both := []string{"g/org.example.Greeter:1.0.0:tri", "org.example.Clock:tri"}
	if got := services(t, c, root, app, "127.0.0.1:20001"); !slices.Equal(got, both) {
		t.Errorf("%q", got)
	}
	if got := services(t, c, root, app, "[::1]:20002"); !slices.Equal(got, []string{"org.example.Clock:dubbo"}) {
		t.Errorf("%q", got)
	}
	e := entryOf(t, c, app, "[::1]:20002")
	if e.ID != "[::1]:20002" || e.Address != "::1" || e.Port != 20002 || e.Name != app || e.ServiceType != "DYNAMIC" || e.Payload.Name != app ||
		e.Payload.Metadata["dubbo.endpoints"] != `[{"port":20002,"protocol":"dubbo"}]` || e.Payload.Metadata["dubbo.metadata.storage-type"] != "remote" {
		t.Errorf("%+v", e)
	}
	for _, of := range []string{greeter.Interface, plain.Interface} {
		if apps, _ := read(t, c, "/"+root+"/mapping/"+of); apps != app {
			t.Errorf("%s: %q", of, apps)
		}
	}
	w := watch(t, newRegistry(t, s.Addr).Resolver(greeter)) // by the interface, too
	w.wants(t, "127.0.0.1:20001")

	if err := first.Withdraw(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	w.wants(t)
	if got := services(t, c, root, app, "127.0.0.1:20001"); !slices.Equal(got, both[1:]) {
		t.Errorf("behind the withdrawal of one: %q", got)
	}
	if err := second.Withdraw(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	if e := entryOf(t, c, app, "127.0.0.1:20001"); e != nil {
		t.Errorf("behind the withdrawal of both: %+v", e)
	}
	if err := second.Err(); !errors.Is(err, discovery.ErrUnregistered) {
		t.Error(err)
	}
	registered(t, register(t, r, greeter, "127.0.0.1:20001"))
	if got := services(t, c, root, app, "127.0.0.1:20001"); !slices.Equal(got, both[:1]) {
		t.Errorf("again: %q", got)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if entryOf(t, c, app, "127.0.0.1:20001") != nil || entryOf(t, c, app, "[::1]:20002") != nil {
		t.Error("there is an address behind Close")
	}
}

// TestByApplicationOnly: an instance has no node below its interface, and a second registration of it is refused.
func TestByApplicationOnly(t *testing.T) {
	s := sharedServer(t)
	c, app := raw(t, s), "only-"+strings.ToLower(t.Name())
	r := newRegistry(t, s.Addr, byApplication(app, ByApplication))
	registered(t, register(t, r, greeter, "127.0.0.1:1"))
	if there, _, err := c.Exists(r.providers(greeter.Interface)); there || err != nil {
		t.Errorf("%t, %v", there, err)
	}
	if _, err := r.Register(greeter, discovery.Instance{Addr: "127.0.0.1:1"}); err == nil || !strings.Contains(err.Error(), "is registered") {
		t.Errorf("twice: %v", err)
	}
	all := newRegistry(t, s.Addr, byApplication(app, ByBoth))
	if _, err := all.Register(greeter, discovery.Instance{Addr: "127.0.0.1:1"}); err != nil {
		t.Errorf("by another program: %v", err)
	}
	if _, err := New(Options{Servers: []string{"a"}, Register: ByBoth}); err == nil || !strings.Contains(err.Error(), "Options.Application is empty") {
		t.Error(err)
	}
}

// TestApplicationIsTakenAway: what others remove or change comes back, and so does all of it in a server without memory.
func TestApplicationIsTakenAway(t *testing.T) {
	old := zkserver.New(t)
	p := proxied(t, old)
	app, root := "shop", strings.ToLower(t.Name())
	r := newRegistry(t, p.Addr(), byApplication(app, ByApplication))
	c := raw(t, old)
	for _, name := range []string{"A", "B"} {
		registered(t, register(t, r, discovery.Service{Interface: "org.example." + name}, "127.0.0.1:1"))
	}
	path, want := applications+"/"+app+"/127.0.0.1:1", []string{"org.example.A:tri", "org.example.B:tri"}
	if err := c.Delete(path, -1); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the node", func() bool { _, ok := read(t, c, path); return ok })
	write(t, c, path, "{}")
	testkit.Eventually(t, "the content of the node", func() bool { text, _ := read(t, c, path); return text != "{}" })
	if got := services(t, c, root, app, "127.0.0.1:1"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}

	old.Stop()
	fresh := zkserver.New(t)
	p.Redirect(fresh.Addr)
	c = raw(t, fresh)
	testkit.Eventually(t, "both services", func() bool {
		_, ok := read(t, c, path)
		return ok && slices.Equal(services(t, c, root, app, "127.0.0.1:1"), want)
	})
	for _, name := range []string{"A", "B"} {
		testkit.Eventually(t, "the mapping", func() bool { apps, _ := read(t, c, "/"+root+"/mapping/org.example."+name); return apps == app })
	}
}

// TestApplicationsOfAnInterface: many programs that begin at the same time are all named, each once, and what was there stays.
func TestApplicationsOfAnInterface(t *testing.T) {
	s := sharedServer(t)
	c, root := raw(t, s), strings.ToLower(t.Name())
	path := "/" + root + "/mapping/" + greeter.Interface
	write(t, c, path, "theirs")
	want := []string{"theirs"}
	var ready, all sync.WaitGroup
	start := make(chan struct{})
	for i := range 12 {
		app, addr := fmt.Sprintf("%s-%d", root, i), fmt.Sprintf("127.0.0.1:%d", i+1)
		want = append(want, app)
		r := newRegistry(t, s.Addr, byApplication(app, ByApplication))
		ready.Add(1)
		all.Go(func() {
			registered(t, register(t, r, discovery.Service{Interface: "org.example.First"}, addr))
			ready.Done()
			<-start
			registered(t, register(t, r, greeter, addr))
		})
	}
	ready.Wait()
	close(start)
	all.Wait()
	apps, _ := read(t, c, path)
	got := strings.Split(apps, ",")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	write(t, c, path, strings.Repeat("x", maxMapping))
	reg := register(t, newRegistry(t, s.Addr, byApplication("late", ByApplication)), greeter, "127.0.0.1:1")
	testkit.Eventually(t, "the error", func() bool {
		return reg.Err() != nil && strings.Contains(reg.Err().Error(), "no room for one more application")
	})
}

// TestMetadataElsewhere: what addresses serve is written to servers of their own. While these are down, the registration has an error.
func TestMetadataElsewhere(t *testing.T) {
	s, report := sharedServer(t), zkserver.New(t)
	p := proxied(t, report)
	p.Refuse(true)
	app, root := "elsewhere", strings.ToLower(t.Name())
	r := newRegistry(t, s.Addr, byApplication(app, ByBoth), func(o *Options) { o.Metadata = []string{p.Addr()} })
	w := watch(t, newRegistry(t, s.Addr).Resolver(greeter))
	reg := register(t, r, greeter, "127.0.0.1:1")
	w.wants(t, "127.0.0.1:1")
	c := raw(t, s)
	if e := entryOf(t, c, app, "127.0.0.1:1"); e != nil || reg.Err() == nil {
		t.Errorf("%+v, %v", e, reg.Err())
	}
	p.Refuse(false)
	registered(t, reg)
	revision := entryOf(t, c, app, "127.0.0.1:1").Payload.Metadata["dubbo.metadata.revision"]
	path := "/" + root + "/metadata/" + app + "/" + revision
	if _, ok := read(t, c, path); ok {
		t.Error("the metadata is in the registry")
	}
	if _, ok := read(t, raw(t, report), path); !ok {
		t.Error("the metadata is not in its place")
	}
}

// TestServicesAtTheSameTime: services that come together, and go with Close, make few revisions, because each stays.
func TestServicesAtTheSameTime(t *testing.T) {
	s := sharedServer(t)
	c, root, app := raw(t, s), strings.ToLower(t.Name()), strings.ToLower(t.Name())
	r := newRegistry(t, s.Addr, byApplication(app, ByApplication))
	const services = 40
	var all []discovery.Registration
	for i := range services {
		all = append(all, register(t, r, discovery.Service{Interface: fmt.Sprint("org.example.S", i)}, "127.0.0.1:1"))
	}
	for _, reg := range all {
		registered(t, reg)
	}
	if got := revisions(t, c, root, app); got > services/4 {
		t.Errorf("%d services made %d revisions", services, got)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got := revisions(t, c, root, app); got > services/4 {
		t.Errorf("%d services made %d revisions until they were gone", services, got)
	}
}

// TestTwoOfOneAddress: two programs that say the same address do not take it from each other without end. One of them is told.
func TestTwoOfOneAddress(t *testing.T) {
	s := sharedServer(t)
	c, app := raw(t, s), strings.ToLower(t.Name())
	var regs []discovery.Registration
	for range 2 {
		regs = append(regs, register(t, newRegistry(t, s.Addr, byApplication(app, ByApplication)), greeter, "127.0.0.1:1"))
	}
	testkit.Eventually(t, "an error", func() bool {
		return slices.ContainsFunc(regs, func(reg discovery.Registration) bool {
			return reg.Err() != nil && strings.Contains(reg.Err().Error(), "another program has the same address")
		})
	})
	testkit.Eventually(t, "one of them to be there", func() bool { return entryOf(t, c, app, "127.0.0.1:1") != nil })
}

// TestModes: how an address says where instances are registered.
func TestModes(t *testing.T) {
	for keys, want := range map[string]Mode{"": ByInterface, "registry-type=service": ByBoth, "register-mode=all": ByBoth, "register-mode=instance": ByApplication,
		"register-mode=interface&registry-type=service": ByInterface, "registry-type=other": ByInterface} {
		o, err := Parse("zookeeper://a?" + keys)
		if err != nil || o.Register != want || o.Metadata != nil {
			t.Errorf("%s: %+v, %v", keys, o, err)
		}
	}
	if o, err := Parse("zookeeper://a?metadata=" + url.QueryEscape("b,c:1")); err != nil || !slices.Equal(o.Metadata, []string{"b", "c:1"}) {
		t.Errorf("%+v, %v", o, err)
	}
	for keys, want := range map[string]string{"register-mode=some": `register-mode is "some"`, "metadata=b:0": "Options.Metadata", "metadata=" + strings.Repeat("b,", MaxServers) + "b": "limit 64"} {
		if _, err := Parse("zookeeper://a?" + keys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
	for want, o := range map[string]Options{"Register is 3": {Register: 3, Application: "a"}, `Application is "a,b"`: {Application: "a,b"}, `Application is ".."`: {Application: ".."}} {
		o.Servers = []string{"a"}
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCenter: a text is read by group and key; one that is not there is empty. A center that is down is waited for.
func TestCenter(t *testing.T) {
	s := sharedServer(t)
	c, root := raw(t, s), strings.ToLower(t.Name())
	p := proxied(t, s)
	write(t, c, "/"+root+"/config/dubbo/dubbo.properties", "a=1")
	center, err := Engine().OpenCenter("zookeeper://" + p.Addr() + "?session=1000&group=" + root)
	if err != nil {
		t.Fatal(err)
	}
	defer center.Close()
	p.Refuse(true)
	nobody, end := context.WithTimeout(t.Context(), 2*minSession)
	defer end()
	if _, err := center.Text(nobody, "dubbo", "dubbo.properties"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), p.Addr()) {
		t.Errorf("while nobody answers: %v", err)
	}
	late := make(chan string, 1)
	go func() {
		text, err := center.Text(testkit.Context(t), "dubbo", "dubbo.properties")
		late <- fmt.Sprintf("%s, %v", text, err)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := center.Text(ctx, "dubbo", "dubbo.properties"); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	p.Refuse(false)
	if got := testkit.Receive(t, "the text", late); got != "a=1, <nil>" {
		t.Error(got)
	}
	if text, err := center.Text(testkit.Context(t), "shop", "dubbo.properties"); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	for _, name := range []string{"", "..", "a/b"} {
		if _, err := center.Text(t.Context(), name, "k"); err == nil || !strings.Contains(err.Error(), "is no name of a text") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := center.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := center.Text(t.Context(), "dubbo", "dubbo.properties"); !errors.Is(err, discovery.ErrClosed) {
		t.Error(err)
	}
	if _, err := Engine().OpenCenter("zookeeper://"); err == nil {
		t.Error("a center without servers")
	}
}
