package hub

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// router gives waiting conversations to agents, one after the other, and keeps the timers. It owns one goroutine, which
// may wait for the store, because nobody waits for the router. Every change that may let a customer be served wakes it. Of
// several servers only one does what changes conversations.
type router struct {
	hub   *Hub
	kick  chan struct{} // holds one element when something has changed
	quit  chan struct{}
	ctx   context.Context // ends with quit
	end   context.CancelFunc
	done  sync.WaitGroup
	once  sync.Once
	stale atomic.Bool // accounts, groups or sites must be read again
	duty  atomic.Pointer[duty]

	// Used only by the router's goroutine.
	checked int64             // when the counters were compared last
	buried  int64             // when it was looked for dead servers last
	adopted []string          // bot turns of dead servers that are this one's, and not asked again yet
	failed  int               // failed attempts in a row
	cursor  map[string]string // by group: the agent that had the last turn
}

func newRouter(h *Hub) *router {
	r := &router{hub: h, kick: make(chan struct{}, 1), quit: make(chan struct{}), cursor: make(map[string]string)}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r
}

func (r *router) start() {
	r.checked = r.hub.o.Now().UnixMilli()
	if r.hub.queue.here.node == "" {
		r.duty.Store(&duty{ctx: r.ctx})
	} else {
		r.done.Go(func() { r.hub.o.Hold(r.ctx, r.lead) })
	}
	r.done.Go(r.run)
}

// duty is the work that one of several servers does.
type duty struct {
	ctx   context.Context
	lease store.Lease
}

// lead does this work until ctx ends. Nobody may have led for long, because of the database: then nobody could come back, either, so whoever is away has his grace anew.
func (r *router) lead(ctx context.Context) {
	h := r.hub
	h.mu.Lock()
	h.queue.since = h.o.Now().UnixMilli()
	h.mu.Unlock()
	r.duty.Store(&duty{ctx, store.LeaseOf(ctx)})
	r.wake()
	<-ctx.Done()
	r.duty.Store(nil)
}

func (r *router) stop() {
	r.once.Do(func() {
		close(r.quit)
		r.end()
	})
	r.done.Wait()
}

// wake asks for a turn soon. It never blocks.
func (r *router) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// reload makes the hub read accounts, groups, members and sites again, soon. It does not block.
func (h *Hub) reload() {
	h.router.stale.Store(true)
	h.router.wake()
}

func (r *router) run() {
	for {
		wait, deaf := r.turn()
		r.hub.Counters.RouterTurns.Add(1)
		fired, giveUp := r.hub.o.After(wait)
		kick := r.kick
		if deaf { // the store fails, and no trigger can change that
			kick = nil
		}
		select {
		case <-r.quit:
			giveUp()
			return
		case <-kick:
			giveUp()
		case <-fired:
		}
	}
}

// turn does what is due now. It returns how long nothing else is due, and whether triggers must wait that long, too.
func (r *router) turn() (wait time.Duration, deaf bool) {
	h, duty := r.hub, r.duty.Load()
	now := h.o.Now().UnixMilli()
	err := r.save()
	if err == nil {
		err = r.saveHere()
	}
	if err == nil {
		err = r.refresh(now, duty)
	}
	var due int64
	if duty != nil {
		due = earlier(h.fire(now, duty), h.expireOffers(now, duty))
		if err == nil {
			var bury int64
			bury, err = r.bury(now, duty)
			due = earlier(due, bury)
		}
	}
	due = earlier(due, h.tellAway(now))
	h.mu.Lock()
	due = earlier(due, h.queue.fade(now))
	h.mu.Unlock()
	due = earlier(due, h.checkTargets(now, duty != nil))
	h.ticker.wake()
	if err == nil {
		var leave int64
		leave, err = r.leave(now, duty)
		due = earlier(due, leave)
	}
	if err == nil && duty != nil {
		var sticky int64
		sticky, err = r.route(duty)
		due = earlier(due, sticky)
	}
	if errors.Is(err, store.ErrLeased) { // it is another server's work by now
		err = nil
	}
	if err != nil {
		if r.ctx.Err() == nil {
			h.Counters.RouterRetries.Add(1)
			h.o.Logger.Warn("desk: the router waits for the store", "err", err)
		}
		r.failed++
		return min(routePause<<min(r.failed-1, 10), routePauseMax), true
	}
	r.failed = 0
	due = earlier(due, r.checked+h.o.Limits.ReconcileEvery.Milliseconds())
	return time.Duration(max(due-h.o.Now().UnixMilli(), 0)) * time.Millisecond, false
}

// bounded returns a context for one call of the store.
func (r *router) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.ctx, r.hub.o.Limits.CommandAge)
}

// save stores what the connections of agents have changed.
func (r *router) save() error {
	h := r.hub
	type state struct {
		id string
		at int64
	}
	var all []state
	h.mu.Lock()
	for _, m := range h.queue.roster.members {
		if m.unsaved {
			m.unsaved = false
			all = append(all, state{m.ID, m.left})
		}
	}
	h.mu.Unlock()
	var failure error
	for _, s := range all {
		err := failure
		if err == nil {
			ctx, cancel := r.bounded()
			err = h.o.Store.SetGone(ctx, s.id, s.at)
			cancel()
		}
		if err == nil || errors.Is(err, store.ErrNotFound) {
			continue
		}
		failure = err
		h.mu.Lock()
		if m := h.queue.roster.members[s.id]; m != nil {
			m.unsaved = true
		}
		h.mu.Unlock()
	}
	return failure
}

