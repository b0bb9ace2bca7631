package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/internal/zkserver"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/zookeeper"
	"github.com/go-eddy/eddy/rpc/dubbo"
	"github.com/go-eddy/eddy/tlsx"
)

func TestMain(m *testing.M) { cmdtest.Main(m, serve) }

const api = "org.apache.dubbo.config.spring.api."

var (
	demoKey   = rpc.Key{Group: "Group1", Interface: api + "DemoService", Version: "1.0.0"}
	hello2Key = rpc.Key{Group: "Group2", Interface: api + "HelloService", Version: "2.0.0"}
	hello3Key = rpc.Key{Group: "Group3", Interface: api + "HelloService", Version: "3.0.0"}
)

// samplePath is a file of a sample in Dubbo's documentation, as it is printed there.
func samplePath(name string) string {
	return filepath.Join("..", "..", "..", "rpc", "config", "testdata", "dubbo", name)
}

// start serves a file and returns the ports that are printed.
func start(t *testing.T, file string, more ...string) (p *cmdtest.Process, ports []string) {
	t.Helper()
	p = cmdtest.StartCommand(t, cmdtest.Program(append([]string{"serve", "rpc", "--config", file}, more...)...))
	p.WaitOutput(p.Out, regexp.MustCompile(`stop with Ctrl\+C`))
	for _, m := range regexp.MustCompile(`on (\S+):(\d+), dispatcher`).FindAllStringSubmatch(p.Out.String(), -1) {
		ports = append(ports, m[2])
	}
	return p, ports
}

