package hub

import (
	"fmt"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// While every commit takes long, commands without a commit go on, and commands beyond the limits are refused. In the end
// every message that was taken is there once.
func TestSlowStore(t *testing.T) {
	limits := testLimits()
	limits.LanePending = 4
	r := newRig(t, Options{Limits: limits})
	ann, lin := r.customer(), r.agent("lin")
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	hasty := r.raw(r.dial(Peer{}))
	hasty.hello(r.visitor())
	crowded := hasty.open()

	r.fault.set(func(cmd store.Command, pass func(), _ func(error)) {
		if _, ok := cmd.(store.Append); ok {
			r.fault.park(pass) // until it is healed: as long as a commit may take
			return
		}
		pass()
	})
	const sent = 10
	for i := range sent {
		hasty.write("msg.send", fmt.Sprint(i), crowded, proto.Send{ClientID: newClientID(), Body: fmt.Sprint("hasty ", i)})
		if i == 0 {
			r.waitFor("the first to be with the store", func() bool { return r.fault.parkedCalls() == 1 })
		}
	}
	for i := range 3 {
		ann.Send(conv, fmt.Sprint("customer ", i))
		lin.Send(conv, fmt.Sprint("agent ", i))
	}
	busy := sent - 1 - limits.LanePending // one is with the store
	for range busy {
		if got := code(hasty.until(func(f desktest.Frame) bool { return f.RE != "" })); got != proto.CodeBusy {
			t.Errorf("more than may wait: %q", got)
		}
	}
	r.waitFor("the commits to hang", func() bool { return r.fault.parkedCalls() >= 2 })
	for name, c := range map[string]*desktest.Client{"customer": ann, "agent": lin} {
		if got := r.do(c, "ping", "", proto.Ping{}); got != "" {
			t.Errorf("%s: ping: %q", name, got)
		}
	}
	hint := func() {
		go func() { _, _ = lin.Do(r.ctx, "typing", conv, proto.Typing{On: true}) }() // has no answer
	}
	hint()
	r.other(ann, func(f desktest.Frame) bool { return f.T == "ev.typing" })
	if got := r.do(lin, "sync", conv, proto.Sync{}); got != "" {
		t.Errorf("reading: %q", got)
	}

	r.fault.heal()
	for range sent - busy {
		if got := code(hasty.until(func(f desktest.Frame) bool { return f.RE != "" })); got != "" {
			t.Errorf("those that waited: %q", got)
		}
	}
	r.ok(ann.Flushed(r.ctx))
	r.ok(lin.Flushed(r.ctx))
	r.checkView(ann, conv, store.CustomerSide)
	r.checkView(lin, conv, store.StaffSide)
	if n := len(r.bodies(ann, conv)); n != 6 {
		t.Errorf("%d messages", n)
	}
}

// bodies are the texts that a client shows of a conversation, without the bot's.
func (r *rig) bodies(c *desktest.Client, conv string) []string {
	var all []string
	for _, f := range c.View(conv) {
		var m proto.Msg
		if f.T == "ev.msg" && !fromBot(f) {
			f.Decode(&m)
			all = append(all, m.Body)
		}
	}
	return all
}

// One agent that asks without a pause is refused and closed; twenty others never notice.
func TestOneAgentFloods(t *testing.T) {
	limits := testLimits()
	limits.AgentCommands = Rate{20, 40}
	r := newRig(t, Options{Limits: limits})
	const others = 20
	var agents []*desktest.Client
	var convs []string
	for i := range others {
		a := r.agent(fmt.Sprint("agent", i))
		conv := r.open(r.customer(), "human")
		r.ok(a.Take(r.ctx, conv))
		agents, convs = append(agents, a), append(convs, conv)
	}
	loud := r.account("loud", 100)
	session := r.login(loud)
	ticket := r.theHub().o.Tickets.Issue(loud.ID, session)
	flood := r.raw(r.dial(Peer{}))
	flood.write("hello", "h", "", proto.Hello{Ticket: ticket})
	flood.until(func(f desktest.Frame) bool { return f.T == "welcome" })
	go func() {
		for i := range 500 {
			flood.write("sync", fmt.Sprint(i), convs[0], proto.Sync{})
		}
	}()
	for i, a := range agents {
		a.Send(convs[i], "undisturbed")
	}
	for i, a := range agents {
		r.ok(a.Flushed(r.ctx))
		if got := r.do(a, "sync", convs[i], proto.Sync{}); got != "" {
			t.Errorf("agent %d: %q", i, got)
		}
		if refused := a.Refusals(); len(refused) > 0 {
			t.Errorf("agent %d: %v", i, refused)
		}
	}
	flood.untilClosed(proto.CloseRateLimited)
}
