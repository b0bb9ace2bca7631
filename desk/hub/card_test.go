package hub

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/geo"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// fields makes a field of each level, all of them with a value of the contact.
func (r *rig) fields(contact string) {
	r.t.Helper()
	values := make(map[string]string)
	for i, f := range []store.OwnField{
		{Key: "phone", Label: "Phone", Kind: store.FieldText, See: store.FieldStaff, Edit: store.FieldStaff},
		{Key: "credit", Label: "Credit", Kind: store.FieldNumber, See: store.FieldStaff, Edit: store.FieldSupervisors},
		{Key: "risk", Label: "Risk", Kind: store.FieldYesNo, See: store.FieldSupervisors, Edit: store.FieldAdmins},
		{Key: "plan", Label: "Plan", Kind: store.FieldChoice, Choices: []string{"Gold", "Tin"}, See: store.FieldAdmins, Edit: store.FieldPrograms},
	} {
		f.Position = i
		r.ok(r.db.CreateOwnField(r.ctx, f))
		values[f.Key] = map[string]string{"phone": "13800138000", "credit": "5", "risk": "yes", "plan": "Gold"}[f.Key]
	}
	_, err := r.db.PatchContact(r.ctx, store.ContactPatch{Contact: contact, Fields: values})
	r.ok(err)
}

// Each role sees and changes the own fields that are for it, and what it may not see is unknown to it. What is private is
// masked, and each change is recorded without its values.
func TestOwnFieldsOfRoles(t *testing.T) {
	r := newRig(t, Options{Limits: testLimits()})
	c := r.chat()
	r.fields(c.contact)
	get := func(who *desktest.Client) proto.ContactGot {
		t.Helper()
		return ask[proto.ContactGot](r, who, "contact.get", "", proto.ContactGet{Contact: c.contact})
	}
	boss, ada, rea := r.staff("boss", perm.Supervisor), r.staff("ada", perm.Admin), r.staff("rea", perm.Auditor)
	all := map[string]string{"phone": "13800138000", "credit": "5", "risk": "yes", "plan": "Gold"}
	some := func(keys ...string) map[string]string {
		m := make(map[string]string)
		for _, k := range keys {
			m[k] = all[k]
		}
		return m
	}
	for name, want := range map[string]struct {
		who    *desktest.Client
		values map[string]string
		edit   string
	}{
		"an agent": {c.lin, some("phone", "credit"), "phone"}, "a supervisor": {boss, some("phone", "credit", "risk"), "phone credit"}, "an administrator": {ada, all, "phone credit risk"},
	} {
		got := get(want.who)
		var edit []string
		for _, f := range got.Own {
			if f.Edit {
				edit = append(edit, f.Key)
			}
		}
		if !maps.Equal(got.Contact.Fields, want.values) || len(got.Own) != len(want.values) || strings.Join(edit, " ") != want.edit {
			t.Errorf("%s sees %v, changes %v", name, got.Contact.Fields, edit)
		}
	}
	if got := get(ada); got.Own[3].Kind != "choice" || !slices.Equal(got.Own[3].Choices, []string{"Gold", "Tin"}) || got.Own[0].Label != "Phone" {
		t.Errorf("definitions %+v", got.Own)
	}
	if got := get(rea); len(got.Own) != 3 || got.Contact.Fields["phone"] == all["phone"] || got.Contact.Fields["phone"] == "" || got.Contact.Fields["credit"] != "5" {
		t.Errorf("an auditor sees %+v", got.Contact.Fields)
	}
	patch := func(who *desktest.Client, key, value string) (proto.Code, string) {
		t.Helper()
		f, err := who.Do(r.ctx, "contact.patch", "", proto.ContactPatch{Contact: c.contact, Fields: map[string]string{key: value}})
		r.ok(err)
		var e proto.Error
		if f.T == "err" {
			f.Decode(&e)
		}
		return e.Code, e.Text
	}
	for _, try := range []struct {
		who        *desktest.Client
		key, value string
		code       proto.Code
		text       string
	}{
		{c.lin, "credit", "6", proto.CodeForbidden, "field credit is not yours to change"}, {c.lin, "risk", "no", proto.CodeBadRequest, "field risk is unknown"},
		{boss, "plan", "Tin", proto.CodeBadRequest, "field plan is unknown"}, {ada, "plan", "Tin", proto.CodeForbidden, "field plan is not yours to change"},
		{c.lin, "nothing", "x", proto.CodeBadRequest, "field nothing is unknown"}, {boss, "credit", "1e9", proto.CodeBadRequest, "field credit must be a number"},
		{rea, "phone", "1", proto.CodeForbidden, "you may not do this"},
	} {
		if code, text := patch(try.who, try.key, try.value); code != try.code || !strings.Contains(text, try.text) {
			t.Errorf("%s=%s: %s %q", try.key, try.value, code, text)
		}
	}
	changed := ask[proto.ContactChanged](r, c.lin, "contact.patch", "", proto.ContactPatch{Contact: c.contact, Fields: map[string]string{"phone": "13900139000"}})
	if !maps.Equal(changed.Contact.Fields, map[string]string{"phone": "13900139000", "credit": "5"}) {
		t.Errorf("answered %v", changed.Contact.Fields)
	}
	if code, _ := patch(boss, "credit", ""); code != "" || get(boss).Contact.Fields["credit"] != "" {
		t.Errorf("removed: %s %v", code, get(boss).Contact.Fields)
	}
	blocked := ask[proto.ContactChanged](r, boss, "contact.block", "", proto.ContactBlock{Contact: c.contact, Blocked: true})
	if blocked.Contact.Fields["phone"] != "13900139000" {
		t.Errorf("the answer to a block has %v", blocked.Contact.Fields)
	}
	if rows := r.audited(store.AuditUpdate); !slices.ContainsFunc(rows, func(a store.AuditRow) bool {
		return a.Target == "contact "+c.contact && a.Detail == "fields phone" && a.Who.Name == "lin"
	}) {
		t.Errorf("not recorded: %+v", rows)
	}
	for _, row := range r.audited("") {
		if strings.Contains(row.Detail, "13900139000") {
			t.Errorf("the audit log has a value: %+v", row)
		}
	}
}

