package hub

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

func evAgent(match func(proto.AgentInfo) bool) func(desktest.Frame) bool {
	return func(f desktest.Frame) bool {
		var a proto.AgentInfo
		return f.T == "ev.agent" && json.Unmarshal(f.D, &a) == nil && match(a)
	}
}

// A connection makes an agent online unless it has chosen otherwise, and what it has chosen outlives connections and restarts.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
		account := r.staff("lin", 5, perm.Agent)
		sam := r.agentClient(r.staff("sam", 100, perm.Supervisor))
		r.ok(sam.Connected(r.ctx))
		if a := agentIn(r.listed(sam), "lin"); a.Status != "offline" || a.Online || a.Capacity != 5 || len(a.Groups) != 1 || a.Groups[0] != r.group.ID {
			t.Errorf("before: %+v", a)
		}
		lin := r.agentClient(account)
		welcomed := func(want proto.AgentStatus) {
			t.Helper()
			_, n := lin.Welcome()
			if n > 0 {
				lin.Break()
			}
			r.ok(lin.Wait(r.ctx, func() bool { return true }))
			r.waitFor("a welcome", func() bool { _, m := lin.Welcome(); return m > n })
			w, _ := lin.Welcome()
			if w.Status == nil || *w.Status != want {
				t.Errorf("welcomed with %+v, want %+v", w.Status, want)
			}
			if w.Me.Role != "agent" || len(w.Me.Perms) != len(perm.Agent.Permissions()) || w.Me.Perms[0] != "serve" || w.Me.Name != "lin" {
				t.Errorf("welcomed as %+v", w.Me)
			}
		}
		welcomed(proto.AgentStatus{Status: "online", Accepting: true, Capacity: 5})
		r.other(sam, evAgent(func(a proto.AgentInfo) bool { return a.Name == "lin" && a.Online && a.Status == "online" }))
		_, conv := r.waiting()
		r.ok(lin.Take(r.ctx, conv))
		r.other(sam, evAgent(func(a proto.AgentInfo) bool { return a.Name == "lin" && a.Active == 1 }))

		f, err := lin.Do(r.ctx, "status", "", proto.Status{Status: "busy"})
		r.ok(err)
		var s proto.AgentStatus
		if f.Decode(&s); s != (proto.AgentStatus{Status: "busy", Accepting: true, Active: 1, Capacity: 5}) {
			t.Errorf("%+v", s)
		}
		r.other(sam, evAgent(func(a proto.AgentInfo) bool { return a.Name == "lin" && a.Status == "busy" }))
		welcomed(proto.AgentStatus{Status: "busy", Accepting: true, Active: 1, Capacity: 5})
		r.status(lin, store.Away, false)
		r.stopHub()
		r.startHub()
		welcomed(proto.AgentStatus{Status: "away", Active: 1, Capacity: 5})
		r.status(lin, store.Offline, true)
		if a := agentIn(r.listed(sam), "lin"); a.Status != "offline" || !a.Online {
			t.Errorf("offline by choice: %+v", a)
		}
		welcomed(proto.AgentStatus{Status: "online", Accepting: true, Active: 1, Capacity: 5})
		r.waitFor("the status to be kept", func() bool {
			for _, m := range r.staffStored() {
				if m.Name == "lin" {
					return m.Status == store.Online && m.GoneAt == 0
				}
			}
			return false
		})
	})
}

// Another one's status takes a permission and is written down.
func TestForceStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newBubbleRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
		lin, sam := r.on("lin", 5), r.agentClient(r.staff("sam", 100, perm.Supervisor))
		r.ok(sam.Connected(r.ctx))
		if got := r.do(lin, "status", "", proto.Status{Status: "away", Agent: sam.Me().ID}); got != proto.CodeForbidden {
			t.Errorf("an agent: %q", got)
		}
		if got := r.do(sam, "status", "", proto.Status{Status: "away", Agent: "nobody"}); got != proto.CodeNotFound {
			t.Errorf("of nobody: %q", got)
		}
		if got := r.do(sam, "status", "", proto.Status{Status: "away", Agent: lin.Me().ID}); got != "" {
			t.Fatal(got)
		}
		r.other(lin, evAgent(func(a proto.AgentInfo) bool { return a.Name == "lin" && a.Status == "away" }))
		if rows := r.auditOf(sam.Me().ID, store.AuditForceState); len(rows) != 2 || rows[0].Target != "agent "+lin.Me().ID || rows[0].Detail != "away" {
			t.Errorf("%+v", rows)
		}
		for _, bad := range []proto.Status{{Status: "asleep"}, {}} {
			if got := r.do(lin, "status", "", bad); got != proto.CodeBadRequest {
				t.Errorf("%+v: %q", bad, got)
			}
		}
	})
}

