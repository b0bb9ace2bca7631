package rpc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/rpc/balance"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/internal/payload"
	"github.com/go-eddy/eddy/rpc/internal/pending"
	"github.com/go-eddy/eddy/rpc/internal/retry"
)

// The defaults of ClientOptions.
const (
	DefaultTimeout     = time.Second // as in Dubbo
	DefaultMaxPending  = 16384
	DefaultMaxQueued   = 8 << 20
	DefaultMaxWaiting  = 64 << 20
	DefaultHeartbeat   = 60 * time.Second // as in Dubbo
	DefaultDialTimeout = 3 * time.Second  // as in Dubbo
	DefaultCallbacks   = 32               // workers of a callback pool
)

// ClientOptions say how a Client calls. Addrs or Resolver is required.
type ClientOptions struct {
	Addrs        []string           // host:port each
	Resolver     discovery.Resolver // where the servers are, in place of Addrs. No answer of it makes calls fail that could be made
	ConnsPerAddr int                // connections to each address; 0 = 1

	Balance balance.Options // which address a call goes to, and which are left out because they fail; the zero value takes them in turn
	// Attempts make calls of Invoke again that have failed, and late ones a second time; the zero value makes each once. Whatever it says, a request that
	// was certainly not executed because its connection went, or its server drains, is made on another connection.
	Attempts balance.Attempts
	// Idempotent says which methods may be executed more than once for a call, beside those called with the option Idempotent. nil = none.
	Idempotent func(key Key, method string) bool
	// Health asks each server every so often whether it serves HealthService, a key, or at all if that is empty. One that says no takes no calls as long as
	// another one does. 0 = never
	Health        time.Duration
	HealthService string

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

	// Secure adds to p the handlers that speak TLS to the server at a host; tlsx.Secure makes such a function. Secure runs on
	// the loop. ready must be called once, on the loop, with the outcome of the handshake: calls wait for it, and DialTimeout
	// bounds it. nil = no TLS.
	Secure func(p *eddy.Pipeline, host string, ready func(error)) error
	// Front adds handlers between those of Secure and the protocol's, for servers that speak another one. Front runs on the
	// loop. nil adds none.
	Front func(p *eddy.Pipeline) error

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

// complete validates the options and fills in the defaults.
func (o *ClientOptions) complete() error {
	switch {
	case o.Resolver == nil && len(o.Addrs) == 0:
		return errors.New("rpc: ClientOptions.Addrs and Resolver are empty: one of them must say where the servers are")
	case o.Resolver != nil && len(o.Addrs) > 0:
		return errors.New("rpc: ClientOptions.Addrs and Resolver are both set: want one of them")
	}
	if err := discovery.Check(discovery.Addrs(o.Addrs...)); err != nil {
		return fmt.Errorf("rpc: ClientOptions.Addrs: %w", err)
	}
	o.ConnsPerAddr = cmp.Or(o.ConnsPerAddr, 1)
	o.MaxPending = cmp.Or(o.MaxPending, DefaultMaxPending)
	o.MaxQueued = cmp.Or(o.MaxQueued, DefaultMaxQueued)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, max(DefaultMaxWaiting, o.MaxQueued))
	o.MaxAsync = cmp.Or(o.MaxAsync, o.MaxPending)
	o.MaxPayload = cmp.Or(o.MaxPayload, frame.DefaultMaxPayload)
	for _, f := range []struct {
		name      string
		v, lo, hi int
	}{
		{"ConnsPerAddr", o.ConnsPerAddr, 1, 1024}, {"MaxPending", o.MaxPending, 1, pending.MaxSlots}, {"MaxQueued", o.MaxQueued, 1, 1 << 30}, {"MaxWaiting", o.MaxWaiting, 1, 1 << 30}, {"MaxAsync", o.MaxAsync, 1, pending.MaxSlots},
		{"MaxPayload", o.MaxPayload, payload.PrefixFixed, 1<<28 - 1}, {"Codec", int(o.Codec), 0, int(codecs) - 1}, {"Consumer", int(o.Consumer), 0, int(consumers) - 1},
	} {
		if f.v < f.lo || f.v > f.hi {
			return fmt.Errorf("rpc: ClientOptions.%s is %d: it must be from %d to %d", f.name, f.v, f.lo, f.hi)
		}
	}
	if err := o.Dispatcher.check("ClientOptions.Dispatcher"); err != nil {
		return err
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.Heartbeat = cmp.Or(o.Heartbeat, DefaultHeartbeat)
	if o.DialTimeout < 0 || o.Health < 0 {
		return fmt.Errorf("rpc: ClientOptions.DialTimeout is %v, Health %v: they must not be negative", o.DialTimeout, o.Health)
	}
	var err error
	if o.Backoff, err = o.Backoff.withDefaults(); err != nil {
		return err
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Rand == nil {
		o.Rand = defaultRand
	}
	return nil
}

// defaultRand is the source of jitter.
func defaultRand() float64 { return rand.Float64() }

// Backoff is how long a client waits between attempts to connect to an address. The pause is Min after the first failure
// and twice as long after each further one, up to Max. Each pause is up to Jitter of it longer or shorter, so that
// clients do not come back to a server all at once. A connection on which the server has answered, or that has lasted for
// Max, begins anew.
type Backoff struct {
	Min    time.Duration // 0 = 100 ms
	Max    time.Duration // 0 = 10 s
	Jitter float64       // 0 = 0.2, negative = none, 1 at most
}

func (b Backoff) withDefaults() (Backoff, error) {
	b.Min, b.Max = cmp.Or(b.Min, 100*time.Millisecond), cmp.Or(b.Max, 10*time.Second)
	switch {
	case b.Jitter == 0:
		b.Jitter = 0.2
	case b.Jitter < 0:
		b.Jitter = 0
	}
	if b.Min < 0 || b.Max < b.Min || b.Jitter > 1 {
		return b, fmt.Errorf("rpc: ClientOptions.Backoff is Min %v, Max %v, Jitter %v: they must satisfy 0 < Min <= Max and Jitter <= 1", b.Min, b.Max, b.Jitter)
	}
	return b, nil
}

// schedule returns the pauses of something that is tried again and again.
func (b Backoff) schedule(random func() float64) retry.Schedule {
	return retry.Schedule{Min: b.Min, Max: b.Max, Jitter: b.Jitter, Random: random}
}
