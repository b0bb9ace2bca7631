package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

func (r *rig) report(q store.ReportQuery) []store.ReportRow {
	r.t.Helper()
	if q.To == 0 {
		q.To = time.Now().Add(time.Duration(r.shift.Load())).Add(time.Hour).UnixMilli()
		q.From = q.To - 100*24*time.Hour.Milliseconds()
	}
	rows, err := r.Background().Report(r.t.Context(), q)
	r.must(err)
	return rows
}

func (r *rig) total() store.ReportRow {
	r.t.Helper()
	rows := r.report(store.ReportQuery{By: store.ByAll})
	if len(rows) != 1 {
		r.t.Fatalf("%d rows of everything", len(rows))
	}
	return rows[0]
}

// later moves the store's clock.
func (r *rig) later(d time.Duration) { r.shift.Add(int64(d)) }

// about allows for the time that passes by itself, and for the width of a bucket.
func about(got, want int64) bool { return got >= want && got < want+want/2+60_000 }

// Each number of a conversation's life is counted once, with its time, in the transaction of the change.
func testRollUps(t *testing.T, r *rig) {
	const minute = int64(60_000)
	ann := r.visitor()
	conv := r.open(ann, false)
	r.do(text(conv.ID, ann.Actor(), "a person, please"))
	r.do(store.Move{Conv: conv.ID, Trigger: store.Handoff, By: ann.Actor()})
	r.later(4 * time.Minute)
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.later(6 * time.Minute)
	r.do(store.Append{Conv: conv.ID, From: r.lin.Actor(), ClientID: "note", Body: "a note is not an answer", Note: true})
	hello := text(conv.ID, r.lin.Actor(), "hello")
	r.do(hello)
	r.do(hello) // once more: not counted
	r.do(text(conv.ID, r.lin.Actor(), "and again"))
	r.later(10 * time.Minute)
	r.do(store.Move{Conv: conv.ID, Trigger: store.Return, By: r.lin.Actor()})
	r.later(10 * time.Minute)
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.moe.Actor()})
	r.do(text(conv.ID, r.moe.Actor(), "hello from me, too"))
	r.later(30 * time.Minute)
	r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: r.moe.Actor()})

	left := r.open(r.visitor(), true)
	r.later(2 * time.Minute)
	r.do(store.Move{Conv: left.ID, Trigger: store.Abandon, By: system})
	bob := r.visitor()
	contained := r.open(bob, false).ID
	r.do(text(contained, bob.Actor(), "that was all"))
	r.do(store.Move{Conv: contained, Trigger: store.CustomerClose, By: bob.Actor()})
	r.refused(store.Move{Conv: left.ID, Trigger: store.Abandon, By: system}, store.ErrConflict)

	got := r.total()
	if got.Opened != 3 || got.Arrived != 2 || got.Abandoned != 1 || got.Closed != 3 || got.Contained != 1 || got.Handoff != 1 {
		t.Errorf("counts: %+v", got)
	}
	if got.Wait.N != 1 || !about(got.Wait.Mean, 4*minute) || got.Wait.Median != got.Wait.Mean {
		t.Errorf("wait: %+v", got.Wait)
	}
	if got.First.N != 1 || !about(got.First.Median, 10*minute) {
		t.Errorf("first response: %+v", got.First)
	}
	if got.Handle.N != 2 || !about(got.Handle.Mean, 23*minute) || !about(got.Handle.Median, 16*minute) || !about(got.Handle.P90, 30*minute) {
		t.Errorf("handled: %+v", got.Handle)
	}

	r.do(store.Move{Conv: conv.ID, Trigger: store.ReopenToQueue, By: r.lin.Actor()})
	r.do(store.Move{Conv: conv.ID, Trigger: store.TakeOver, By: r.lin.Actor()})
	r.do(text(conv.ID, r.lin.Actor(), "welcome back"))
	if got = r.total(); got.Opened != 4 || got.Arrived != 3 || got.Wait.N != 2 || got.First.N != 2 {
		t.Errorf("after it was reopened: %+v", got)
	}
	minutes, err := r.Background().Minutes(t.Context(), time.Now().UnixMilli()-2*minute)
	r.must(err)
	var arrived, taken, waited int64
	for i, m := range minutes {
		arrived, taken, waited = arrived+m.Arrived, taken+m.Left, waited+m.Waited
		if m.At%minute != 0 || i > 0 && m.At <= minutes[i-1].At {
			t.Errorf("minutes %+v", minutes)
		}
	}
	if arrived != 3 || taken != 2 || !about(waited, 4*minute) {
		t.Errorf("%d arrived, %d were taken after %d ms", arrived, taken, waited)
	}
	r.later(24 * time.Hour)
	r.open(r.visitor(), true)
	if minutes, err = r.Background().Minutes(t.Context(), 0); err != nil || len(minutes) != 1 {
		t.Errorf("old minutes are kept: %+v %v", minutes, err)
	}
}

