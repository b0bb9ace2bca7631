package hub

import (
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Where a customer is is told to who serves it, kept as far as the site keeps it, shown beside the chat, and masked for
// whom private data are masked.
func TestVisit(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	ann, lin, moe := r.customer(), r.agent("lin"), r.agent("moe")
	said := proto.Visit{Page: "https://shop.example/cart?order=7", Title: "Cart of ann@example.com\n", Referrer: "https://search.example/?q=x", Zone: "Europe/Berlin"}
	r.ok(ann.Tell(r.ctx, "visit", "", said))
	conv := r.open(ann, "human")
	contact := ann.Me().ID
	stored := func(page string) func() bool {
		return func() bool {
			f, _, err := r.db.Cold().Visits(r.ctx, contact)
			return err == nil && f.Page == page
		}
	}
	r.waitFor("the page of before the chat in the database", stored("https://shop.example/cart"))
	r.ok(lin.Take(r.ctx, conv))
	r.ok(moe.Connected(r.ctx))
	got := ask[proto.ContactGot](r, lin, "contact.get", "", proto.ContactGet{Contact: contact})
	want := proto.Facts{Page: "https://shop.example/cart", Title: "Cart of ann@example.com", Referrer: "https://search.example", Zone: "Europe/Berlin", At: got.Visit.At}
	if got.Visit != want || got.Visit.At == 0 || got.Chats != 1 {
		t.Errorf("%+v, %d chats; want %+v", got.Visit, got.Chats, want)
	}
	r.ok(ann.Tell(r.ctx, "visit", "", proto.Visit{Page: "https://shop.example/pay", Referrer: "https://shop.example/cart"}))
	var now proto.VisitorNow
	if r.other(lin, isType("ev.visitor")).Decode(&now); now.Contact != contact || now.Visit.Page != "https://shop.example/pay" || now.Visit.Referrer != want.Referrer {
		t.Errorf("told %+v", now)
	}
	r.waitFor("the next page in the database", stored("https://shop.example/pay"))
	for _, f := range moe.Others() {
		if f.T == "ev.visitor" {
			t.Errorf("told to an agent whom it does not concern: %s", f.D)
		}
	}
	r.ok(ann.Tell(r.ctx, "visit", "", said))
	r.other(lin, isType("ev.visitor"))
	rea := r.staff("rea", perm.Auditor)
	r.ok(rea.Connected(r.ctx))
	if got := ask[proto.ContactGot](r, rea, "contact.get", "", proto.ContactGet{Contact: contact}); strings.Contains(got.Visit.Title, "ann@example.com") || got.Visit.Title == "" {
		t.Errorf("an auditor sees %+v", got.Visit)
	}
}

// A site that keeps nothing of visits is told nothing, and stores nothing.
func TestVisitsAreNotKept(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	site, err := r.db.Cold().SiteByKey(r.ctx, "demo")
	r.ok(err)
	site.Settings.Visits = store.KeepNothing
	r.ok(r.db.UpdateSite(r.ctx, site))
	r.waitFor("the setting", func() bool { return r.hub.visitsKept(site.ID) == store.KeepNothing })
	lin := r.agent("lin")
	for what, d := range map[string]any{
		"conv.open":  proto.Open{Wants: "human", Page: "https://shop.example/cart"},
		"conv.leave": proto.Leave{ClientID: newClientID(), Email: "ann@example.com", Body: "Hello?", Page: "https://shop.example/cart"},
	} {
		ann := r.customer()
		r.ok(ann.Tell(r.ctx, "visit", "", proto.Visit{Page: "https://shop.example/cart", Zone: "Europe/Berlin"}))
		f, err := ann.Do(r.ctx, what, "", d)
		r.ok(err)
		var opened proto.Opened
		f.Decode(&opened)
		r.ok(lin.Take(r.ctx, opened.Head.ID))
		got := ask[proto.ContactGot](r, lin, "contact.get", "", proto.ContactGet{Contact: ann.Me().ID})
		if got.Visit != (proto.Facts{}) || len(got.Convs) != 1 || got.Convs[0].Page != "" {
			t.Errorf("%s: %+v %+v", what, got.Visit, got.Convs)
		}
		if f, _, err := r.db.Cold().Visits(r.ctx, ann.Me().ID); err != nil || f != (store.Facts{}) {
			t.Errorf("%s: stored %+v %v", what, f, err)
		}
	}
}
