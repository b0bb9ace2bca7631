package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

const nodeLife = 15 * time.Second

// beat says that servers live, and whether the others know them.
func (r *rig) beat(wantAnew bool, all ...store.Store) {
	r.t.Helper()
	for _, s := range all {
		if anew, err := s.Beat(r.t.Context(), nodeLife, 0, store.About{}); anew != wantAnew || err != nil {
			r.t.Errorf("unknown to the others: %v, %v; want %v", anew, err, wantAnew)
		}
	}
}

// bury ends what dead servers have left, and returns how many calls that took.
func (r *rig) bury() (calls int) {
	r.t.Helper()
	for more := true; more; calls++ {
		var err error
		more, err = r.Bury(r.t.Context())
		r.must(err)
	}
	return calls
}

// at checks the servers that somebody is connected to.
func (r *rig) at(kind store.ActorKind, id string, want ...store.Store) {
	r.t.Helper()
	names := []string{}
	for _, s := range want {
		names = append(names, s.Node())
	}
	slices.Sort(names)
	all, err := r.Cold().Presences(r.t.Context())
	r.must(err)
	got := []string{}
	for _, p := range all {
		if p.Kind == kind && p.ID == id {
			got = append(got, p.Nodes...)
		}
	}
	if !slices.Equal(got, names) {
		r.t.Errorf("%s is connected to %q, want %q", id, got, names)
	}
}

// testServers: whoever operates servers sees those that live, what they say about themselves, who is connected to them and what they
// do for all.
func testServers(t *testing.T, r *rig) {
	ctx, other := t.Context(), r.beside()
	r.still.Store(time.Now().UnixMilli())
	now := func() time.Time { return time.UnixMilli(r.still.Load()) }
	said := map[string]store.About{r.Node(): {Name: "b", Version: "v2", Since: 7, Bus: "down", Lag: time.Second, Behind: 3}, other.Node(): {Name: "a"}}
	for _, s := range []store.Store{r, other} {
		_, err := s.Beat(ctx, nodeLife, 0, said[s.Node()])
		r.must(err)
	}
	r.must(other.SetGone(ctx, r.lin.ID, 0))
	r.must(r.SetHere(ctx, []store.Here{{Contact: r.open(r.visitor(), false).Contact}}))
	for _, name := range []string{"router", "mail"} {
		_, err := r.Claim(ctx, name, nodeLife-1)
		r.must(err)
	}
	servers := func() []store.Server {
		t.Helper()
		all, err := r.Cold().Servers(ctx, now())
		r.must(err)
		for i := range all {
			if all[i].About != said[all[i].Node] || all[i].Until != now().Add(nodeLife).UnixMilli() {
				t.Errorf("server %+v", all[i])
			}
		}
		return all
	}
	all := servers()
	if len(all) != 2 || all[0].Node != other.Node() || all[0].Agents != 1 || all[1].Agents != 0 || all[1].Customers != 1 || all[0].Customers != 0 || !slices.Equal(all[1].Leases, []string{"mail", "router"}) || len(all[0].Leases) != 0 {
		t.Errorf("servers %+v", all)
	}
	r.still.Add(nodeLife.Milliseconds())
	if all := servers(); len(all) != 0 {
		t.Errorf("dead servers %+v", all)
	}
}

// testNodes: servers are known while they say so. One that is buried, or was never known, is told.
func testNodes(t *testing.T, r *rig) {
	ctx, other := t.Context(), r.beside()
	r.still.Store(time.Now().UnixMilli())
	if a, b := r.Node(), other.Node(); a == "" || a == b {
		t.Errorf("the servers are called %q and %q", a, b)
	}
	r.beat(true, r, other)
	r.beat(false, r, other)
	r.still.Add(nodeLife.Milliseconds() - 1)
	r.beat(false, r)
	r.bury()
	r.beat(false, other)
	r.still.Add(nodeLife.Milliseconds())
	r.bury() // not itself
	r.beat(false, r)
	r.beat(true, other)
	third := r.beside()
	r.beat(true, third)
	r.must(other.EndNode(ctx))
	r.must(third.EndNode(ctx))
	if n := r.bury(); n != 3 {
		t.Errorf("two servers were buried with %d calls", n)
	}
	r.beat(false, r)
	r.beat(true, other, third)
}

