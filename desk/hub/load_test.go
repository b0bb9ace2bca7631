package hub

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// TestLoad: connections are told by role and conversations by state, as they come and go.
func TestLoad(t *testing.T) {
	clock := &fakeClock{t: time.Now()}
	r := newRig(t, Options{Limits: testLimits(), Now: clock.now})
	ann, ben, cleo := r.customer(), r.customer(), r.customer()
	lin, sue := r.agent("lin"), r.staff("sue", perm.Supervisor)
	r.ok(lin.Connected(r.ctx))
	r.ok(sue.Connected(r.ctx))
	r.ok(ann.Connected(r.ctx))
	taken := r.open(ann, "human")
	r.open(ben, "human")
	r.say(cleo, r.open(cleo, "bot"), "hello")
	r.open(r.customer(), "bot") // nobody has written there
	r.ok(lin.Take(r.ctx, taken))
	clock.advance(time.Minute)
	l := r.hub.Load()
	if l.Customers != 4 || l.Bot != 1 || l.Queued != 1 || l.Assigned != 1 || l.Longest < time.Minute || l.Longest > 2*time.Minute {
		t.Errorf("%+v", l)
	}
	for _, role := range perm.Roles() {
		want := 0
		if role == perm.Agent || role == perm.Supervisor {
			want = 1
		}
		if n, there := l.Staff[role]; n != want || !there {
			t.Errorf("%d connections of role %s (there: %v), want %d", n, role, there, want)
		}
	}
	r.ok(lin.EndConv(r.ctx, taken, ""))
	sue.Close()
	r.waitFor("the supervisor's end", func() bool { return r.hub.Load().Staff[perm.Supervisor] == 0 })
	if l := r.hub.Load(); l.Assigned != 0 || l.Customers != 4 {
		t.Errorf("after the end: %+v", l)
	}
	st := r.db.Stats()
	if n := st.Latency.Count; n == 0 || n != st.Latency.Upto[store.LatencyBounds-1] || st.Latency.Sum <= 0 || st.Failures != 0 {
		t.Errorf("%+v", st)
	}
}
