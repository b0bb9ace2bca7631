package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
)

// testVisits: the last visit of a contact is known, with what led to it, and how many conversations it has had. Of an
// erased one nothing is.
func testVisits(t *testing.T, r *rig) {
	ctx := t.Context()
	ann := r.visitor()
	check := func(want store.Facts, chats int) {
		t.Helper()
		if f, n, err := r.Cold().Visits(ctx, ann.ID); err != nil || f != want || n != chats {
			t.Errorf("%+v, %d conversations, %v; want %+v, %d", f, n, err, want, chats)
		}
	}
	check(store.Facts{}, 0)
	first := store.Facts{Page: "https://shop.example/a", Title: "A", Referrer: "https://search.example", Browser: "Firefox, Linux", Zone: "Europe/Berlin", At: 1}
	r.do(store.Visited{Contact: ann.ID, Facts: first})
	check(first, 0)
	silent := r.do(store.Open{Contact: ann}).Conv.ID // nobody writes
	check(first, 1)
	r.do(store.Move{Conv: silent, Trigger: store.CustomerClose, By: ann.Actor()})
	check(first, 0)
	conv, _ := r.lived(ann, "hello")
	r.do(store.Visited{Contact: ann.ID, Facts: store.Facts{Page: "https://shop.example/b", At: 2}})
	check(store.Facts{Page: "https://shop.example/b", Referrer: first.Referrer, At: 2}, 1)
	r.do(store.Visited{Contact: ann.ID, Facts: store.Facts{}})
	check(store.Facts{}, 1)
	r.refused(store.Visited{Contact: "nobody", Facts: first}, store.ErrNotFound)
	if _, _, err := r.Cold().Visits(ctx, "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of nobody: %v", err)
	}
	r.do(store.Visited{Contact: ann.ID, Facts: first})
	r.must(r.EraseContact(ctx, ann.ID))
	r.refused(store.Visited{Contact: ann.ID, Facts: first}, store.ErrNotFound)
	if _, _, err := r.Cold().Visits(ctx, ann.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("reading of an erased contact: %v", err)
	}
	r.verify(conv)
}

// contacts returns the names of the contacts that a query finds, over all pages.
func (r *rig) contacts(q store.ContactQuery) (names []string) {
	r.t.Helper()
	for more := true; more; more = q.Cursor != "" {
		page, next, err := r.Cold().Contacts(r.t.Context(), q)
		r.must(err)
		for _, c := range page {
			names = append(names, c.Name)
		}
		q.Cursor = next
	}
	return names
}

func (r *rig) patch(c store.Contact, name string, attributes map[string]string) store.Contact {
	r.t.Helper()
	c, err := r.PatchContact(r.t.Context(), store.ContactPatch{Contact: c.ID, Name: name, Attributes: attributes})
	r.must(err)
	return c
}

