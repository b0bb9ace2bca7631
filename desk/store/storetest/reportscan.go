package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// seen is one thing that a report has to count, found in the events of a conversation.
type seen struct {
	at                          int64
	site, group, agent, measure string
	total                       int64
	tags                        []string
}

// scan finds what reports have to count of a conversation, by its events alone. Ratings are not among them.
type scan struct {
	site                               string
	tags                               []string
	acted                              bool
	state                              store.State
	group, owner                       string
	opened, queued, assigned, answered int64
	targets                            map[string]int64
	found                              []seen
}

func (s *scan) count(at int64, agent, measure string, total int64) {
	if s.acted {
		s.found = append(s.found, seen{at, s.site, s.group, agent, measure, max(total, 0), s.tags})
	}
}

func (s *scan) event(e *store.Event) {
	change := e.Change
	if acts := e.From.Kind == store.Customer && (change == nil || change.Event != "closed"); acts && !s.acted {
		human := change == nil || change.Event != "opened" || change.State == store.Queued
		s.acted = human
		if human && s.state != store.None && s.state != store.Closed {
			s.count(e.Time, "", store.MeasureOpened, 0)
			if s.state == store.Queued {
				s.count(e.Time, "", store.MeasureArrived, 0)
			}
		}
	}
	switch {
	case change != nil:
		s.change(e.Time, change)
	case e.Kind == store.KindText && e.From.Kind == store.Agent && s.answered < max(s.queued, s.opened):
		since := s.queued
		if since == 0 {
			since = s.assigned
		}
		s.answered = e.Time
		s.count(e.Time, e.From.ID, store.MeasureFirst, e.Time-since)
		if target := s.targets[s.group]; target > 0 {
			met := int64(0)
			if e.Time-since <= target {
				met = 1
			}
			s.count(e.Time, e.From.ID, store.MeasureTarget, met)
		}
	}
}

func (s *scan) change(at int64, c *store.Change) {
	was, before, assigned := s.state, s.owner, s.assigned
	s.state, s.group, s.owner = c.State, c.Group, ""
	if c.Owner.Kind == store.Agent {
		s.owner = c.Owner.ID
	}
	enters := c.State == store.Queued && (c.Event == "opened" || c.Event == "handoff" || c.Event == "reopened")
	if c.Event == "opened" {
		s.opened = at
	}
	if c.Event == "opened" || c.Event == "reopened" {
		s.count(at, "", store.MeasureOpened, 0)
	}
	if enters || c.State == store.Queued && s.queued == 0 { // taken from the bot and given back
		s.queued = at
		s.count(at, "", store.MeasureArrived, 0)
	}
	if c.State == store.Assigned {
		s.assigned = at
	}
	switch {
	case was == store.Queued && c.State == store.Assigned && assigned < s.queued:
		s.count(at, s.owner, store.MeasureWait, at-s.queued)
	case was == store.InBot && c.State == store.Closed:
		s.count(at, "", store.MeasureContained, 0)
	case was == store.InBot:
		s.count(at, "", store.MeasureHandoff, 0)
	case before != "" && before != s.owner:
		s.count(at, before, store.MeasureHandled, at-assigned)
	}
	if c.State == store.Closed {
		s.count(at, before, store.MeasureClosed, 0)
	}
	if c.Abandoned {
		s.count(at, "", store.MeasureAbandoned, at-s.queued)
		if target := s.targets[s.group]; target > 0 && at-s.queued > target && s.answered < max(s.queued, s.opened) {
			s.count(at, "", store.MeasureTarget, 0)
		}
	}
}

// lives are random conversations, and what is known of them besides their events.
type lives struct {
	*rig
	rnd     *rand.Rand
	now     int64
	convs   []string
	of      map[string]store.Contact
	rated   map[string]seen
	gone    []seen
	targets map[string]int64
	groups  []string
	sites   []store.Site
}

// scanned returns what the conversations that are still there have to be counted with.
func (l *lives) scanned() map[string][]seen {
	all := make(map[string][]seen)
	for _, id := range l.convs {
		c := l.head(id)
		s := scan{site: c.Site, tags: c.TagList(), targets: l.targets}
		for _, e := range l.events(id, store.StaffSide) {
			s.event(&e)
		}
		if rating, ok := l.rated[id]; ok {
			rating.tags = s.tags
			s.found = append(s.found, rating)
		}
		all[id] = s.found
	}
	return all
}