func testReports(t *testing.T, r *rig) {
	sales := r.group("sales", r.lin)
	shop := r.newSite(store.Site{Key: "shop", Name: "A shop", Group: sales.ID})
	demo, score := r.site, 3
	take := func(site store.Site, by store.AgentAccount) {
		r.site = site
		visitor := r.visitor()
		conv := r.assigned(visitor, by)
		r.do(store.Move{Conv: conv.ID, Trigger: store.AgentClose, By: by.Actor()})
		if by.ID == r.lin.ID {
			r.do(store.Rate{Conv: conv.ID, By: visitor.Actor(), Score: score})
			score++
		}
	}
	take(demo, r.moe)
	take(shop, r.lin)
	r.later(48 * time.Hour)
	take(shop, r.lin)
	for by, want := range map[store.By][]string{
		store.ByAll: {""}, store.BySite: {"A shop", "Demo"}, store.ByGroup: {"", "sales"}, store.ByAgent: {"", "lin", "moe"},
	} {
		rows := r.report(store.ReportQuery{By: by})
		var opened, closed, waits int64
		for i, row := range rows {
			if i >= len(want) || row.Name != want[i] {
				t.Errorf("by %s: row %d is %+v, want %q", by, i, row, want)
			}
			if row.Name == "lin" && (row.Rated != 2 || row.Score != 3.5) || row.Name == "moe" && row.Rated != 0 {
				t.Errorf("ratings: %+v", row)
			}
			opened, closed, waits = opened+row.Opened, closed+row.Closed, waits+row.Wait.N
		}
		if opened != 3 || closed != 3 || waits != 3 || len(rows) != len(want) {
			t.Errorf("by %s: %d opened, %d closed, %d waits in %d rows", by, opened, closed, waits, len(rows))
		}
	}
	days := r.report(store.ReportQuery{By: store.ByDay})
	if len(days) != 2 || days[0].Closed != 2 || days[1].Closed != 1 {
		t.Errorf("by day: %+v", days)
	} else if a, err := time.Parse(time.DateOnly, days[0].Key); err != nil {
		t.Error(err)
	} else if b, err := time.Parse(time.DateOnly, days[1].Key); err != nil || b.Sub(a) != 48*time.Hour {
		t.Errorf("days %s and %s", days[0].Key, days[1].Key)
	}
	for _, hours := range []int64{-11, 0, 11} { // of two of them the dates differ
		offset := hours * time.Hour.Milliseconds()
		last := time.Now().Add(time.Duration(r.shift.Load())).UnixMilli()/store.SlotQuarter*store.SlotQuarter + offset
		q := store.ReportQuery{By: store.ByDay, From: last - offset - 10*24*time.Hour.Milliseconds(), To: last - offset + store.SlotQuarter, Offset: offset}
		if rows, want := r.report(q), time.UnixMilli(last).UTC().Format(time.DateOnly); len(rows) != 2 || rows[1].Key != want {
			t.Errorf("%d hours ahead the last day is %+v, want %s", hours, rows, want)
		}
	}
	day := (24 * time.Hour).Milliseconds()
	now := time.Now().UnixMilli()
	if rows := r.report(store.ReportQuery{By: store.ByAll, From: now - day, To: now + day}); len(rows) != 1 || rows[0].Closed != 2 {
		t.Errorf("the first two days: %+v", rows)
	}
	for name, q := range map[string]store.ReportQuery{
		"no period":   {By: store.ByDay, From: now, To: now},
		"too long":    {By: store.ByDay, From: now - (store.MaxReportDays+1)*day, To: now},
		"unknown":     {By: "moon", From: now - day, To: now},
		"before 1970": {By: store.ByDay, From: -1, To: now},
		"far away":    {By: store.ByDay, From: now - day, To: now, Offset: 2 * day},
	} {
		if rows, err := r.Background().Report(t.Context(), q); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v %v", name, rows, err)
		}
	}
}

