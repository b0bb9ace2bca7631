package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// listed returns the ids of a list, page by page. between is called after each page but the last.
func (r *rig) listed(s store.Scope, f store.Filter, limit int, between func()) (ids []string, others int) {
	r.t.Helper()
	for cursor, pages := "", 0; ; pages++ {
		page, next, err := r.Cold().History(r.t.Context(), s, f, cursor, limit)
		r.must(err)
		if len(page) > limit || pages > 100 {
			r.t.Fatalf("%+v: %d conversations on page %d", f, len(page), pages)
		}
		for _, p := range page {
			ids = append(ids, p.ID)
			if p.Other {
				others++
			}
		}
		if cursor = next; next == "" {
			return ids, others
		}
		between()
	}
}

// testLists: lists have what their filter selects and the agent may see, those opened last first, and a search keeps to
// the same filter.
func testLists(t *testing.T, r *rig) {
	s := r.scoped("needle")
	tagged := func(conv, tag string) {
		r.do(store.Tag{Conv: conv, By: r.lin.Actor(), Add: []string{tag, "any"}})
	}
	tagged(s.had, "Refund")
	tagged(s.mine, "refund")
	tagged(s.queued, "re")
	r.do(store.Rate{Conv: s.had, By: s.ann.Actor(), Score: 2})
	r.do(store.Snooze{Conv: s.mine, By: r.lin.Actor(), Until: r.now().Add(time.Hour).UnixMilli()})
	shop := r.newSite(store.Site{Key: "shop", Name: "Shop"})
	names := map[string]string{s.had: "had", s.theirs: "theirs", s.queued: "queued", s.mine: "mine", s.elsewhere: "elsewhere"}
	opened := func(conv string) int64 { return r.head(conv).OpenedAt }
	all := store.Scope{Agent: r.lin.ID, All: true}
	for name, c := range map[string]struct {
		scope store.Scope
		f     store.Filter
		want  []string
	}{
		"all":                {all, store.Filter{}, []string{"elsewhere", "mine", "queued", "theirs", "had"}},
		"all that lin sees":  {store.Scope{Agent: r.lin.ID}, store.Filter{}, []string{"elsewhere", "mine", "queued", "had"}},
		"open":               {all, store.Filter{Open: true}, []string{"elsewhere", "mine", "queued", "theirs"}},
		"queued":             {all, store.Filter{State: store.Queued}, []string{"elsewhere", "queued"}},
		"assigned":           {all, store.Filter{State: store.Assigned}, []string{"mine", "theirs"}},
		"closed":             {all, store.Filter{State: store.Closed}, []string{"had"}},
		"closed for lin":     {store.Scope{Agent: r.lin.ID}, store.Filter{State: store.Closed}, []string{"had"}},
		"snoozed":            {all, store.Filter{Snoozed: true}, []string{"mine"}},
		"snoozed, tagged":    {all, store.Filter{Snoozed: true, Tag: "any"}, []string{"mine"}},
		"snoozed, of moe":    {all, store.Filter{Snoozed: true, Agent: r.moe.ID}, nil},
		"with the bot":       {all, store.Filter{State: store.InBot}, nil},
		"tag":                {all, store.Filter{Tag: "REFUND"}, []string{"mine", "had"}},
		"tag, closed":        {all, store.Filter{Tag: "any", State: store.Closed}, []string{"had"}},
		"no such tag":        {all, store.Filter{Tag: "refunds"}, nil},
		"agent":              {all, store.Filter{Agent: r.moe.ID}, []string{"theirs", "had"}},
		"agent, for lin":     {store.Scope{Agent: r.lin.ID}, store.Filter{Agent: r.moe.ID}, []string{"had"}},
		"agent and tag":      {all, store.Filter{Agent: r.lin.ID, Tag: "any"}, []string{"mine"}},
		"group":              {all, store.Filter{Group: s.group.ID}, []string{"elsewhere"}},
		"site":               {all, store.Filter{Site: r.site.ID, State: store.Closed}, []string{"had"}},
		"another site":       {all, store.Filter{Site: shop.ID}, nil},
		"contact":            {all, store.Filter{Contact: s.ann.ID}, []string{"theirs", "had"}},
		"contact, closed":    {all, store.Filter{Contact: s.ann.ID, State: store.Closed}, []string{"had"}},
		"from a moment":      {all, store.Filter{From: opened(s.queued)}, []string{"elsewhere", "mine", "queued"}},
		"before a moment":    {all, store.Filter{To: opened(s.queued)}, []string{"theirs", "had"}},
		"between":            {all, store.Filter{From: opened(s.theirs), To: opened(s.mine)}, []string{"queued", "theirs"}},
		"tag before":         {all, store.Filter{Tag: "any", To: opened(s.mine)}, []string{"queued", "had"}},
		"tag from":           {all, store.Filter{Tag: "any", From: opened(s.queued)}, []string{"mine", "queued"}},
		"agent from":         {all, store.Filter{Agent: r.moe.ID, From: opened(s.had) + 1}, []string{"theirs"}},
		"nothing of nobody":  {store.Scope{Agent: "nobody"}, store.Filter{State: store.Closed}, nil},
		"rated":              {all, store.Filter{ScoreFrom: 1, ScoreTo: 5}, []string{"had"}},
		"rated 2 or less":    {all, store.Filter{ScoreTo: 2}, []string{"had"}},
		"rated 3 or more":    {all, store.Filter{ScoreFrom: 3}, nil},
		"rated, with a tag":  {all, store.Filter{ScoreTo: 2, Tag: "refund"}, []string{"had"}},
		"rated, by lin":      {all, store.Filter{ScoreTo: 2, Agent: r.lin.ID}, nil},
		"rated, for nobody":  {store.Scope{Agent: "nobody"}, store.Filter{ScoreTo: 2}, nil},
		"of contact, tagged": {all, store.Filter{Contact: s.ann.ID, Tag: "re"}, nil},
	} {
		for _, limit := range []int{1, 2, 50} {
			got, _ := r.listed(c.scope, c.f, limit, func() {})
			for i, id := range got {
				got[i] = names[id]
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s by %d: %v, want %v", name, limit, got, c.want)
			}
		}
		var found []string
		hits, _, err := r.Cold().Search(t.Context(), c.scope, "needle", c.f, "", 50)
		r.must(err)
		for _, h := range hits {
			found = append(found, names[h.Event.Conv])
		}
		want := slices.DeleteFunc(slices.Clone(c.want), func(name string) bool { return name == "elsewhere" }) // nothing was said in it
		if !slices.Equal(found, want) {
			t.Errorf("%s, searched: %v, want %v", name, found, want)
		}
	}
	if _, others := r.listed(all, store.Filter{Agent: r.moe.ID}, 50, func() {}); others != 1 {
		t.Errorf("%d of others, want 1", others)
	}
	// The agent of a conversation before is not the agent of this one.
	eve := r.visitor()
	before := r.assigned(eve, r.moe).ID
	r.do(store.Move{Conv: before, Trigger: store.AgentClose, By: r.moe.Actor()})
	r.shift.Add(int64(48 * time.Hour))
	r.open(eve, true)
	if got, _ := r.listed(all, store.Filter{Contact: eve.ID, Agent: r.moe.ID}, 50, func() {}); !slices.Equal(got, []string{before}) {
		t.Errorf("of moe's customer %v, want %v", got, before)
	}
}

