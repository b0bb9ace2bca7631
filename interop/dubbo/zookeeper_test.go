package dubbo

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	dubbogo "dubbo.apache.org/dubbo-go/v3"
	"dubbo.apache.org/dubbo-go/v3/client"
	"dubbo.apache.org/dubbo-go/v3/registry"
	"dubbo.apache.org/dubbo-go/v3/server"

	"github.com/go-eddy/eddy/examples/greeter/greeterpb"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/internal/zkserver"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/zookeeper"
)

// newRegistry returns our registry at a server.
func newRegistry(t *testing.T, s *zkserver.Server) *zookeeper.Registry {
	t.Helper()
	r, err := zookeeper.New(zookeeper.Options{Servers: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// alone says that a test is the only one of its process.
const alone = "EDDY_TEST_ALONE"

// TestZooKeeper: each side finds the other in ZooKeeper. dubbo-go keeps its connection to the end of the program, so there is one server; and it does not register
// a service that the program has exported before, so the test has a process of its own.
func TestZooKeeper(t *testing.T) {
	if os.Getenv(alone) == "" {
		zkserver.Java(t) // skips without
		cmd := exec.CommandContext(testkit.Context(t), os.Args[0], "-test.v", "-test.run", "^TestZooKeeper$")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestZooKeeper (") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	zk := zkserver.New(t)
	t.Run("we find dubbo-go", func(t *testing.T) { weFindDubboGo(t, zk) })
	t.Run("dubbo-go finds us", func(t *testing.T) { dubboGoFindsUs(t, zk) })
	t.Run("dubbo-go finds us by application", func(t *testing.T) { dubboGoFindsTheApplication(t, zk) })
}

// serveIn starts our greeters, which are registered in r.
func serveIn(t *testing.T, r discovery.Registry) {
	t.Helper()
	srv, err := rpc.NewServer(rpc.ServerOptions{
		Ports:     []rpc.PortOptions{{Addr: "127.0.0.1:0", Protocols: []rpc.Protocol{rpc.ProtocolGRPC}}},
		Discovery: rpc.DiscoveryOptions{Registry: r, Grace: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	if err := greeters(srv); err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
}

// dubboGoFindsUs: dubbo-go's client finds our server and calls it.
func dubboGoFindsUs(t *testing.T, zk *zkserver.Server) {
	serveIn(t, newRegistry(t, zk))
	cl, err := client.NewClient(client.WithClientRegistry(registry.WithZookeeper(), registry.WithAddress(zk.Addr), registry.WithRegisterInterface()), client.WithClientProtocolTriple())
	if err != nil {
		t.Fatal(err)
	}
	callsUs(t, cl)
}

// dubboGoFindsTheApplication: dubbo-go's client asks which applications serve the interface, and reads the metadata of their addresses.
func dubboGoFindsTheApplication(t *testing.T, zk *zkserver.Server) {
	r, err := zookeeper.New(zookeeper.Options{Servers: []string{zk.Addr}, Application: "greeters", Register: zookeeper.ByApplication})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	serveIn(t, r)
	ins, err := dubbogo.NewInstance(dubbogo.WithName("asks"), dubbogo.WithRegistry(registry.WithZookeeper(), registry.WithAddress(zk.Addr), registry.WithRegisterService()))
	if err != nil {
		t.Fatal(err)
	}
	cl, err := ins.NewClient(client.WithClientProtocolTriple())
	if err != nil {
		t.Fatal(err)
	}
	callsUs(t, cl)
}

// callsUs: a client of dubbo-go calls our greeters.
func callsUs(t *testing.T, cl *client.Client) {
	t.Helper()
	for _, c := range []struct { // in this order: a client of dubbo-go that has asked for a group asks for it again where none is given
		want string
		opts []client.ReferenceOption
	}{{"Hello, you", nil}, {"gHello, you", []client.ReferenceOption{client.WithGroup("g"), client.WithVersion("1.0")}}} {
		conn, err := cl.DialWithInfo(greeterpb.Greeter_ServiceName, &client.ClientInfo{InterfaceName: greeterpb.Greeter_ServiceName, MethodNames: []string{"SayHello"}}, c.opts...)
		if err != nil {
			t.Fatal(err)
		}
		resp := new(greeterpb.HelloReply)
		testkit.Eventually(t, "a call", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = conn.CallUnary(ctx, []any{&greeterpb.HelloRequest{Name: "you"}}, resp, "SayHello")
			return err == nil
		})
		if resp.Message != c.want {
			t.Errorf("%q, want %q", resp.Message, c.want)
		}
	}
}

// weFindDubboGo: our resolver finds dubbo-go's server, and our client calls it.
func weFindDubboGo(t *testing.T, zk *zkserver.Server) {
	found := make(chan []discovery.Instance, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for r := newRegistry(t, zk).Resolver(discovery.Service{Interface: greeterpb.Greeter_ServiceName, Protocol: "grpc"}); ctx.Err() == nil; {
			_ = r.Watch(ctx, func(list []discovery.Instance) { found <- list })
		}
	}()
	defer func() {
		cancel()
		<-ended
	}()
	list := testkit.Receive(t, "an empty answer", found) // The nodes above are there: dubbo-go's export fails if somebody else makes one at that moment.
	addr := foreign(t, server.WithServerRegistry(registry.WithZookeeper(), registry.WithAddress(zk.Addr), registry.WithRegisterInterface()))
	for len(list) == 0 {
		list = testkit.Receive(t, "an instance", found)
	}
	if len(list) != 1 || list[0].Addr != addr || list[0].Since.IsZero() || list[0].Attributes["side"] != "provider" {
		t.Errorf("%+v, want %s", list, addr)
	}
	cl, err := rpc.NewGRPCClient(rpc.GRPCOptions{Targets: []string{"http://" + list[0].Addr}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	var resp *greeterpb.HelloReply
	awaitServer(func() error {
		resp, err = greeterpb.NewGreeterClient(cl).SayHello(t.Context(), &greeterpb.HelloRequest{Name: "you"})
		return err
	})
	if err != nil || resp.Message != "Hello, you" {
		t.Errorf("%v, %v", resp, err)
	}
}
