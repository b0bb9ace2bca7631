package hub

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// BenchmarkNext is one assignment with 10,000 customers who wait: 5,000 for a group that is full, 4,000 for skills of which
// everybody who has them is full, and 1,000 behind them, the first of whom is served.
func BenchmarkNext(b *testing.B) {
	h := &Hub{sessions: newSessions()}
	now := time.Now()
	h.o.Now = func() time.Time { return now }
	h.router = newRouter(h)
	h.queue = newQueue(h)
	staff := staffData{groups: []store.Group{{ID: "full"}, {ID: "free"}}}
	for i := range 100 {
		a := store.AgentAccount{ID: fmt.Sprintf("agent %02d", i), Role: perm.Agent, Capacity: 1}
		m := store.StaffMember{AgentAccount: a, Status: store.Online, Groups: []string{[]string{"full", "free"}[i%2]}}
		if i < 20 {
			m.Skills = "skill"
		}
		staff.staff = append(staff.staff, m)
		h.sessions.agents[a.ID] = []*Session{{hub: h, conn: nowhere{}, phase: live}}
		if i < 20 || i%2 == 0 {
			h.queue.dir.apply(store.Conversation{ID: "of " + a.ID, Contact: "of " + a.ID, State: store.Assigned, Owner: a.Actor()})
		}
	}
	h.queue.roster.apply(staff, 0)
	enter := func(i int) store.Conversation {
		id := fmt.Sprint("conversation ", i)
		c := store.Conversation{ID: id, Contact: id, State: store.Queued, QueuedAt: int64(i), Priority: store.PriorityNormal, Group: "full"}
		switch {
		case i >= 9000:
			c.Group = "free"
		case i >= 5000:
			c.Group, c.Skills = "free", "skill"
		}
		h.queue.dir.apply(c)
		return c
	}
	for i := range 10_000 {
		enter(i)
	}
	seen := round{agents: make(map[string]bool), convs: make(map[string]bool), pairs: make(map[[2]string]bool)}
	n := 10_000
	for b.Loop() {
		c, agent := h.router.next(&seen)
		if agent == "" || c.Skills != "" {
			b.Fatalf("%q for %+v", agent, c)
		}
		c.State, c.Owner = store.Assigned, store.Actor{Kind: store.Agent, ID: agent}
		h.queue.dir.apply(c)
		c.State, c.Owner = store.Closed, store.Actor{}
		h.queue.dir.apply(c)
		enter(n)
		n++
	}
}
