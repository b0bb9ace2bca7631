package config_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/testkit"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The three services of the scenario.
var (
	demoKey   = rpc.Key{Group: "Group1", Interface: "demo.DemoService", Version: "1.0.0"}
	hello1Key = rpc.Key{Group: "Group1", Interface: "demo.HelloService", Version: "1.0.0"}
	hello2Key = rpc.Key{Group: "Group2", Interface: "demo.HelloService", Version: "2.0.0"}
)

// seen is what a method sees of its call.
type seen struct {
	Service string        // whose implementation it is
	Key     string        // what was called
	Left    time.Duration // until the deadline
}

// impl is the implementation of one service: Where tells who it is, Hold stays until the gate opens.
type impl struct {
	name string
	gate chan struct{}
	held chan struct{}
}

func newImpl(key rpc.Key) *impl {
	return &impl{name: key.String(), gate: make(chan struct{}), held: make(chan struct{}, 1000)}
}

func (i *impl) where(ctx context.Context, _ *struct{}) (*seen, error) {
	s := &seen{Service: i.name, Key: rpc.CallFrom(ctx).Key.String()}
	if d, ok := ctx.Deadline(); ok {
		s.Left = time.Until(d)
	}
	return s, nil
}

func (i *impl) hold(context.Context, *struct{}) (*seen, error) {
	i.held <- struct{}{}
	<-i.gate
	return &seen{Service: i.name}, nil
}

// scenario are the implementations.
type scenario struct{ demo, hello1, hello2 *impl }

func newScenario() scenario {
	return scenario{newImpl(demoKey), newImpl(hello1Key), newImpl(hello2Key)}
}

// services are the implementations for Register and config.
func (s scenario) services(t *testing.T) (demo, hello1, hello2 *rpc.Service) {
	t.Helper()
	service := func(key rpc.Key, i *impl) *rpc.Service {
		svc, err := rpc.NewService(key, rpc.Unary("Where", i.where), rpc.Unary("Hold", i.hold))
		if err != nil {
			t.Fatal(err)
		}
		return svc
	}
	return service(demoKey, s.demo), service(hello1Key, s.hello1), service(hello2Key, s.hello2)
}

// running is a server of one of the three forms.
type running interface {
	Listen() error
	Shutdown(context.Context) (eddy.DrainReport, error)
}

