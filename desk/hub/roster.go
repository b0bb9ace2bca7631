package hub

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/hours"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// roster is the hub's memory of the staff, the groups and the sites, so that routing and timers need no database. Hub.mu
// guards it.
type roster struct {
	sessions *sessions
	members  map[string]*member
	groups   map[string]store.Group
	sites    map[string]store.Site
	keys     atomic.Pointer[map[string]string] // keys of sites by id; may be read without Hub.mu
	changes  uint64                            // counts changes of the states of members
	due      bool                              // an ev.agent waits to be sent
	hours    map[string]*hours.Schedule        // of groups and sites that have hours, by id
	edition  uint64                            // counts changes of the settings of groups and sites
	spoken   map[[2]string]bool                // languages that members of a group say they speak, by group and language
}

// member is one account. Its Active is not used, because the directory counts.
type member struct {
	store.StaffMember
	changed uint64 // value of roster.changes when its state changed last
	chosen  uint64 // that value when SetStatus was called last
	ready   int64  // the router leaves it alone until then, because its first connection is so new
	since   int64  // when its status changed, Unix milliseconds; 0 = before the start
	used    int64  // when it came, or did something in a session that has ended
	idle    bool   // it is away because it did nothing
	unsaved bool   // left is to be written
	left    int64  // when its last connection to this server ended, Unix milliseconds; 0 = it has one
	faded   bool   // the grace of a member without a connection is over

	untold bool      // its ev.agent waits to be sent
	told   time.Time // when the last one was sent

	setting sync.Mutex // held while a chosen status is written, never together with Hub.mu
}

func newRoster(l *sessions) *roster {
	return &roster{sessions: l, members: make(map[string]*member), groups: make(map[string]store.Group), sites: make(map[string]store.Site)}
}

// change notes that something about a member has changed; the others will be told. Hub.mu is held.
func (r *roster) change(m *member) {
	r.changes++
	m.changed = r.changes
	r.tell(m)
}

func (r *roster) tell(m *member) { m.untold, r.due = true, true }

// settings returns how the queue of a group works.
func (q *queue) settings(group string) store.GroupSettings {
	if group == "" {
		return q.o.Routing
	}
	return q.roster.groups[group].Settings
}

// staffData is one reading of what a roster holds.
type staffData struct {
	staff  []store.StaffMember
	groups []store.Group
	sites  []store.Site
	hours  map[string]*hours.Schedule
}

func readStaff(ctx context.Context, r store.Reader) (d staffData, err error) {
	if d.staff, err = r.Staff(ctx); err == nil {
		if d.groups, err = r.Groups(ctx); err == nil {
			d.sites, err = r.Sites(ctx)
		}
	}
	d.schedules()
	return d, err
}

// apply takes over a reading that began when changes had the given value. Members that have changed since keep their
// newer state. apply reports whether settings of groups or sites, or what members can do, have changed. Hub.mu is held.
func (r *roster) apply(d staffData, changes uint64) (differ bool) {
	groups, sites := make(map[string]store.Group, len(d.groups)), make(map[string]store.Site, len(d.sites))
	for _, g := range d.groups {
		groups[g.ID] = g
	}
	keys := make(map[string]string, len(d.sites))
	for _, s := range d.sites {
		sites[s.ID] = s
		keys[s.ID] = s.Key
	}
	differ = !reflect.DeepEqual(groups, r.groups) || !reflect.DeepEqual(sites, r.sites)
	r.groups, r.sites, r.hours = groups, sites, d.hours
	if differ {
		r.edition++
	}
	r.keys.Store(&keys)
	known := make(map[string]bool, len(d.staff))
	for _, s := range d.staff {
		known[s.ID] = true
		differ = r.update(s, changes) || differ
	}
	for id, m := range r.members {
		if !known[id] && m.changed <= changes {
			delete(r.members, id)
			differ = true
		}
	}
	return r.hear() || differ
}

