package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
)

// The defaults of ClientOptions.
const (
	DefaultTimeout      = time.Second // reference 2.5
	DefaultMaxPending   = 16384
	DefaultMaxQueued    = 8 << 20
	DefaultMaxWaiting   = 64 << 20
	DefaultHeartbeat    = 60 * time.Second // reference 2.10
	DefaultDialTimeout  = 3 * time.Second  // reference 2.10
	DefaultResolveEvery = 30 * time.Second
	DefaultCallbacks    = 32 // workers of a callback pool
)

// ClientOptions say how a Client calls. Addrs or Resolver is required.
type ClientOptions struct {
	Addrs        []string      // host:port each; the same as Resolver: Static(Addrs...)
	Resolver     Resolver      // where the servers are
	ResolveEvery time.Duration // how often Resolver is asked, and at once when a connection is lost; 0 = 30 s
	ConnsPerAddr int           // connections to each address; 0 = 1
	Balance      Balance       // which connection a call takes

	Codec   Codec         // of bodies; the zero value is CodecRaw
	Timeout time.Duration // of calls; 0 = 1 s, negative = none. The deadline of a call's context counts too.

	// MaxPending bounds the calls that wait for responses on one connection; 0 = 16384, at most 1<<24. MaxQueued bounds the bytes of requests
	// that wait on one connection until the kernel takes more; 0 = 8 MiB, and one request is always taken. A call beyond them waits for room, behind those
	// that do already, as long as its time allows. MaxPending of the client's calls can wait, for room or for a connection, and MaxWaiting bytes
	// of their requests; 0 = 64 MiB, or MaxQueued if that is more, and one request is always taken. MaxAsync bounds the calls with a Future that have
	// not ended, callbacks included; 0 = MaxPending. A call beyond any of these three ends with ErrClientFull and is not sent.
	MaxPending, MaxQueued, MaxWaiting, MaxAsync int
	MaxPayload                                  int // of requests and responses; 0 = frame.DefaultMaxPayload

	// WaitForReady lets calls wait for a connection as long as their time allows. Without it a call fails at once while every
	// address is known to be down. See the CallOption WaitForReady for one call.
	WaitForReady bool

	Consumer     Consumer       // who decodes the responses of calls that wait
	CallbackPool *executor.Pool // runs what follows the end of a Future; nil = one of the client's own, DefaultCallbacks workers
	Dispatcher   Dispatcher     // where that happens: DispatchDirect and DispatchExecution stay on the loop
	Listener     Listener       // is told what happens on connections; the pool of its Dispatcher is CallbackPool. nil = nobody

	ConnectQueue   int // DispatchConnection: connects that wait, see Listener; 0 = DefaultConnectQueue
	ConnectWarning int // DispatchConnection: above how many of them there is a warning; 0 = DefaultConnectWarning

	// Interceptors stand around each call, the first one outermost, on the caller's goroutine; around an InvokeAsync on a worker of the callback pool, which
	// waits there for the response, and then the functions of its Future run there with every Dispatcher. What they make of
	// CallInfo.Metadata is sent.
	Interceptors []Interceptor

	Backoff     Backoff
	DialTimeout time.Duration // for one address; 0 = 3 s
	Heartbeat   time.Duration // a server that is silent for so long is sent a PING, and after three times that the connection ends; 0 = 60 s, negative = none

	Group  *eddy.Group    // loops shared with others; nil = one loop of its own
	Logger *slog.Logger   // nil = slog.Default()
	Rand   func() float64 // from 0 to 1, for jitter; nil = math/rand/v2
}

// Consumer is a model of who decodes the responses of calls whose callers wait.
type Consumer uint8

const (
	// CallerRuns has the caller's goroutine decode its own response: no goroutine waits for responses, however many services
	// are called. Source: reference 2.5.
	CallerRuns Consumer = iota
	// DedicatedPool has a pool per service decode them and wake the caller then: the older model, for comparison. Its goroutines
	// grow with the number of services. When a pool is full, the caller decodes.
	DedicatedPool
	consumers
)

