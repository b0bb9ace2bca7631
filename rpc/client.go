package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/sample"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/attempts"
	"github.com/go-eddy/eddy/rpc/internal/follow"
	"github.com/go-eddy/eddy/rpc/internal/pools"
)

// Client calls services. A Client keeps ConnsPerAddr connections to each address and multiplexes calls over them. All
// methods may be called by any goroutine.
type Client struct {
	o     ClientOptions
	epoch time.Time
	calls sync.Pool
	log   *slog.Logger
	logs  struct{ late, dial, resolver, callbacks sample.Seldom }
	stats clientCounters
	life  lifetime

	group     *eddy.Group
	ownGroup  bool
	consumer  consumer
	pools     pools.Set // of its own
	events    *notifier // nil without a Listener
	servicing sync.Mutex
	services  atomic.Pointer[map[Key]*remoteService]
	routes    atomic.Pointer[routes]
	balancer  *balance.Balancer
	follower  *follow.Follower // nil with Addrs
	maker     *attempts.Maker  // nil when each call is made once

	mu       sync.Mutex
	peers    []*peer
	waits    waits
	resolved bool  // the resolver has answered
	failure  error // why there is no connection
}

// lifetime is what the end of a client waits for.
type lifetime struct {
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	active  atomic.Int64 // calls that have not ended, callbacks included
	closing atomic.Bool  // no new calls
	idle    chan struct{}
	last    sync.Once      // closes idle
	tasks   sync.WaitGroup // the resolver's goroutine
	links   sync.WaitGroup // goroutines of links
	timers  sync.WaitGroup // functions that later has started
	end     sync.Once
	closed  chan struct{}
}

// clientCounters are the counters behind ClientStats.
type clientCounters struct {
	calls, late, failovers, goAways, dials, dialFailures, expired, canceled, full,
	oneWays, oneWayDropped, pings, lost, parked, callbackPanics, poolFull atomic.Uint64
}

// ClientStats are the numbers of a Client.
type ClientStats struct {
	Connections    int    // that take calls
	Addresses      int    // that the resolver has named
	Active         int    // calls that have not ended, callbacks included
	Waiting        int    // of these, the ones that wait for a connection or for room on one
	Calls          uint64 // begun, one-way ones included
	Late           uint64 // responses dropped because nobody waited for them any more
	Failovers      uint64 // attempts to make a call on another connection
	Expired        uint64 // calls whose time was over before a response came
	Canceled       uint64 // calls that their callers gave up
	Full           uint64 // calls refused by a bound of the client
	OneWays        uint64 // one-way requests given to a connection, with WaitWritten to the system
	OneWayDropped  uint64 // one-way requests that failed
	Dials          uint64 // attempts to connect
	DialFailures   uint64 // attempts that failed, and connections that ended soon without an answer
	Lost           uint64 // connections that ended while they were wanted
	GoAways        uint64 // connections whose servers said GOAWAY
	Pings          uint64
	Parked         uint64 // responses and callbacks that had to wait for room in a callback pool
	CallbackPanics uint64
	Events         EventStats // what the Listener was told
	PoolFull       uint64     // responses that a full pool of DedicatedPool left to their callers
	Balance        balance.Stats
}

// Stats returns the numbers. Any goroutine, also after Close.
func (cl *Client) Stats() ClientStats {
	s := &cl.stats
	cl.mu.Lock()
	addresses, waiting := len(cl.peers), cl.waits.len()
	cl.mu.Unlock()
	return ClientStats{
		Connections: len(cl.routes.Load().all), Addresses: addresses, Active: int(cl.life.active.Load()), Waiting: waiting,
		Calls: s.calls.Load(), Late: s.late.Load(), Failovers: s.failovers.Load(), Expired: s.expired.Load(), Canceled: s.canceled.Load(),
		Full: s.full.Load(), OneWays: s.oneWays.Load(), OneWayDropped: s.oneWayDropped.Load(), Dials: s.dials.Load(), DialFailures: s.dialFailures.Load(),
		Lost: s.lost.Load(), GoAways: s.goAways.Load(), Pings: s.pings.Load(), Parked: s.parked.Load(),
		Events: cl.events.stats(), CallbackPanics: s.callbackPanics.Load(), PoolFull: s.poolFull.Load(),
		Balance: cl.balanceStats(),
	}
}

// NewClient returns a client that begins to connect. NewClient does not wait for a connection: calls do. End the client
// with Close or Shutdown. The error names the option that makes no sense.
func NewClient(o ClientOptions) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	cl := &Client{o: o, epoch: time.Now(), log: o.Logger, group: o.Group}
	cl.life.idle, cl.life.closed = make(chan struct{}), make(chan struct{})
	cl.calls.New = func() any { return &call{client: cl, ready: make(chan struct{}, 1)} }
	cl.life.ctx, cl.life.cancel = context.WithCancel(context.Background())
	cl.services.Store(&map[Key]*remoteService{})
	cl.routes.Store(&routes{})
	var err error
	if cl.balancer, err = balance.New(o.Balance); err != nil {
		return nil, fmt.Errorf("rpc: ClientOptions.Balance: %w", err)
	}
	if cl.maker, err = attempts.New(o.Attempts); err != nil {
		return nil, fmt.Errorf("rpc: ClientOptions.Attempts: %w", err)
	}
	if cl.group == nil {
		cl.group, cl.ownGroup = &eddy.Group{Name: "rpc-client", Loops: 1, Logger: o.Logger}, true
	}
	if err := cl.group.Start(); err != nil {
		return nil, err
	}
	if err := cl.startConsumer(); err != nil {
		_ = cl.closeGroup()
		return nil, err
	}
	if err := cl.startEvents(); err != nil {
		_ = cl.Close()
		return nil, err
	}
	if o.Resolver == nil {
		cl.apply(discovery.Addrs(o.Addrs...))
		return cl, nil
	}
	cl.follow()
	return cl, nil
}