// testPresence: somebody is connected while one server says so and lives. The others are told of every change.
func testPresence(t *testing.T, r *rig) {
	ctx, other, lin := t.Context(), r.beside(), r.lin.ID
	r.still.Store(time.Now().UnixMilli())
	now := r.still.Load()
	r.beat(true, r, other)
	told := func(what string, kind store.ActorKind, id string, change func() error) store.Presence {
		t.Helper()
		r.behind()
		page, err := r.Hot().Outbox(ctx, 0, 1)
		r.must(err)
		r.must(change())
		parts := r.reread(page.Last, 100)
		if len(parts) != 1 || len(parts[0].Presences) != 1 || parts[0].Presences[0].ID != id || parts[0].Presences[0].Kind != kind {
			t.Fatalf("%s: told %+v", what, parts)
		}
		return parts[0].Presences[0]
	}
	agent := func(what string, by store.Store, at int64, gone int64, status store.Status, want ...store.Store) {
		t.Helper()
		p := told(what, store.Agent, lin, func() error { return by.SetGone(ctx, lin, at) })
		m := r.member(lin)
		if p.GoneAt != gone || p.Status != status || len(p.Nodes) != len(want) || m.GoneAt != gone || m.Status != status {
			t.Errorf("%s: told %+v, stored gone at %d, %s; want %d, %s", what, p, m.GoneAt, m.Status, gone, status)
		}
		r.at(store.Agent, lin, want...)
	}
	agent("comes", r, 0, 0, store.Online, r)
	agent("comes again", r, 0, 0, store.Online, r)
	agent("comes elsewhere", other, 0, 0, store.Online, r, other)
	agent("goes from one", r, now, 0, store.Online, other)
	agent("goes from the last", other, now+1, now+1, store.Online)
	agent("comes once more", other, 0, 0, store.Online, other)
	if p := told("a status", store.Agent, lin, func() error { return r.SetStatus(ctx, lin, store.Busy, false) }); p.Status != store.Busy || !p.NoChats || len(p.Nodes) != 1 {
		t.Errorf("told %+v", p)
	}

	ann := r.visitor()
	conv := r.open(ann, true)
	customer := func(what string, by store.Store, at, left int64, want ...store.Store) {
		t.Helper()
		p := told(what, store.Customer, ann.ID, func() error { return by.SetHere(ctx, []store.Here{{Contact: ann.ID, GoneAt: at}}) })
		if got := r.head(conv.ID).LeftAt; got != left || len(p.Nodes) != len(want) {
			t.Errorf("%s: left at %d, want %d; told %+v", what, got, left, p)
		}
		r.at(store.Customer, ann.ID, want...)
	}
	customer("comes", r, 0, 0, r)
	customer("comes elsewhere", other, 0, 0, r, other)
	customer("goes from one", r, now, 0, other)
	customer("goes from the last", other, now+2, now+2)
	customer("comes back", other, 0, 0, other)

	r.still.Add(nodeLife.Milliseconds())
	r.beat(false, r)
	r.bury()
	if m, c := r.member(lin), r.head(conv.ID); m.GoneAt != r.still.Load() || c.LeftAt != r.still.Load() {
		t.Errorf("the server has died: the agent is gone at %d, the customer left at %d, want %d", m.GoneAt, c.LeftAt, r.still.Load())
	}
	r.at(store.Agent, lin)
	r.at(store.Customer, ann.ID)

	// A server that was buried may store something before it knows that.
	agent("of a buried server", other, 0, 0, store.Busy, other)
	r.bury()
	r.at(store.Agent, lin)
	if m := r.member(lin); m.GoneAt == 0 {
		t.Error("an agent of a buried server is there")
	}
}

// testLostTurns: a bot is asked by the server that has committed the turn, and by another one once that server is dead.
func testLostTurns(t *testing.T, r *rig) {
	ctx, other := t.Context(), r.beside()
	r.still.Store(time.Now().UnixMilli())
	r.beat(true, r, other)
	pending := func(s store.Store) (ids []string) {
		t.Helper()
		all, err := s.Cold().BotPending(ctx)
		r.must(err)
		for _, p := range all {
			ids = append(ids, p.Turn.ID)
		}
		return ids
	}
	adopt := func(want ...string) {
		t.Helper()
		got, err := r.AdoptTurns(ctx)
		r.must(err)
		if !slices.Equal(got, want) {
			t.Errorf("adopted %q, want %q", got, want)
		}
	}
	own := r.open(r.visitor(), false)
	result := make(chan store.Outcome, 1)
	other.Do(store.Open{Contact: r.visitor()}, time.Now().Add(time.Hour), func(out store.Outcome) { result <- out })
	out := <-result
	r.must(out.Err)
	page, err := r.Hot().Fed(ctx, out.Fed-1, 1)
	r.must(err)
	theirs, err := other.Hot().Fed(ctx, out.Fed-1, 1)
	r.must(err)
	if len(page.All) != 1 || page.All[0].Turn != "" || len(theirs.All) != 1 || theirs.All[0].Turn != out.Turn || out.Turn == "" {
		t.Errorf("turn %q: one server reads %+v, the other %+v", out.Turn, page.All, theirs.All)
	}
	mine := pending(r)
	if len(mine) != 1 || !slices.Equal(pending(other), []string{out.Turn}) {
		t.Errorf("pending %q and %q", mine, pending(other))
	}
	adopt()
	lost := []string{out.Turn}
	more := make(chan store.Outcome, store.BuryRows)
	for range store.BuryRows {
		other.Do(store.Open{Contact: r.visitor()}, time.Now().Add(time.Hour), func(out store.Outcome) { more <- out })
	}
	for range store.BuryRows {
		next := <-more
		r.must(next.Err)
		lost = append(lost, next.Turn)
	}
	slices.Sort(lost)
	r.still.Add(nodeLife.Milliseconds())
	r.beat(false, r)
	adopt()
	r.bury()
	some, err := r.AdoptTurns(ctx)
	r.must(err)
	rest, err := r.AdoptTurns(ctx)
	r.must(err)
	if all := slices.Sorted(slices.Values(append(some, rest...))); len(some) != store.BuryRows || !slices.Equal(all, lost) {
		t.Errorf("adopted %d and %d of %d", len(some), len(rest), len(lost))
	}
	adopt()
	if got := pending(r); len(got) != 1+len(lost) || len(pending(other)) != 0 {
		t.Errorf("pending %q and %q", got, pending(other))
	}
	r.do(store.BotTurn{Conv: own.ID, Turn: mine[0]})
	if got := slices.Sorted(slices.Values(pending(r))); !slices.Equal(got, lost) {
		t.Errorf("pending %q", got)
	}
	said := store.BotTurn{Conv: out.Conv.ID, Turn: out.Turn, Say: []store.Say{{Body: "hello"}}}
	r.do(said)
	other.Do(said, time.Now().Add(time.Hour), func(out store.Outcome) { result <- out }) // it was paused, and goes on
	if late := <-result; late.Err != nil || !late.Dup || len(r.events(out.Conv.ID, store.CustomerSide)) != 2 {
		t.Errorf("a late answer: %+v, %+v", late, r.events(out.Conv.ID, store.CustomerSide))
	}
}