// Client calls services. It keeps ConnsPerAddr connections to each address and multiplexes calls over them. All methods
// may be called by any goroutine. Sources: DESIGN 8; reference 2.5, 2.10.
type Client struct {
	o      ClientOptions
	epoch  time.Time
	calls  sync.Pool
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	log    *slog.Logger
	logs   struct{ late, dial, resolver, callbacks sampler }

	group     *eddy.Group
	ownGroup  bool
	consumer  consumer
	events    *notifier // nil without a Listener
	services  atomic.Pointer[map[Key]*remoteService]
	routes    atomic.Pointer[routes]
	turn      atomic.Uint32
	stats     clientCounters
	active    atomic.Int64 // calls that have not ended, callbacks included
	closing   atomic.Bool  // no new calls
	idle      chan struct{}
	idleOnce  sync.Once
	again     chan struct{}  // ends the resolver's pause
	tasks     sync.WaitGroup // the resolver's goroutine
	links     sync.WaitGroup // goroutines of links
	timers    sync.WaitGroup // functions that later has started
	closeOnce sync.Once
	closed    chan struct{}

	mu        sync.Mutex
	peers     []*peer
	waits     waits
	resolved  bool  // the resolver has answered
	failure   error // why there is no connection
	opened    int   // connections ever made
	servicing sync.Mutex
}

// clientCounters are what a Client counts.
type clientCounters struct {
	calls, late, failovers, goAways, dials, dialFailures, resolveFailures, expired, cancelled, full,
	oneWays, oneWayDropped, pings, lost, parked, callbackPanics, poolFull atomic.Uint64
}

// ClientStats are the numbers of a Client.
type ClientStats struct {
	Connections     int    // that take calls
	Addresses       int    // that the resolver has named
	Active          int    // calls that have not ended, callbacks included
	Waiting         int    // of them, those that wait for a connection, or for room on one
	Calls           uint64 // begun, one-way ones included
	Late            uint64 // responses that nobody waited for any more, dropped
	Failovers       uint64 // attempts to make a call elsewhere
	Expired         uint64 // calls whose time was over before a response came
	Cancelled       uint64 // calls that their callers gave up
	Full            uint64 // calls refused by a bound of the client
	OneWays         uint64 // one-way requests that were given to the system
	OneWayDropped   uint64 // that were not
	Dials           uint64 // attempts to connect
	DialFailures    uint64 // that failed
	Lost            uint64 // connections that ended while they were wanted
	GoAways         uint64 // connections whose servers said GOAWAY
	Pings           uint64
	ResolveFailures uint64
	Parked          uint64 // responses that had to wait for room in the callback pool
	CallbackPanics  uint64
	Events          EventStats // what the Listener was told
	PoolFull        uint64     // responses that a full pool of DedicatedPool left to their callers
}

// Stats returns the numbers. Any goroutine, also after Close.
func (cl *Client) Stats() ClientStats {
	s := &cl.stats
	cl.mu.Lock()
	addresses, waiting := len(cl.peers), cl.waits.len()
	cl.mu.Unlock()
	return ClientStats{
		Connections: len(cl.routes.Load().wires), Addresses: addresses, Active: int(cl.active.Load()), Waiting: waiting,
		Calls: s.calls.Load(), Late: s.late.Load(), Failovers: s.failovers.Load(), Expired: s.expired.Load(), Cancelled: s.cancelled.Load(),
		Full: s.full.Load(), OneWays: s.oneWays.Load(), OneWayDropped: s.oneWayDropped.Load(), Dials: s.dials.Load(), DialFailures: s.dialFailures.Load(),
		Lost: s.lost.Load(), GoAways: s.goAways.Load(), Pings: s.pings.Load(), ResolveFailures: s.resolveFailures.Load(), Parked: s.parked.Load(),
		Events: cl.events.stats(), CallbackPanics: s.callbackPanics.Load(), PoolFull: s.poolFull.Load(),
	}
}