// A store that cannot keep a status is no reason to go by it.
func TestStatusIsKeptFirst(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	lin := r.on("lin", 5)
	r.turned() // its presence has been kept
	r.fault.failStatus(store.ErrUnavailable)
	if got := r.do(lin, "status", "", proto.Status{Status: "away"}); got != proto.CodeUnavailable {
		t.Errorf("%q", got)
	}
	if s := statusIn(r.listed(lin), "lin"); s != "online" {
		t.Errorf("shown as %q", s)
	}
	r.fault.failStatus(nil)
	r.status(lin, store.Away, true)
}

// The list has every queue; changes of one agent are told at most once a second.
func TestStaffList(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{}, store.SiteSettings{})
	lin := r.on("lin", 1)
	_, first := r.waiting()
	r.belongs(first, lin)
	_, second := r.waiting()
	r.clock.advance(5 * time.Second)
	_, third := r.waiting()
	_, _ = second, third
	l := r.listed(lin)
	if len(l.Groups) != 2 || l.Groups[0].ID != "" || l.Groups[0].Online != 1 || l.Groups[0].Waiting != 0 {
		t.Fatalf("%+v", l.Groups)
	}
	if g := l.Groups[1]; g.ID != r.group.ID || g.Name != "support" || g.Waiting != 2 || g.Longest != 5000 || g.Online != 1 {
		t.Errorf("%+v", g)
	}
	r.status(lin, store.Busy, true)
	if g := r.listed(lin).Groups[1]; g.Online != 0 {
		t.Errorf("%+v", g)
	}

	const mark = 4711 // a capacity by which what is told from here on is known
	h, now := r.hub, time.Now().Add(time.Hour)
	h.mu.Lock()
	for _, m := range h.queue.roster.members {
		m.Capacity, m.untold, m.told = mark, false, now.Add(-agentEvery) // the ticker's own rounds are long before
	}
	h.mu.Unlock()
	told := func() int {
		return r.count(lin, evAgent(func(a proto.AgentInfo) bool { return a.Capacity == mark }))
	}
	touch := func() {
		h.mu.Lock()
		h.queue.roster.tell(h.queue.roster.members[lin.Me().ID])
		h.mu.Unlock()
	}
	touch()
	h.tellStaff(now)
	touch()
	if due := h.tellStaff(now.Add(300 * time.Millisecond)); due != 700*time.Millisecond {
		t.Errorf("due in %v", due)
	}
	if n := told(); n != 1 {
		t.Errorf("told %d times within a second", n)
	}
	if due := h.tellStaff(now.Add(time.Second)); due != 0 {
		t.Errorf("still due in %v", due)
	}
	if n := told(); n != 2 {
		t.Errorf("told %d times in all", n)
	}
}

// A reading of the staff that began before a change does not undo it; one that began later is right.
func TestRosterKeepsWhatIsNewer(t *testing.T) {
	r := newRoster(new(sessions))
	stored := func(s store.Status, goneAt int64) staffData {
		m := store.StaffMember{Status: s, GoneAt: goneAt}
		m.ID = "lin"
		return staffData{staff: []store.StaffMember{m}}
	}
	r.apply(stored(store.Online, 0), r.changes)
	lin := r.members["lin"]
	began := r.changes
	lin.Status = store.Away
	r.change(lin)
	if r.apply(stored(store.Online, 0), began); lin.Status != store.Away {
		t.Errorf("an old reading makes it %s", lin.Status)
	}
	if r.apply(stored(store.Busy, 0), r.changes); lin.Status != store.Busy {
		t.Errorf("a new reading leaves it %s", lin.Status)
	}
	lin.GoneAt, lin.unsaved = 7, true
	if r.apply(stored(store.Busy, 3), r.changes); lin.GoneAt != 7 {
		t.Errorf("what has not been kept yet is undone: %d", lin.GoneAt)
	}
	began = r.changes
	r.members["new"] = &member{}
	r.change(r.members["new"])
	if r.apply(stored(store.Busy, 3), began); r.members["new"] == nil {
		t.Error("an account that came after the reading began is gone")
	}
	if r.apply(stored(store.Busy, 3), r.changes); r.members["new"] != nil || r.members["lin"] == nil {
		t.Error("an account that is not there is kept")
	}
}

// The list of the staff says of everybody whether they may answer customers.
func TestAgentsSayWhoServes(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual}, store.SiteSettings{})
	for _, role := range perm.Roles() {
		r.staff(string(role)+"s", 0, role)
	}
	list := r.listed(r.on("lin", 5))
	for _, role := range perm.Roles() {
		if a := agentIn(list, string(role)+"s"); a.Role != string(role) || a.Serves != role.Can(perm.Serve) {
			t.Errorf("%s: %+v", role, a)
		}
	}
}