// bury ends what dead servers have left, from time to time. It returns when it is to be called again, 0 = never.
func (r *router) bury(now int64, d *duty) (due int64, err error) {
	if d.lease.Token == 0 {
		return 0, nil
	}
	if due = r.buried + beatEvery.Milliseconds(); now < due {
		return due, nil
	}
	ctx, cancel := context.WithTimeout(d.ctx, r.hub.o.Limits.CommandAge)
	defer cancel()
	more, err := r.buryPart(ctx)
	if more { // customers are served between two parts
		return now, err
	}
	r.buried = now // also if it is another server's work by now
	return now + beatEvery.Milliseconds(), err
}

// refresh compares the counters with the conversations, which one of several servers does, and reads the staff again, from
// time to time or when asked to.
func (r *router) refresh(now int64, d *duty) error {
	h := r.hub
	late := now-r.checked >= h.o.Limits.ReconcileEvery.Milliseconds()
	if !late && !r.stale.Load() {
		return nil
	}
	r.stale.Store(false)
	ctx, cancel := r.bounded()
	defer cancel()
	if late && d != nil {
		wrong, err := h.o.Store.Reconcile(d.lease.Bind(ctx))
		if err != nil {
			r.stale.Store(true)
			return err
		}
		if wrong > 0 {
			h.Counters.Reconciled.Add(uint64(wrong))
			h.o.Logger.Warn("desk: counters of agents were wrong and have been set", "agents", wrong)
		}
	}
	if late {
		r.checked = now
	}
	h.mu.Lock()
	changes := h.queue.roster.changes
	h.mu.Unlock()
	data, err := readStaff(ctx, h.o.Store.Cold())
	if err != nil {
		r.stale.Store(true)
		return err
	}
	h.refreshed(data, changes)
	return nil
}

// refreshed takes over a reading of the staff, the groups and the sites.
func (h *Hub) refreshed(data staffData, changes uint64) {
	h.mu.Lock()
	if h.queue.roster.apply(data, changes) {
		h.queue.restaffed()
	}
	h.mu.Unlock()
	h.ticker.wake()
}

// round is what one call of route has learnt about assignments that are not possible.
type round struct {
	now    int64
	agents map[string]bool    // full, whatever the directory says
	convs  map[string]bool    // not as the directory says
	pairs  map[[2]string]bool // this agent may not have that conversation
	later  int64              // when an agent is ready, or a conversation has waited long enough for its last one; 0 = neither
}

// route assigns waiting conversations in order until nobody can be served. Each assignment is settled before the next
// one. It returns when it must be called again without a trigger, 0 = never.
func (r *router) route(d *duty) (again int64, err error) {
	h := r.hub
	seen := round{agents: make(map[string]bool), convs: make(map[string]bool), pairs: make(map[[2]string]bool)}
	for range routeBatch {
		h.mu.Lock()
		c, agent := r.next(&seen)
		h.mu.Unlock()
		if agent == "" {
			if len(seen.agents)+len(seen.convs)+len(seen.pairs) > 0 {
				seen.later = earlier(seen.later, h.o.Now().Add(actionRetry).UnixMilli())
			}
			return seen.later, nil
		}
		out := h.commit(r.quit, d.lease.Command(store.Move{Conv: c.ID, Trigger: store.Assign, By: system, To: agent, Rev: c.Rev}))
		switch {
		case out.Err == nil:
			h.Counters.Routed.Add(1)
		case errors.Is(out.Err, store.ErrCapacity):
			seen.agents[agent] = true
		case errors.Is(out.Err, store.ErrForbidden), errors.Is(out.Err, store.ErrNotFound):
			seen.pairs[[2]string{c.ID, agent}] = true
			r.stale.Store(true) // the groups have changed
		case errors.Is(out.Err, store.ErrConflict):
			seen.convs[c.ID] = true // the change has been published, or will be
		case errors.Is(out.Err, store.ErrUnavailable), errors.Is(out.Err, store.ErrBusy), errors.Is(out.Err, store.ErrStopped), errors.Is(out.Err, store.ErrLeased):
			return 0, out.Err
		default:
			h.o.Logger.Error("desk: an assignment failed", "conversation", c.ID, "agent", agent, "err", out.Err)
			seen.convs[c.ID] = true
		}
	}
	return h.o.Now().UnixMilli(), nil // there may be more to do, after everything else
}

// commit runs a command outside the lanes and waits for its outcome, which the hub's memory has by then.
func (h *Hub) commit(quit <-chan struct{}, cmd store.Command) store.Outcome {
	result := make(chan store.Outcome, 1)
	h.o.Store.Do(cmd, time.Now().Add(h.o.Limits.CommandAge), func(out store.Outcome) {
		h.told(out, func(out store.Outcome) { result <- out }, func(*proto.Error) {})
	})
	select {
	case out := <-result:
		return out
	case <-quit:
		return store.Outcome{Err: store.ErrStopped}
	}
}
