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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/internal/chaos"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc/discovery"
)

// jar is where Debian's package has the server.
const jar = "/usr/share/java/zookeeper.jar"

// shared is the server of all tests that leave it as it was.
var shared struct {
	once sync.Once
	s    *server
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.s != nil {
		shared.s.stop()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// server is a ZooKeeper in a process of its own.
type server struct {
	cmd  *exec.Cmd
	addr string
	dir  string
	out  testkit.Output
	done chan struct{}
}

// java returns the program, or skips the test.
func java(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(jar); err != nil {
		if testkit.Required("zookeeper") {
			t.Fatal("zookeeper is required by EDDY_REQUIRE and is not installed")
		}
		t.Skip("zookeeper is not installed")
	}
	return testkit.Tool(t, "zookeeper", "java")
}

// sharedServer returns the server of all tests.
func sharedServer(t *testing.T) *server {
	t.Helper()
	program := java(t)
	shared.once.Do(func() {
		var dir string
		if dir, shared.err = os.MkdirTemp("", "zookeeper"); shared.err == nil {
			shared.s, shared.err = start(program, dir)
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.s
}

// ownServer returns a server of this test, without data.
func ownServer(t *testing.T) *server {
	t.Helper()
	s, err := start(java(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// start runs a server. Another program may take the free port before the server binds it: then there is another one.
func start(program, dir string) (s *server, err error) {
	for range 10 {
		if s, err = startOn(program, dir); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startOn(program, dir string) (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_ = ln.Close()
	addr := ln.Addr().(*net.TCPAddr)
	config := fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=ruok\n",
		filepath.Join(dir, "data"), addr.Port)
	file := filepath.Join(dir, "zoo.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	s := &server{addr: addr.String(), dir: dir, done: make(chan struct{})}
	s.cmd = exec.Command(program, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jar, "-Djava.net.preferIPv4Stack=true",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	for !s.ok() {
		select {
		case <-s.done:
			return nil, fmt.Errorf("the server has ended: %s", s.out.String())
		default:
		}
	}
	return s, nil
}

// ok asks the server whether it serves.
func (s *server) ok() bool {
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second)) // It may not answer a connection that came while it started.
	_, _ = io.WriteString(c, "ruok")
	answer, _ := io.ReadAll(c)
	return string(answer) == "imok"
}

// stop kills the server.
func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
	if s == shared.s {
		_ = os.RemoveAll(s.dir)
	}
}

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
func raw(t *testing.T, s *server) *zk.Conn {
	t.Helper()
	c, events, err := zk.Connect([]string{s.addr}, time.Minute, zk.WithLogInfo(false))
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
