package hub

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/lease"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
)

// holdTurns is a lease that the test gives out for the time of a context, and is told the end of the work.
func holdTurns(begin <-chan context.Context, ended chan<- struct{}) lease.Hold {
	return func(ctx context.Context, work func(context.Context)) {
		for {
			select {
			case <-ctx.Done():
				return
			case turn := <-begin:
				work(turn)
				ended <- struct{}{}
			}
		}
	}
}

// TestGraceBeginsWithTheLead: while no server leads, because none has a database, agents cannot come back. They do not lose their chats when one leads again, but
// after the grace from then on.
func TestGraceBeginsWithTheLead(t *testing.T) {
	begin, ended := make(chan context.Context), make(chan struct{}, 1)
	path := filepath.Join(t.TempDir(), "desk.db")
	sqlitetest.Prepare(t, path)
	c := newAlarmClock()
	r := beginRig(&rig{t: t, path: path, many: true, o: Options{
		Limits: testLimits(), Now: c.now, After: c.after, Hold: holdTurns(begin, ended),
	}})
	account := r.account("lin", 10)
	lin := r.agentClient(account)
	r.ok(lin.Connected(r.ctx))
	ann := r.customer()
	conv := r.open(ann, "human")
	r.ok(lin.Take(r.ctx, conv))
	r.say(ann, conv, "are you there?")
	lin.Close()
	r.waitFor("the agent to be gone", func() bool { return r.gone(account.ID) > 0 })
	stored := func() store.Conversation {
		t.Helper()
		c, err := r.db.Cold().Conversation(r.ctx, conv)
		r.ok(err)
		return c
	}
	grace := r.hub.o.Limits.AgentGrace
	c.advance(2 * grace)
	turn, end := context.WithCancel(t.Context())
	begin <- turn
	looked := func() { // every timer that is due has been looked at
		t.Helper()
		turns := r.hub.Counters.RouterTurns.Load()
		r.waitFor("turns of the router", func() bool {
			r.hub.router.wake()
			return r.hub.Counters.RouterTurns.Load() >= turns+3
		})
	}
	looked()
	c.advance(grace - time.Second)
	looked()
	if got := stored(); got.State != store.Assigned {
		t.Fatalf("the chat is %v before the grace is over", got.State)
	}
	c.advance(time.Second)
	r.waitFor("the chat to be given back", func() bool {
		r.hub.router.wake()
		return stored().State == store.Queued
	})
	end()
	<-ended
}
