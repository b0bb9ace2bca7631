package rpc

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-eddy/eddy/executor"
)

// consumer runs what follows the end of calls with a Future. At most ClientOptions.MaxAsync of them have not ended, so that the list of
// those that wait for room in the pool is bounded, too: the pool's queue may be full, the loop is not blocked, no response is lost, and who
// wants more calls is told ErrClientFull.
type consumer struct {
	client *Client
	pool   *callbackPool
	own    bool
	onLoop bool // everything stays on the loop
	async  atomic.Int64
	looped atomic.Int32 // callbacks that run on loops now
}

func (cl *Client) startConsumer() error {
	k := &cl.consumer
	k.client = cl
	k.onLoop = cl.o.Dispatcher.Place(EventAsyncResponse, ClientSide) == PlaceLoop
	if cl.o.CallbackPool != nil {
		k.pool = newCallbackPool(cl, cl.o.CallbackPool)
		return nil
	}
	var err error
	k.own = true
	k.pool, err = ownCallbackPool(cl, "rpc-callbacks")
	return err
}

// stopConsumer waits for the callbacks. Nothing ends any more that could bring others.
func (cl *Client) stopConsumer() {
	<-cl.idle
	if cl.consumer.own {
		_, _ = cl.consumer.pool.pool.Shutdown(context.Background()) // nothing is left in it
	}
	cl.servicing.Lock()
	defer cl.servicing.Unlock()
	for _, s := range *cl.services.Load() {
		if s.pool != nil {
			_, _ = s.pool.pool.Shutdown(context.Background())
		}
	}
}

// onWorker reports whether the caller runs on a pool that Close would wait for.
func (k *consumer) onWorker() bool {
	if k.pool.pool.OnWorker() {
		return true
	}
	for _, s := range *k.client.services.Load() {
		if s.pool != nil && s.pool.pool.OnWorker() {
			return true
		}
	}
	return false
}

// enter counts a call with a Future, if there is room for one.
func (k *consumer) enter() error {
	limit := k.client.o.MaxAsync
	n := k.async.Add(1)
	if n <= int64(limit) {
		return nil
	}
	k.async.Add(-1)
	k.client.stats.full.Add(1)
	return &limitError{kind: ErrClientFull, what: "calls with a Future have not ended", n: int(n - 1), limit: limit, option: "MaxAsync"}
}

// consume ends a call with a Future: decodes its response where the dispatcher says, completes the Future there and
// calls its functions.
func (cl *Client) consume(c *call) {
	k := &cl.consumer
	switch {
	case !k.onLoop:
		pool := k.pool
		if c.service.pool != nil {
			pool = c.service.pool
		}
		c.future.pool = pool
		pool.submit(c)
	case c.onLoop:
		k.runOnLoop(c)
	default: // it ends elsewhere, with an error
		k.toLoop(c)
	}
}

// toLoop runs r on a loop, or on the pool if there is none any more.
func (k *consumer) toLoop(r executor.Runner) {
	if k.client.group.Loop(0).Post(func() { k.runOnLoop(r) }) != nil {
		k.pool.submit(r)
	}
}

func (k *consumer) runOnLoop(r executor.Runner) {
	k.looped.Add(1)
	defer k.looped.Add(-1)
	r.Run()
}

// run calls a function of the user's. A panic in it is contained.
func (k *consumer) run(f func()) {
	defer func() {
		if v := recover(); v != nil {
			k.client.stats.callbackPanics.Add(1)
			if ok, held := k.client.logs.callbacks.allow(k.client.now()); ok {
				k.client.log.Error("rpc: panic in a callback", "panic", v, "held_back", held, "stack", string(debug.Stack()))
			}
		}
	}()
	f()
}

// Run implements executor.Runner: it decodes the response on a pool, for a Future or for the caller.
func (c *call) Run() {
	if c.future != nil {
		c.future.finish(c)
		return
	}
	c.err = c.safeResult()
	c.failed = true // c.err is the end, nil for success
	c.ready <- struct{}{}
}

// safeResult is result that turns a panic of the value's own decoder into an error.
func (c *call) safeResult() (err error) {
	defer func() {
		if v := recover(); v != nil {
			text := fmt.Sprintf("decoding the response: panic: %v", v)
			err = c.error(&causeError{kinds: kindsResponse, text: text}, ExecutedMaybe)
		}
	}()
	return c.result()
}

// remoteService is what a client knows of a service.
type remoteService struct {
	name string
	pool *callbackPool // of DedicatedPool, the older model, else nil
}

// maxServices is how many services a client remembers. Names of others are made anew for each call, and in DedicatedPool
// such calls are decoded by their callers.
const maxServices = 4096

// service returns what is known of a service. The error says what is wrong with the key.
func (cl *Client) service(key Key) (*remoteService, error) {
	if s := (*cl.services.Load())[key]; s != nil {
		return s, nil
	}
	if err := key.Validate(); err != nil {
		return nil, encodeError{err}
	}
	cl.servicing.Lock()
	defer cl.servicing.Unlock()
	old := *cl.services.Load()
	if s := old[key]; s != nil {
		return s, nil
	}
	s := &remoteService{name: key.String()}
	if len(old) >= maxServices || cl.closing.Load() {
		return s, nil
	}
	if cl.o.Consumer == DedicatedPool {
		pool, err := ownCallbackPool(cl, "rpc-consumer "+s.name)
		if err != nil {
			return nil, err
		}
		s.pool = pool
	}
	services := maps.Clone(old)
	services[key] = s
	cl.services.Store(&services)
	return s, nil
}