// testContacts: contacts are found by the beginnings of words of whatever is known of them, and by the digits of numbers, on
// pages. Visitors who have only looked are not listed, and nobody is found by what is hidden from the reader.
func testContacts(t *testing.T, r *rig) {
	ctx := t.Context()
	r.visitor() // has only looked
	ann := r.patch(r.visitor(), "Ann Lee", map[string]string{"email": "Ann.Lee@example.com", "phone": "+49 (30) 123-45"})
	ben := r.patch(r.visitor(), "Ben Lee", map[string]string{"plan": `"gold" plan`})
	silent := r.visitor()
	r.open(silent, true)
	other := r.newSite(store.Site{Key: "other", Name: "Other"})
	cat, err := r.IdentifyContact(ctx, other, store.Profile{External: "U-77", Name: "王小明"}, newToken(), time.Now().Add(time.Hour))
	r.must(err)
	_, err = r.BlockContact(ctx, ben.ID, true)
	r.must(err)
	for name, c := range map[string]struct {
		q    store.ContactQuery
		want []string
	}{
		"all":                 {store.ContactQuery{}, []string{"王小明", silent.Name, "Ben Lee", "Ann Lee"}},
		"in pages":            {store.ContactQuery{Limit: 1}, []string{"王小明", silent.Name, "Ben Lee", "Ann Lee"}},
		"a name":              {store.ContactQuery{Words: "ANN"}, []string{"Ann Lee"}},
		"the second name":     {store.ContactQuery{Words: "le"}, []string{"Ben Lee", "Ann Lee"}},
		"in pages, by a word": {store.ContactQuery{Words: "lee", Limit: 1}, []string{"Ben Lee", "Ann Lee"}},
		"both names":          {store.ContactQuery{Words: "lee ann"}, []string{"Ann Lee"}},
		"mail":                {store.ContactQuery{Words: "ann.lee@EXAMPLE.com"}, []string{"Ann Lee"}},
		"telephone":           {store.ContactQuery{Words: "+49 30 / 12345"}, []string{"Ann Lee"}},
		"another field":       {store.ContactQuery{Words: "plan"}, []string{"Ben Lee"}},
		"external id":         {store.ContactQuery{Words: "u-77"}, []string{"王小明"}},
		"Chinese":             {store.ContactQuery{Words: "王"}, []string{"王小明"}},
		"the end of a word":   {store.ContactQuery{Words: "ee"}, nil},
		"an invented name":    {store.ContactQuery{Words: "Visitor"}, nil},
		"a site":              {store.ContactQuery{Site: other.ID}, []string{"王小明"}},
		"blocked":             {store.ContactQuery{Blocked: true}, []string{"Ben Lee"}},
		"hidden":              {store.ContactQuery{Words: "ann.lee@example.com", Seen: func(string) string { return "hidden" }}, nil},
		"shown":               {store.ContactQuery{Words: "lee", Seen: strings.ToUpper}, []string{"Ben Lee", "Ann Lee"}},
	} {
		if got := r.contacts(c.q); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if _, _, err := r.Cold().Contacts(ctx, store.ContactQuery{Cursor: "x"}); !errors.Is(err, store.ErrCursor) {
		t.Errorf("a cursor of nobody: %v", err)
	}
	r.patch(ann, "Anne", map[string]string{"email": ""})
	r.must(r.EraseContact(ctx, cat.ID))
	for words, want := range map[string][]string{"ann.": nil, "anne": {"Anne"}, "lee": {"Ben Lee"}, "王": nil, "u-77": nil} {
		if got := r.contacts(store.ContactQuery{Words: words}); !slices.Equal(got, want) {
			t.Errorf("after changes, %q: %q, want %q", words, got, want)
		}
	}
	r.must(r.NoteContact(ctx, ann.ID, "calls on Mondays"))
	if note, err := r.Cold().ContactNote(ctx, ann.ID); err != nil || note != "calls on Mondays" {
		t.Errorf("%q %v", note, err)
	}
	var invalid store.Invalid
	if err := r.NoteContact(ctx, ann.ID, strings.Repeat("é", store.MaxContactNote+1)); !errors.As(err, &invalid) || invalid[0].Limit != store.MaxContactNote {
		t.Errorf("a long note: %v", err)
	}
	if err := r.NoteContact(ctx, cat.ID, "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a note about an erased contact: %v", err)
	}
}