// pool is what a user brings: so many threads, no queue, 60 s.
func pool(t *testing.T, name string, threads int) *executor.Pool {
	t.Helper()
	p, err := executor.NewFixed(executor.Options{Name: name, Workers: threads, Queue: executor.HandOff, KeepAlive: 60 * time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func options() rpc.ServerOptions {
	return rpc.ServerOptions{
		Isolation: rpc.PerService,
		Logger:    slog.New(slog.DiscardHandler),
		Ports: []rpc.PortOptions{
			{Name: "frame", Addr: "127.0.0.1:-1", InFlight: 512},
			{Name: "tri", Addr: "127.0.0.1:0", InFlight: 512},
		},
	}
}

// TestThreeServicesOnTwoPortsByAPI is the scenario of the model's documentation: one service exported on two ports at once, three services, of
// versions and groups, with pools of 10 and 100 threads and 60 s keep-alive, timeouts of 3 and 5 seconds, automatic ports.
func TestThreeServicesOnTwoPortsByAPI(t *testing.T) {
	s := newScenario()
	demo, hello1, hello2 := s.services(t)
	srv, err := rpc.NewServer(options())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		srv.Register(demo, rpc.OnPorts("frame", "tri"), rpc.Timeout(3*time.Second), rpc.WithPool(pool(t, "demo", 10))),
		srv.Register(hello1, rpc.OnPorts("frame", "tri"), rpc.Timeout(5*time.Second), rpc.WithPoolOptions(rpc.PoolOptions{Threads: 100, KeepAlive: 60 * time.Second})),
		srv.Register(hello2, rpc.OnPorts("frame"), rpc.Timeout(5*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	s.accept(t, srv, srv)
}

// TestThreeServicesOnTwoPortsByFile is the same from a YAML file.
func TestThreeServicesOnTwoPortsByFile(t *testing.T) {
	data, err := os.ReadFile("testdata/r170.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []string{"20001", "20002"} { // automatic ones, so that tests can run side by side
		if !bytes.Contains(data, []byte("port: "+port)) {
			t.Errorf("the file does not name the port %s", port)
		}
		data = bytes.ReplaceAll(data, []byte("port: "+port), []byte("port: -1"))
	}
	cfg, err := config.Parse("testdata/r170.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings) > 0 {
		t.Errorf("warnings %q", cfg.Warnings)
	}
	cfg.Server.Logger = slog.New(slog.DiscardHandler)
	s := newScenario()
	demo, hello1, hello2 := s.services(t)
	srv, err := cfg.NewServer(demo, hello1, hello2)
	if err != nil {
		t.Fatal(err)
	}
	s.accept(t, srv.Server, srv)
}

// The declarations of the three services.
type (
	declaredDemo struct {
		rpc.Declared `group:"Group1" interface:"demo.DemoService" version:"1.0.0" protocol:"frame,tri" timeout:"3s" executor:"demo"`

		*impl
		Where func(context.Context, *struct{}) (*seen, error)
		Hold  func(context.Context, *struct{}) (*seen, error)
	}

	declaredHello1 struct {
		rpc.Declared `group:"Group1" interface:"demo.HelloService" version:"1.0.0" protocol:"frame, tri" timeout:"5000" executor:"threadpool=fixed threads=100 alive=60s"`

		*impl
	}

	declaredHello2 struct {
		rpc.Declared `group:"Group2" interface:"demo.HelloService" version:"2.0.0" protocol:"frame" timeout:"5s"`

		Place func(context.Context, *struct{}) (*seen, error) `method:"Where"`
		Stay  func(context.Context, *struct{}) (*seen, error) `method:"Hold"`
	}
)

func (d *declaredHello1) Where(ctx context.Context, req *struct{}) (*seen, error) {
	return d.where(ctx, req)
}
func (d declaredHello1) Hold(ctx context.Context, req *struct{}) (*seen, error) {
	return d.hold(ctx, req)
}

// TestThreeServicesOnTwoPortsByDeclaration is the same by struct tags.
func TestThreeServicesOnTwoPortsByDeclaration(t *testing.T) {
	s := newScenario()
	srv, err := rpc.NewServer(options())
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		srv.Declare(&declaredDemo{impl: s.demo, Where: s.demo.where, Hold: s.demo.hold}, map[string]*executor.Pool{"demo": pool(t, "demo", 10)}),
		srv.Declare(&declaredHello1{impl: s.hello1}, nil),
		srv.Declare(declaredHello2{Place: s.hello2.where, Stay: s.hello2.hold}, nil))
	if err != nil {
		t.Fatal(err)
	}
	s.accept(t, srv, srv)
}

// accept holds a server that was configured in one of the ways against the scenario.
func (s scenario) accept(t *testing.T, srv *rpc.Server, whole running) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	if err := whole.Listen(); err != nil {
		t.Fatal(err)
	}
	ports := map[string]string{}
	clients := map[string]*rpc.Client{}
	for _, port := range []string{"frame", "tri"} {
		ports[port] = srv.Addr(port).String()
		cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{ports[port]}, Codec: rpc.CodecJSON, Timeout: testkit.Patience})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		clients[port] = cl
	}
	if ports["frame"] == ports["tri"] {
		t.Errorf("both ports are %s", ports["frame"])
	}
	s.places(ctx, t, clients)
	s.pools(ctx, t, clients)
	if _, err := whole.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if _, err := rpc.Invoke[seen](ctx, clients["frame"], demoKey, "Where", nil); err == nil {
		t.Error("answered after the end")
	}
}

// places: each key reaches its own service, on its ports and on no other, with its timeout.
func (s scenario) places(ctx context.Context, t *testing.T, clients map[string]*rpc.Client) {
	for _, c := range []struct {
		key     rpc.Key
		port    string
		timeout time.Duration // 0: it is not there
	}{
		{demoKey, "frame", 3 * time.Second}, {demoKey, "tri", 3 * time.Second},
		{hello1Key, "frame", 5 * time.Second}, {hello1Key, "tri", 5 * time.Second},
		{hello2Key, "frame", 5 * time.Second}, {hello2Key, "tri", 0},
		{rpc.Key{Interface: "demo.HelloService", Version: "2.0.0"}, "frame", 0},
		{rpc.Key{Group: "Group1", Interface: "demo.HelloService", Version: "2.0.0"}, "frame", 0},
		{rpc.Key{Group: "Group2", Interface: "demo.HelloService"}, "frame", 0},
	} {
		for { // again where the machine took a second for it
			got, err := rpc.Invoke[seen](ctx, clients[c.port], c.key, "Where", nil)
			if c.timeout == 0 {
				if !errors.Is(err, rpc.ErrNotFound) {
					t.Errorf("%s on %s: %v, %v, want NOT_FOUND", c.key, c.port, got, err)
				}
				break
			}
			if errors.Is(err, rpc.ErrDeadline) && ctx.Err() == nil { // it took all of the service's timeout
				continue
			}
			if err != nil {
				t.Errorf("%s on %s: %v", c.key, c.port, err)
				break
			}
			if got.Left > c.timeout || got.Service != c.key.String() || got.Key != c.key.String() {
				t.Errorf("%s on %s: %+v, want at most %v", c.key, c.port, got, c.timeout)
			}
			if got.Left > c.timeout-time.Second {
				break
			}
		}
	}
}

// pools: each service runs as many at once as its pool has threads, whatever the port they came by, and refuses the next one, while the others go on.
func (s scenario) pools(ctx context.Context, t *testing.T, clients map[string]*rpc.Client) {
	var calls sync.WaitGroup
	hold := func(i *impl, key rpc.Key, port string) {
		for { // again where the machine took the service's timeout to begin it: such a call ends without having run
			ended := make(chan error, 1)
			calls.Go(func() {
				// The service's timeout ends the call while the method goes on, and the thread is not free before that.
				_, err := rpc.Invoke[seen](ctx, clients[port], key, "Hold", nil)
				if err != nil && !errors.Is(err, rpc.ErrDeadline) && !errors.Is(err, rpc.ErrBusy) {
					t.Errorf("%s on %s: %v", key, port, err)
				}
				ended <- err
			})
			select {
			case <-i.held:
				return
			case err := <-ended:
				select {
				case <-i.held:
					return
				default:
				}
				if ctx.Err() != nil {
					t.Errorf("%s on %s does not run: %v", key, port, err)
					return
				}
				t.Logf("%s on %s: again after %v", key, port, err)
			}
		}
	}
	for _, c := range []struct {
		i       *impl
		key     rpc.Key
		threads int
		ports   []string
	}{
		{s.demo, demoKey, 10, []string{"frame", "tri"}}, {s.hello1, hello1Key, 100, []string{"frame", "tri"}}, {s.hello2, hello2Key, 200, []string{"frame"}},
	} {
		for n := range c.threads {
			hold(c.i, c.key, c.ports[n%len(c.ports)])
		}
		for _, port := range c.ports {
			if _, err := rpc.Invoke[seen](ctx, clients[port], c.key, "Where", nil); !errors.Is(err, rpc.ErrBusy) {
				t.Errorf("%s on %s while %d are held: %v, want BUSY", c.key, port, c.threads, err)
			}
		}
	}
	close(s.demo.gate) // its threads are free again, the others' are not
	for {
		got, err := rpc.Invoke[seen](ctx, clients["tri"], demoKey, "Where", nil)
		if err == nil && got.Service == demoKey.String() {
			break
		}
		if !errors.Is(err, rpc.ErrBusy) && !errors.Is(err, rpc.ErrDeadline) || ctx.Err() != nil {
			t.Error(err)
			break
		}
	}
	if _, err := rpc.Invoke[seen](ctx, clients["frame"], hello1Key, "Where", nil); !errors.Is(err, rpc.ErrBusy) {
		t.Errorf("%v, want BUSY", err)
	}
	close(s.hello1.gate)
	close(s.hello2.gate)
	calls.Wait()
}

// TestCloseEndsThePools: the pools that a file names end with their server, however it ends.
func TestCloseEndsThePools(t *testing.T) {
	cfg, err := config.Parse("f.yaml", []byte("application: {executor-management-mode: isolation}\nprotocols:\n  frame: {host: 127.0.0.1, port: -1}\n"+
		"pools:\n  p: {threads: 3}\nservices:\n- {interface: demo.DemoService, group: Group1, version: 1.0.0, executor: p}\n"))
	if err != nil {
		t.Fatal(err)
	}
	demo, _, _ := newScenario().services(t)
	srv, err := cfg.NewServer(demo)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{srv.Addr("frame").String()}, Codec: rpc.CodecJSON, Timeout: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rpc.Invoke[seen](context.Background(), cl, demoKey, "Where", nil); err != nil {
		t.Error(err)
	}
	if n := srv.Stats().Pools["pool p"].Submitted; n != 1 {
		t.Errorf("the pool of the file was given %d calls, want 1", n)
	}
	if err := errors.Join(cl.Close(), srv.Close()); err != nil {
		t.Error(err)
	}
	if s := srv.Stats().Pools["pool p"]; s.Workers != 0 {
		t.Errorf("after Close the pool has %d workers", s.Workers)
	}
}

// TestEndFromAPool: a method on a pool that the file names cannot end its server, which would wait for the method. Nothing is
// ended then, and the pool goes on.
func TestEndFromAPool(t *testing.T) {
	cfg, err := config.Parse("f.yaml", []byte("application: {executor-management-mode: isolation}\nprotocols:\n  frame: {host: 127.0.0.1, port: -1}\n"+
		"pools:\n  p: {threads: 3}\nservices:\n- {interface: demo.DemoService, group: Group1, version: 1.0.0, executor: p}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var srv *config.Server
	svc, err := rpc.NewService(demoKey, rpc.Unary("End", func(ctx context.Context, _ *struct{}) (*seen, error) {
		_, err := srv.Shutdown(ctx)
		return &seen{Service: fmt.Sprint(err == eddy.ErrOnPool, srv.Close() == eddy.ErrOnPool)}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if srv, err = cfg.NewServer(svc); err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(); err != nil {
		t.Fatal(err)
	}
	cl, err := rpc.NewClient(rpc.ClientOptions{Addrs: []string{srv.Addr("frame").String()}, Codec: rpc.CodecJSON, Timeout: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second is served as the first
		if s, err := rpc.Invoke[seen](context.Background(), cl, demoKey, "End", nil); err != nil || s.Service != "true true" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if err := errors.Join(cl.Close(), srv.Close()); err != nil {
		t.Error(err)
	}
}
