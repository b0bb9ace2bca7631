package config

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/overload"
	"github.com/go-eddy/eddy/responder"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance"
)

const everyKey = `application:
  executor-management-mode: isolation
  dump-enable: false
  dump-directory: /var/dumps
  retry-after: 250
  overload: {memory: 512MiB, lag: 250ms, queue-age: 0}
protocols:
  frame:
    host: 127.0.0.1
    port: 20002
    dispatcher: connection
    threadpool: eager
    threads: 20
    corethreads: 5
    queues: 30
    alive: 1m30s
    accepts: 400
    iothreads: 3
    payload: 65536
    in-flight: 77
    ordering: ordered
    idle-timeout: 90s
    connect-queue-capacity: 500
    connect-queue-warning-size: 400
  tri:
    host: '::1'
    port: -1
    speaks: [grpc, web]
    origins: ['https://a.example', 'http://localhost:3000', '*']
    max-response: 131072
    max-age: 30m
    max-age-grace: 1m
pools:
  p: {threadpool: cached, threads: 10, corethreads: 1, queues: 2, alive: 60s}
services:
- interface: a.B
  group: g
  version: 1.10
  protocol: [frame, tri]
  timeout: 3s
  executor: p
  in-flight: 9
- interface: c.D
  protocol: frame
  executor: {threadpool: limited, threads: 4}
client:
  addresses: ['127.0.0.1:20002', 'localhost:1']
  connections: 2
  loadbalance: leastactive
  serialization: protobuf
  timeout: 1500
  max-pending: 99
  consumer: pool
  dispatcher: direct
  payload: 4096
  heartbeat: 15s
  dial-timeout: 2s
  backoff-min: 50ms
  backoff-max: 5s
  backoff-jitter: 0
`

// TestEveryKey: each key of a file is the option that the API has for it.
func TestEveryKey(t *testing.T) {
	c, err := Parse("f.yaml", []byte(everyKey))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
	if d := c.Server.Dumper; !d.Disabled || d.Dir != "/var/dumps" || c.Server.Isolation != rpc.PerService || c.Server.RetryAfter != 250*time.Millisecond {
		t.Errorf("server %+v, dumper %v, %q", c.Server, d.Disabled, d.Dir)
	}
	if want := (&overload.Options{Memory: 512 << 20, Lag: 250 * time.Millisecond, QueueAge: -1}); !reflect.DeepEqual(c.Server.Overload, want) {
		t.Errorf("overload %+v, want %+v", c.Server.Overload, want)
	}
	wantPorts := []rpc.PortOptions{{
		Name: "frame", Addr: "127.0.0.1:20002", Dispatcher: rpc.DispatchConnection,
		Pool:     rpc.PoolOptions{Kind: rpc.PoolEager, Threads: 20, CoreThreads: 5, Queue: 30, KeepAlive: 90 * time.Second},
		Ordering: responder.ByRequest, InFlight: 77, MaxPayload: 65536, IdleTimeout: 90 * time.Second, Accepts: 400, Loops: 3, ConnectQueue: 500, ConnectWarning: 400,
	}, {
		Name: "tri", Addr: "[::1]:0", Protocols: []rpc.Protocol{rpc.ProtocolGRPC, rpc.ProtocolWeb}, Origins: []string{"https://a.example", "http://localhost:3000", "*"},
		MaxResponse: 131072, MaxAge: 30 * time.Minute, MaxAgeGrace: time.Minute,
	}}
	if !reflect.DeepEqual(c.Server.Ports, wantPorts) {
		t.Errorf("ports\n%+v\nwant\n%+v", c.Server.Ports, wantPorts)
	}
	wantPools := []namedPool{{"p", rpc.PoolOptions{Kind: rpc.PoolCached, Threads: 10, CoreThreads: 1, Queue: 2, KeepAlive: 60 * time.Second}}}
	if !reflect.DeepEqual(c.pools, wantPools) {
		t.Errorf("pools %+v, want %+v", c.pools, wantPools)
	}
	if len(c.Services) != 2 || c.Services[0].Key != (rpc.Key{Group: "g", Interface: "a.B", Version: "1.10"}) || c.Services[0].pool != "p" ||
		len(c.Services[0].Options) != 3 || c.Services[1].Key != (rpc.Key{Interface: "c.D"}) || len(c.Services[1].Options) != 2 {
		t.Errorf("services %+v", c.Services)
	}
	wantClient := &rpc.ClientOptions{
		Addrs: []string{"127.0.0.1:20002", "localhost:1"}, ConnsPerAddr: 2, Balance: balance.Options{Policy: balance.LeastRequests}, Codec: rpc.CodecProtobuf, Timeout: 1500 * time.Millisecond,
		MaxPending: 99, Consumer: rpc.DedicatedPool, Dispatcher: rpc.DispatchDirect, MaxPayload: 4096, Heartbeat: 15 * time.Second, DialTimeout: 2 * time.Second,
		Backoff: rpc.Backoff{Min: 50 * time.Millisecond, Max: 5 * time.Second, Jitter: -1},
	}
	if !reflect.DeepEqual(c.Client, wantClient) {
		t.Errorf("client\n%+v\nwant\n%+v", c.Client, wantClient)
	}
}