// NewClient returns a client that begins to connect. It does not wait for that: calls do. The error names the option that
// makes no sense. Close it, or Shutdown.
func NewClient(o ClientOptions) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	cl := &Client{o: o, epoch: time.Now(), log: o.Logger, group: o.Group, idle: make(chan struct{}), again: make(chan struct{}, 1), closed: make(chan struct{})}
	cl.calls.New = func() any { return &call{client: cl, ready: make(chan struct{}, 1)} }
	cl.ctx, cl.cancel = context.WithCancel(context.Background())
	cl.services.Store(&map[Key]*remoteService{})
	cl.routes.Store(new(routes))
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
	if fixed, ok := o.Resolver.(staticAddrs); ok {
		if err := cl.checkAddrs(fixed); err != nil {
			_ = cl.Close()
			return nil, err
		}
		cl.apply(fixed)
		return cl, nil
	}
	cl.tasks.Add(1)
	go cl.resolveLoop()
	return cl, nil
}

// complete validates the options and fills in the defaults.
func (o *ClientOptions) complete() error {
	switch {
	case o.Resolver == nil && len(o.Addrs) == 0:
		return errors.New("rpc: ClientOptions.Addrs and Resolver are empty: one of them must say where the servers are")
	case o.Resolver != nil && len(o.Addrs) > 0:
		return errors.New("rpc: ClientOptions.Addrs and Resolver are both set: want one of them")
	case o.Resolver == nil:
		o.Resolver = Static(o.Addrs...)
	}
	o.ConnsPerAddr = orDefault(o.ConnsPerAddr, 1)
	o.MaxPending = orDefault(o.MaxPending, DefaultMaxPending)
	o.MaxQueued = orDefault(o.MaxQueued, DefaultMaxQueued)
	o.MaxWaiting = orDefault(o.MaxWaiting, max(DefaultMaxWaiting, o.MaxQueued))
	o.MaxAsync = orDefault(o.MaxAsync, o.MaxPending)
	o.MaxPayload = orDefault(o.MaxPayload, frame.DefaultMaxPayload)
	for _, f := range []struct {
		name      string
		v, lo, hi int
	}{
		{"ConnsPerAddr", o.ConnsPerAddr, 1, 1024}, {"MaxPending", o.MaxPending, 1, maxSlots}, {"MaxQueued", o.MaxQueued, 1, 1 << 30}, {"MaxWaiting", o.MaxWaiting, 1, 1 << 30}, {"MaxAsync", o.MaxAsync, 1, maxSlots},
		{"MaxPayload", o.MaxPayload, prefixFixed, 1<<28 - 1}, {"Balance", int(o.Balance), 0, int(balances) - 1}, {"Codec", int(o.Codec), 0, codecs - 1}, {"Consumer", int(o.Consumer), 0, int(consumers) - 1},
	} {
		if f.v < f.lo || f.v > f.hi {
			return fmt.Errorf("rpc: ClientOptions.%s is %d: it must be from %d to %d", f.name, f.v, f.lo, f.hi)
		}
	}
	if err := o.Dispatcher.check("ClientOptions.Dispatcher"); err != nil {
		return err
	}
	o.Timeout = orDefault(o.Timeout, DefaultTimeout)
	o.DialTimeout = orDefault(o.DialTimeout, DefaultDialTimeout)
	o.Heartbeat = orDefault(o.Heartbeat, DefaultHeartbeat)
	o.ResolveEvery = orDefault(o.ResolveEvery, DefaultResolveEvery)
	if o.DialTimeout < 0 || o.ResolveEvery < 0 {
		return fmt.Errorf("rpc: ClientOptions.DialTimeout is %v, ResolveEvery %v: they must not be negative", o.DialTimeout, o.ResolveEvery)
	}
	var err error
	if o.Backoff, err = o.Backoff.withDefaults(); err != nil {
		return err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (cl *Client) random() float64 { return cl.o.Rand() }

// enter counts a call, unless the client ends.
func (cl *Client) enter() error {
	cl.active.Add(1)
	if cl.closing.Load() {
		cl.leave()
		return &causeError{kinds: []error{ErrClosed}, text: "the client is closed"}
	}
	cl.stats.calls.Add(1)
	return nil
}

// leave follows the end of a call.
func (cl *Client) leave() {
	if cl.active.Add(-1) == 0 && cl.closing.Load() {
		cl.idleOnce.Do(func() { close(cl.idle) })
	}
}

// Shutdown takes no new calls, waits as long as ctx allows for those that have begun and for their callbacks, and closes the client. It
// returns the context's error if that ended first: calls ended with ErrClosed then. Any goroutine but a loop and the workers of the callback pool, where
// it returns an error and the client is as it was.
func (cl *Client) Shutdown(ctx context.Context) error {
	if err := cl.mayWait(); err != nil {
		return err
	}
	cl.stopTaking()
	err := cl.drain(ctx)
	return errors.Join(err, cl.Close())
}

// drain waits for the calls, and then for the connections to send what is on its way.
func (cl *Client) drain(ctx context.Context) error {
	select {
	case <-cl.idle:
	case <-cl.closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	cl.apply(nil)
	ended := make(chan struct{})
	go func() {
		cl.links.Wait()
		close(ended)
	}()
	defer func() {
		cl.cancel() // Close has nothing more to wait for
		<-ended
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (cl *Client) stopTaking() {
	cl.closing.Store(true)
	cl.active.Add(1)
	cl.leave() // nobody may be there to do it
}

// Close ends the client at once: calls that have not ended end with ErrClosed. It returns nil when that has happened and
// no goroutine of the client is left, also when it had before. Any goroutine but a loop and the workers of the callback pool, where it returns
// an error and the client is as it was.
func (cl *Client) Close() error {
	if err := cl.mayWait(); err != nil {
		return err
	}
	cl.closeOnce.Do(func() {
		cl.stopTaking()
		cl.cancel()
		cl.retryWaiting() // they learn that it has ended
		cl.tasks.Wait()   // the links close their connections
		cl.timers.Wait()
		cl.stopConsumer()
		cl.events.stop()
		_ = cl.closeGroup()
		close(cl.closed)
	})
	<-cl.closed
	return nil
}

// closedError is the cause for calls that the end of the client has ended.
func (cl *Client) closedError() error {
	return &causeError{kinds: []error{ErrClosed}, text: "the client was closed"}
}

func (cl *Client) mayWait() error {
	switch {
	case cl.group.OnLoop():
		return eddy.ErrOnLoop
	case cl.consumer.onWorker(), cl.events.onWorker():
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

// pause waits, and reports whether ctx still goes on. wake ends it early.
func (cl *Client) pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// later runs f after d, before Close returns or not at all.
func (cl *Client) later(d time.Duration, f func()) *time.Timer {
	cl.timers.Add(1)
	return time.AfterFunc(d, func() {
		defer cl.timers.Done()
		f()
	})
}

// warn logs a line of a kind that others can cause at will.
func (cl *Client) warn(s *sampler, msg string, args ...any) {
	if ok, held := s.allow(cl.now()); ok {
		cl.log.Warn(msg, append(args, "held_back", held)...)
	}
}

// late counts a response that nobody waits for. On the loop.
func (cl *Client) late(w *wire, id uint64, status frame.Status) {
	cl.stats.late.Add(1)
	w.told.responseLate(id, status)
	if status == frame.StatusCancelled || status == frame.StatusDeadlineExceeded {
		return // the server has given it up, too
	}
	cl.warn(&cl.logs.late, "rpc: a response came after its call had ended", "peer", w.link.peer.addr, "id", id, "status", status.String())
}

// sampler lets through one line a second and counts the rest.
type sampler struct {
	last atomic.Int64 // when, plus one
	held atomic.Uint64
}

func (s *sampler) allow(now int64) (ok bool, held uint64) {
	last := s.last.Load()
	if last != 0 && now+1-last < int64(time.Second) || !s.last.CompareAndSwap(last, now+1) {
		s.held.Add(1)
		return false, 0
	}
	return true, s.held.Swap(0)
}
