package storetest

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/store"
)

func newToken() (t store.Token) {
	id := uuid.New()
	copy(t[:], id[:])
	return t
}

// testIdentify: a verified contact is found by its external id within its site. An anonymous contact never becomes
// verified.
func testIdentify(t *testing.T, r *rig) {
	ctx, later := t.Context(), time.Now().Add(time.Hour)
	identify := func(site store.Site, p store.Profile, token store.Token) store.Contact {
		t.Helper()
		c, err := r.IdentifyContact(ctx, site, p, token, later)
		r.must(err)
		return c
	}
	anonymous := r.visitor()
	a, b := newToken(), newToken()
	first := identify(r.site, store.Profile{External: "u1", Name: "Ann", Locale: "zh-CN", Attributes: map[string]string{"plan": "gold"}}, a)
	if first.ID == anonymous.ID || !first.Verified || first.Name != "Ann" || first.Locale != "zh-CN" || first.External != "u1" || first.Attributes["plan"] != "gold" {
		t.Fatalf("%+v", first)
	}
	again := identify(r.site, store.Profile{External: "u1", Attributes: map[string]string{"age": "7"}}, b)
	if again.ID != first.ID || again.Name != "Ann" || !maps.Equal(again.Attributes, map[string]string{"plan": "gold", "age": "7"}) {
		t.Errorf("%+v", again)
	}
	renamed := identify(r.site, store.Profile{External: "u1", Name: "Anne", Locale: "en"}, b)
	for _, token := range []store.Token{a, b} {
		c, err := r.Hot().ContactByToken(ctx, token, time.Now())
		if err != nil || c.ID != first.ID || c.Name != "Anne" || c.Locale != "en" || !c.Verified || c.Created == 0 || renamed.Name != "Anne" {
			t.Errorf("by token: %+v, %v", c, err)
		}
	}
	other := r.newSite(store.Site{Key: "other", Name: "Other"})
	if c := identify(other, store.Profile{External: "u1"}, newToken()); c.ID == first.ID || c.Site != other.ID || c.Name == "" {
		t.Errorf("the same id on another site: %+v", c)
	}
	if c := identify(r.site, store.Profile{External: "u2"}, newToken()); c.ID == first.ID || c.Name == "" {
		t.Errorf("another id: %+v", c)
	}
	if _, err := r.IdentifyContact(ctx, r.site, store.Profile{External: "u2"}, a, later); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("with the token of another contact: %v", err)
	}
	if c, err := r.Hot().ContactByToken(ctx, a, time.Now()); err != nil || c.ID != first.ID {
		t.Errorf("its token: %+v, %v", c, err)
	}
	r.must(r.ExtendVisitor(ctx, a, later.Add(time.Hour)))
	if c, err := r.Hot().ContactByToken(ctx, a, later.Add(time.Minute)); err != nil || c.ID != first.ID {
		t.Errorf("its token later: %+v, %v", c, err)
	}
	if err := r.ExtendVisitor(ctx, newToken(), later); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a token of nobody: %v", err)
	}
	for _, fresh := range []bool{true, false} {
		c, made, err := r.SaveContact(ctx, r.site, store.Profile{External: "u3", Name: "Cid"})
		if err != nil || made != fresh || c.Name != "Cid" || !c.Verified {
			t.Errorf("saved: %+v, new %v, %v", c, made, err)
		}
	}
	r.must(r.DropVisitor(ctx, a))
	if _, err := r.Hot().ContactByToken(ctx, a, time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a dropped token: %v", err)
	}
	if err := r.DropVisitor(ctx, a); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	r.must(r.SetLocale(ctx, anonymous.ID, "zh-CN"))
	if c, err := r.Hot().Contact(ctx, anonymous.ID); err != nil || c.Locale != "zh-CN" || c.Verified || c.External != "" {
		t.Errorf("%+v, %v", c, err)
	}
	if err := r.SetLocale(ctx, "nobody", "en"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("locale of nobody: %v", err)
	}
}

// testPreChat: answers to a site's questions before a chat are checked with the opening, and kept with the contact.
func testPreChat(t *testing.T, r *rig) {
	site := r.newSite(store.Site{Key: "asks", Name: "Asks", Settings: store.SiteSettings{
		Consent: "We keep what you write.",
		PreChat: []store.Field{{Name: "name", Label: "Name", Type: "text", Required: true}, {Name: "email", Label: "E-mail", Type: "email", Required: true}, {Name: "order", Label: "Order", Type: "text"}},
	}})
	visitor := func() store.Contact {
		c, err := r.CreateVisitor(t.Context(), site, newToken(), time.Now().Add(time.Hour))
		r.must(err)
		return c
	}
	ann := visitor()
	good := map[string]string{"name": " Ann ", "email": "ann@example.com", "plan": "was not asked"}
	for _, c := range []struct {
		field   string
		fields  map[string]string
		consent bool
	}{
		{"name", nil, true}, {"email", map[string]string{"name": "Ann"}, true}, {"email", map[string]string{"name": "Ann", "email": "ann"}, true},
		{"consent", good, false},
	} {
		out := r.try(store.Open{Contact: ann, Fields: c.fields, Consent: c.consent})
		var fe *store.FieldError
		if !errors.As(out.Err, &fe) || fe.Field != c.field || out.Conv.ID != "" {
			t.Errorf("%v: %+v", c, out)
		}
	}
	conv := r.do(store.Open{Contact: ann, Fields: good, Consent: true}).Conv
	if conv.ContactName != "Ann" || r.events(conv.ID, store.StaffSide)[0].From.Name != "Ann" {
		t.Errorf("%+v", conv)
	}
	kept, err := r.Hot().Contact(t.Context(), ann.ID)
	r.must(err)
	if kept.Name != "Ann" || !maps.Equal(kept.Attributes, map[string]string{"name": "Ann", "email": "ann@example.com"}) {
		t.Errorf("%+v", kept)
	}
	if out := r.do(store.Open{Contact: ann}); !out.Existing {
		t.Errorf("the open one: %+v", out)
	}
	r.do(store.Move{Conv: conv.ID, Trigger: store.CustomerClose, By: ann.Actor()})
	r.do(store.Open{Contact: ann, Consent: true}) // what is known is not asked again

	bob, err := r.IdentifyContact(t.Context(), site, store.Profile{External: "u1", Name: "Bob", Attributes: map[string]string{"email": "bob@example.com"}}, newToken(), time.Now().Add(time.Hour))
	r.must(err)
	r.do(store.Open{Contact: bob, Consent: true, Fields: map[string]string{"name": "Mallory", "email": "mallory@example.com", "order": "7"}})
	kept, err = r.Hot().Contact(t.Context(), bob.ID)
	r.must(err)
	if kept.Name != "Bob" || kept.Attributes["email"] != "bob@example.com" || kept.Attributes["order"] != "7" {
		t.Errorf("a verified contact: %+v", kept)
	}
}