// TestDefaults: what a file does not say is zero in the options, whose defaults are the API's.
func TestDefaults(t *testing.T) {
	c, err := Parse("f.yaml", []byte("protocols: {frame: {port: 0}}\nclient: {addresses: 'a:1, b:2'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []rpc.PortOptions{{Name: "frame", Addr: ":0"}}; !reflect.DeepEqual(c.Server.Ports, want) {
		t.Errorf("ports %+v, want %+v", c.Server.Ports, want)
	}
	if c.Server.Isolation != rpc.Shared || c.Server.Dumper == nil || c.Server.Dumper.Disabled || c.Server.Dumper.Dir != "" || c.Server.RetryAfter != 0 || c.Server.Overload != nil {
		t.Errorf("server %+v, dumper off %v", c.Server, c.Server.Dumper.Disabled)
	}
	if want := (&rpc.ClientOptions{Addrs: []string{"a:1", "b:2"}, Codec: rpc.CodecJSON}); !reflect.DeepEqual(c.Client, want) {
		t.Errorf("client %+v, want %+v", c.Client, want)
	}
	if c, err = Parse("f.yaml", []byte("application: {retry-after: 0}\nclient: {addresses: 'a:1'}\n")); err != nil || c.Server.RetryAfter >= 0 {
		t.Errorf("retry-after 0 is %v, %v, want none", c.Server.RetryAfter, err)
	}
}

// TestNames: each name that a key may have is the value that the API has for it.
func TestNames(t *testing.T) {
	parse := func(format string, name string) *Config {
		t.Helper()
		c, err := Parse("f.yaml", []byte(strings.ReplaceAll(format, "NAME", name)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for i, name := range dispatchers {
		if d := parse("protocols: {a: {port: 1, dispatcher: NAME}}", name).Server.Ports[0].Dispatcher; d != rpc.Dispatcher(i) || d.String() != name {
			t.Errorf("%s is %v", name, d)
		}
	}
	for i, name := range poolKinds {
		if k := parse("protocols: {a: {port: 1, threadpool: NAME}}", name).Server.Ports[0].Pool.Kind; k != rpc.PoolKind(i) || k.String() != name {
			t.Errorf("%s is %v", name, k)
		}
	}
	for i, name := range orderings {
		if o := parse("protocols: {a: {port: 1, ordering: NAME}}", name).Server.Ports[0].Ordering; o != responder.Ordering(i) || o.String() != name {
			t.Errorf("%s is %v", name, o)
		}
	}
	for i, name := range codecs {
		if k := parse("client: {addresses: 'a:1', serialization: NAME}", name).Client.Codec; k != rpc.Codec(i) || k.String() != name {
			t.Errorf("%s is %v", name, k)
		}
	}
	for _, spelling := range []string{"dump-enable", "dump.enable"} {
		if c := parse("application: {NAME: false}\nprotocols: {a: {port: 1}}", spelling); !c.Server.Dumper.Disabled {
			t.Errorf("%s has no effect", spelling)
		}
	}
	for _, spelling := range []string{"dump-directory", "dump.directory"} {
		if c := parse("application: {NAME: there}\nprotocols: {a: {port: 1}}", spelling); c.Server.Dumper.Dir != "there" {
			t.Errorf("%s has no effect", spelling)
		}
	}
	for _, spelling := range []string{"connect-queue-capacity", "connect.queue.capacity"} {
		if c := parse("protocols: {a: {port: 1, NAME: 5}}", spelling); c.Server.Ports[0].ConnectQueue != 5 {
			t.Errorf("%s has no effect", spelling)
		}
	}
}

// TestWarnings: what is old or of no effect is told, with its line, and the file is taken.
func TestWarnings(t *testing.T) {
	c, err := Parse("f.yaml", []byte("protocols:\n  a: {port: 1, dispather: direct}\npools:\n  p: {}\n  q: {}\nservices:\n- interface: x\n  executor: p\n- interface: y\n  executor: {threads: 5}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"f.yaml:2: protocols.a.dispather: is an old spelling: write dispatcher",
		"f.yaml:8: services[0].executor: has no effect: executor-management-mode is default, not isolation",
		"f.yaml:10: services[1].executor: has no effect: executor-management-mode is default, not isolation",
		"f.yaml:5: pools.q: is used by no service",
	}
	if !reflect.DeepEqual(c.Warnings, want) {
		t.Errorf("warnings\n%s\nwant\n%s", strings.Join(c.Warnings, "\n"), strings.Join(want, "\n"))
	}
	if c.Server.Ports[0].Dispatcher != rpc.DispatchDirect {
		t.Errorf("dispather has no effect")
	}
}

// TestNewServerWantsAll: the services of the file and those that are given are the same.
func TestNewServerWantsAll(t *testing.T) {
	c, err := Parse("f.yaml", []byte("protocols:\n  p: {host: 127.0.0.1, port: -1}\nservices:\n- interface: a\n- interface: b\n"))
	if err != nil {
		t.Fatal(err)
	}
	service := func(name string) *rpc.Service {
		svc, err := rpc.NewService(rpc.Key{Interface: name}, rpc.Raw("m", func(_ context.Context, b []byte) ([]byte, error) { return b, nil }))
		if err != nil {
			t.Fatal(err)
		}
		return svc
	}
	a, b, other := service("a"), service("b"), service("c")
	for _, bad := range []struct {
		services []*rpc.Service
		want     string
	}{
		{[]*rpc.Service{a}, "config: f.yaml:5: service /b: is not among those given to NewServer"},
		{[]*rpc.Service{a, b, other}, "config: service /c: is not among the services of f.yaml"},
		{[]*rpc.Service{a, b, a}, "config: NewServer with two services /a:"},
		{[]*rpc.Service{a, nil}, "config: NewServer with a nil service"},
	} {
		if _, err := c.NewServer(bad.services...); err == nil || err.Error() != bad.want {
			t.Errorf("%v, want %s", err, bad.want)
		}
	}
	srv, err := c.NewServer(b, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
}

// TestScenarioFile: the example file says what the scenario of the model's documentation says, with its own ports.
func TestScenarioFile(t *testing.T) {
	c, err := Load("testdata/r170.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Server.Ports; len(p) != 2 || p[0].Name != "frame" || p[0].Addr != "127.0.0.1:20002" || p[1].Name != "tri" || p[1].Addr != "127.0.0.1:20001" {
		t.Errorf("ports %+v", p)
	}
	want := []namedPool{{"demo", rpc.PoolOptions{Threads: 10, KeepAlive: 60 * time.Second}}, {"hello", rpc.PoolOptions{Threads: 100, KeepAlive: 60 * time.Second}}}
	if !reflect.DeepEqual(c.pools, want) {
		t.Errorf("pools %+v, want %+v", c.pools, want)
	}
}
