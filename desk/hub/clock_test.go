package hub

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
)

// The server's clock jumps by hours, forward and back, under open chats: messages keep their order and their numbers, the queue
// keeps its order and is served, connections come back, and nobody is closed without the warning before it.
func TestClockJumps(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{IdleChat: 5 * 60_000, WarnFor: 60_000})
	r.started()
	lin := r.on("lin", 1)
	ann, conv := r.waiting()
	r.belongs(conv, lin)
	talk := func(text string) {
		t.Helper()
		r.say(ann, conv, "customer "+text)
		r.say(lin, conv, "agent "+text)
		r.event(ann, conv, body("agent "+text))
		r.event(lin, conv, body("customer "+text))
	}
	jump := func(d time.Duration) {
		t.Helper()
		r.clock.advance(d)
		r.turned()
	}
	returns := func(c *desktest.Client) {
		t.Helper()
		_, n := c.Welcome()
		c.Break()
		r.waitFor("the connection to come back", func() bool { _, now := c.Welcome(); return now > n })
	}
	talk("before")
	_, first := r.waiting()
	jump(-5 * time.Hour)
	_, second := r.waiting() // by the clock it came long before the first
	talk("five hours back")
	returns(ann)
	returns(lin)
	talk("after coming back")
	r.still(first, store.Queued)
	r.ok(lin.EndConv(r.ctx, conv, "done"))
	r.belongs(first, lin)
	r.still(second, store.Queued)
	r.ok(lin.EndConv(r.ctx, first, "done"))
	r.belongs(second, lin)
	r.ok(lin.EndConv(r.ctx, second, "done"))

	r.say(ann, conv, "again") // it goes on, at its agent's
	r.belongs(conv, lin)
	talk("opened again")
	jump(5*time.Hour + 30*time.Minute) // tokens hold for an hour here
	r.event(ann, conv, notice)         // silent for hours, by the clock: the warning comes first
	r.still(conv, store.Assigned)
	talk("still here")
	returns(ann)
	jump(-3 * time.Hour)
	r.still(conv, store.Assigned)
	talk("and back")
	r.checkView(ann, conv, store.CustomerSide)
	r.checkView(lin, conv, store.StaffSide)
}
