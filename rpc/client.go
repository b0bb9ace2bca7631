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
	DefaultTimeout      = time.Second // as in Dubbo
	DefaultMaxPending   = 16384
	DefaultMaxQueued    = 8 << 20
	DefaultMaxWaiting   = 64 << 20
	DefaultHeartbeat    = 60 * time.Second // as in Dubbo
	DefaultDialTimeout  = 3 * time.Second  // as in Dubbo
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

	// MaxPending bounds the calls on one connection that wait for responses; 0 = 16384, at most 1<<24. MaxQueued bounds
	// the bytes of requests that wait on one connection until the kernel takes more; 0 = 8 MiB, and one request is always
	// taken. A call beyond either bound waits for room, in order, as long as its time allows.
	//
	// MaxPending also bounds the calls of the client that wait, for room or for a connection. MaxWaiting bounds the bytes
	// of their requests; 0 = 64 MiB, or MaxQueued if that is more, and one request is always taken. MaxAsync bounds the
	// calls with a Future that have not ended, callbacks included; 0 = MaxPending. A call beyond any of these three
	// bounds ends with ErrClientFull and is not sent.
	MaxPending, MaxQueued, MaxWaiting, MaxAsync int
	MaxPayload                                  int // of requests and responses; 0 = frame.DefaultMaxPayload

	// WaitForReady lets calls wait for a connection as long as their time allows. Without it a call fails at once while every
	// address is known to be down. See the CallOption WaitForReady for one call.
	WaitForReady bool

	Consumer     Consumer       // where the responses of calls that wait are decoded
	CallbackPool *executor.Pool // decodes responses and runs functions of Futures; nil = the client's own, with DefaultCallbacks workers
	Dispatcher   Dispatcher     // where Futures end and Listener runs; DispatchDirect and DispatchExecution keep Futures on the loop
	Listener     Listener       // is told of events on connections; its shared pool is CallbackPool. nil = none

	ConnectQueue   int // under DispatchConnection, connects that may wait, see Listener; 0 = DefaultConnectQueue
	ConnectWarning int // under DispatchConnection, waiting connects and disconnects above which there is a warning; 0 = DefaultConnectWarning

	// Interceptors wrap each call, the first one outermost, on the caller's goroutine. For an InvokeAsync they run on a
	// worker of the callback pool, which waits there for the response. The functions that its Future has by then run
	// there too, with every Dispatcher. Pairs that interceptors set in CallInfo.Metadata are sent.
	Interceptors []Interceptor

	Backoff     Backoff
	DialTimeout time.Duration // for one address; 0 = 3 s
	Heartbeat   time.Duration // silence after which a server is sent a PING; after three times that the connection ends. 0 = 60 s, negative = none

	Group  *eddy.Group    // loops shared with others; nil = one loop of its own
	Logger *slog.Logger   // nil = slog.Default()
	Rand   func() float64 // from 0 to 1, for jitter; nil = math/rand/v2
}

// Consumer says where the responses of calls whose callers wait are decoded.
type Consumer uint8

const (
	// CallerRuns decodes each response on its caller's goroutine. No goroutine waits for responses, however many services
	// are called.
	CallerRuns Consumer = iota
	// DedicatedPool decodes the responses on a pool per service, which then wakes the callers: the older model, for
	// comparison. Futures that do not end on the loop end on that pool, too. The number of goroutines grows with that of
	// the services. When a pool is full, the caller decodes.
	DedicatedPool
	consumers
)

// Client calls services. A Client keeps ConnsPerAddr connections to each address and multiplexes calls over them. All
// methods may be called by any goroutine.
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

// clientCounters are the counters behind ClientStats.
type clientCounters struct {
	calls, late, failovers, goAways, dials, dialFailures, resolveFailures, expired, cancelled, full,
	oneWays, oneWayDropped, pings, lost, parked, callbackPanics, poolFull atomic.Uint64
}

