package hub

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// aimed is a hub with one group, whose target is 80 percent within 30 seconds, and a clock of its own.
type aimed struct {
	*Hub
	t    *testing.T
	log  bytes.Buffer
	now  int64
	next int
}

func newAimed(t *testing.T) *aimed {
	a := &aimed{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()}
	a.Hub = &Hub{sessions: newSessions(), o: Options{Logger: slog.New(slog.NewTextHandler(&a.log, nil)), Now: func() time.Time { return time.UnixMilli(a.now) }}}
	a.queue = newQueue(a.Hub)
	a.queue.roster.groups["g"] = store.Group{ID: "g", Name: "Sales", Settings: store.GroupSettings{Target: 30_000}}
	return a
}

// change is what a commit does to the hub's memory.
func (a *aimed) change(c store.Conversation) store.Conversation {
	before := a.queue.dir.apply(c)
	a.queue.answered(&before, &c)
	return c
}

func (a *aimed) waits() store.Conversation {
	a.next++
	id := fmt.Sprint("c", a.next)
	return a.change(store.Conversation{ID: id, Contact: id, State: store.Queued, Group: "g", OpenedAt: a.now, QueuedAt: a.now, ActedAt: a.now})
}

func (a *aimed) answer(c store.Conversation) store.Conversation {
	c.State, c.Owner, c.AnsweredAt = store.Assigned, store.Actor{Kind: store.Agent, ID: "lin"}, a.now
	return a.change(c)
}

// told lets time pass and expects what the log has been told, "" = nothing; + begins and - ends a warning.
func (a *aimed) told(d time.Duration, want string) int64 {
	a.t.Helper()
	a.now += d.Milliseconds()
	due := a.checkTargets(a.now, true)
	var got []string
	for line := range strings.Lines(a.log.String()) {
		sign := "-"
		if strings.Contains(line, "level=WARN") {
			sign = "+"
		}
		_, why, _ := strings.Cut(line, "why=")
		why, _, _ = strings.Cut(why, " ")
		got = append(got, sign+why)
		if !strings.Contains(line, "group=Sales") || !strings.Contains(line, "target=30s") {
			a.t.Errorf("the log says %s", line)
		}
	}
	a.log.Reset()
	slices.Sort(got)
	if strings.Join(got, " ") != want {
		a.t.Errorf("after %v the log has %q, want %q", d, got, want)
	}
	return due
}

// A customer who waits longer than the target is told once, and once more a minute after nobody does, although others come
// and go meanwhile.
func TestTargetWaiting(t *testing.T) {
	a := newAimed(t)
	a.told(0, "")
	first := a.waits()
	if due := a.told(time.Second, ""); due != first.QueuedAt+30_001 {
		t.Errorf("the next look is %d ms after it came", due-first.QueuedAt)
	}
	a.told(29*time.Second, "")
	a.told(2*time.Second, "+waiting")
	for range 5 {
		a.told(2*time.Second, "")
	}
	if got := a.standing(); got.Late != 1 || !slices.Equal(got.Warnings, []string{WarnWaiting}) || got.Percent != store.DefaultTargetShare || a.Load().Missed != 1 {
		t.Errorf("%+v", got)
	}
	second := a.waits()
	a.answer(first)
	a.told(2*time.Second, "")
	a.told(40*time.Second, "") // the second is late now
	a.answer(second)
	due := a.told(2*time.Second, "")
	if due != a.now+58_000 {
		t.Errorf("the warning ends in %d ms", due-a.now)
	}
	a.told(57*time.Second, "")
	a.told(2*time.Second, "-waiting")
	if n := a.Counters.TargetMisses.Load(); n != 1 || a.Load().Missed != 0 {
		t.Errorf("%d warnings, %d now", n, a.Load().Missed)
	}
}

func (a *aimed) standing() Target {
	all, _ := a.queue.standings(a.now)
	return *all["g"]
}

