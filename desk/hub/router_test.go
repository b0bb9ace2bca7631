package hub

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// model follows a burst by the outcomes, which come one at a time in the order of commits.
type model struct {
	mu       sync.Mutex
	queue    map[string]store.Conversation
	active   map[string]int
	capacity int
	served   int
	wrong    []string
	given    map[string]chan string // by agent
}

func (m *model) outcome(out store.Outcome) {
	if out.Err != nil || out.Dup || len(out.Events) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range out.Events {
		if e.Change == nil {
			continue
		}
		if e.Change.Was.Kind == store.Agent {
			m.active[e.Change.Was.ID]--
		}
		delete(m.queue, out.Conv.ID)
		switch e.Change.State {
		case store.Queued:
			m.queue[out.Conv.ID] = out.Conv
		case store.Assigned:
			agent := e.Change.Owner.ID
			m.served++
			if m.active[agent]++; m.active[agent] > m.capacity {
				m.wrong = append(m.wrong, fmt.Sprintf("%s has %d", agent, m.active[agent]))
			}
			for _, c := range m.queue {
				if c.CompareQueue(&out.Conv) < 0 {
					m.wrong = append(m.wrong, fmt.Sprintf("%s has been passed over for %s", c.ID, out.Conv.ID))
				}
			}
			m.given[agent] <- out.Conv.ID
		}
	}
}

// Customers, usually 200, enter at once while ten agents with a capacity of five serve: no capacity is exceeded, nobody is
// passed over, everybody is served.
func TestRouterBurst(t *testing.T) {
	customers := 200
	if testing.Short() {
		customers = 60
	}
	const agents, capacity = 10, 5
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	m := &model{queue: make(map[string]store.Conversation), active: make(map[string]int), capacity: capacity, given: make(map[string]chan string)}
	var clients []*desktest.Client
	for i := range agents {
		c := r.on(fmt.Sprint("agent", i), capacity)
		m.given[c.Me().ID] = make(chan string, customers)
		clients = append(clients, c)
	}
	r.fault.watch(m.outcome)
	contacts := make([]store.Contact, customers)
	for i := range contacts {
		token := store.Token{byte(i), byte(i >> 8), 7}
		c, err := r.db.CreateVisitor(r.ctx, r.site, token, time.Now().Add(time.Hour))
		r.ok(err)
		contacts[i] = c
	}
	var all sync.WaitGroup
	for _, part := range [][]store.Contact{contacts[:customers/2], contacts[customers/2:]} {
		all.Go(func() {
			for _, c := range part {
				r.hub.execute("contact "+c.ID, store.Open{Contact: c, Human: true}, func(out store.Outcome) {
					if out.Err != nil {
						t.Error(out.Err)
					}
				}, func(e *proto.Error) { t.Error(e) })
			}
		})
	}
	all.Wait()
	quit := make(chan struct{})
	for _, c := range clients {
		all.Go(func() {
			for {
				select {
				case conv := <-m.given[c.Me().ID]:
					if f, err := c.Do(r.ctx, "conv.close", conv, proto.Close{Reason: "done"}); err != nil || code(f) != "" {
						t.Errorf("%v %s", err, f.D)
						return
					}
				case <-quit:
					return
				}
			}
		})
	}
	r.waitFor("everybody to be served", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.served == customers || len(m.wrong) > 0 || t.Failed()
	})
	close(quit)
	all.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.wrong) > 0 || m.served != customers {
		t.Fatalf("%d of %d served; wrong: %.10q", m.served, customers, m.wrong)
	}
	r.waitFor("the outcomes to reach the router, which counts them", func() bool { return int(r.hub.Counters.Routed.Load()) >= customers })
	if n := r.hub.Counters.Routed.Load(); int(n) != customers {
		t.Errorf("%d assignments counted, %d customers", n, customers)
	}
}

