package balancers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/kitex/pkg/discovery"
	"github.com/cloudwego/kitex/pkg/loadbalance"
	v3orca "github.com/cncf/xds/go/xds/data/orca/v3"
	"google.golang.org/grpc/balancer"
	_ "google.golang.org/grpc/balancer/leastrequest"
	_ "google.golang.org/grpc/balancer/roundrobin"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"

	"github.com/go-eddy/eddy/internal/cluster"
)

// theirs are the balancers of others.
var theirs = map[string]func(t *testing.T, servers int) cluster.Picker{
	"grpc-go round_robin": func(t *testing.T, n int) cluster.Picker { return newGRPC(t, n, "round_robin", "{}") },
	"grpc-go least_request": func(t *testing.T, n int) cluster.Picker {
		return newGRPC(t, n, "least_request_experimental", `{"choiceCount":2}`)
	},
	"grpc-go weighted_round_robin": func(t *testing.T, n int) cluster.Picker {
		return newGRPC(t, n, "weighted_round_robin", `{"blackoutPeriod":"1s","weightUpdatePeriod":"1s"}`) // by default 10 s, as long as the simulation
	},
	"kitex weighted round robin": func(_ *testing.T, n int) cluster.Picker {
		return newKitex(loadbalance.NewWeightedRoundRobinBalancer(), n)
	},
	"kitex weighted random": func(_ *testing.T, n int) cluster.Picker { return newKitex(loadbalance.NewWeightedRandomBalancer(), n) },
}

// kitexPicker is a balancer of kitex, which learns of servers by its registry alone.
type kitexPicker struct {
	b      loadbalance.Loadbalancer
	result discovery.Result
}

func newKitex(b loadbalance.Loadbalancer, servers int) cluster.Picker {
	p := &kitexPicker{b: b, result: discovery.Result{Cacheable: true, CacheKey: "servers"}}
	for i := range servers {
		p.result.Instances = append(p.result.Instances, discovery.NewInstance("tcp", addr(i), 10, nil))
	}
	return p
}

func (p *kitexPicker) Pick([]int) int {
	return server(p.b.GetPicker(p.result).Next(context.Background(), nil).Address().String())
}
func (p *kitexPicker) Done(int, time.Duration, cluster.Outcome, cluster.Load) {}
func (p *kitexPicker) SetUp(int, bool)                                        {}

// grpcPicker is a balancer of grpc-go, and the ClientConn around it.
type grpcPicker struct {
	balancer.ClientConn
	b    balancer.Balancer
	subs []*subConn
	ends map[int][]func(balancer.DoneInfo)

	mu     sync.Mutex
	tasks  []func() // what grpc-go does one after the other
	picker balancer.Picker
}

// subConn is a connection to a server.
type subConn struct {
	balancer.SubConn
	p      *grpcPicker
	server int
	down   bool
	tell   func(balancer.SubConnState)
}

func newGRPC(t *testing.T, servers int, name, config string) cluster.Picker {
	p := &grpcPicker{subs: make([]*subConn, servers), ends: make(map[int][]func(balancer.DoneInfo))}
	builder := balancer.Get(name)
	p.b = builder.Build(p, balancer.BuildOptions{})
	var parsed serviceconfig.LoadBalancingConfig
	if parser, ok := builder.(balancer.ConfigParser); ok {
		var err error
		if parsed, err = parser.ParseConfig([]byte(config)); err != nil {
			t.Fatal(err)
		}
	}
	state := balancer.ClientConnState{BalancerConfig: parsed}
	for i := range servers {
		a := resolver.Address{Addr: addr(i)}
		state.ResolverState.Addresses = append(state.ResolverState.Addresses, a)
		state.ResolverState.Endpoints = append(state.ResolverState.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}})
	}
	if err := p.b.UpdateClientConnState(state); err != nil {
		t.Fatal(err)
	}
	p.work()
	return p
}

func (p *grpcPicker) later(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tasks = append(p.tasks, f)
}

