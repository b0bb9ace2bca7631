package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var greeter = discovery.Service{Interface: "org.example.Greeter", Group: "g", Version: "1.0.0", Protocol: "tri"}

// standIn answers as Nacos's open API says. It is no Nacos.
type standIn struct {
	mu       sync.Mutex
	hosts    map[string]map[string]any // by service, cluster, ip and port
	beats    int
	tokens   int    // given so far; 0 = nobody has to log in
	odd      string // the answer to everything
	password string
	hang     chan struct{}     // if it is set, every answer waits for it
	texts    map[string]string // configurations by tenant, group and Data ID
	status   int               // of the answer to everything, if it is set
	failed   int               // answers with it
}

func newStandIn(t *testing.T) (*standIn, string) {
	s := &standIn{hosts: map[string]map[string]any{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-req.Context().Done():
		}
	}
	if req.Method == http.MethodDelete {
		req.Form = req.URL.Query()
	} else if err := req.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != 0 {
		s.failed++
		http.Error(w, "it is broken", s.status)
		return
	}
	if s.odd != "" {
		_, _ = io.WriteString(w, s.odd)
		return
	}
	path, ok := strings.CutPrefix(req.URL.Path, "/nacos/v1/")
	if path == "auth/login" {
		if req.Form.Get("password") != s.password {
			http.Error(w, "unknown user!", http.StatusForbidden)
			return
		}
		s.tokens++
		fmt.Fprintf(w, `{"accessToken":"t%d","tokenTtl":18000}`, s.tokens)
		return
	}
	if s.password != "" && req.Form.Get("accessToken") != "t"+strconv.Itoa(s.tokens) {
		http.Error(w, "token expired!", http.StatusForbidden)
		return
	}
	f := req.Form
	service := f.Get("namespaceId") + "/" + f.Get("groupName") + "@@" + f.Get("serviceName")
	key := service + "#" + f.Get("clusterName") + "#" + f.Get("ip") + "#" + f.Get("port")
	switch {
	case !ok:
		http.NotFound(w, req)
	case req.Method+path == "POSTns/instance":
		var metadata map[string]any
		_ = json.Unmarshal([]byte(f.Get("metadata")), &metadata)
		port, _ := strconv.Atoi(f.Get("port"))
		weight, _ := strconv.ParseFloat(f.Get("weight"), 64)
		s.hosts[key] = map[string]any{"ip": f.Get("ip"), "port": port, "weight": weight, "healthy": true, "enabled": true, "metadata": metadata}
		_, _ = io.WriteString(w, "ok")
	case req.Method+path == "DELETEns/instance":
		delete(s.hosts, key)
		_, _ = io.WriteString(w, "ok")
	case req.Method+path == "PUTns/instance/beat":
		s.beats++
		code := 10200
		if s.hosts[key] == nil {
			code = notRegistered
		}
		fmt.Fprintf(w, `{"clientBeatInterval":5000,"code":%d,"lightBeatEnabled":true}`, code)
	case req.Method+path == "GETcs/configs":
		text, ok := s.texts[f.Get("tenant")+"/"+f.Get("group")+"/"+f.Get("dataId")]
		if !ok {
			http.Error(w, "config data not exist", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, text)
	case req.Method+path == "GETns/instance/list":
		list := []map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(s.hosts)) {
			if strings.HasPrefix(k, service+"#") {
				list = append(list, s.hosts[k])
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": service, "hosts": list})
	default:
		http.NotFound(w, req)
	}
}

func (s *standIn) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func newRegistry(t *testing.T, o Options) *Registry {
	t.Helper()
	o.Logger, o.Poll = slog.New(slog.NewTextHandler(t.Output(), nil)), time.Millisecond
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.beats = time.Millisecond
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func register(t *testing.T, r *Registry, s discovery.Service, i discovery.Instance) discovery.Registration {
	t.Helper()
	reg, err := r.Register(s, i)
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

func registered(t *testing.T, reg discovery.Registration) {
	t.Helper()
	testkit.Eventually(t, "the registration", func() bool { return reg.Err() == nil })
}

// watcher collects what a watch tells. It calls the watch again after an error, as clients do.
type watcher struct {
	mu   sync.Mutex
	last []discovery.Instance
	told bool
	err  error
}

func watch(t *testing.T, r discovery.Resolver) *watcher {
	w := &watcher{}
	ctx, cancel := context.WithCancel(t.Context())
	var task sync.WaitGroup
	task.Go(func() {
		for ctx.Err() == nil {
			err := r.Watch(ctx, func(list []discovery.Instance) { w.mu.Lock(); w.last, w.told = list, true; w.mu.Unlock() })
			w.mu.Lock()
			w.err = err
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		task.Wait()
	})
	return w
}

func (w *watcher) wants(t *testing.T, addrs ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%q", addrs), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		var got []string
		for _, i := range w.last {
			got = append(got, i.Addr)
		}
		return w.told && slices.Equal(got, addrs)
	})
}

func (w *watcher) fails(t *testing.T, text string) {
	t.Helper()
	testkit.Eventually(t, "an error with "+text, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.err != nil && strings.Contains(w.err.Error(), text)
	})
}

// TestRegisterAndWatch: what is registered is found, with all that was said of it, comes back when it was forgotten, and is gone when it is withdrawn.
func TestRegisterAndWatch(t *testing.T) {
	s, addr := newStandIn(t)
	r := newRegistry(t, Options{Servers: []string{addr}, Namespace: "n"})
	w := watch(t, r.Resolver(greeter))
	w.wants(t)
	since := time.UnixMilli(1_700_000_000_123)
	one := register(t, r, greeter, discovery.Instance{Addr: "10.0.0.1:1", Weight: 250, Zone: "z", Since: since, Attributes: map[string]string{"k": "v"}})
	w.wants(t, "10.0.0.1:1")
	registered(t, one)
	if i := w.last[0]; i.Weight != 250 || i.Zone != "z" || !i.Since.Equal(since) || i.Attributes["k"] != "v" || i.Attributes["interface"] != greeter.Interface {
		t.Errorf("%+v", i)
	}
	frame := greeter
	frame.Protocol = "frame"
	register(t, r, frame, discovery.Instance{Addr: "10.0.0.1:1"}) // the same address is another entry
	watch(t, r.Resolver(frame)).wants(t, "10.0.0.1:1")
	w.wants(t, "10.0.0.1:1")
	s.do(func() {
		if s.hosts["n/DEFAULT_GROUP@@providers:org.example.Greeter:1.0.0:g#DEFAULT#10.0.0.1#1"] == nil {
			t.Errorf("%v", s.hosts)
		}
		clear(s.hosts) // it has lost its memory
	})
	w.wants(t, "10.0.0.1:1")
	testkit.Eventually(t, "beats", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return s.beats > 5 && len(s.hosts) == 2 })
	if err := one.Withdraw(testkit.Context(t)); err != nil || !errors.Is(one.Err(), discovery.ErrUnregistered) {
		t.Errorf("%v, %v", err, one.Err())
	}
	w.wants(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	s.do(func() {
		if len(s.hosts) != 0 {
			t.Errorf("%v", s.hosts)
		}
	})
}

// TestHosts: instances that are ill, off or of another protocol are not told, and one that does not parse changes nothing.
func TestHosts(t *testing.T) {
	s, addr := newStandIn(t)
	s.odd = `{"hosts":[
		{"ip":"a","port":1}, {"ip":"b","port":1,"healthy":false}, {"ip":"c","port":1,"enabled":false}, {"ip":"d","port":1,"weight":0},
		{"ip":"e","port":1,"weight":1e9,"metadata":{"protocol":"grpc"}}, {"ip":"f","port":1,"metadata":{"protocol":"dubbo"}},
		{"ip":"g","port":0}, {"ip":"h","port":1,"metadata":{"timestamp":"-1"}}]}`
	w := watch(t, newRegistry(t, Options{Servers: []string{addr}}).Resolver(greeter))
	w.wants(t, "a:1", "e:1")
	if w.last[1].Weight != discovery.MaxWeight {
		t.Errorf("%+v", w.last[1])
	}
	for odd, want := range map[string]string{
		`{"hosts":[{"ip":"g","port":0}]}`: "1 of 1 entries do not parse",
		`{}`:                              "has no hosts",
		`<html>`:                          "invalid character",
		`{"hosts":7}`:                     "cannot unmarshal",
	} {
		s.do(func() { s.odd = odd })
		w.fails(t, want)
	}
	w.wants(t, "a:1", "e:1")
}

// TestLogin: who is refused logs in, again when the token has ended. A wrong password is an error.
func TestLogin(t *testing.T) {
	s, addr := newStandIn(t)
	s.password = "secret"
	r := newRegistry(t, Options{Servers: []string{addr}, Username: "u", Password: "secret"})
	reg := register(t, r, greeter, discovery.Instance{Addr: "a:1"})
	registered(t, reg)
	w := watch(t, r.Resolver(greeter))
	w.wants(t, "a:1")
	s.do(func() { s.tokens++ })
	registered(t, register(t, r, greeter, discovery.Instance{Addr: "b:1"}))
	w.wants(t, "a:1", "b:1")
	wrong := newRegistry(t, Options{Servers: []string{addr}, Username: "u", Password: "wrong"})
	watch(t, wrong.Resolver(greeter)).fails(t, "login as u: nacos: status 403")
}

// TestServersFail: the next server is asked when one is down. With all down, registrations and watches have errors and come back.
func TestServersFail(t *testing.T) {
	down := httptest.NewServer(nil)
	down.Close()
	s, addr := newStandIn(t)
	r := newRegistry(t, Options{Servers: []string{down.URL, addr, strings.TrimPrefix(down.URL, "http://")}})
	reg := register(t, r, greeter, discovery.Instance{Addr: "a:1"})
	registered(t, reg)
	w := watch(t, r.Resolver(greeter))
	w.wants(t, "a:1")
	s.do(func() { s.odd = "{" })
	testkit.Eventually(t, "an error", func() bool { return reg.Err() != nil })
	w.fails(t, "nacos: ")
	w.wants(t, "a:1")
	s.do(func() { s.odd = "" })
	registered(t, reg)
}

// TestStalledServer: a server that says nothing keeps nobody: contexts end, and so does Close.
func TestStalledServer(t *testing.T) {
	s, addr := newStandIn(t)
	r := newRegistry(t, Options{Servers: []string{addr}})
	reg := register(t, r, greeter, discovery.Instance{Addr: "a:1"})
	registered(t, reg)
	w := watch(t, r.Resolver(greeter))
	w.wants(t, "a:1")
	hang := make(chan struct{})
	defer close(hang)
	s.do(func() { s.hang = hang })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reg.Withdraw(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	w.wants(t, "a:1")
	w.fails(t, discovery.ErrClosed.Error())
}

// TestOptions: what makes no sense is refused, and the error names it.
func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"Servers is empty": {},
		"limit 64":         {Servers: make([]string, 65)},
		`"ftp://a"`:        {Servers: []string{"ftp://a"}},
		"without a path":   {Servers: []string{"http://a/nacos"}},
		"Poll is -1ns":     {Servers: []string{"a:1"}, Poll: -1},
		"without Username": {Servers: []string{"a:1"}, Password: "p"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r := newRegistry(t, Options{Servers: []string{"127.0.0.1:1"}})
	for want, c := range map[string]struct {
		s discovery.Service
		i discovery.Instance
	}{
		"Interface is empty": {discovery.Service{}, discovery.Instance{Addr: "a:1"}},
		`"a:b"`:              {discovery.Service{Interface: "a:b"}, discovery.Instance{Addr: "a:1"}},
		"missing port":       {greeter, discovery.Instance{Addr: "a"}},
		"has no host":        {greeter, discovery.Instance{Addr: ":1"}},
	} {
		if _, err := r.Register(c.s, c.i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := r.Resolver(discovery.Service{}).Watch(t.Context(), nil); err == nil {
		t.Error("a watch of nothing")
	}
}

// TestEngine: an address of a file is a registry.
func TestEngine(t *testing.T) {
	g, err := Engine().Open("nacos://u:p@a:8848?backup=b:8848&namespace=n&group=g&tls=true", "app")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if o := g.(*Registry).o; fmt.Sprint(o.Servers, o.Namespace, o.Group, o.Username, o.Password) != "[https://a:8848 https://b:8848]ngup" {
		t.Errorf("%+v", o)
	}
	for _, address := range []string{"nacos://", "nacos://a?%zz"} {
		if _, err := Engine().Open(address, ""); err == nil {
			t.Errorf("%s: no error", address)
		}
	}
}