// Nobody has to do anything for the next one to be served: each trigger wakes the router.
func TestRouterTriggers(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	_, first := r.waiting()
	r.still(first, store.Queued) // nobody is there
	lin := r.on("lin", 1)
	r.belongs(first, lin) // an agent has come
	_, second := r.waiting()
	r.still(second, store.Queued) // it is full
	r.ok(lin.EndConv(r.ctx, first, "done"))
	r.belongs(second, lin) // room has been made
	_, third := r.waiting()
	moe := r.agentClient(r.staff("moe", 5, perm.Agent))
	r.ok(moe.Connected(r.ctx))
	r.belongs(third, moe) // a new agent, who was put into the group
	r.status(moe, store.Online, false)
	_, fourth := r.waiting()
	r.still(fourth, store.Queued)
	r.status(moe, store.Busy, true)
	r.still(fourth, store.Queued)
	r.status(moe, store.Online, true)
	r.belongs(fourth, moe) // it accepts again
	r.status(moe, store.Away, true)
	ann := r.customer()
	conv := r.open(ann, "bot")
	if got := r.do(ann, "conv.handoff", conv, proto.Handoff{Reason: "please"}); got != "" {
		t.Fatal(got)
	}
	r.still(conv, store.Queued)
	kim := r.agentClient(r.account("kim", 5)) // not in the group
	r.ok(kim.Connected(r.ctx))
	ada := r.staff("ada", 5, perm.Auditor) // in it, but does not serve
	r.ok(r.agentClient(ada).Connected(r.ctx))
	r.still(conv, store.Queued)
	r.ok(r.db.AddMember(r.ctx, r.group.ID, kim.Me().ID))
	r.belongs(conv, kim) // the group has changed
}

func TestRouterStrategies(t *testing.T) {
	t.Run("least busy", func(t *testing.T) {
		r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
		small, big := r.on("small", 2), r.on("big", 8)
		var convs []string
		got := ""
		for range 6 {
			_, conv := r.waiting()
			owner := r.became(conv, store.Assigned).Owner.Name
			got += owner[:1]
			convs = append(convs, conv)
			r.clock.advance(time.Second)
		}
		// of equal loads the one that has waited longest: small was made first
		if got != "sbbbbs" {
			t.Errorf("given to %s", got)
		}
		_, _, _ = small, big, convs
	})
	t.Run("round robin", func(t *testing.T) {
		r := newRouteRig(t, store.GroupSettings{Strategy: store.RoundRobin}, store.SiteSettings{})
		r.on("a", 9)
		r.on("b", 2)
		r.on("c", 9)
		got := ""
		for range 8 {
			_, conv := r.waiting()
			got += r.became(conv, store.Assigned).Owner.Name
			r.clock.advance(time.Second)
		}
		if got != "abcabcac" {
			t.Errorf("given to %s", got)
		}
	})
	t.Run("manual", func(t *testing.T) {
		r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
		lin := r.on("lin", 9)
		_, conv := r.waiting()
		r.still(conv, store.Queued)
		r.ok(lin.Take(r.ctx, conv))
	})
	t.Run("sticky for a day", func(t *testing.T) {
		r := newRouteRig(t, store.GroupSettings{Strategy: store.Sticky, StickyDays: 1}, store.SiteSettings{IdleChat: 30 * 24 * 3600_000})
		lin, moe := r.on("lin", 9), r.on("moe", 9)
		r.status(moe, store.Busy, true)
		ann, conv := r.waiting()
		r.belongs(conv, lin)
		r.ok(ann.EndConv(r.ctx, conv, "enough"))
		_, other := r.waiting()
		r.belongs(other, lin)
		r.status(moe, store.Online, true)
		conv = r.open(ann, "human")
		r.belongs(conv, lin)
		r.ok(ann.EndConv(r.ctx, conv, "enough"))
		r.pass(25 * time.Hour)
		r.belongs(r.open(ann, "human"), moe) // who has less to do
	})
	t.Run("sticky", func(t *testing.T) {
		r := newRouteRig(t, store.GroupSettings{Strategy: store.Sticky, StickyDays: 1, StickyWait: 60_000}, store.SiteSettings{})
		lin := r.on("lin", 1)
		ann, conv := r.waiting()
		r.belongs(conv, lin)
		r.ok(lin.EndConv(r.ctx, conv, "done"))
		moe := r.on("moe", 9)
		r.clock.advance(25 * time.Minute) // the reopen window is a day: open anew by another way
		conv = r.open(ann, "human")
		r.belongs(conv, lin) // though moe has waited longer
		r.ok(ann.EndConv(r.ctx, conv, "enough"))
		_, other := r.waiting()
		r.became(other, store.Assigned)
		if r.conv(other).Owner.ID != lin.Me().ID {
			r.ok(lin.Take(r.ctx, r.closed(moe, other)))
		}
		conv = r.open(ann, "human")
		r.still(conv, store.Queued) // lin is full, and waited for
		r.pass(59 * time.Second)
		r.still(conv, store.Queued)
		r.pass(time.Second)
		r.belongs(conv, moe)
		r.ok(moe.EndConv(r.ctx, conv, "done"))
		ben, bens := r.waiting()
		r.belongs(bens, moe)
		r.ok(moe.EndConv(r.ctx, bens, "done"))
		moe.Close()
		kim := r.on("kim", 9)
		bens = r.open(ben, "human")
		r.belongs(bens, kim) // moe is gone: not waited for
	})
}