// drop removes what was closed before a time.
func (l *lives) drop() {
	before := l.scanned()
	for _, site := range l.sites {
		_, err := l.DropClosed(l.t.Context(), site.ID, l.now-int64(l.rnd.IntN(6))*time.Hour.Milliseconds(), 1_000_000)
		l.must(err)
	}
	l.convs = slices.DeleteFunc(l.convs, func(id string) bool {
		_, err := l.Cold().Conversation(l.t.Context(), id)
		if !errors.Is(err, store.ErrNotFound) {
			return false
		}
		l.gone = append(l.gone, before[id]...)
		delete(l.rated, id)
		return true
	})
}

// step does one thing to one conversation, which may be refused.
func (l *lives) step() {
	if len(l.convs) == 0 || l.rnd.IntN(8) == 0 {
		l.site = l.sites[l.rnd.IntN(2)]
		c := l.visitor()
		conv := l.open(c, l.rnd.IntN(2) == 0)
		l.convs, l.of[conv.ID] = append(l.convs, conv.ID), c
		return
	}
	conv := l.convs[len(l.convs)-1-l.rnd.IntN(min(len(l.convs), 12))]
	customer := l.of[conv].Actor()
	agents := []store.AgentAccount{l.lin, l.moe}
	agent, other := agents[l.rnd.IntN(2)], agents[l.rnd.IntN(2)]
	head := l.head(conv)
	move := func(trigger store.Trigger, by store.Actor) {
		l.try(store.Move{Conv: conv, Trigger: trigger, By: by, To: other.ID, Group: l.groups[l.rnd.IntN(len(l.groups))], Force: true})
	}
	switch l.rnd.IntN(17) {
	case 0, 1:
		l.try(text(conv, customer, "hello"))
	case 2:
		move(store.Handoff, customer)
	case 3, 4:
		move(store.TakeOver, agent.Actor())
	case 5, 6, 7:
		l.try(text(conv, head.Owner, "hello"))
	case 8:
		move(store.Return, head.Owner)
	case 9:
		move(store.TransferAgent, head.Owner)
	case 10:
		move(store.TransferGroup, head.Owner)
	case 11:
		move([]store.Trigger{store.AgentClose, store.CustomerClose}[l.rnd.IntN(2)], []store.Actor{head.Owner, customer}[l.rnd.IntN(2)])
	case 12:
		move([]store.Trigger{store.Idle, store.Abandon}[l.rnd.IntN(2)], system)
	case 13, 14:
		score := 1 + l.rnd.IntN(store.MaxScore)
		if out := l.try(store.Rate{Conv: conv, By: customer, Score: score}); out.Err == nil && head.ActedAt != 0 {
			l.rated[conv] = seen{at: head.ClosedAt, site: head.Site, group: head.Group, agent: head.LastAgent, measure: store.MeasureRated, total: int64(score)}
		}
	case 15:
		l.try(store.Tag{Conv: conv, By: agent.Actor(), Add: []string{[]string{"vip", "VIP", "refund", "=late", "ärger"}[l.rnd.IntN(5)]}})
	case 16:
		l.try(store.Tag{Conv: conv, By: agent.Actor(), Remove: []string{[]string{"vip", "refund"}[l.rnd.IntN(2)]}})
	}
}

// numbers are a row of a report in a form that a scan can have, too.
type numbers struct {
	Opened, Arrived, Abandoned, Closed, Contained, Handoff, Rated, Targeted, Within int64
	Waits, Wait, Firsts, First, Handles, Handle                                     int64
	Score                                                                           string
}

func numbersOf(r *store.ReportRow) numbers {
	return numbers{
		r.Opened, r.Arrived, r.Abandoned, r.Closed, r.Contained, r.Handoff, r.Rated, r.Targeted, r.Within,
		r.Wait.N, r.Wait.Mean, r.First.N, r.First.Mean, r.Handle.N, r.Handle.Mean, fmt.Sprintf("%.6f %v", r.Score, r.Scores),
	}
}

