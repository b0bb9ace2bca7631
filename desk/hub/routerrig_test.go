package hub

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// alarmClock is a clock that moves when it is told to and wakes those that wait for a time.
type alarmClock struct {
	mu     sync.Mutex
	t      time.Time
	alarms map[chan time.Time]time.Time
}

func newAlarmClock() *alarmClock {
	return &alarmClock{t: time.Now().Truncate(time.Millisecond), alarms: make(map[chan time.Time]time.Time)}
}

func (c *alarmClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *alarmClock) after(d time.Duration) (<-chan time.Time, func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- c.t
		return ch, func() bool { return false }
	}
	c.alarms[ch] = c.t.Add(d)
	return ch, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waits := c.alarms[ch]
		delete(c.alarms, ch)
		return waits
	}
}

func (c *alarmClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
	for ch, at := range c.alarms {
		if !at.After(c.t) {
			ch <- c.t
			delete(c.alarms, ch)
		}
	}
}

// routeRig is a rig whose site has a group, with a clock of its own.
type routeRig struct {
	*rig
	clock *alarmClock
	group store.Group
}

// newRouteRig makes a hub whose site has a group with these settings; most times of the site are a minute.
func newRouteRig(t *testing.T, g store.GroupSettings, s store.SiteSettings) *routeRig {
	t.Helper()
	return routeRigOf(newRig, t, g, s)
}

// newBubbleRouteRig is newRouteRig for a bubble of synctest. The clock of the hub stands still all the same.
func newBubbleRouteRig(t *testing.T, g store.GroupSettings, s store.SiteSettings) *routeRig {
	t.Helper()
	return routeRigOf(newBubbleRig, t, g, s)
}

func routeRigOf(begin func(*testing.T, Options) *rig, t *testing.T, g store.GroupSettings, s store.SiteSettings) *routeRig {
	t.Helper()
	c := newAlarmClock()
	r := &routeRig{rig: begin(t, Options{Limits: testLimits(), Now: c.now, After: c.after}), clock: c}
	var err error
	r.group, err = r.db.CreateGroup(r.ctx, store.Group{Name: "support", Settings: g})
	r.ok(err)
	r.site, err = r.db.CreateSite(r.ctx, store.Site{Key: "grouped", Name: "Grouped", BotName: "Eddy", Group: r.group.ID, Settings: s})
	r.ok(err)
	r.settled()
	return r
}

// settled waits until the hub knows what the store knows.
func (r *routeRig) settled() {
	r.t.Helper()
	h := r.theHub()
	want, err := readStaff(r.ctx, r.db.Cold())
	r.ok(err)
	r.waitFor("the hub to read the staff", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, g := range want.groups {
			if !reflect.DeepEqual(h.queue.roster.groups[g.ID], g) {
				return false
			}
		}
		for _, s := range want.sites {
			if !reflect.DeepEqual(h.queue.roster.sites[s.ID], s) {
				return false
			}
		}
		for _, m := range want.staff {
			have := h.queue.roster.members[m.ID]
			if have == nil || !slices.Equal(have.Groups, m.Groups) || have.Role != m.Role || have.NoChats != m.NoChats {
				return false
			}
		}
		_, ok := h.queue.roster.sites[r.site.ID]
		return ok && !h.router.stale.Load()
	})
}

// staff makes an account of a role that belongs to the group.
func (r *routeRig) staff(login string, capacity int, role perm.Role) store.AgentAccount {
	r.t.Helper()
	a, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: login, Name: login, Password: "x", Capacity: capacity, Role: role})
	r.ok(err)
	r.ok(r.db.AddMember(r.ctx, r.group.ID, a.ID))
	r.settled()
	return a
}

// on makes an agent of the group that is connected.
func (r *routeRig) on(login string, capacity int) *desktest.Client {
	r.t.Helper()
	c := r.agentClient(r.staff(login, capacity, perm.Agent))
	r.ok(c.Connected(r.ctx))
	return c
}

func (r *routeRig) status(c *desktest.Client, s store.Status, accepting bool) {
	r.t.Helper()
	if got := r.do(c, "status", "", proto.Status{Status: string(s), Accepting: &accepting}); got != "" {
		r.t.Fatal(got)
	}
}