// closed ends a conversation and opens one of another customer, which waits.
func (r *routeRig) closed(by *desktest.Client, conv string) string {
	r.t.Helper()
	r.ok(by.EndConv(r.ctx, conv, "done"))
	_, next := r.waiting()
	return next
}

// A reopened conversation goes to the agent that had it if that can have it, whoever else has less to do.
func TestRouterReopenedGoesBack(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	lin, moe := r.on("lin", 3), r.on("moe", 3)
	r.status(moe, store.Busy, true)
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	_, more := r.waiting()
	r.belongs(more, lin)
	r.status(moe, store.Online, true)
	r.ok(ann.EndConv(r.ctx, conv, "enough"))
	r.clock.advance(time.Second)
	r.say(ann, conv, "one thing more")
	r.belongs(conv, lin)
	r.ok(ann.EndConv(r.ctx, conv, "enough"))
	r.status(lin, store.Busy, true)
	r.say(ann, conv, "and another one")
	r.belongs(conv, moe)
}

// A reopened conversation is in front of those that came before it.
func TestRouterReopenedFirst(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	lin, moe := r.on("lin", 1), r.on("moe", 1)
	ann, conv := r.waiting()
	owner := r.became(conv, store.Assigned).Owner
	r.say(ann, conv, "hello")
	_, second := r.waiting()
	r.became(second, store.Assigned)
	r.ok(ann.EndConv(r.ctx, conv, "enough"))
	r.status(lin, store.Busy, true)
	r.status(moe, store.Busy, true)
	_, third := r.waiting()
	r.clock.advance(time.Second)
	r.say(ann, conv, "one thing more")
	if c := r.became(conv, store.Queued); c.Priority != store.PriorityReopened {
		t.Fatalf("%+v", c)
	}
	back := lin
	if owner.ID == moe.Me().ID {
		back = moe
	}
	r.status(back, store.Online, true)
	r.belongs(conv, back)
	r.still(third, store.Queued)
}