// summed are the numbers of what was seen.
func summed(all []seen) numbers {
	n, sums, scores := make(map[string]int64), make(map[string]int64), make([]int64, store.MaxScore)
	for _, s := range all {
		n[s.measure]++
		sums[s.measure] += s.total
		if s.measure == store.MeasureRated {
			scores[s.total-1]++
		}
	}
	mean := func(measure string) int64 { return sums[measure] / max(n[measure], 1) }
	return numbers{
		n[store.MeasureOpened], n[store.MeasureArrived], n[store.MeasureAbandoned], n[store.MeasureClosed], n[store.MeasureContained], n[store.MeasureHandoff],
		n[store.MeasureRated], n[store.MeasureTarget], sums[store.MeasureTarget],
		n[store.MeasureWait], mean(store.MeasureWait), n[store.MeasureFirst], mean(store.MeasureFirst), n[store.MeasureHandled], mean(store.MeasureHandled),
		fmt.Sprintf("%.6f %v", float64(sums[store.MeasureRated])/float64(max(n[store.MeasureRated], 1)), scores),
	}
}

// compare holds every kind of report against a scan.
func (l *lives) compare(from, to int64, zone *time.Location, only store.ReportQuery) {
	l.t.Helper()
	all := slices.Clone(l.gone)
	for _, found := range l.scanned() {
		all = append(all, found...)
	}
	all = slices.DeleteFunc(all, func(s seen) bool {
		slot := s.at - s.at%store.SlotQuarter
		return slot < from || slot >= to || !selects(&only, &s)
	})
	for _, by := range store.Kinds() {
		rows := make(map[string][]seen)
		for _, s := range all {
			for _, key := range keysOf(by, &s, zone) {
				if by != store.ByTag || only.Tag == "" || key == foldTag(by, only.Tag) { // one tag has one row
					rows[key] = append(rows[key], s)
				}
			}
		}
		want, got := make(map[string]numbers), make(map[string]numbers)
		for key, found := range rows {
			want[key] = summed(found)
		}
		q := only
		q.From, q.To, q.Zone, q.By = from, to, zone, by
		found, total, err := l.Background().ReportTotal(l.t.Context(), q)
		l.must(err)
		if n := numbersOf(&total); n != summed(all) {
			l.t.Errorf("by %s in %s of %+v: in all\n%+v, the events say\n%+v", by, zone, only, n, summed(all))
		}
		for _, row := range found {
			got[foldTag(by, row.Key)] = numbersOf(&row)
		}
		if !reflect.DeepEqual(got, want) {
			l.t.Errorf("by %s in %s of %+v:\n%+v, the events say\n%+v", by, zone, only, got, want)
		}
	}
}

// selects reports whether the filter of a query selects what was seen.
func selects(only *store.ReportQuery, s *seen) bool {
	is := func(want, has string) bool { return want == "" || want == has }
	return is(only.Site, s.site) && is(only.Group, s.group) && is(only.Agent, s.agent) &&
		(only.Tag == "" || slices.ContainsFunc(s.tags, func(tag string) bool { return strings.EqualFold(tag, only.Tag) }))
}

func foldTag(by store.By, key string) string {
	if by == store.ByTag {
		return strings.ToLower(key)
	}
	return key
}

func keysOf(by store.By, s *seen, zone *time.Location) []string {
	slot := time.UnixMilli(s.at - s.at%store.SlotQuarter).In(zone)
	switch by {
	case store.ByDay:
		return []string{slot.Format(time.DateOnly)}
	case store.ByHour:
		return []string{slot.Format("15")}
	case store.BySite:
		return []string{s.site}
	case store.ByGroup:
		return []string{s.group}
	case store.ByAgent:
		return []string{s.agent}
	case store.ByTag:
		var keys []string
		for _, tag := range s.tags {
			keys = append(keys, foldTag(by, tag))
		}
		return keys
	}
	return []string{""}
}