// siteKey returns the key by which people know a site, "" while it is not known. Any goroutine may call it.
func (r *roster) siteKey(id string) string {
	if keys := r.keys.Load(); keys != nil {
		return (*keys)[id]
	}
	return ""
}

// siteID returns the id of the site with a key, "" if there is none. Any goroutine may call it.
func (r *roster) siteID(key string) string {
	if keys := r.keys.Load(); keys != nil {
		for id, k := range *keys {
			if k == key {
				return id
			}
		}
	}
	return ""
}

// update takes over a reading of one member, and reports whether that changes which conversations it is there for.
func (r *roster) update(s store.StaffMember, changes uint64) (differ bool) {
	m := r.members[s.ID]
	if m == nil {
		m = &member{}
		r.members[s.ID] = m
		r.tell(m)
	}
	was, takesChats := m.StaffMember, m.takesChats()
	if m.unsaved || m.changed > changes {
		s.Status, s.Missed, s.GoneAt = was.Status, was.Missed, was.GoneAt
	} else if was.GoneAt != 0 && s.GoneAt == 0 && !r.sessions.agentThere(s.ID) {
		s.GoneAt = was.GoneAt // since a restart
	}
	if m.chosen > changes { // no connection changes this, so a reading that met one is still right
		s.NoChats = was.NoChats
	}
	s.LastAssigned = max(s.LastAssigned, was.LastAssigned)
	m.StaffMember = s
	knows := m.Skills != was.Skills || m.Languages != was.Languages
	if knows || m.Name != was.Name || m.Role != was.Role || m.Capacity != was.Capacity || m.Status != was.Status || m.NoChats != was.NoChats || !slices.Equal(m.Groups, was.Groups) {
		r.tell(m)
	}
	return knows || m.takesChats() != takesChats || !slices.Equal(m.Groups, was.Groups)
}

// came notes the first connection of an agent to this server. The agent is online again unless it has chosen otherwise.
func (q *queue) came(who identity) {
	m := q.roster.members[who.actor.ID]
	if m == nil { // a new account, whose groups come with the next reading
		a := store.AgentAccount{ID: who.actor.ID, Name: who.actor.Name, Role: who.role, Capacity: who.capacity, NoChats: who.noChats}
		m = &member{StaffMember: store.StaffMember{AgentAccount: a, Status: store.Offline}}
		q.roster.members[a.ID] = m
		q.router.stale.Store(true)
	}
	now := q.o.Now()
	m.GoneAt, m.left, m.faded, m.unsaved, m.used = 0, 0, false, true, now.UnixMilli()
	m.ready = now.Add(q.o.Limits.AgentSettle).UnixMilli()
	if m.Status == store.Offline {
		m.be(store.Online, m.used)
	}
	q.roster.change(m)
	q.replanOf(m.ID)
}

// went notes the end of an agent's last connection to this server.
func (q *queue) went(agent string) {
	m := q.roster.members[agent]
	if m == nil {
		return
	}
	if m.left, m.unsaved = q.o.Now().UnixMilli(), true; q.sessions.elsewhere[agent] {
		return
	}
	m.GoneAt, m.faded = m.left, false
	q.roster.change(m)
	q.replanOf(agent)
}

// shown returns the status of a member as others see it. Without a connection a member is offline when its grace is
// over.
func (q *queue) shown(m *member) store.Status {
	if !q.sessions.agentThere(m.ID) && (m.faded || m.GoneAt == 0) {
		return store.Offline
	}
	return m.Status
}

// fade announces the members whose grace is over. It returns when the next grace is over, 0 = none.
func (q *queue) fade(now int64) (due int64) {
	for _, m := range q.roster.members {
		if m.GoneAt == 0 || m.faded {
			continue
		}
		if end := m.GoneAt + q.o.Limits.AgentGrace.Milliseconds(); end > now {
			due = earlier(due, end)
			continue
		}
		m.faded = true
		q.roster.tell(m)
	}
	return due
}