// testMerge: two contacts become one, with the chats, tokens and identities of both. A verified one is never merged with an
// anonymous one, and erasing the one erases both.
func testMerge(t *testing.T, r *rig) {
	ctx, later := t.Context(), time.Now().Add(time.Hour)
	tokens := []store.Token{newToken(), newToken()}
	identify := func(external string, token store.Token) store.Contact {
		t.Helper()
		c, err := r.IdentifyContact(ctx, r.site, store.Profile{External: external, Name: "Ann " + external, Attributes: map[string]string{"id": external, external: "x"}}, token, later)
		r.must(err)
		return c
	}
	first, second := identify("u1", tokens[0]), identify("u2", tokens[1])
	conv, _ := r.lived(first, "herring")
	r.must(r.NoteContact(ctx, first.ID, "one"))
	r.must(r.NoteContact(ctx, second.ID, "two"))
	other := r.newSite(store.Site{Key: "other", Name: "Other"})
	foreign, err := r.IdentifyContact(ctx, other, store.Profile{External: "u1"}, newToken(), later)
	r.must(err)
	busy := identify("busy", newToken())
	r.open(busy, true)
	blocked := identify("blocked", newToken())
	_, err = r.BlockContact(ctx, blocked.ID, true)
	r.must(err)
	for name, from := range map[string]string{"itself": second.ID, "an anonymous one": r.visitor().ID, "of another site": foreign.ID, "with an open chat": busy.ID, "blocked": blocked.ID} {
		if _, err := r.MergeContacts(ctx, from, second.ID); !errors.Is(err, store.ErrMerge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.MergeContacts(ctx, "nobody", second.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
	merged, err := r.MergeContacts(ctx, first.ID, second.ID)
	if err != nil || merged.ID != second.ID || merged.Name != "Ann u2" || merged.External != "u2" || merged.Attributes["id"] != "u2" || merged.Attributes["u1"] != "x" {
		t.Fatalf("%+v %v", merged, err)
	}
	if note, err := r.Cold().ContactNote(ctx, second.ID); err != nil || note != "two\none" {
		t.Errorf("note %q %v", note, err)
	}
	if c := r.head(conv); c.Contact != second.ID {
		t.Errorf("the chat is of %s", c.Contact)
	}
	for _, token := range tokens {
		if c, err := r.Hot().ContactByToken(ctx, token, time.Now()); err != nil || c.ID != second.ID {
			t.Errorf("by token: %+v %v", c, err)
		}
	}
	if c := identify("u1", tokens[0]); c.ID != second.ID {
		t.Errorf("by the first identity: %+v", c)
	}
	if c, err := r.Cold().Contact(ctx, first.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the first one: %+v %v", c, err)
	}
	third := identify("u3", newToken())
	if _, err := r.MergeContacts(ctx, second.ID, third.ID); err != nil {
		t.Fatal(err)
	}
	if c := identify("u1", newToken()); c.ID != third.ID {
		t.Errorf("by the first identity, after the second merge: %+v", c)
	}
	r.verify(conv)
	r.must(r.EraseContact(ctx, third.ID))
	if d, _ := r.erase(100); d.Conversations != 1 {
		t.Errorf("%d conversations went with the contact", d.Conversations)
	}
	if c := identify("u1", newToken()); c.ID == third.ID || c.ID == first.ID || c.ID == second.ID {
		t.Errorf("by the first identity, after it was erased: %+v", c)
	}
}

// testMergedLate: who was merged and does not know it yet is the other one in whatever it does, under its present name. What
// it says again is not stored twice, and no conversation is left behind by which the other one could not be erased.
func testMergedLate(t *testing.T, r *rig) {
	ctx := t.Context()
	ann, ben := r.visitor(), r.visitor()
	said, left := text(r.assigned(ann, r.lin).ID, ann.Actor(), "hello"), leave(ann, "later")
	conv := said.Conv
	first := r.do(said)
	old := r.upload(conv, ann.Actor())
	r.do(store.Move{Conv: conv, Trigger: store.AgentClose, By: r.lin.Actor()})
	later := r.do(left).Conv.ID
	r.do(store.Move{Conv: later, Trigger: store.CustomerClose, By: ann.Actor()})
	before := r.outbox(0)
	if _, err := r.MergeContacts(ctx, ann.ID, ben.ID); err != nil {
		t.Fatal(err)
	}
	if rows := r.outbox(before[len(before)-1].Seq); len(rows) != 1 || rows[0].Type != store.EventContact || rows[0].Contact != ben.ID {
		t.Errorf("programs are told %+v", rows)
	}
	r.patch(ben, "Ben", nil)
	if again := r.do(said); !again.Dup || again.Events[0].ID != first.Events[0].ID || r.head(conv).State != store.Closed {
		t.Errorf("said again: %+v", again)
	}
	if again := r.do(left); !again.Dup || again.Conv.ID != later {
		t.Errorf("left again: %+v", again)
	}
	if out := r.do(store.Rate{Conv: conv, By: ann.Actor(), Score: 5}); out.Conv.Score != 5 {
		t.Errorf("rated: %+v", out)
	}
	out := r.do(text(conv, ann.Actor(), "one more thing"))
	if e := out.Events[len(out.Events)-1]; e.From.ID != ben.ID || e.From.Name != "Ben" || out.Conv.State != store.Queued {
		t.Errorf("more: %+v", out)
	}
	if e := r.do(withFiles(conv, ann.Actor(), "", old, r.upload(conv, ann.Actor()))).Events[0]; len(e.Files) != 2 {
		t.Errorf("files: %+v", e)
	}
	if c := r.do(store.Move{Conv: conv, Trigger: store.CustomerClose, By: ann.Actor()}).Conv; c.State != store.Closed {
		t.Errorf("closed: %+v", c)
	}
	opened := r.do(store.Open{Contact: ann, Human: true}).Conv
	if opened.Contact != ben.ID || opened.ContactName != "Ben" || opened != r.head(opened.ID) {
		t.Errorf("opened: %+v", opened)
	}
	r.do(store.Move{Conv: opened.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	if c := r.do(leave(ann, "and this")).Conv; c.Contact != ben.ID {
		t.Errorf("left: %+v", c)
	}
	r.refused(text(conv, r.visitor().Actor(), "a stranger"), store.ErrNotFound)
	if err := r.EraseContact(ctx, ann.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("erasing who is the other one: %v", err)
	}
	r.must(r.EraseContact(ctx, ben.ID))
	r.refused(store.Open{Contact: ann}, store.ErrNotFound)
}
