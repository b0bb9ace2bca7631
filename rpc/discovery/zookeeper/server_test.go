package zookeeper

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/chaos"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/internal/zkserver"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// shared is the server of all tests that leave it as it was.
var shared struct {
	once sync.Once
	s    *zkserver.Server
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.s != nil {
		shared.s.Stop()
		_ = os.RemoveAll(shared.dir)
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// sharedServer returns the server of all tests.
func sharedServer(t *testing.T) *zkserver.Server {
	t.Helper()
	program := zkserver.Java(t)
	shared.once.Do(func() {
		if shared.dir, shared.err = os.MkdirTemp("", "zookeeper"); shared.err == nil {
			shared.s, shared.err = zkserver.Start(program, shared.dir)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.s
}

// proxied returns a proxy in front of the server.
func proxied(t *testing.T, s *zkserver.Server) *chaos.Proxy {
	t.Helper()
	p, err := chaos.New(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// newRegistry returns a registry below a root of this test.
func newRegistry(t *testing.T, addr string, change ...func(*Options)) *Registry {
	t.Helper()
	o := Options{Servers: []string{addr}, Root: strings.ToLower(t.Name()), Session: minSession, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, f := range change {
		f(&o)
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// watcher collects what a watch tells. It calls the watch again after an error, as clients do.
type watcher struct {
	mu    sync.Mutex
	last  []discovery.Instance
	tells int
	errs  []error
}

func watch(t *testing.T, r discovery.Resolver) *watcher {
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

// raw is a client of the server that knows nothing of the registry.
func raw(t *testing.T, s *zkserver.Server) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{s.Addr}, time.Minute, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for range events {
		}
	})
	return c
}

// put makes a node of a provider's URL, as Dubbo does.
func put(t *testing.T, c *zk.Conn, parent, u string) string {
	t.Helper()
	for at := 1; at <= len(parent); at++ {
		if at == len(parent) || parent[at] == '/' {
			if _, err := c.Create(parent[:at], nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
				t.Fatal(err)
			}
		}
	}
	path := parent + "/" + url.QueryEscape(u)
	if _, err := c.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	return path
}

// silly returns the address of a server that answers every connection with text, and then waits for its end.
func silly(t *testing.T, text string) string {
	t.Helper()
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
			tasks.Go(func() {
				defer c.Close()
				_, _ = io.WriteString(c, text)
				_, _ = io.Copy(io.Discard, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		tasks.Wait()
	})
	return ln.Addr().String()
}