// earlier returns the earlier of two times, 0 being never.
func earlier(a, b int64) int64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// info returns a member as the others see it.
func (q *queue) info(m *member) proto.AgentInfo {
	i := proto.AgentInfo{
		ID: m.ID, Name: m.Name, Role: string(m.Role), Serves: m.Role.Can(perm.Serve), Status: string(q.shown(m)), Accepting: !m.NoChats,
		Active: q.dir.active(m.ID), Capacity: m.Capacity, Groups: slices.Clone(m.Groups), Online: q.sessions.agentThere(m.ID),
		Idle: m.idle, Skills: store.List(m.Skills), Languages: store.List(m.Languages),
	}
	if i.Groups == nil {
		i.Groups = []string{}
	}
	return i
}

// statusOf returns a member's status as the member itself sees it.
func (q *queue) statusOf(agent string) *proto.AgentStatus {
	m := q.roster.members[agent]
	if m == nil {
		return nil
	}
	return &proto.AgentStatus{Status: string(q.shown(m)), Accepting: !m.NoChats, Active: q.dir.active(agent), Capacity: m.Capacity, Idle: m.idle}
}

// serves reports whether a member takes conversations now, full or not.
func (q *queue) serves(m *member) bool {
	return m.Status == store.Online && m.takesChats() && q.sessions.agentThere(m.ID)
}

// takesChats reports whether the router may give conversations to a member that is online.
func (m *member) takesChats() bool { return !m.NoChats && m.Capacity > 0 && m.Role.Can(perm.Serve) }

// staffList returns the answer to the command agents.
func (h *Hub) staffList() proto.AgentList {
	now := h.o.Now().UnixMilli()
	h.mu.Lock()
	defer h.mu.Unlock()
	l := proto.AgentList{Agents: make([]proto.AgentInfo, 0, len(h.queue.roster.members)), Groups: make([]proto.GroupInfo, 0, len(h.queue.roster.groups)+1)}
	at := map[string]int{"": 0}
	l.Groups = append(l.Groups, proto.GroupInfo{})
	for _, g := range h.queue.roster.groups {
		at[g.ID] = len(l.Groups)
		l.Groups = append(l.Groups, proto.GroupInfo{ID: g.ID, Name: g.Name})
	}
	for _, m := range h.queue.roster.members {
		l.Agents = append(l.Agents, h.queue.info(m))
		if !h.queue.serves(m) {
			continue
		}
		l.Groups[0].Online++
		for _, g := range m.Groups {
			if i, ok := at[g]; ok {
				l.Groups[i].Online++
			}
		}
	}
	for _, e := range h.queue.dir.queue {
		if i, ok := at[e.conv.Group]; ok {
			g := &l.Groups[i]
			g.Waiting++
			g.Longest = max(g.Longest, now-e.conv.QueuedAt)
		}
	}
	l.Sites = make([]string, 0, len(h.queue.roster.sites))
	for _, s := range h.queue.roster.sites {
		l.Sites = append(l.Sites, s.Key)
	}
	slices.Sort(l.Sites)
	slices.SortFunc(l.Agents, func(a, b proto.AgentInfo) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	slices.SortFunc(l.Groups, func(a, b proto.GroupInfo) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return l
}

// tellStaff sends ev.agent of the members that have changed, each at most once per interval. It returns when the next
// one is due, 0 = none.
func (h *Hub) tellStaff(now time.Time) (due time.Duration) {
	var frames [][]byte
	h.mu.Lock()
	to := h.sessions.staff
	if h.queue.roster.due {
		h.queue.roster.due = false
		for _, m := range h.queue.roster.members {
			if !m.untold {
				continue
			}
			if wait := m.told.Add(agentEvery).Sub(now); wait > 0 {
				h.queue.roster.due = true
				if due == 0 || wait < due {
					due = wait
				}
				continue
			}
			m.untold, m.told = false, now
			if len(to) > 0 {
				frames = append(frames, proto.Event("ev.agent", "", 0, h.queue.info(m)))
			}
		}
	}
	h.mu.Unlock()
	for _, f := range frames {
		for _, s := range to {
			s.ephemeral(f)
		}
	}
	return due
}
