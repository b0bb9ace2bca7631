package hub

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// pairOnClock are two servers by one clock, which moves when both have said that they live.
type pairOnClock struct {
	one, two *rig
	clock    *alarmClock
}

func onClock(t *testing.T) pairOnClock {
	t.Helper()
	c := newAlarmClock()
	after := func(d time.Duration) (<-chan time.Time, func() bool) {
		if d < time.Second { // such as for what the bus may bring: nobody moves the clock while the servers only wait for each other
			timer := time.NewTimer(d)
			return timer.C, timer.Stop
		}
		return c.after(d)
	}
	one, two := twoHubsWith(t, Options{Limits: testLimits(), Now: c.now, After: after})
	return pairOnClock{one, two, c}
}

// live lets time pass in which both servers live.
func (p *pairOnClock) live(d time.Duration) {
	p.one.t.Helper()
	for end := p.clock.now().Add(d); p.clock.now().Before(end); {
		from := p.clock.now()
		p.passes("both servers to have said that they live", func() bool {
			all, err := p.one.db.Cold().Servers(p.one.ctx, from.Add(nodeLife))
			p.one.ok(err)
			return len(all) == 2
		})
	}
}

// passes waits while time passes.
func (p *pairOnClock) passes(what string, cond func() bool) {
	p.one.t.Helper()
	p.one.waitFor(what, func() bool {
		p.clock.advance(time.Second)
		return cond()
	})
}

// TestFeedLag: a server cannot read for minutes what another one commits, which are thousands of messages. It says that it is not ready, keeps nothing of
// them, and answers its own clients. The rows of the feed stay for it, unless they become too many: then it reads everything that is open. Either way every
// client has every message once, and in order.
func TestFeedLag(t *testing.T) {
	texts := 1000 // of each side
	if testing.Short() {
		texts = 150
	}
	for name, keep := range map[string]int64{"caught up": int64(10 * texts), "rebuilt": 50} {
		t.Run(name, func(t *testing.T) {
			p := onClock(t)
			one, two := p.one, p.two
			ann, lin, conv := chatOfTwo(one, two) // the agent is at the server that falls behind
			moe, ben := one.agent("moe"), two.customer()
			one.ok(moe.Connected(one.ctx))
			other := two.open(ben, "human")
			one.waitFor("the other hub to know the chat", func() bool { return one.left(other) >= 0 })
			one.ok(moe.Take(one.ctx, other))
			two.event(ben, other, state(store.Assigned))

			two.calm()
			two.fault.feed.fail(true)
			for i := range texts {
				ann.Send(conv, fmt.Sprint(i))
				moe.Send(other, fmt.Sprint(i))
			}
			one.ok(ann.Flushed(one.ctx))
			one.ok(moe.Flushed(one.ctx))
			p.live(3 * time.Minute)
			ben.Send(other, "is anybody there?")
			p.passes("the client of the server that is late to be answered", func() bool { return len(ben.Acks()) == 1 })
			if err := two.hub.Ready(); err == nil || !strings.Contains(err.Error(), "seconds ago has not been read yet") {
				t.Errorf("late for minutes: %v", err)
			}
			if err := one.hub.Ready(); err != nil {
				t.Error(err)
			}
			f := two.hub.feed
			f.mu.Lock()
			if held, waiting, behind := len(f.held), len(f.waiting), f.seen-f.at; held+waiting != 0 || behind < int64(2*texts) {
				t.Errorf("%d rows behind, the server keeps %d parts and %d answers", behind, held, waiting)
			}
			f.mu.Unlock()
			p.live(beatEvery) // the others know how far it is
			_, err := one.db.TrimOutbox(one.ctx, store.OutboxTrim{Before: p.clock.now().UnixMilli(), Keep: keep, Limit: 100 * texts})
			one.ok(err)

			two.fault.feed.fail(false)
			p.passes("the server to be ready", func() bool { return two.hub.Ready() == nil })
			two.checkView(ben, other, store.CustomerSide)
			two.checkView(lin, conv, store.StaffSide)
			one.checkView(ann, conv, store.CustomerSide)
			one.checkView(moe, other, store.StaffSide)
			two.same()
			if n, want := two.hub.Counters.Rebuilds.Load(), uint64(1); (n == want) != (name == "rebuilt") {
				t.Errorf("everything was read again %d times", n)
			}
			two.say(ben, other, "there you are")
			one.event(moe, other, body("there you are"))
		})
	}
}