// What the store refuses is offered to the next one; what it cannot do now is tried again later, not again and again.
func TestRouterAndTheStore(t *testing.T) {
	t.Run("capacity", func(t *testing.T) {
		r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
		lin, moe := r.on("lin", 5), r.on("moe", 5)
		full := lin.Me().ID
		r.fault.set(func(cmd store.Command, pass func(), fail func(error)) {
			if m, ok := cmd.(store.Move); ok && m.Trigger == store.Assign && m.To == full {
				fail(store.ErrCapacity) // as if the directory were wrong
				return
			}
			pass()
		})
		_, conv := r.waiting()
		r.belongs(conv, moe)
	})
	for name, failure := range map[string]error{"unavailable": store.ErrUnavailable, "busy": store.ErrBusy} {
		t.Run(name, func(t *testing.T) {
			r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
			lin := r.on("lin", 5)
			var mu sync.Mutex
			attempts := 0
			tried := func() int {
				mu.Lock()
				defer mu.Unlock()
				return attempts
			}
			r.fault.set(func(cmd store.Command, pass func(), fail func(error)) {
				if m, ok := cmd.(store.Move); ok && m.Trigger == store.Assign {
					mu.Lock()
					attempts++
					mu.Unlock()
					fail(failure)
					return
				}
				pass()
			})
			_, conv := r.waiting()
			r.waitFor("the first attempt", func() bool { return tried() == 1 })
			for i := range 5 {
				for range 20 {
					r.hub.router.wake() // triggers do not help
				}
				r.waiting()
				if n := tried(); n != i+1 {
					t.Fatalf("%d attempts, the clock stood still after %d", n, i+1)
				}
				r.waitFor("the router to wait", func() bool { r.clock.mu.Lock(); defer r.clock.mu.Unlock(); return len(r.clock.alarms) > 0 })
				r.clock.advance(routePause << i)
				r.waitFor("the next attempt", func() bool { return tried() == i+2 })
			}
			r.fault.set(nil)
			r.waitFor("the conversation to be given", func() bool {
				r.clock.advance(time.Second)
				return r.conv(conv).Owner.ID == lin.Me().ID
			})
			if n := r.hub.Counters.RouterRetries.Load(); n < 6 {
				t.Errorf("%d retries counted", n)
			}
		})
	}
	t.Run("late", func(t *testing.T) {
		r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
		lin, moe := r.on("lin", 5), r.on("moe", 5)
		r.fault.set(func(cmd store.Command, pass func(), fail func(error)) {
			if m, ok := cmd.(store.Move); ok && m.Trigger == store.Assign {
				fail(store.ErrUnavailable) // the outcome is not known in time, but it is committed
			}
			pass()
		})
		_, conv := r.waiting()
		first := r.became(conv, store.Assigned)
		r.waitFor("the router to wait", func() bool { r.clock.mu.Lock(); defer r.clock.mu.Unlock(); return len(r.clock.alarms) > 0 })
		r.fault.set(nil)
		r.clock.advance(time.Minute)
		r.still(conv, store.Assigned)
		given, err := r.db.Cold().Assignments(r.ctx, conv)
		r.ok(err)
		if len(given) != 1 || r.hub.Counters.Routed.Load() != 0 {
			t.Errorf("given to %+v", given)
		}
		owner, other := lin, moe
		if first.Owner.ID == moe.Me().ID {
			owner, other = moe, lin
		}
		r.event(owner, conv, change("assigned"))
		if len(other.View(conv)) != 0 {
			t.Error("the other agent is told, too")
		}
	})
	t.Run("surprise", func(t *testing.T) {
		r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
		lin := r.on("lin", 5)
		bad := make(chan string, 1)
		r.fault.set(func(cmd store.Command, pass func(), fail func(error)) {
			if m, ok := cmd.(store.Move); ok && m.Trigger == store.Assign {
				select {
				case bad <- m.Conv:
				default:
				}
				if len(bad) > 0 {
					id := <-bad
					bad <- id
					if id == m.Conv {
						fail(errInjected)
						return
					}
				}
			}
			pass()
		})
		_, first := r.waiting()
		_, second := r.waiting()
		r.belongs(second, lin) // one that cannot be given does not hold up the others
		r.fault.set(nil)
		r.pass(actionRetry)
		r.belongs(first, lin)
	})
}

// The counters of agents are compared with their conversations each minute.
func TestRouterReconciles(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	start := r.fault.reconciles()
	if start != 1 {
		t.Fatalf("%d times at the start", start)
	}
	r.pass(59 * time.Second)
	if n := r.fault.reconciles(); n != 1 {
		t.Fatalf("%d times before the minute", n)
	}
	r.pass(time.Second)
	r.waitFor("the next comparison", func() bool { return r.fault.reconciles() == 2 })
	r.turned()
	r.pass(time.Minute)
	r.waitFor("the next comparison", func() bool { return r.fault.reconciles() == 3 })
}
