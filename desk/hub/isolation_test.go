package hub

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// All workers of the agent pool hang in cold reads. Customers' sends are acked, other agents' sends too, the stuck
// agent's too, and whoever asks for more than its share is told busy at once.
func TestAgentPoolStuck(t *testing.T) {
	limits := testLimits()
	limits.AgentWorkers, limits.AgentRunning, limits.AgentWaiting = 4, 4, 16
	r := newRig(t, Options{Limits: limits})
	ann, lin, kim := r.customer(), r.agent("lin"), r.agent("kim")
	conv, other, third := r.open(ann, "human"), r.open(r.customer(), "human"), r.open(r.customer(), "human")
	r.ok(lin.Take(r.ctx, conv))
	r.ok(kim.Take(r.ctx, other))
	r.ok(lin.Take(r.ctx, third))
	for chat, agent := range map[string]*desktest.Client{conv: lin, third: lin, other: kim} {
		r.checkView(agent, chat, store.StaffSide) // or a client's own sync of what it missed takes part of the share
	}
	r.waitFor("the agent pool to rest", func() bool { return r.hub.PoolStats().Agent.Running == 0 })

	r.fault.hangCold()
	replies := make(chan desktest.Frame, 100)
	for range limits.AgentRunning + limits.AgentWaiting + 3 {
		go func() {
			f, err := lin.Do(r.ctx, "sync", conv, proto.Sync{})
			if err != nil {
				t.Error(err)
			}
			replies <- f
		}()
	}
	r.waitFor("all workers to hang", func() bool { return r.fault.hungReads() == limits.AgentWorkers })
	for range 3 {
		if got := code(<-replies); got != proto.CodeBusy {
			t.Errorf("beyond the share: %q", got)
		}
	}
	for i := range 20 {
		ann.Send(conv, fmt.Sprint("customer ", i))
		lin.Send(conv, fmt.Sprint("stuck agent ", i))
		lin.Send(third, fmt.Sprint("stuck agent elsewhere ", i))
		kim.Send(other, fmt.Sprint("other agent ", i))
	}
	r.ok(ann.Flushed(r.ctx))
	r.ok(lin.Flushed(r.ctx))
	r.ok(kim.Flushed(r.ctx))
	newcomer := r.customer() // a customer's hello needs no worker of the agents
	r.open(newcomer, "bot")
	if got := r.do(newcomer, "ping", "", proto.Ping{}); got != "" {
		t.Error(got)
	}
	if n := r.fault.hungReads(); n != limits.AgentWorkers {
		t.Errorf("%d reads hung", n)
	}
	r.fault.heal()
	for range limits.AgentRunning + limits.AgentWaiting {
		if got := code(<-replies); got != "" {
			t.Errorf("after healing: %q", got)
		}
	}
	r.checkView(lin, conv, store.StaffSide)
}

// All workers of the customers' pool hang in reads. Agents read and write, and customers' sends are acked.
func TestCustomerPoolStuck(t *testing.T) {
	limits := testLimits()
	limits.CustomerWorkers = 3
	r := newRig(t, Options{Limits: limits})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	var stuck []*desktest.Client
	for range limits.CustomerWorkers {
		c := r.customer()
		r.ok(c.Connected(r.ctx))
		stuck = append(stuck, c)
	}
	r.fault.hangHot()
	done := make(chan struct{}, len(stuck))
	for _, c := range stuck {
		go func() { _, _ = c.Do(r.ctx, "sync", conv, proto.Sync{}); done <- struct{}{} }()
	}
	r.waitFor("all workers to hang", func() bool { return r.fault.hungReads() == limits.CustomerWorkers })
	for i := range 20 {
		lin.Send(conv, fmt.Sprint("agent ", i))
		ann.Send(conv, fmt.Sprint("customer ", i))
	}
	r.ok(lin.Flushed(r.ctx))
	r.ok(ann.Flushed(r.ctx))
	if got := r.do(lin, "sync", conv, proto.Sync{}); got != "" {
		t.Errorf("the agent reads: %q", got)
	}
	newcomer := r.agent("kim")
	r.ok(newcomer.Connected(r.ctx))
	r.fault.heal()
	for range stuck {
		<-done
	}
}