// The share of first answers in time warns from the fifth of an hour on, and ends five percent above the target or with the
// hour.
func TestTargetShare(t *testing.T) {
	a := newAimed(t)
	answer := func(after time.Duration, want string) {
		t.Helper()
		c := a.waits()
		a.now += after.Milliseconds()
		a.answer(c)
		a.told(targetPause, want)
	}
	for range 3 {
		answer(10*time.Second, "")
	}
	answer(30*time.Second, "") // just in time
	answer(31*time.Second, "") // 4 of 5 are 80 percent
	answer(35*time.Second, "+share")
	if got := a.standing(); got.Answered != 6 || got.Within != 4 || !slices.Equal(got.Warnings, []string{WarnShare}) {
		t.Errorf("%+v", got)
	}
	for range 7 {
		answer(time.Second, "") // 11 of 13 are 84.6 percent
	}
	answer(time.Second, "-share")
	answer(40*time.Second, "")
	answer(40*time.Second, "+share") // 12 of 16
	a.told(58*time.Minute, "")
	a.told(3*time.Minute, "-share")
	if got := a.standing(); got.Answered != 0 || a.Counters.TargetMisses.Load() != 2 {
		t.Errorf("%+v", got)
	}
}

// Silent customers, those with a bot, those who have had an answer, and groups without a target are nobody's miss; a target
// that is taken away ends its warnings.
func TestTargetLooksAway(t *testing.T) {
	a := newAimed(t)
	silent := store.Conversation{ID: "silent", Contact: "silent", State: store.Queued, Group: "g", OpenedAt: a.now, QueuedAt: a.now}
	a.change(silent)
	a.change(store.Conversation{ID: "bot", Contact: "bot", State: store.InBot, Group: "g", OpenedAt: a.now, ActedAt: a.now})
	a.change(store.Conversation{ID: "none", Contact: "none", State: store.Queued, OpenedAt: a.now, QueuedAt: a.now, ActedAt: a.now})
	back := a.answer(a.waits())
	back.State, back.Owner = store.Queued, store.Actor{}
	a.change(back)
	a.told(time.Hour, "")
	if got := a.standing(); got.Late != 0 {
		t.Errorf("%+v", got)
	}
	taken := store.Conversation{ID: "taken", Contact: "taken", State: store.Assigned, Owner: store.Actor{Kind: store.Agent, ID: "lin"}, Group: "g", OpenedAt: a.now, AssignedAt: a.now, ActedAt: a.now}
	a.change(taken)
	a.told(time.Minute, "+waiting")
	g := a.queue.roster.groups["g"]
	g.Settings.Target = 0
	a.queue.roster.groups["g"] = g
	a.told(time.Minute, "")
	if a.Load().Missed != 0 || len(a.queue.targets.aims) != 0 {
		t.Errorf("%d groups miss a target", a.Load().Missed)
	}
}

// The router looks when a customer has waited long enough, without any other change, and the wall shows it.
func TestTargetOnTheWall(t *testing.T) {
	r := newRouteRig(t, store.GroupSettings{Strategy: store.Manual, Target: 45_000, TargetShare: 90}, store.SiteSettings{})
	lin := r.on("lin", 5)
	sue := r.agentClient(r.staff("sue", 5, perm.Supervisor))
	r.ok(sue.Connected(r.ctx))
	_, conv := r.waiting()
	r.turned()
	r.clock.advance(46 * time.Second)
	missed := func() bool { return r.hub.Counters.TargetMisses.Load() == 1 }
	r.waitFor("the warning", missed)
	w := r.hub.Wall()
	want := Target{Group: r.group.ID, In: 45_000, Percent: 90, Late: 1, Warnings: []string{WarnWaiting}}
	if len(w.Targets) != 1 || fmt.Sprint(w.Targets[0]) != fmt.Sprint(want) {
		t.Errorf("the wall has %+v, want %+v", w.Targets, want)
	}
	r.ok(lin.Take(r.ctx, conv))
	r.say(lin, conv, "hello")
	r.pass(time.Minute)
	r.waitFor("the end of the warning", func() bool { return r.hub.Load().Missed == 0 })
	if w := r.hub.Wall(); w.Targets[0].Answered != 1 || w.Targets[0].Within != 0 || !missed() {
		t.Errorf("the wall has %+v", w.Targets)
	}
}