// compareFilters holds the reports of every filter against a scan, in two places: no value or one of some for each of site, group,
// agent and tag.
func (l *lives) compareFilters(from, to int64, zone *time.Location) {
	l.t.Helper()
	for i, site := range []string{"", l.sites[0].ID, l.sites[1].ID, "none"} {
		for j, group := range []string{"", l.groups[0], l.groups[1]} {
			for k, agent := range []string{"", l.lin.ID} {
				for _, tag := range []string{"", "vip", "Refund", "ÄRGER", "nobody's"} {
					place := []*time.Location{zone, time.UTC}[(i+j+k)%2]
					l.compare(from, to, place, store.ReportQuery{Site: site, Group: group, Agent: agent, Tag: tag})
				}
			}
		}
	}
}

// testReportHistories: whatever happens to conversations, each report has what their events say, in days and hours of
// places whose clocks change meanwhile, also of conversations that are gone, by every filter, and after a restart.
func testReportHistories(t *testing.T, r *rig) {
	zone := func(name string) *time.Location {
		z, err := time.LoadLocation(name)
		r.must(err)
		return z
	}
	histories := []struct {
		zone, begin string // shortly before its clocks change
	}{
		{"Europe/Berlin", "2026-03-28T20:00:00Z"}, {"Europe/Berlin", "2026-10-24T20:00:00Z"}, {"Australia/Lord_Howe", "2026-04-04T10:00:00Z"},
		{"Asia/Kathmandu", "2026-05-01T17:50:00Z"}, {"America/St_Johns", "2026-03-08T00:00:00Z"}, {"Pacific/Apia", "2011-12-29T22:00:00Z"},
	}
	if r.b.Quick {
		histories = histories[:1]
	}
	for seed, c := range histories {
		place := r.b.New(t)
		l := &lives{
			rig: newRig(t, r.b, place), rnd: rand.New(rand.NewPCG(uint64(seed), 7)), of: make(map[string]store.Contact),
			rated: make(map[string]seen), targets: make(map[string]int64),
		}
		begin, err := time.Parse(time.RFC3339, c.begin)
		r.must(err)
		l.now = begin.UnixMilli()
		l.still.Store(l.now)
		l.sites = []store.Site{l.site, l.newSite(store.Site{Key: "shop", Name: "Shop", BotName: "Eddy"})}
		for i, name := range []string{"sales", "parts"} {
			g, err := l.CreateGroup(t.Context(), store.Group{Name: name, Settings: store.GroupSettings{Target: int64(1-i) * 20 * store.SlotMinute}})
			r.must(err)
			l.groups, l.targets[g.ID] = append(l.groups, g.ID), g.Settings.Target
		}
		for i := range 300 {
			l.step()
			l.now += int64(l.rnd.IntN(15)) * store.SlotMinute
			l.still.Store(l.now)
			if i%90 == 89 {
				l.drop()
			}
			if i%40 == 30 {
				r.must(r.b.Settle(t.Context(), l.Store))
			}
		}
		first, end := begin.UnixMilli(), l.now+store.SlotQuarter
		l.compare(first, end, zone(c.zone), store.ReportQuery{})
		l.compareFilters(first, end, zone(c.zone))
		l.compare(first+8*time.Hour.Milliseconds(), end-9*time.Hour.Milliseconds(), zone(c.zone), store.ReportQuery{})
		r.must(l.Close())
		again := openRig(t, r.b, place)
		l.Store = again.Store
		l.compare(first, end, zone(c.zone), store.ReportQuery{})
		r.must(r.b.Settle(t.Context(), again.Store))
		l.compareFilters(first, end, zone(c.zone))
		l.compare(first+8*time.Hour.Milliseconds(), end-9*time.Hour.Milliseconds(), zone(c.zone), store.ReportQuery{})
		if n, err := again.Recount(t.Context()); err != nil || n != 0 {
			t.Errorf("seed %d: %d numbers were wrong, %v", seed, n, err)
		}
		ratings := len(l.rated)
		for _, s := range l.gone {
			if s.measure == store.MeasureRated {
				ratings++
			}
		}
		if len(l.gone) == 0 || ratings == 0 {
			t.Errorf("seed %d: %d counts of conversations that are gone, %d ratings", seed, len(l.gone), ratings)
		}
	}
}
