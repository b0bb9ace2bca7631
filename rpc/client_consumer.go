package rpc

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/rpc/internal/parking"
)

// consumer ends calls with a Future: it decodes responses and runs callbacks. At most ClientOptions.MaxAsync such calls
// have not ended, which also bounds the list of tasks that wait for room in the pool. So a full pool neither blocks the
// loop nor loses a response, and further calls end with ErrClientFull.
type consumer struct {
	client *Client
	pool   *parking.Lot
	onLoop bool // Futures end on a loop
	async  atomic.Int64
	looped atomic.Int32 // callbacks that run on loops now
}

func (cl *Client) startConsumer() error {
	k := &cl.consumer
	k.client = cl
	k.onLoop = cl.o.Dispatcher.Place(EventAsyncResponse, ClientSide) == PlaceLoop
	if cl.o.CallbackPool != nil {
		k.pool = parking.New(cl.o.CallbackPool, &cl.stats.parked)
		return nil
	}
	var err error
	k.pool, err = cl.newPool("rpc-callbacks")
	return err
}

// newPool returns a pool of the client's own that ends calls, with room for every call with a Future.
func (cl *Client) newPool(name string) (*parking.Lot, error) {
	pool, err := executor.NewFixed(executor.Options{Name: name, Workers: DefaultCallbacks, Queue: cl.o.MaxAsync, Logger: cl.o.Logger})
	if err != nil {
		return nil, err
	}
	cl.pools.Add(pool)
	return parking.New(pool, &cl.stats.parked), nil
}

// stopConsumer waits for the calls and their callbacks, and ends the client's own pools. No call may begin any more.
func (cl *Client) stopConsumer() {
	<-cl.life.idle
	cl.servicing.Lock()
	//lint:ignore SA2001 nothing is to be done under the lock: whoever was making a pool has added it.
	cl.servicing.Unlock()
	_ = cl.pools.End(context.Background()) // the only errors are for their own workers
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
	return &limitError{kind: ErrClientFull, what: "calls with a Future have not ended", n: int(n - 1), limit: limit, option: "ClientOptions.MaxAsync"}
}

// consume ends a call with a Future where the dispatcher says: it decodes, completes the Future and calls its functions.
func (cl *Client) consume(c *call) {
	k := &cl.consumer
	switch {
	case !k.onLoop:
		pool := k.pool
		if c.service.pool != nil {
			pool = c.service.pool
		}
		c.future.pool = pool
		pool.Submit(c)
	case c.onLoop:
		k.runOnLoop(c)
	default: // it ended off the loop, with an error
		k.toLoop(c)
	}
}

// toLoop runs r on a loop, or on the pool if the loop takes no task.
func (k *consumer) toLoop(r executor.Runner) {
	if k.client.group.Loop(0).Post(func() { k.runOnLoop(r) }) != nil {
		k.pool.Submit(r)
	}
}

func (k *consumer) runOnLoop(r executor.Runner) {
	k.looped.Add(1)
	defer k.looped.Add(-1)
	r.Run()
}

// run calls a function of the user and contains a panic in it.
func (k *consumer) run(f func()) {
	defer func() {
		if v := recover(); v != nil {
			k.client.stats.callbackPanics.Add(1)
			if ok, held := k.client.logs.callbacks.Allow(logInterval); ok {
				k.client.log.Error("rpc: panic in a callback", "panic", v, "held_back", held, "stack", string(debug.Stack()))
			}
		}
	}()
	f()
}

// Run implements executor.Runner: it ends the call of a Future, or decodes the response for a caller that waits.
func (c *call) Run() {
	if c.future != nil {
		c.future.finish(c)
		return
	}
	c.err = c.safeResult()
	c.failed = true // c.err is the end, nil for success
	c.ready <- struct{}{}
}

// safeResult is result with a panic of the value's own decoder turned into an error.
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
	pool *parking.Lot // of DedicatedPool, the older model, else nil
}

// maxServices is how many services a client remembers. The names of others are made anew for each call, and with
// DedicatedPool the callers decode the responses.
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
	if len(old) >= maxServices || cl.life.closing.Load() {
		return s, nil
	}
	if cl.o.Consumer == DedicatedPool {
		pool, err := cl.newPool("rpc-consumer " + s.name)
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