// startEvents makes the notifier of the Listener. The callback pool must exist.
func (cl *Client) startEvents() (err error) {
	cl.events, err = newNotifier(eventOptions{
		name: "client", side: ClientSide, dispatcher: cl.o.Dispatcher, listener: cl.o.Listener, shared: cl.consumer.pool.Pool,
		connectQueue: cl.o.ConnectQueue, connectWarning: cl.o.ConnectWarning, maxPayload: cl.o.MaxPayload, logger: cl.o.Logger,
	})
	return err
}

// enter counts a call, or returns an error once the client is closing.
func (cl *Client) enter() error {
	cl.life.active.Add(1)
	if cl.life.closing.Load() {
		cl.leave()
		return errClosed
	}
	cl.stats.calls.Add(1)
	return nil
}

// leave uncounts a call that has ended. The last one of a closing client closes idle.
func (cl *Client) leave() {
	if cl.life.active.Add(-1) == 0 && cl.life.closing.Load() {
		cl.life.last.Do(func() { close(cl.life.idle) })
	}
}

// Shutdown ends the client in order. New calls are refused; calls that have begun may finish, with their callbacks, as
// long as ctx allows. Then the client is closed. If ctx ends first, Shutdown returns its error and the calls that are
// left end with ErrClosed.
//
// Any goroutine but a loop of the client's group and the workers of the callback pool. There Shutdown returns
// eddy.ErrOnLoop or executor.ErrOnWorker, and the client is as it was.
func (cl *Client) Shutdown(ctx context.Context) error {
	if err := cl.mayWait(); err != nil {
		return err
	}
	cl.stopTaking()
	err := cl.drain(ctx)
	return errors.Join(err, cl.Close())
}

// drain waits for the calls to end, and then for the connections to send what they hold.
func (cl *Client) drain(ctx context.Context) error {
	select {
	case <-cl.life.idle:
	case <-cl.life.closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	cl.apply(nil)
	ended := make(chan struct{})
	go func() {
		cl.life.links.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (cl *Client) stopTaking() {
	cl.life.closing.Store(true)
	cl.life.active.Add(1)
	cl.leave() // closes idle if there is no call to do it
}

// Close ends the client at once: calls that have not ended end with ErrClosed. Close returns nil when that has happened
// and no goroutine of the client is left; later calls of Close wait for the same. Where Shutdown must not be called,
// Close returns the same errors, and the client is as it was.
func (cl *Client) Close() error {
	if err := cl.mayWait(); err != nil {
		return err
	}
	cl.life.end.Do(func() {
		cl.stopTaking()
		cl.life.cancel()
		cl.retryWaiting()    // waiting calls end with ErrClosed
		cl.life.links.Wait() // they close their connections
		cl.life.tasks.Wait()
		cl.life.timers.Wait()
		cl.stopConsumer()
		cl.events.stop()
		_ = cl.closeGroup()
		close(cl.life.closed)
	})
	<-cl.life.closed
	return nil
}

func (cl *Client) mayWait() error {
	switch {
	case cl.group.In():
		return eddy.ErrOnLoop
	case cl.consumer.pool.Pool.OnWorker(), cl.pools.OnWorker(), cl.events.onWorker():
		return executor.ErrOnWorker
	}
	return nil
}

func (cl *Client) closeGroup() error {
	if cl.ownGroup {
		return cl.group.Close()
	}
	return nil
}

// sleep waits for d and reports whether ctx still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// later runs f after d, and Close waits for f. Code that stops the timer must call timers.Done instead of f.
func (cl *Client) later(d time.Duration, f func()) *time.Timer {
	cl.life.timers.Add(1)
	return time.AfterFunc(d, func() {
		defer cl.life.timers.Done()
		f()
	})
}

// logInterval is the least time between two lines that peers or callbacks can cause at will.
const logInterval = time.Second

// warn logs a line that peers can cause at will, as often as s lets it through.
func (cl *Client) warn(s *sample.Seldom, msg string, args ...any) {
	if ok, held := s.Allow(logInterval); ok {
		cl.log.Warn(msg, append(args, "held_back", held)...)
	}
}

// late counts a response that nobody waits for, and logs it unless the server has given the call up. On the loop.
func (cl *Client) late(w *wire, id uint64, status frame.Status) {
	cl.stats.late.Add(1)
	w.told.responseLate(id, status)
	if status == frame.StatusCanceled || status == frame.StatusDeadlineExceeded {
		return // the server has given the call up, too
	}
	cl.warn(&cl.logs.late, "rpc: a response came after its call had ended", "peer", w.link.peer.addr, "id", id, "status", status.String())
}
