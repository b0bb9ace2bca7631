package hub

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/store"
)

// called notes what a hub has told of agents without a connection.
type called struct {
	mu    sync.Mutex
	calls []push.Call
	backs []string
}

func (c *called) Call(call push.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
}

func (c *called) Back(agent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backs = append(c.backs, agent)
}

// take returns the calls since the last time, in order of their kinds.
func (c *called) take() []push.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.calls
	c.calls = nil
	slices.SortFunc(all, func(a, b push.Call) int { return int(a.Kind) - int(b.Kind) })
	return all
}

func (c *called) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// callRig is a hub with two agents and a conversation of lin.
type callRig struct {
	*rig
	called   *called
	lin, moe *desktest.Client
	ann      *desktest.Client
	conv     string
}

func newCallRig(t *testing.T) *callRig {
	t.Helper()
	c := &called{}
	r := &callRig{rig: newRig(t, Options{Limits: testLimits(), Calls: c}), called: c}
	boss, err := r.db.CreateAgent(r.ctx, store.AgentAccount{Login: "moe", Name: "moe", Password: "x", Capacity: 10, Role: perm.Supervisor})
	r.ok(err)
	r.lin, r.moe, r.ann = r.agent("lin"), r.agentClient(boss), r.customer()
	r.conv = r.open(r.ann, "human")
	r.ok(r.lin.Take(r.ctx, r.conv))
	return r
}

func (r *callRig) say(text string) {
	r.t.Helper()
	r.ann.Send(r.conv, text)
	r.ok(r.ann.Flushed(r.ctx))
}

// leaves ends the only connection of an agent.
func (r *callRig) leaves(c *desktest.Client) string {
	r.t.Helper()
	id := c.Me().ID
	c.Close()
	r.waitFor("the hub to see it", func() bool { return !r.hub.Connected(id) })
	return id
}

// got checks what was told since the last time.
func (r *callRig) got(what string, want ...push.Call) {
	r.t.Helper()
	r.waitFor(fmt.Sprint(what, ": ", want), func() bool { return r.called.count() >= len(want) })
	r.do(r.moe, "ping", "", proto.Ping{})
	if got := r.called.take(); !slices.Equal(got, want) {
		r.t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// An agent without a connection is called to what its customers write, and to nothing else. One that has a connection is
// not.
func TestCallsOfAbsentAgents(t *testing.T) {
	r := newCallRig(t)
	r.say("hello")
	r.receipt(r.lin, r.conv, 1e6, 1e6)
	r.do(r.lin, "ping", "", proto.Ping{})
	r.got("lin is there")
	lin := r.leaves(r.lin)
	r.got("everything has reached it")
	message := push.Call{Agent: lin, Conv: r.conv, Kind: push.Message}
	r.say("are you there?")
	r.say("hello?")
	r.got("two messages", message, message)
	if got := r.do(r.moe, "note.send", r.conv, proto.Note{ClientID: newClientID(), Body: "lin is away"}); got != "" {
		t.Fatal(got)
	}
	r.got("a note is no message of the customer")
	again := r.agentClient(store.AgentAccount{ID: lin, Name: "lin", Role: perm.Agent, Capacity: 100})
	r.ok(again.Connected(r.ctx))
	r.say("at last")
	r.got("back")
	r.called.mu.Lock()
	defer r.called.mu.Unlock()
	if n := len(r.called.backs); n != 3 || r.called.backs[2] != lin {
		t.Errorf("%v", r.called.backs)
	}
}

// A chat that somebody else gives to an agent who is not there is called, once.
func TestCallsOfGivenChats(t *testing.T) {
	r := newCallRig(t)
	kim := r.agent("kim")
	r.ok(kim.Connected(r.ctx))
	id := r.leaves(kim)
	r.called.take()
	if got := r.do(r.moe, "transfer", r.conv, proto.Transfer{Agent: id, Force: true}); got != "" {
		t.Fatal(got)
	}
	r.got("given", push.Call{Agent: id, Conv: r.conv, Kind: push.Given})
	r.leaves(r.lin)
	r.got("lin has lost it, so nothing is missing")
	if got := r.do(r.moe, "take", r.conv, proto.Take{Force: true}); got != "" {
		t.Fatal(got)
	}
	r.got("an agent who is there")
}

// A connection that has died takes with it what was sent on it. When its end is noticed, the agent is called to that.
func TestCallsOfWhatADeadConnectionGot(t *testing.T) {
	r := newCallRig(t)
	r.say("one")
	r.receipt(r.lin, r.conv, 1e6, 0) // shown, not read
	r.do(r.lin, "ping", "", proto.Ping{})
	r.say("two")
	r.say("three")
	r.got("nobody knows yet")
	lin := r.leaves(r.lin)
	message := push.Call{Agent: lin, Conv: r.conv, Kind: push.Message}
	r.got("what came after the last receipt", message, message)

	kim := r.agent("kim")
	other := r.customer()
	conv := r.open(other, "human")
	r.ok(kim.Take(r.ctx, conv))
	id := r.leaves(kim)
	r.got("a chat of which nothing was acknowledged", push.Call{Agent: id, Conv: conv, Kind: push.Given})
}

// An offer that is open when its agent goes is called, one that is answered is not.
func TestCallsOfOffers(t *testing.T) {
	r := newCallRig(t)
	kim := r.agent("kim")
	r.ok(kim.Connected(r.ctx))
	offer := func() {
		t.Helper()
		if got := r.do(r.lin, "transfer", r.conv, proto.Transfer{Agent: kim.Me().ID}); got != "" {
			t.Fatal(got)
		}
		r.other(kim, offerOf(r.conv))
	}
	offer()
	if got := r.do(kim, "transfer.decline", r.conv, proto.Decline{}); got != "" {
		t.Fatal(got)
	}
	offer()
	id := r.leaves(kim)
	r.got("the open one", push.Call{Agent: id, Conv: r.conv, Kind: push.Offer})
}

// A hub that ends has no connections, which is no reason to call anybody.
func TestCallsEndWithTheHub(t *testing.T) {
	r := newCallRig(t)
	r.say("hello")
	r.halt()
	if got := r.called.take(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}
