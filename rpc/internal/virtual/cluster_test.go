// Package virtual has tests of whole clients and servers of package rpc, a thousand of them, on machines in memory and in virtual time. Everything is what
// users run: connections, balancers, limits, attempts, pools. Package clustertest asks the balancers alone, with more calls, and by a seed.
package virtual

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/simhook"
	"github.com/go-eddy/eddy/internal/sys/memnet"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/balance"
)

var (
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
	key   = rpc.Key{Interface: "cluster.Worker"}
)

// setup says what a cluster is made of.
type setup struct {
	servers, clients, zones int
	near, far               time.Duration // there, within a zone and to another one
	service                 time.Duration // mean time of a request, exponential
	workers, queue          int           // of each server
	adaptive                bool
	maxAge                  time.Duration // of connections by HTTP/2; 0 = no limit
	protocol                string        // that calls are made by: frame, grpc or http
	cold                    int           // keys of requests, of which a server has to learn each at four times the work; 0 = none
	load                    float64       // in shares of what the servers can do
	length                  time.Duration
	patience                int               // calls that a user makes at once, one after the other, until one succeeds; 0 = 1
	options                 rpc.ClientOptions // of each client
	at                      []cause
}

// cause is something that happens to the cluster.
type cause struct {
	at time.Duration
	do func(*cluster)
}

// cluster is a setup that runs.
type cluster struct {
	setup
	t       *testing.T
	net     *memnet.Network
	speed   atomic.Int64 // of all servers, in thousandths
	servers []*server
	clients []*client
	begun   time.Time
	calls   sync.WaitGroup

	mu    sync.Mutex
	ended []ended
}

// server is one of the servers.
type server struct {
	c       *cluster
	zone    int
	machine *memnet.Machine
	slow    atomic.Int64 // by which its requests take longer; 0 = 1
	lies    atomic.Bool  // it answers at once with an error
	asked   atomic.Int64 // requests that it has begun

	mu    sync.Mutex
	srv   *rpc.Server
	knows map[int]bool // keys
}

// ended is a call that has ended.
type ended struct {
	client      *client
	began, took time.Duration
	err         error
}

// play runs the setup to its end, in which nothing is left: neither calls nor connections nor goroutines.
func play(t *testing.T, s setup) (c *cluster) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c = &cluster{setup: s, t: t, begun: time.Now()}
		c.speed.Store(1000)
		c.net = memnet.New(c.delay)
		for i := range s.servers {
			v := &server{c: c, zone: i % max(s.zones, 1)}
			v.machine = c.net.Machine(machineAddr(1, v.zone, i))
			v.start()
			c.servers = append(c.servers, v)
		}
		for i := range s.clients {
			c.dial(i)
		}
		time.Sleep(time.Second) // in which all connect
		c.begun = time.Now()
		for _, e := range s.at {
			time.AfterFunc(e.at, func() { e.do(c) })
		}
		for i, cl := range c.clients {
			c.calls.Go(func() { c.drive(i, cl) })
		}
		c.calls.Wait()
		c.end()
	})
	return c
}

// machineAddr is the address of machine i in a zone; kind 1 are servers, 2 clients.
func machineAddr(kind, zone, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(kind<<4 | zone), byte(i >> 8), byte(i)})
}

func (c *cluster) delay(from, to netip.Addr) time.Duration {
	if from.As4()[1]&15 == to.As4()[1]&15 {
		return c.near
	}
	return c.far
}

// start has the server serve, on its machine's port 80.
func (v *server) start() {
	s, err := rpc.NewServer(rpc.ServerOptions{Logger: quiet, Ports: []rpc.PortOptions{{
		Addr: netip.AddrPortFrom(v.machine.Addr, 80).String(), Loops: 1, MaxAge: v.c.maxAge,
		Pool: rpc.PoolOptions{Threads: v.c.workers, Queue: v.c.queue, Adaptive: v.c.adaptive},
		Tune: func(srv *eddy.Server) {
			srv.Topology = eddy.SingleReactor
			simhook.Simulate(v.machine.Host(), srv)
		},
	}}})
	if err != nil {
		v.c.t.Error(err)
		return
	}
	svc, err := rpc.NewService(key, rpc.Raw("Work", v.work).NoSideEffects())
	if err := errors.Join(err, s.Register(svc), s.Listen()); err != nil {
		v.c.t.Error(err)
	}
	v.mu.Lock()
	v.srv = s
	v.mu.Unlock()
	v.forget()
}