// ClientStats are the numbers of a Client.
type ClientStats struct {
	Connections     int    // that take calls
	Addresses       int    // that the resolver has named
	Active          int    // calls that have not ended, callbacks included
	Waiting         int    // of these, the ones that wait for a connection or for room on one
	Calls           uint64 // begun, one-way ones included
	Late            uint64 // responses dropped because nobody waited for them any more
	Failovers       uint64 // attempts to make a call on another connection
	Expired         uint64 // calls whose time was over before a response came
	Cancelled       uint64 // calls that their callers gave up
	Full            uint64 // calls refused by a bound of the client
	OneWays         uint64 // one-way requests given to a connection, with WaitWritten to the system
	OneWayDropped   uint64 // one-way requests that failed
	Dials           uint64 // attempts to connect
	DialFailures    uint64 // attempts that failed, and connections that ended soon without an answer
	Lost            uint64 // connections that ended while they were wanted
	GoAways         uint64 // connections whose servers said GOAWAY
	Pings           uint64
	ResolveFailures uint64
	Parked          uint64 // responses and callbacks that had to wait for room in a callback pool
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

// NewClient returns a client that begins to connect. NewClient does not wait for a connection: calls do. End the client
// with Close or Shutdown. The error names the option that makes no sense.
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

// enter counts a call, or returns an error once the client is closing.
func (cl *Client) enter() error {
	cl.active.Add(1)
	if cl.closing.Load() {
		cl.leave()
		return &causeError{kinds: []error{ErrClosed}, text: "the client is closed"}
	}
	cl.stats.calls.Add(1)
	return nil
}

// leave uncounts a call that has ended. The last one of a closing client closes idle.
func (cl *Client) leave() {
	if cl.active.Add(-1) == 0 && cl.closing.Load() {
		cl.idleOnce.Do(func() { close(cl.idle) })
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
	cl.leave() // closes idle if there is no call to do it
}

// Close ends the client at once: calls that have not ended end with ErrClosed. Close returns nil when that has happened
// and no goroutine of the client is left; later calls of Close wait for the same. Where Shutdown must not be called,
// Close returns the same errors, and the client is as it was.
func (cl *Client) Close() error {
	if err := cl.mayWait(); err != nil {
		return err
	}
	cl.closeOnce.Do(func() {
		cl.stopTaking()
		cl.cancel()
		cl.retryWaiting() // waiting calls end with ErrClosed
		cl.tasks.Wait()   // the resolver's goroutine; the links close their connections
		cl.timers.Wait()
		cl.stopConsumer()
		cl.events.stop()
		_ = cl.closeGroup()
		close(cl.closed)
	})
	<-cl.closed
	return nil
}

// closedError returns why calls end when the client was closed.
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

// pause waits for d and reports whether ctx still goes on. wake and the end of ctx cut the wait short.
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

// later runs f after d, and Close waits for f. Code that stops the timer must call timers.Done instead of f.
func (cl *Client) later(d time.Duration, f func()) *time.Timer {
	cl.timers.Add(1)
	return time.AfterFunc(d, func() {
		defer cl.timers.Done()
		f()
	})
}

// warn logs a line that peers can cause at will, as often as s lets it through.
func (cl *Client) warn(s *sampler, msg string, args ...any) {
	if ok, held := s.allow(cl.now()); ok {
		cl.log.Warn(msg, append(args, "held_back", held)...)
	}
}

// late counts a response that nobody waits for, and logs it unless the server has given the call up. On the loop.
func (cl *Client) late(w *wire, id uint64, status frame.Status) {
	cl.stats.late.Add(1)
	w.told.responseLate(id, status)
	if status == frame.StatusCancelled || status == frame.StatusDeadlineExceeded {
		return // the server has given the call up, too
	}
	cl.warn(&cl.logs.late, "rpc: a response came after its call had ended", "peer", w.link.peer.addr, "id", id, "status", status.String())
}

// sampler lets through one line a second and counts the rest.
type sampler struct {
	last atomic.Int64 // time of the last line, plus one; 0 = none yet
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