// The place of a customer's address is kept as far as the site keeps visits: nothing, the country, or the city, too. The
// customer is told nothing of it, nor of own fields.
func TestPlaceIsKeptAsTheSiteSays(t *testing.T) {
	for level, want := range map[string]geo.Place{store.KeepNothing: {}, store.KeepBasic: {Country: "GB"}, store.KeepFull: {Country: "GB", City: "London"}} {
		t.Run(level, func(t *testing.T) {
			r := newRig(t, Options{Limits: testLimits()})
			site, err := r.db.Cold().SiteByKey(r.ctx, "demo")
			r.ok(err)
			site.Settings.Visits = level
			r.ok(r.db.UpdateSite(r.ctx, site))
			r.waitFor("the setting", func() bool { return r.hub.visitsKept(site.ID) == level })
			ann, read := r.customerAt(Peer{Place: geo.Place{Country: "GB", City: "London"}})
			lin := r.agent("lin")
			conv := r.open(ann, "human")
			r.ok(lin.Take(r.ctx, conv))
			r.ok(r.db.CreateOwnField(r.ctx, store.OwnField{Key: "plan", Label: "Plan of today", Kind: store.FieldText, See: store.FieldStaff, Edit: store.FieldStaff}))
			ask[proto.ContactChanged](r, lin, "contact.patch", "", proto.ContactPatch{Contact: ann.Me().ID, Fields: map[string]string{"plan": "golden"}})
			r.ok(ann.Tell(r.ctx, "visit", "", proto.Visit{Page: "https://shop.example/cart"}))
			var now proto.VisitorNow
			r.other(lin, isType("ev.visitor")).Decode(&now)
			got := ask[proto.ContactGot](r, lin, "contact.get", "", proto.ContactGet{Contact: ann.Me().ID})
			for what, f := range map[string]proto.Facts{"told": now.Visit, "on the card": got.Visit} {
				if f.Country != want.Country || f.City != want.City {
					t.Errorf("%s: %+v", what, f)
				}
			}
			r.waitFor("the visit in the database", func() bool {
				f, _, err := r.db.Cold().Visits(r.ctx, ann.Me().ID)
				return err == nil && f.At != 0 == (level != store.KeepNothing) && f.Country == want.Country && f.City == want.City
			})
			r.say(ann, conv, "hello")
			r.say(lin, conv, "hello, too")
			r.event(ann, conv, func(f desktest.Frame) bool { return strings.Contains(string(f.D), "hello, too") })
			if text := read.text(); strings.Contains(text, "London") || strings.Contains(text, `"country"`) || strings.Contains(text, "golden") || strings.Contains(text, "Plan of today") || !strings.Contains(text, "hello, too") {
				t.Errorf("the customer is told %s", text)
			}
		})
	}
}

// tap is a connection that keeps what its client reads.
type tap struct {
	desktest.Transport
	mu   sync.Mutex
	seen []byte
}

func (t *tap) Read(ctx context.Context) ([]byte, error) {
	frame, err := t.Transport.Read(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = append(t.seen, frame...)
	return frame, err
}

func (t *tap) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.seen)
}

// customerAt is a customer whose connection is known to be as p says, and what it reads.
func (r *rig) customerAt(p Peer) (*desktest.Client, *tap) {
	r.t.Helper()
	token, read := r.visitor(), &tap{}
	return r.client(func(context.Context) (desktest.Transport, proto.Hello, error) {
		read.Transport = r.dial(p).client()
		return read, proto.Hello{Token: token, Locale: "en"}, nil
	}), read
}