// work is the method that is called.
func (v *server) work(ctx context.Context, _ []byte) ([]byte, error) {
	v.asked.Add(1)
	if v.lies.Load() {
		panic("the server lies") // its caller is told INTERNAL
	}
	mean := v.c.service * time.Duration(max(1, v.slow.Load())*v.learn())
	select {
	case <-time.After(time.Duration(rand.ExpFloat64() * float64(mean) * 1000 / float64(v.c.speed.Load()))):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// learn returns by how much a request takes longer because the server does not know its key yet.
func (v *server) learn() int64 {
	if v.c.cold == 0 {
		return 1
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	k := rand.IntN(v.c.cold)
	if v.knows[k] {
		return 1
	}
	v.knows[k] = true
	return 4
}

// forget has the server know no key.
func (v *server) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.knows = make(map[int]bool)
}

// serve says whether the service is served, for those that ask.
func (v *server) serve(serving bool) {
	v.mu.Lock()
	srv := v.srv
	v.mu.Unlock()
	if err := srv.SetServing(key, serving); err != nil {
		v.c.t.Error(err)
	}
}

// drain ends the server in order.
func (v *server) drain() {
	v.mu.Lock()
	srv := v.srv
	v.mu.Unlock()
	if _, err := srv.Shutdown(context.Background()); err != nil {
		v.c.t.Error(err)
	}
}

// kill ends the server as a crash does: its connections are reset, and its machine answers nothing until restart.
func (v *server) kill() {
	v.machine.Cut()
	v.machine.Reset()
	v.mu.Lock()
	srv := v.srv
	v.mu.Unlock()
	if err := srv.Close(); err != nil {
		v.c.t.Error(err)
	}
}

// restart has the server serve again after drain or kill.
func (v *server) restart() {
	v.machine.Heal()
	v.start()
}

// drive calls at random moments, whatever becomes of the calls before.
func (c *cluster) drive(i int, cl *client) {
	rate := c.load * float64(len(c.servers)*c.workers) / c.service.Seconds() / float64(len(c.clients))
	next := rand.New(rand.NewPCG(uint64(i), 1))
	for at := time.Duration(0); at < c.length; at += time.Duration(next.ExpFloat64() / rate * float64(time.Second)) {
		time.Sleep(time.Until(c.begun.Add(at)))
		c.calls.Go(func() { c.call(cl) })
	}
}

// burst makes n calls at once.
func (c *cluster) burst(n int) {
	for i := range n {
		c.calls.Go(func() { c.call(c.clients[i%len(c.clients)]) })
	}
}

// call is what a user does: a call, and again, as long as patience is left. It notes the end.
func (c *cluster) call(cl *client) {
	from := time.Now()
	var err error
	for range max(c.patience, 1) {
		if err = cl.call(); err == nil {
			break
		}
	}
	e := ended{cl, from.Sub(c.begun), time.Since(from), err}
	c.mu.Lock()
	c.ended = append(c.ended, e)
	c.mu.Unlock()
}

// end ends clients and servers. What is left keeps the bubble from ending.
func (c *cluster) end() {
	for _, cl := range c.clients {
		if err := errors.Join(cl.close(), cl.group.Close()); err != nil {
			c.t.Error(err)
		}
	}
	for _, v := range c.servers {
		v.machine.Heal()
		v.drain()
	}
}

// between returns the calls that began from one second to another.
func (c *cluster) between(from, to time.Duration) (all []ended) {
	for _, e := range c.ended {
		if e.began >= from && e.began < to {
			all = append(all, e)
		}
	}
	return all
}

// errorRate is the share of these calls that failed.
func (c *cluster) errorRate(from, to time.Duration) float64 {
	all, failed := c.between(from, to), 0
	for _, e := range all {
		if e.err != nil {
			failed++
		}
	}
	return float64(failed) / float64(max(len(all), 1))
}

// quantile is a quantile of the time that the calls took that succeeded.
func (c *cluster) quantile(q float64, from, to time.Duration) time.Duration {
	var took []time.Duration
	for _, e := range c.between(from, to) {
		if e.err == nil {
			took = append(took, e.took)
		}
	}
	slices.Sort(took)
	if len(took) == 0 {
		return 0
	}
	return took[int(q*float64(len(took)-1))]
}

// amplification is how many attempts there were for each call that a user made.
func (c *cluster) amplification() float64 {
	more := uint64(0)
	for _, cl := range c.clients {
		more += cl.more()
	}
	return 1 + float64(more)/float64(len(c.ended))
}

// failures says, for a log, why calls failed.
func (c *cluster) failures() map[string]int {
	kinds := make(map[string]int)
	for _, e := range c.ended {
		if e.err != nil {
			what := e.err.Error()
			if x, ok := errors.AsType[*rpc.Error](e.err); ok {
				what = fmt.Sprint(x.Status, " ", x.Executed, " ", x.Err)
			}
			kinds[what]++
		}
	}
	return kinds
}

// ordinary is a cluster of servers that are busy to a share of their time, and of clients that survive.
func ordinary(servers int, load float64) setup {
	return setup{
		servers: servers, clients: 4, zones: 1, near: time.Millisecond, far: time.Millisecond, service: 100 * time.Millisecond, workers: 2, queue: 8,
		load: load, length: 12 * time.Second,
		options: rpc.ClientOptions{
			Timeout: 2 * time.Second, Heartbeat: time.Second, Health: time.Second, HealthService: key.String(), Idempotent: func(rpc.Key, string) bool { return true },
			Balance:  balance.Options{Policy: balance.PeakEWMA, Eject: balance.Ejection{Trip: balance.Trip{Failures: 3}}},
			Attempts: balance.Attempts{Max: 3},
		},
	}
}