// testListsHoldStill: between the pages of a list, conversations close, are reopened and begin. What was in the list and
// still belongs there comes once.
func testListsHoldStill(t *testing.T, r *rig) {
	const n = 18 // every third stays open
	again := func(conv string, turn int) {
		r.do(store.Move{Conv: conv, Trigger: store.ReopenToQueue, By: r.moe.Actor()})
		r.do(store.Move{Conv: conv, Trigger: store.TakeOver, By: r.moe.Actor()})
		r.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: r.moe.Actor(), Reason: fmt.Sprint(turn)})
	}
	var convs, want []string
	for range n {
		convs = append(convs, r.assigned(r.visitor(), r.moe).ID)
		r.shift.Add(int64(time.Millisecond))
	}
	for i := range n { // closed in another order than opened
		i = i * 7 % n
		if i%3 != 0 {
			r.do(store.Move{Conv: convs[i], Trigger: store.AgentClose, By: r.moe.Actor()})
			r.shift.Add(int64(time.Millisecond))
		}
	}
	for i := n - 1; i >= 0; i-- {
		if i%3 != 0 {
			want = append(want, convs[i])
		}
	}
	turn := 0
	ids, _ := r.listed(store.Scope{All: true}, store.Filter{State: store.Closed}, 5, func() {
		again(convs[n-1-3*turn], turn)                                                          // on a page before
		again(convs[1+3*turn], turn)                                                            // on a page to come
		r.do(store.Move{Conv: convs[n-3-3*turn], Trigger: store.AgentClose, By: r.moe.Actor()}) // was open, and would have been before
		r.do(store.Move{Conv: r.assigned(r.visitor(), r.moe).ID, Trigger: store.AgentClose, By: r.moe.Actor()})
		r.shift.Add(int64(time.Millisecond))
		turn++
	})
	if turn == 0 || !slices.Equal(ids, want) {
		t.Errorf("after %d changes %v, want %v", turn, ids, want)
	}
}