// conv returns what is stored of a conversation.
func (r *routeRig) conv(id string) store.Conversation {
	r.t.Helper()
	c, err := r.db.Cold().Conversation(r.ctx, id)
	r.ok(err)
	return c
}

// belongs waits until a conversation is an agent's.
func (r *routeRig) belongs(conv string, to *desktest.Client) {
	r.t.Helper()
	r.waitFor(conv+" to be given to "+to.Me().Name, func() bool { return r.conv(conv).Owner.ID == to.Me().ID })
}

// became waits until a conversation is in a state.
func (r *routeRig) became(conv string, s store.State) store.Conversation {
	r.t.Helper()
	r.waitFor(conv+" to be "+string(s), func() bool { return r.conv(conv).State == s })
	return r.conv(conv)
}

// still makes sure that a conversation does not change: the router has had its turn with what there is.
func (r *routeRig) still(conv string, s store.State) {
	r.t.Helper()
	before := r.conv(conv)
	r.turned()
	if c := r.conv(conv); c.State != s || c.Rev != before.Rev {
		r.t.Fatalf("%s is %s of %q with revision %d, it was %s with %d; want %s", conv, c.State, c.Owner.Name, c.Rev, before.State, before.Rev, s)
	}
}

// turned waits until the router has looked at everything again, and what it started has been committed.
func (r *routeRig) turned() {
	r.t.Helper()
	h := r.theHub()
	for range 2 { // the first may have been under way
		turns := h.Counters.RouterTurns.Load()
		h.router.wake()
		r.waitFor("a turn of the router", func() bool { return h.Counters.RouterTurns.Load() > turns })
	}
	r.waitFor("the lanes to rest", func() bool { return h.PoolStats().Conversation.Running == 0 })
	_, err := r.db.TrimOutbox(r.ctx, store.OutboxTrim{})
	r.ok(err) // behind everything that was queued in the store
}

// pass lets time go by and the router have its turn.
func (r *routeRig) pass(d time.Duration) {
	r.t.Helper()
	r.clock.advance(d)
	r.turned()
}

func (r *routeRig) say(c *desktest.Client, conv, text string) {
	r.t.Helper()
	c.Send(conv, text)
	r.ok(c.Flushed(r.ctx))
}

// waiting opens a conversation that wants a person.
func (r *routeRig) waiting() (*desktest.Client, string) {
	r.t.Helper()
	c := r.customer()
	return c, r.open(c, "human")
}

// stopHub ends the hub and leaves the store open.
func (r *routeRig) stopHub() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	r.ok(r.theHub().Shutdown(ctx))
	r.waitFor("all connections to end", func() bool { return r.theHub().Counters.Sessions.Load() == 0 })
	r.lost()
}

func offerOf(conv string) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool { return f.T == "ev.offer" && f.C == conv }
}

func offerEnd(conv, result string) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var e proto.OfferEnd
		return f.T == "ev.offer_end" && f.C == conv && json.Unmarshal(f.D, &e) == nil && e.Result == result
	}
}

// auditOf returns the lines about an action by somebody, once those on their way have been written.
func (r *routeRig) auditOf(who, action string) []store.AuditRow {
	r.t.Helper()
	for range 2 { // the first is answered behind who was told before and writes its line then, the second is behind that line
		r.ok(store.Record(r.ctx, r.db, store.Audit{Action: "end"}))
	}
	rows, err := r.db.Cold().Audit(r.ctx, store.AuditQuery{Who: who, Action: action})
	r.ok(err)
	return rows
}

// routingFaults is what faultStore counts and fails of what the router calls.
type routingFaults struct {
	outcome    func(store.Outcome) // told of every outcome, in commit order
	reconciled int
	status     error // of SetStatus
}

func (f *faultStore) Reconcile(ctx context.Context) (int, error) {
	f.mu.Lock()
	f.routing.reconciled++
	f.mu.Unlock()
	return f.Store.Reconcile(ctx)
}

func (f *faultStore) failStatus(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routing.status = err
}

func (f *faultStore) SetStatus(ctx context.Context, agent string, s store.Status, accepting bool) error {
	f.mu.Lock()
	err := f.routing.status
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.Store.SetStatus(ctx, agent, s, accepting)
}

func (f *faultStore) reconciles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.routing.reconciled
}

func (f *faultStore) watch(outcome func(store.Outcome)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routing.outcome = outcome
}