// testReportRatings: a score counts where its conversation was closed, once, also when it comes late or is replaced, and
// stays when the conversation goes on.
func testReportRatings(t *testing.T, r *rig) {
	ann := r.visitor()
	conv := r.assigned(ann, r.lin).ID
	r.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: r.lin.Actor()})
	closed := r.head(conv).ClosedAt
	r.do(store.Tag{Conv: conv, By: r.lin.Actor(), Add: []string{"vip"}})
	period := store.ReportQuery{From: closed - closed%store.SlotQuarter, To: closed - closed%store.SlotQuarter + store.SlotQuarter}
	check := func(what string, scores ...int64) {
		t.Helper()
		for _, by := range []store.By{store.ByAgent, store.ByTag} {
			period.By = by
			var sum, n int64
			for i, c := range scores {
				sum, n = sum+int64(i+1)*c, n+c
			}
			rows := r.report(period)
			row := rows[slices.IndexFunc(rows, func(row store.ReportRow) bool { return row.Name == "lin" || row.Name == "vip" })]
			if row.Rated != n || !slices.Equal(row.Scores[:], scores) || row.Score != float64(sum)/float64(max(n, 1)) {
				t.Errorf("%s by %s: %d rated %v, %v, want %v", what, by, row.Rated, row.Score, row.Scores, scores)
			}
		}
	}
	check("not rated", 0, 0, 0, 0, 0)
	r.later(26 * time.Hour) // late
	r.do(store.Rate{Conv: conv, By: ann.Actor(), Score: 2})
	check("late", 0, 1, 0, 0, 0)
	r.do(store.Rate{Conv: conv, By: ann.Actor(), Score: 5})
	check("replaced", 0, 0, 0, 0, 1)
	ben := r.visitor()
	other := r.assigned(ben, r.moe).ID
	r.do(store.Move{Conv: other, Trigger: store.AgentClose, By: r.moe.Actor()})
	r.do(text(other, ben.Actor(), "one more thing"))
	r.refused(store.Rate{Conv: other, By: ben.Actor(), Score: 4}, store.ErrConflict)
	check("another is open again", 0, 0, 0, 0, 1)
	r.do(store.Tag{Conv: conv, By: r.lin.Actor(), Remove: []string{"vip"}})
	if rows := r.report(store.ReportQuery{By: store.ByTag}); len(rows) != 0 {
		t.Errorf("without a tag: %+v", rows)
	}
}

// testReportTargets: first answers within the time of their group meet its target; a later one, and a customer who leaves
// after it, miss it. One who leaves before, and groups without a target, say nothing.
func testReportTargets(t *testing.T, r *rig) {
	sales := r.group("sales", r.lin, r.moe)
	sales.Settings.Target = 5 * store.SlotMinute
	r.must(r.UpdateGroup(t.Context(), sales))
	r.still.Store(time.Now().UnixMilli())
	ahead := func(ms int64) { r.still.Add(ms) }
	site := r.newSite(store.Site{Key: "shop", Name: "Shop", Group: sales.ID})
	check := func(what string, targeted, within int64) {
		t.Helper()
		if got := r.total(); got.Targeted != targeted || got.Within != within {
			t.Errorf("%s: %d of %d, want %d of %d", what, got.Within, got.Targeted, within, targeted)
		}
	}
	answered := func(after int64) (store.Contact, string) {
		t.Helper()
		c := r.visitor()
		conv := r.open(c, true).ID
		ahead(after)
		r.do(store.Move{Conv: conv, Trigger: store.TakeOver, By: r.lin.Actor()})
		r.do(text(conv, r.lin.Actor(), "hello"))
		return c, conv
	}
	answered(sales.Settings.Target + 1)
	check("no target", 0, 0)
	r.site = site
	_, conv := answered(sales.Settings.Target)
	check("in time", 1, 1)
	answered(sales.Settings.Target + 1)
	check("late", 2, 1)
	r.do(store.Move{Conv: conv, Trigger: store.Return, By: r.lin.Actor()})
	ahead(2 * sales.Settings.Target)
	r.do(store.Move{Conv: conv, Trigger: store.TakeOver, By: r.moe.Actor()})
	r.do(text(conv, r.moe.Actor(), "hello from me, too"))
	check("the second agent's first answer", 2, 1)
	for _, wait := range []int64{sales.Settings.Target, sales.Settings.Target + 1} {
		left := r.open(r.visitor(), true).ID
		ahead(wait)
		r.do(store.Move{Conv: left, Trigger: store.Abandon, By: system})
	}
	check("two have left", 3, 1)
}
