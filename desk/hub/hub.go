package hub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/trace"
)

// Hub connects sessions, lanes and store. Any goroutine may call its methods unless they say otherwise.
type Hub struct {
	o        Options
	Counters Counters

	lanePool     *executor.Pool // conversation commands: never block
	customerPool *executor.Pool // reads of customers
	agentPool    *executor.Pool // operations of staff
	botPool      *executor.Pool // bot turns
	lanes        *executor.Keyed[string]
	customers    *executor.Keyed[*Session]
	bots         *executor.Keyed[string]
	staff        *gate
	botStaff     *botStaff
	turns        turns

	chats chats    // new conversations by network
	crowd comeback // clients that are told to come again later

	draining atomic.Bool
	rechecks rechecks
	ticker   *positions
	receipts *receipts
	feed     *feed
	peers    *peers
	lags     store.Latencies // of parts of the feed that other servers have committed
	router   *router

	mu       sync.Mutex
	sessions sessions
	queue    queue
}

// New returns a hub; Start makes it ready.
func New(o Options) (*Hub, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	h := &Hub{o: o, sessions: newSessions()}
	l := &h.o.Limits
	var errs [4]error
	h.lanePool, errs[0] = h.pool("conversation", l.LaneWorkers, l.LaneTotal)
	h.customerPool, errs[1] = h.pool("customer", l.CustomerWorkers, customerTotal)
	h.agentPool, errs[2] = h.pool("agent", l.AgentWorkers, agentPoolQueue)
	h.botPool, errs[3] = h.pool("bot", botWorkers, botTotal)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	h.lanes = executor.NewKeyed[string](h.lanePool, l.LanePending, l.LaneTotal)
	h.customers = executor.NewKeyed[*Session](h.customerPool, customerPending, customerTotal)
	h.bots = executor.NewKeyed[string](h.botPool, botPending, botTotal)
	h.staff = newGate(h.agentPool, l.AgentRunning, l.AgentWaiting)
	h.botStaff = newBotStaff(h)
	h.turns.open = make(map[string]*turn)
	h.ticker = newPositions(h, l.QueueEvery)
	h.receipts = newReceipts(h)
	h.feed = newFeed(h)
	h.peers = newPeers(h)
	h.chats.warn.Interval, h.chats.shared = time.Minute, o.Shared
	h.router = newRouter(h)
	h.queue = newQueue(h)
	h.queue.here.node = o.Store.Node()
	return h, nil
}

func (h *Hub) pool(name string, workers, queue int) (*executor.Pool, error) {
	return executor.NewFixed(executor.Options{Name: name, Workers: workers, Queue: queue, Dumper: h.o.Dumper, Logger: h.o.Logger, OnPanic: func(v any, stack []byte) {
		h.o.Logger.Error("desk: panic in a pool", "pool", name, "panic", v, "stack", string(stack))
	}})
}

// Start reads the open conversations and lets bots answer what a crash has left unanswered. Call it once, before the
// first session.
func (h *Hub) Start(ctx context.Context) error {
	h.feed.follow()
	err := h.peers.start()
	if err == nil {
		err = h.beat(ctx)
	}
	if err == nil {
		err = h.begin(ctx)
	}
	if err != nil {
		h.feed.close()
		h.peers.stop()
		return err
	}
	h.feed.start()
	if h.queue.here.node != "" {
		h.feed.done.Go(func() { h.pulse(h.feed.ctx) })
	}
	return nil
}

func (h *Hub) begin(ctx context.Context) error {
	if wrong, err := h.o.Store.Reconcile(ctx); err != nil {
		return fmt.Errorf("hub: comparing the agents' counters: %w", err)
	} else if wrong > 0 {
		h.o.Logger.Warn("desk: counters of agents were wrong and have been set", "agents", wrong)
	}
	open, err := h.o.Store.Cold().OpenConversations(ctx)
	if err != nil {
		return fmt.Errorf("hub: reading the open conversations: %w", err)
	}
	pending, err := h.o.Store.Cold().BotPending(ctx)
	if err != nil {
		return fmt.Errorf("hub: reading unanswered bot turns: %w", err)
	}
	if err := h.receipts.start(ctx, open); err != nil {
		return fmt.Errorf("hub: reading what has been read: %w", err)
	}
	h.receipts.show(open)
	staff, err := readStaff(ctx, h.o.Store.Cold())
	if err != nil {
		return fmt.Errorf("hub: reading the staff: %w", err)
	}
	there, err := h.presences(ctx)
	if err != nil {
		return err
	}
	offers, err := h.o.Store.Cold().Offers(ctx)
	if err != nil {
		return fmt.Errorf("hub: reading what is offered: %w", err)
	}
	h.mu.Lock()
	h.queue.begin(open, staff, there)
	h.queue.offersAre(offers)
	h.mu.Unlock()
	h.ticker.start()
	h.router.start()
	for _, p := range pending {
		h.startTurn(p)
	}
	for i := range open {
		if open[i].Blocked {
			h.blockMove(store.Move{Conv: open[i].ID, Trigger: store.Block, By: store.Actor{Kind: store.System, Name: "system"}}, 1)
		}
	}
	return nil
}

// maxLate is how long parts of the feed may be missing before a server says that it is not ready: its clients see what was.
const maxLate = 10 * time.Second

