package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/go-eddy/eddy/internal/chaos"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("gopkg.in/natefinch/lumberjack%2ev2.(*Logger).millRun"))
}

// server is an etcd in this process.
type server struct {
	e    *embed.Etcd
	addr string
	once sync.Once
}

func newServer(t *testing.T) *server {
	t.Helper()
	o := embed.NewConfig()
	o.Dir = filepath.Join(t.TempDir(), "data")
	o.LogOutputs, o.LogLevel = []string{"/dev/null"}, "error"
	o.UnsafeNoFsync = true
	free := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	o.ListenClientUrls, o.ListenPeerUrls = []url.URL{free}, []url.URL{free}
	o.AdvertiseClientUrls, o.AdvertisePeerUrls = []url.URL{free}, []url.URL{free}
	o.InitialCluster = o.InitialClusterFromName(o.Name)
	o.TickMs, o.ElectionMs = 20, 200
	e, err := embed.StartEtcd(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{e: e, addr: e.Clients[0].Addr().String()}
	t.Cleanup(s.stop)
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		t.Fatal(err)
	}
	return s
}

func (s *server) stop() { s.once.Do(s.e.Close) }

// proxied returns a proxy in front of the server.
func proxied(t *testing.T, s *server) *chaos.Proxy {
	t.Helper()
	p, err := chaos.New(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func newRegistry(t *testing.T, addr string, change ...func(*Registry)) *Registry {
	t.Helper()
	r, err := New(Options{Endpoints: []string{addr}, TTL: minTTL, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(r)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// raw is a client of the server that knows nothing of the registry.
func raw(t *testing.T, s *server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(testkit.Context(t), key, value); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c *clientv3.Client, key string) {
	t.Helper()
	if _, err := c.Delete(testkit.Context(t), key); err != nil {
		t.Fatal(err)
	}
}

// watcher collects what a watch tells. It calls the watch again after an error, as clients do.
type watcher struct {
	mu    sync.Mutex
	last  []discovery.Instance
	tells int
	errs  []error
}

func follow(t *testing.T, r discovery.Resolver) *watcher {
	w := &watcher{}
	ctx, cancel := context.WithCancel(t.Context())
	var task sync.WaitGroup
	task.Go(func() {
		for ctx.Err() == nil {
			err := r.Watch(ctx, w.tell)
			w.mu.Lock()
			w.errs = append(w.errs, err)
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		task.Wait()
	})
	return w
}

func (w *watcher) tell(list []discovery.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = list
	w.tells++
}

// addrs are those that were told last; nil if nothing was told.
func (w *watcher) addrs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tells == 0 {
		return nil
	}
	addrs := []string{}
	for _, i := range w.last {
		addrs = append(addrs, i.Addr)
	}
	return addrs
}

func (w *watcher) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.errs) == 0 {
		return nil
	}
	return w.errs[len(w.errs)-1]
}

func (w *watcher) wants(t *testing.T, addrs ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%q, and not %q", addrs, w.addrs()), func() bool {
		got := w.addrs()
		return got != nil && slices.Equal(got, addrs)
	})
}

// fails waits for an error of the watch that has text.
func (w *watcher) fails(t *testing.T, text string) {
	t.Helper()
	testkit.Eventually(t, "an error with "+text, func() bool { return w.err() != nil && strings.Contains(w.err().Error(), text) })
}