// While the pool has room, one agent that is stuck does not hinder another one's reads.
func TestOneAgentCannotTakeThePool(t *testing.T) {
	limits := testLimits()
	limits.AgentWorkers, limits.AgentRunning, limits.AgentWaiting = 6, 4, 16
	r := newRig(t, Options{Limits: limits})
	ann, lin, kim := r.customer(), r.agent("lin"), r.agent("kim")
	conv := r.open(ann, "human")
	r.ok(lin.Connected(r.ctx))
	r.ok(kim.Connected(r.ctx))
	r.waitFor("the agent pool to rest", func() bool { return r.hub.PoolStats().Agent.Running == 0 })
	r.fault.hangCold()
	done := make(chan struct{}, 100)
	for range 10 {
		go func() { _, _ = lin.Do(r.ctx, "sync", conv, proto.Sync{}); done <- struct{}{} }()
	}
	r.waitFor("lin's share to hang", func() bool { return r.fault.hungReads() == 4 })
	hung := r.fault
	hung.mu.Lock()
	gate := hung.cold
	hung.cold = nil // from now on reads work; lin's four still hang
	hung.mu.Unlock()
	if got := r.do(kim, "sync", conv, proto.Sync{}); got != "" {
		t.Errorf("the other agent: %q", got)
	}
	close(gate)
	for range 10 {
		<-done
	}
}

// A command that hangs in the store delays only its own conversation, and what queues up behind it is answered.
func TestStuckConversationDelaysOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := testLimits()
		limits.CommandAge = 3 * time.Second // in which a busy machine does what comes before
		limits.LanePending = 3
		r := newBubbleRig(t, Options{Limits: limits})
		token := r.visitor()
		conv := r.open(r.client(r.dialer(token)), "human") // which asks again if it was not answered in time
		stuck := r.raw(r.dial(Peer{}))
		stuck.hello(token)
		free, lin := r.customer(), r.agent("lin")
		freeConv := r.open(free, "human")
		r.ok(lin.Take(r.ctx, freeConv))
		r.fault.set(func(cmd store.Command, pass func(), _ func(error)) {
			if a, ok := cmd.(store.Append); ok && a.Conv == conv {
				r.fault.park(pass)
				return
			}
			pass()
		})
		before := r.hub.Counters.LaneRejects.Load()
		for i := range 6 {
			stuck.write("msg.send", fmt.Sprint(i), conv, proto.Send{ClientID: newClientID(), Body: fmt.Sprint(i)})
			if i == 0 { // until it runs it waits, too
				r.waitFor("the first to be with the store", func() bool { return r.fault.parkedCalls() == 1 })
			}
		}
		for range 2 { // one runs, three wait, two too many
			if got := code(stuck.until(func(f desktest.Frame) bool { return f.RE != "" })); got != proto.CodeBusy {
				t.Errorf("overflow: %q", got)
			}
		}
		rejects := r.hub.Counters.LaneRejects.Load() - before
		for i := range 20 {
			free.Send(freeConv, fmt.Sprint(i))
			lin.Send(freeConv, fmt.Sprint("agent ", i))
		}
		r.ok(free.Flushed(r.ctx))
		r.ok(lin.Flushed(r.ctx))
		r.waitFor("the waiting ones to grow old", func() bool { time.Sleep(limits.CommandAge); return true })
		before = r.hub.Counters.LaneRejects.Load() // on a slow machine those of the other conversation were refused, too, and sent again
		r.fault.heal()
		codes := map[proto.Code]int{}
		for range 4 {
			codes[code(stuck.until(func(f desktest.Frame) bool { return f.RE != "" }))]++
		}
		if codes[proto.CodeUnavailable] != 1 || codes[proto.CodeBusy] != 3 {
			t.Errorf("answers %v", codes)
		}
		if n := rejects + r.hub.Counters.LaneRejects.Load() - before; n != 5 {
			t.Errorf("%d lane rejects counted", n)
		}
	})
}

// Errors of the store reach only the sender; a panic is answered and the lane goes on.
func TestStoreFaultsAreAnswered(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann := r.customer()
	conv := r.open(ann, "human")
	for name, c := range map[string]struct {
		fault func(pass func(), fail func(error))
		want  proto.Code
	}{
		"busy":        {func(_ func(), fail func(error)) { fail(store.ErrBusy) }, proto.CodeBusy},
		"unavailable": {func(_ func(), fail func(error)) { fail(store.ErrUnavailable) }, proto.CodeUnavailable},
		"stopped":     {func(_ func(), fail func(error)) { fail(store.ErrStopped) }, proto.CodeUnavailable},
		"surprise":    {func(_ func(), fail func(error)) { fail(errInjected) }, proto.CodeInternal},
		"panic":       {func(func(), func(error)) { panic("boom") }, proto.CodeInternal},
	} {
		r.fault.set(func(_ store.Command, pass func(), fail func(error)) { c.fault(pass, fail) })
		if got := r.do(ann, "msg.send", conv, proto.Send{ClientID: newClientID(), Body: name}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		r.fault.set(nil)
	}
	ann.Send(conv, "and on")
	r.ok(ann.Flushed(r.ctx))
	r.checkView(ann, conv, store.CustomerSide)
	if n := len(ann.View(conv)); n != 2 {
		t.Errorf("%d events", n)
	}
}