// Ready returns nil while the hub knows what other servers commit.
func (h *Hub) Ready() error {
	h.feed.mu.Lock()
	late := h.feed.late
	h.feed.mu.Unlock()
	if d := h.o.Now().Sub(late); !late.IsZero() && d > maxLate {
		return fmt.Errorf("hub: what was committed %.0f seconds ago has not been read yet", d.Seconds())
	}
	return nil
}

// Lags returns how long it took until this server knew what others had committed.
func (h *Hub) Lags() store.Latency { return h.lags.Load() }

// PoolStats are the numbers of the hub's pools.
type PoolStats struct{ Conversation, Customer, Agent, Bot executor.Stats }

// PoolStats returns the numbers of the hub's pools.
func (h *Hub) PoolStats() PoolStats {
	return PoolStats{h.lanePool.Stats(), h.customerPool.Stats(), h.agentPool.Stats(), h.botPool.Stats()}
}

// Pools returns the hub's pools. Use them only to look at them.
func (h *Hub) Pools() []*executor.Pool {
	return []*executor.Pool{h.lanePool, h.customerPool, h.agentPool, h.botPool}
}

// Shutdown says goodbye to every session, lets running commands commit and be acknowledged, closes the sessions and
// stops the pools. If ctx ends first, it returns the error of ctx. The store stays open.
func (h *Hub) Shutdown(ctx context.Context) error {
	h.draining.Store(true)
	all := h.everySession()
	for _, s := range all {
		s.send(proto.Event("bye", "", 0, proto.Bye{RetryMS: comeBack(len(all)), Reason: "draining"}))
	}
	h.router.stop()
	h.stopTurns()
	bots := h.botStaff.close()
	_, err := h.lanePool.Shutdown(ctx)
	h.feed.close()
	h.peers.stop()
	for _, s := range h.everySession() {
		s.close(proto.CloseDraining, "draining")
	}
	h.ticker.stop()
	h.receipts.stop(ctx)
	errs := []error{err, bots}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.o.Limits.CommandAge)
	defer cancel()
	if err := h.o.Store.EndNode(ending); err != nil {
		h.o.Logger.Warn("desk: the other servers could not be told that this one ends, and notice it later", "err", err)
	}
	for _, p := range []*executor.Pool{h.botPool, h.customerPool, h.agentPool} {
		p.Close()
		_, err := p.Shutdown(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// comeBack returns when one of so many sessions is to connect again: any time within a stretch that grows with them.
func comeBack(sessions int) int64 {
	spread := min(max(time.Duration(sessions)*perSessionByes, time.Second), maxByeSpread)
	return proto.RetryMS(proto.MinRetry + rand.N(spread))
}

func (h *Hub) everySession() []*Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*Session, 0, len(h.sessions.all))
	for s := range h.sessions.all {
		all = append(all, s)
	}
	return all
}

// execute runs a command in a lane. answer is called with the outcome when the hub's memory has it, before anybody else is
// told. refuse is called instead if the command could not be run. Exactly one of them is called, once, on a goroutine of
// the store or of the feed.
func (h *Hub) execute(lane string, cmd store.Command, answer func(store.Outcome), refuse func(*proto.Error)) {
	deadline, r := time.Now().Add(h.o.Limits.CommandAge), requestOf(cmd)
	r.Enter(trace.QueueWait, "conversation")
	err := h.lanes.SubmitAsync(lane, func(done func()) {
		defer h.contain(done, refuse)
		if !time.Now().Before(deadline) {
			h.Counters.LaneRejects.Add(1)
			refuse(busy("this conversation is busy"))
			done()
			return
		}
		r.Enter(trace.QueueWait, "store")
		h.o.Store.Do(cmd, deadline, func(out store.Outcome) {
			r.Enter(trace.Hop, "")
			h.told(out, func(out store.Outcome) {
				defer done()
				answer(out)
			}, refuse)
		})
	})
	switch {
	case err == nil:
	case errors.Is(err, executor.ErrClosed):
		refuse(unavailable("the server is shutting down"))
	default:
		h.Counters.LaneRejects.Add(1)
		refuse(busy("too many commands are waiting"))
	}
}

// told answers the client that asked for an outcome. A late one has been answered; the feed has what it has changed.
func (h *Hub) told(out store.Outcome, answer func(store.Outcome), refuse func(*proto.Error)) {
	if out.Late {
		h.Counters.Late.Add(1)
		return
	}
	h.feed.after(out.Fed, func() {
		defer h.contain(nil, refuse)
		h.receipts.showOne(&out.Conv)
		answer(out)
	})
}

// contain keeps a panic inside its lane: it is logged and answered, and the lane goes on.
func (h *Hub) contain(done func(), refuse func(*proto.Error)) {
	v := recover()
	if v == nil {
		return
	}
	h.o.Logger.Error("desk: panic in the hub", "panic", v, "stack", string(debug.Stack()))
	refuse(&proto.Error{Code: proto.CodeInternal, Text: "something went wrong on our side"})
	if done != nil {
		done()
	}
}

func busy(text string) *proto.Error {
	return proto.Later(proto.CodeBusy, text, busyRetry+rand.N(busyRetry))
}

func unavailable(text string) *proto.Error {
	return proto.Later(proto.CodeUnavailable, text, unavailableRetry+rand.N(unavailableRetry))
}