// byDubbo is a client by the dubbo protocol.
func byDubbo(t *testing.T, addr string) *rpc.Client {
	t.Helper()
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{addr}, Timeout: testkit.Patience, Front: dubbo.ClientFront(dubbo.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// byTriple is a client by Triple.
func byTriple(t *testing.T, addr string) *rpc.GRPCClient {
	t.Helper()
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + addr}, Timeout: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

func says(t *testing.T, cl rpc.Caller, key rpc.Key, method, want string) {
	t.Helper()
	if got, err := dubbo.Invoke[string](testkit.Context(t), cl, key, method, []any{"you"}); err != nil || got != want {
		t.Errorf("%v %s: %q, %v, want %q", key, method, got, err, want)
	}
}

// TestSamplesAsPrinted: the samples of Dubbo's documentation start the server without a change, and it is called. They listen on all addresses, at the first
// free port from Dubbo's own on, and nobody needs to listen where their registry is.
func TestSamplesAsPrinted(t *testing.T) {
	p, ports := start(t, samplePath("application.yaml"))
	if len(ports) != 1 || !strings.Contains(p.Out.String(), "dispatcher all, isolation shared, registered in zookeeper://127.0.0.1:2181 as dubbo-springboot-demo-provider") {
		t.Fatalf("%q", p.Out)
	}
	says(t, byDubbo(t, "127.0.0.1:"+ports[0]), rpc.Key{Interface: api + "HelloService"}, "sayHello", "server hello")

	q, more := start(t, samplePath("isolation.xml")) // beside the other one
	if len(more) != 2 || more[0] == ports[0] || !strings.Contains(q.Out.String(), "isolation service, registered in zookeeper://127.0.0.1:2181 as demo-provider") {
		t.Fatalf("%q", q.Out)
	}
	for _, cl := range []rpc.Caller{byDubbo(t, "127.0.0.1:"+more[0]), byTriple(t, "127.0.0.1:"+more[1])} {
		says(t, cl, demoKey, "sayName", "server name")
		says(t, cl, hello2Key, "sayHello", "server hello")
		says(t, cl, hello3Key, "sayHello", "server hello")
	}
	q.WaitOutput(q.Errs, regexp.MustCompile(`isolation\.xml:11: dubbo:config-center: cannot be read, the file alone counts: `))

	for _, name := range []string{"dump.properties", "dump.xml", "dump.yaml", "directory.properties", "directory.xml", "directory.yaml"} {
		t.Run(name, func(t *testing.T) {
			p, ports := start(t, samplePath(name), "--addr", "127.0.0.1:0")
			if stdout, stderr, code := cmdtest.Run(t, "call", "127.0.0.1:"+ports[0], "demo.Greeter", "Hello", `{"name":"you"}`); code != 0 || stdout != "{\"message\":\"Hello, you!\"}\n" {
				t.Errorf("%d, %q, %q", code, stdout, stderr)
			}
			p.Stop()
		})
	}
}

// TestSampleInZooKeeper: the services of the sample are found in the registry that it names, by each of its protocols and by application, and are gone behind the
// server's end. What its config center has stands above the file.
func TestSampleInZooKeeper(t *testing.T) {
	server := zkserver.New(t)
	nodes := nodesOf(t, server)
	nodes.write("/dubbo/config/demo-provider/dubbo.properties", "dubbo.protocols.tri.dispatcher=message\n")
	text, err := os.ReadFile(samplePath("isolation.xml"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "provider.xml")
	here := strings.NewReplacer("127.0.0.1:2181", server.Addr, `port="-1"`, `port="-1" host="127.0.0.1"`).Replace(string(text))
	if err := os.WriteFile(file, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	p, ports := start(t, file)
	p.WaitOutput(p.Out, regexp.MustCompile(ports[1]+`, dispatcher message`))
	for i, protocol := range []string{"dubbo", "tri"} {
		testkit.Eventually(t, "the address of the application by "+protocol, func() bool {
			return strings.Contains(nodes.read("/services/demo-provider/127.0.0.1:"+ports[i]), `\"protocol\":\"`+protocol+`\"`)
		})
	}
	if apps := nodes.read("/dubbo/mapping/" + demoKey.Interface); apps != "demo-provider" {
		t.Errorf("the interface is served by %q", apps)
	}
	registry, err := zookeeper.New(zookeeper.Options{Servers: []string{server.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	for i, protocol := range []string{"dubbo", "tri"} {
		found := watch(t, registry, discovery.Service{Interface: demoKey.Interface, Group: demoKey.Group, Version: demoKey.Version, Protocol: protocol})
		want := []string{net.JoinHostPort("127.0.0.1", ports[i])}
		for got := testkit.Receive(t, "instances by "+protocol, found); !slices.Equal(got, want); got = testkit.Receive(t, "instances by "+protocol, found) {
			if len(got) > 0 {
				t.Fatalf("%v, want %v", got, want)
			}
		}
		if i == 1 {
			says(t, byTriple(t, want[0]), demoKey, "sayName", "server name")
			p.Stop()
			for got := testkit.Receive(t, "the withdrawal", found); len(got) > 0; {
				got = testkit.Receive(t, "the withdrawal", found)
			}
			for _, port := range ports {
				if got := nodes.read("/services/demo-provider/127.0.0.1:" + port); got != "" {
					t.Errorf("behind the end: %s", got)
				}
			}
			continue
		}
		says(t, byDubbo(t, want[0]), demoKey, "sayName", "server name")
	}
}

// TestInterruptedWhileItWaits: Ctrl+C ends a command that waits for a config center that says nothing.
func TestInterruptedWhileItWaits(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	file := filepath.Join(t.TempDir(), "dubbo.properties")
	text := "dubbo.protocol.name=tri\ndubbo.protocol.port=-1\ndubbo.config-center.address=zookeeper://" + silent.Addr().String() + "\ndubbo.config-center.timeout=1000000\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := cmdtest.StartCommand(t, cmdtest.Program("serve", "rpc", "--config", file))
	c, err := silent.Accept() // it asks
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p.Signal(os.Interrupt)
	if code := p.Wait(); code != 1 || !strings.Contains(p.Errs.String(), "interrupted") {
		t.Errorf("code %d, %s", code, p.Errs)
	}
}

// nodes reads and writes in ZooKeeper.
type nodes struct {
	t *testing.T
	c *zk.Conn
}

func nodesOf(t *testing.T, s *zkserver.Server) nodes {
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
	testkit.Eventually(t, "the connection", func() bool { _, _, err := c.Exists("/"); return err == nil })
	return nodes{t, c}
}

// write makes a node and those above it.
func (n nodes) write(path, data string) {
	n.t.Helper()
	for at := 1; at <= len(path); at++ {
		if at < len(path) && path[at] != '/' {
			continue
		}
		if _, err := n.c.Create(path[:at], []byte(data), zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			n.t.Fatal(err)
		}
	}
}

// read returns what a node has, "" if it is not there.
func (n nodes) read(path string) string {
	n.t.Helper()
	data, _, err := n.c.Get(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		n.t.Fatal(err)
	}
	return string(data)
}

// watch tells the addresses of a service's instances until the test ends.
func watch(t *testing.T, registry discovery.Registry, s discovery.Service) <-chan []string {
	ctx, cancel := context.WithCancel(t.Context())
	found, ended := make(chan []string, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_ = registry.Resolver(s).Watch(ctx, func(list []discovery.Instance) {
				addrs := []string{}
				for _, i := range list {
					addrs = append(addrs, i.Addr)
				}
				found <- addrs
			})
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return found
}

// TestDubboByTLS: the flags of TLS apply to the ports of a file, in front of what its protocol is.
func TestDubboByTLS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dubbo.properties")
	if err := os.WriteFile(file, []byte("dubbo.protocol.name=dubbo\ndubbo.protocol.host=127.0.0.1\ndubbo.protocol.port=-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, ports := start(t, file, "--tls-self-signed")
	pool, err := executor.NewFixed(executor.Options{Name: "tls", Queue: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	secure, err := tlsx.Secure(cmdtest.Pinned(p.Fingerprint()), pool, tlsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{"127.0.0.1:" + ports[0]}, Timeout: testkit.Patience, Secure: secure, Front: dubbo.ClientFront(dubbo.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	says(t, cl, rpc.Key{Interface: api + "HelloService"}, "sayHello", "server hello")
}