// work does what is to be done.
func (p *grpcPicker) work() {
	for {
		p.mu.Lock()
		if len(p.tasks) == 0 {
			p.mu.Unlock()
			return
		}
		f := p.tasks[0]
		p.tasks = p.tasks[1:]
		p.mu.Unlock()
		f()
	}
}

func (p *grpcPicker) NewSubConn(addrs []resolver.Address, o balancer.NewSubConnOptions) (balancer.SubConn, error) {
	s := &subConn{p: p, server: server(addrs[0].Addr), tell: o.StateListener}
	p.subs[s.server] = s
	return s, nil
}

func (p *grpcPicker) UpdateState(s balancer.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.picker = s.Picker
}

func (p *grpcPicker) RemoveSubConn(balancer.SubConn)         {}
func (p *grpcPicker) ResolveNow(resolver.ResolveNowOptions)  {}
func (p *grpcPicker) Target() string                         { return "servers" }
func (p *grpcPicker) MetricsRecorder() stats.MetricsRecorder { return nothing{} }
func (p *grpcPicker) close()                                 { p.b.Close() }

type nothing struct{ stats.MetricsRecorder }

func (nothing) RecordInt64Count(*stats.Int64CountHandle, int64, ...string)             {}
func (nothing) RecordInt64Gauge(*stats.Int64GaugeHandle, int64, ...string)             {}
func (nothing) RecordInt64Histo(*stats.Int64HistoHandle, int64, ...string)             {}
func (nothing) RecordFloat64Count(*stats.Float64CountHandle, float64, ...string)       {}
func (nothing) RecordFloat64Histo(*stats.Float64HistoHandle, float64, ...string)       {}
func (nothing) RecordInt64UpDownCount(*stats.Int64UpDownCountHandle, int64, ...string) {}

func (s *subConn) state(c connectivity.State) {
	state := balancer.SubConnState{ConnectivityState: c}
	if c == connectivity.TransientFailure {
		state.ConnectionError = errors.New("refused")
	}
	s.p.later(func() { s.tell(state) })
}

func (s *subConn) Connect() {
	s.state(connectivity.Connecting)
	if s.down {
		s.state(connectivity.TransientFailure)
	} else {
		s.state(connectivity.Ready)
	}
}

func (s *subConn) Shutdown()                          {}
func (s *subConn) UpdateAddresses([]resolver.Address) {}
func (s *subConn) RegisterHealthListener(f func(balancer.SubConnState)) {
	s.p.later(func() { f(balancer.SubConnState{ConnectivityState: connectivity.Ready}) })
}

func (s *subConn) GetOrBuildProducer(balancer.ProducerBuilder) (balancer.Producer, func()) {
	return nil, func() {}
}

func (p *grpcPicker) Pick([]int) int {
	p.work()
	p.mu.Lock()
	picker := p.picker
	p.mu.Unlock()
	res, err := picker.Pick(balancer.PickInfo{Ctx: context.Background()})
	if err != nil {
		return -1
	}
	s, ok := res.SubConn.(*subConn)
	if !ok {
		panic("a SubConn of another kind")
	}
	p.ends[s.server] = append(p.ends[s.server], res.Done)
	return s.server
}

var errFailed = errors.New("failed")

func (p *grpcPicker) Done(server int, _ time.Duration, o cluster.Outcome, load cluster.Load) {
	done := p.ends[server][0]
	p.ends[server] = p.ends[server][1:]
	if done == nil {
		return
	}
	info := balancer.DoneInfo{}
	if o != cluster.OK {
		info.Err = errFailed
	}
	if load.Rate > 0 {
		info.ServerLoad = &v3orca.OrcaLoadReport{RpsFractional: load.Rate, CpuUtilization: load.Utilization}
	}
	done(info)
}

func (p *grpcPicker) SetUp(server int, up bool) {
	s := p.subs[server]
	s.down = !up
	s.state(connectivity.Idle)
	p.work()
}