// testTrimWaits: rows of the feed stay until every server that lives has taken them over, unless there are far too many.
func testTrimWaits(t *testing.T, r *rig) {
	ctx, other := t.Context(), r.beside()
	r.still.Store(time.Now().UnixMilli())
	conv := r.open(r.visitor(), true)
	for range 40 {
		r.do(text(conv.ID, store.Actor{Kind: store.Customer, ID: conv.Contact}, "x"))
	}
	page, err := r.Hot().Outbox(ctx, 0, 1)
	r.must(err)
	last := page.Last
	told := func(s store.Store, at int64) {
		t.Helper()
		_, err := s.Beat(ctx, nodeLife, at, store.About{})
		r.must(err)
	}
	floor := func(what string, keep, want int64) {
		t.Helper()
		_, err := r.TrimOutbox(ctx, store.OutboxTrim{Keep: keep, Limit: 1000})
		r.must(err)
		page, err := r.Hot().Outbox(ctx, 0, 1)
		r.must(err)
		if page.Floor != want {
			t.Errorf("%s: the rows up to %d are gone, want %d of %d", what, page.Floor, want, last)
		}
	}
	told(r, last)
	told(other, last-35)
	floor("one is behind", 20, last-35)
	told(other, last-25)
	floor("one has come nearer", 20, last-25)
	told(other, last-25)
	floor("one is far behind", 10, last-20)
	r.still.Add(nodeLife.Milliseconds())
	told(r, last)
	floor("one is dead", 10, last-10)
}

// testSpent: a server is told what others have spent of limits, and not what it has spent itself, for a minute.
func testSpent(t *testing.T, r *rig) {
	ctx, other := t.Context(), r.beside()
	r.still.Store(time.Now().UnixMilli())
	var at int64
	told := func(what string, want ...store.Spent) {
		t.Helper()
		var got []store.Spent
		for more := true; more; {
			var some []store.Spent
			var err error
			some, at, more, err = r.Hot().OthersSpent(ctx, at)
			r.must(err)
			got = append(got, some...)
		}
		for i := range got {
			if got[i].Node != other.Node() {
				t.Errorf("%s: told by %q, want %q", what, got[i].Node, other.Node())
			}
			got[i].Node = ""
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: told %+v, want %+v", what, got, want)
		}
	}
	one, two := store.Spent{Limit: "chats", Key: "a", N: 1}, store.Spent{Limit: "logins", Key: "b", N: -2}
	r.must(other.ShareSpent(ctx, []store.Spent{one, two}))
	r.must(r.ShareSpent(ctx, []store.Spent{{Limit: "own", Key: "c", N: 3}}))
	r.must(other.ShareSpent(ctx, []store.Spent{two}))
	told("what others have spent", one, two, two)
	told("nothing new")
	many := make([]store.Spent, store.SpentRows)
	for i := range many {
		many[i] = one
	}
	r.must(other.ShareSpent(ctx, many))
	r.must(other.ShareSpent(ctx, []store.Spent{two}))
	told("more than a page", append(many, two)...)
	r.must(other.ShareSpent(ctx, []store.Spent{one}))
	r.still.Add(time.Minute.Milliseconds() + 1)
	r.must(other.ShareSpent(ctx, []store.Spent{two}))
	told("what is older than a minute is gone", two)
}
