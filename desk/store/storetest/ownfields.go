package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// field makes an own field that all staff see and change.
func (r *rig) field(key string, kind store.FieldKind, choices ...string) store.OwnField {
	r.t.Helper()
	f := store.OwnField{Key: key, Label: "Label of " + key, Kind: kind, Choices: choices, See: store.FieldStaff, Edit: store.FieldStaff}
	r.must(r.CreateOwnField(r.t.Context(), f))
	return f
}

// setField sets a value of an own field as a program does, and returns the error.
func (r *rig) setField(c store.Contact, key, value string) error {
	_, err := r.PatchContact(r.t.Context(), store.ContactPatch{Contact: c.ID, Fields: map[string]string{key: value}})
	return err
}

func (r *rig) values(c store.Contact) map[string]string {
	r.t.Helper()
	v, err := r.Cold().FieldValues(r.t.Context(), c.ID)
	r.must(err)
	return v
}

// testOwnFields: definitions are bounded, ordered and unique, and no change of one loses a value without saying so.
func testOwnFields(t *testing.T, r *rig) {
	ctx := t.Context()
	plan := r.field("plan", store.FieldChoice, "Gold", "Silver", "Tin")
	r.field("since", store.FieldDate)
	if err := r.CreateOwnField(ctx, plan); !errors.Is(err, store.ErrExists) {
		t.Errorf("the same key: %v", err)
	}
	ann, ben := r.visitor(), r.visitor()
	r.must(r.setField(ann, "plan", "Gold"))
	r.must(r.setField(ben, "plan", "Gold"))
	problem := func(err error) (p store.Problem) {
		var invalid store.Invalid
		if errors.As(err, &invalid) {
			p = invalid[0]
		}
		return p
	}
	less := plan
	less.Choices = []string{"Silver", "Platinum"}
	if p := problem(r.UpdateOwnField(ctx, less)); p.Field != "choices" || p.Reason != store.ReasonInUse || p.Limit != 2 {
		t.Errorf("a choice that two have: %+v", p)
	}
	other := plan
	other.Kind, other.Choices = store.FieldText, nil
	if p := problem(r.UpdateOwnField(ctx, other)); p.Field != "kind" || p.Reason != store.ReasonInUse || p.Limit != 2 {
		t.Errorf("another kind: %+v", p)
	}
	plan.Label, plan.Position, plan.Choices = "Plan", 7, []string{"Platinum", "Gold", "Silver"} // nobody has Tin
	r.must(r.UpdateOwnField(ctx, plan))
	if err := r.UpdateOwnField(ctx, store.OwnField{Key: "nothing", Label: "x", Kind: store.FieldText, See: store.FieldStaff, Edit: store.FieldStaff}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a field that is not there: %v", err)
	}
	all, err := r.Cold().OwnFields(ctx)
	if err != nil || len(all) != 2 || all[0].Key != "since" || all[1].Label != "Plan" || !slices.Equal(all[1].Choices, plan.Choices) {
		t.Errorf("%+v %v", all, err)
	}
	for n := len(all); n < store.MaxOwnFields; n++ {
		r.field(fmt.Sprintf("f%d", n), store.FieldText)
	}
	if p := problem(r.CreateOwnField(ctx, store.OwnField{Key: "more", Label: "x", Kind: store.FieldText, See: store.FieldStaff, Edit: store.FieldStaff})); p.Field != "fields" || p.Limit != store.MaxOwnFields {
		t.Errorf("one too many: %+v", p)
	}
	if _, err := r.DropOwnField(ctx, "plan", 1, 10); !errors.Is(err, store.ErrInUse) || len(r.values(ann)) != 1 {
		t.Errorf("removed with more values than was said: %v", err)
	}
	if more, err := r.DropOwnField(ctx, "plan", 2, 1); !more || err != nil {
		t.Errorf("the first part: %v %v", more, err)
	}
	if n, err := r.Cold().FieldUse(ctx, "plan"); n != 1 || err != nil {
		t.Errorf("%d values after the first part, %v", n, err)
	}
	if more, err := r.DropOwnField(ctx, "plan", 2, 1); more || err != nil || len(r.values(ann))+len(r.values(ben)) != 0 {
		t.Errorf("the last part: %v %v", more, err)
	}
	if _, err := r.DropOwnField(ctx, "plan", 0, 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	r.field("plan", store.FieldText) // the key is free again, and has no values of before
	if v := r.values(ann); len(v) != 0 {
		t.Errorf("values of before: %v", v)
	}
}

// testFieldValues: values have the form of their kind, are checked against the role, and change all or nothing.
func testFieldValues(t *testing.T, r *rig) {
	ctx := t.Context()
	for _, k := range store.FieldKinds() {
		var choices []string
		if k == store.FieldChoice {
			choices = []string{"Gold", "Silver"}
		}
		r.field(string(k), k, choices...)
	}
	r.must(r.CreateOwnField(ctx, store.OwnField{Key: "credit", Label: "Credit", Kind: store.FieldNumber, See: store.FieldStaff, Edit: store.FieldSupervisors}))
	r.must(r.CreateOwnField(ctx, store.OwnField{Key: "secret", Label: "Secret", Kind: store.FieldText, See: store.FieldAdmins, Edit: store.FieldPrograms}))
	ann := r.visitor()
	for _, c := range []struct{ key, value, want string }{
		{"text", "  Ann's  ", "Ann's"}, {"text", strings.Repeat("é", store.MaxFieldValue), strings.Repeat("é", store.MaxFieldValue)}, {"number", "007.50", "7.5"}, {"number", "-0", "0"}, {"number", "-0.10", "-0.1"},
		{"number", "000000000000000000001", "1"}, {"date", "2024-02-29", "2024-02-29"}, {"choice", "Silver", "Silver"}, {"yes_no", "no", "no"}, {"yes_no", "", ""}, {"secret", "x", "x"},
	} {
		if err := r.setField(ann, c.key, c.value); err != nil || r.values(ann)[c.key] != c.want {
			t.Errorf("%s %q: %q %v", c.key, c.value, r.values(ann)[c.key], err)
		}
	}
	before := r.values(ann)
	refused := func(p store.ContactPatch, key string, barred bool) {
		t.Helper()
		p.Contact, p.Name, p.Attributes = ann.ID, "Mallory", map[string]string{"k": "v"}
		_, err := r.PatchContact(ctx, p)
		var fe *store.FieldError
		if !errors.As(err, &fe) || fe.Field != key || fe.Barred != barred {
			t.Errorf("%v as %q: %v", p.Fields, p.Role, err)
		}
	}
	for key, values := range map[string][]string{
		"text":   {strings.Repeat("x", store.MaxFieldValue+1), "two\nlines", "\xff"},
		"number": {"1e5", "1.", ".5", "1,5", "1234567890123456", "1.1234567", "--1", "x", strings.Repeat("0", store.MaxFieldValue) + "1"},
		"date":   {"2023-02-29", "29.2.2024", "2024-2-9"}, "choice": {"gold", "Tin"}, "yes_no": {"true", "YES"}, "nothing": {"x", ""},
	} {
		for _, v := range values {
			refused(store.ContactPatch{Fields: map[string]string{key: v}}, key, false)
		}
	}
	refused(store.ContactPatch{Fields: map[string]string{"credit": "1"}, Role: perm.Agent}, "credit", true)
	refused(store.ContactPatch{Fields: map[string]string{"text": "x"}, Role: perm.Auditor}, "text", true)
	refused(store.ContactPatch{Fields: map[string]string{"secret": "x"}, Role: perm.Supervisor}, "secret", false)
	refused(store.ContactPatch{Fields: map[string]string{"secret": "x"}, Role: perm.Admin}, "secret", true)
	refused(store.ContactPatch{Fields: map[string]string{"text": "x"}, Role: "root"}, "text", false)
	if c, err := r.Cold().Contact(ctx, ann.ID); err != nil || c.Name == "Mallory" || len(c.Attributes) != 0 || !maps.Equal(r.values(ann), before) {
		t.Errorf("a refused change has changed %+v, %v, %v", c, r.values(ann), err)
	}
	if _, err := r.PatchContact(ctx, store.ContactPatch{Contact: ann.ID, Fields: map[string]string{"credit": "1"}, Role: perm.Supervisor}); err != nil || r.values(ann)["credit"] != "1" {
		t.Errorf("a supervisor: %v", err)
	}
	if _, err := r.PatchContact(ctx, store.ContactPatch{Contact: "nobody", Fields: map[string]string{"text": "x"}}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of nobody: %v", err)
	}
	var both sync.WaitGroup
	for _, v := range []string{"Gold", "Silver"} {
		both.Go(func() { r.must(r.setField(ann, "choice", v)) })
	}
	both.Wait()
	if v := r.values(ann)["choice"]; v != "Gold" && v != "Silver" {
		t.Errorf("two at once leave %q", v)
	}
}

// testFieldsApart: nothing that a page, a signed identity or a bot says changes an own field of the same name, and a
// program that saves a contact sets both, all or nothing.
func testFieldsApart(t *testing.T, r *rig) {
	ctx := t.Context()
	r.field("plan", store.FieldText)
	site := r.newSite(store.Site{Key: "asks", Name: "Asks", Settings: store.SiteSettings{PreChat: []store.Field{{Name: "plan", Label: "Plan", Type: "text"}}}})
	said := map[string]string{"plan": "free gold"}
	ann, err := r.IdentifyContact(ctx, site, store.Profile{External: "u1", Attributes: said}, newToken(), time.Now().Add(time.Hour))
	r.must(err)
	r.must(r.setField(ann, "plan", "tin"))
	_, err = r.IdentifyContact(ctx, site, store.Profile{External: "u1", Attributes: said}, newToken(), time.Now().Add(time.Hour))
	r.must(err)
	ben, err := r.CreateVisitor(ctx, site, newToken(), time.Now().Add(time.Hour))
	r.must(err)
	r.must(r.setField(ben, "plan", "tin"))
	r.do(store.Open{Contact: ben, Fields: said})
	_, err = r.PatchContact(ctx, store.ContactPatch{Contact: ben.ID, Attributes: map[string]string{"plan": "more gold"}})
	r.must(err)
	for _, c := range []store.Contact{ann, ben} {
		if v := r.values(c)["plan"]; v != "tin" {
			t.Errorf("an attribute has made it %q", v)
		}
	}
	if c, err := r.Cold().Contact(ctx, ann.ID); err != nil || c.Attributes["plan"] != "free gold" {
		t.Errorf("the attribute beside it: %+v %v", c, err)
	}
	if _, _, err := r.SaveContact(ctx, site, store.Profile{External: "u2", Fields: map[string]string{"nothing": "x"}}); err == nil {
		t.Error("saved with an unknown field")
	}
	c, fresh, err := r.SaveContact(ctx, site, store.Profile{External: "u2", Attributes: map[string]string{"plan": "a"}, Fields: map[string]string{"plan": "b"}})
	if err != nil || !fresh || c.Attributes["plan"] != "a" || r.values(c)["plan"] != "b" {
		t.Errorf("saved: %+v, new %v, %v, %v", c, fresh, r.values(c), err)
	}
	if again, fresh, err := r.SaveContact(ctx, site, store.Profile{External: "u2", Fields: map[string]string{"plan": ""}}); err != nil || fresh || again.ID != c.ID || len(r.values(c)) != 0 {
		t.Errorf("saved again: %+v, new %v, %v, %v", again, fresh, r.values(c), err)
	}
}

// testFieldsMergeErase: of merged contacts the second one's values count first, and an erased contact leaves none.
func testFieldsMergeErase(t *testing.T, r *rig) {
	ctx := t.Context()
	r.field("plan", store.FieldText)
	r.field("since", store.FieldDate)
	ann, ben, cat := r.visitor(), r.visitor(), r.visitor()
	r.must(r.setField(ann, "plan", "gold"))
	r.must(r.setField(ann, "since", "2024-01-01"))
	r.must(r.setField(ben, "plan", "tin"))
	r.must(r.setField(cat, "plan", "lead"))
	known, err := r.IdentifyContact(ctx, r.site, store.Profile{External: "u1"}, newToken(), time.Now().Add(time.Hour))
	r.must(err)
	if _, err := r.MergeContacts(ctx, ann.ID, known.ID); !errors.Is(err, store.ErrMerge) || len(r.values(ann)) != 2 || len(r.values(known)) != 0 {
		t.Errorf("an anonymous one into a verified one: %v", err)
	}
	_, err = r.MergeContacts(ctx, ann.ID, ben.ID)
	r.must(err)
	if v := r.values(ben); !maps.Equal(v, map[string]string{"plan": "tin", "since": "2024-01-01"}) || len(r.values(ann)) != 0 {
		t.Errorf("merged: %v, left %v", v, r.values(ann))
	}
	r.must(r.EraseContact(ctx, ben.ID))
	for range 2 {
		if v := r.values(ben); len(v) != 0 {
			t.Errorf("of an erased one: %v", v)
		}
		r.erase(100)
	}
	if v := r.values(cat); v["plan"] != "lead" {
		t.Errorf("of another one: %v", v)
	}
	if err := r.setField(ben, "plan", "x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of an erased one, set: %v", err)
	}
}

// testFieldSearch: contacts are found by a value or its beginning, on pages, together with other conditions. A reader to
// whom a value is hidden finds nobody by it.
func testFieldSearch(t *testing.T, r *rig) {
	r.field("plan", store.FieldText)
	named := func(name, plan string) store.Contact {
		c := r.patch(r.visitor(), name, nil)
		r.must(r.setField(c, "plan", plan))
		return c
	}
	named("Ann", "Gold 13800138000")
	ben := named("Ben", "Golden")
	named("Cat", "")
	silent := r.visitor()
	r.must(r.setField(silent, "plan", "tin")) // has only looked, but something is known
	mask := func(s string) string { return strings.ReplaceAll(s, "13800138000", "…") }
	for name, c := range map[string]struct {
		q    store.ContactQuery
		want []string
	}{
		"any value":         {store.ContactQuery{Field: "plan"}, []string{silent.Name, "Ben", "Ann"}},
		"in pages":          {store.ContactQuery{Field: "plan", Limit: 1}, []string{silent.Name, "Ben", "Ann"}},
		"a beginning":       {store.ContactQuery{Field: "plan", Value: "gold"}, []string{"Ben", "Ann"}},
		"and a word":        {store.ContactQuery{Field: "plan", Value: "gold", Words: "ann"}, []string{"Ann"}},
		"exactly":           {store.ContactQuery{Field: "plan", Value: "GOLDEN", Exact: true}, []string{"Ben"}},
		"not exactly":       {store.ContactQuery{Field: "plan", Value: "gold", Exact: true}, nil},
		"another field":     {store.ContactQuery{Field: "since", Value: "gold"}, nil},
		"the end":           {store.ContactQuery{Field: "plan", Value: "old"}, nil},
		"shown":             {store.ContactQuery{Field: "plan", Value: "golden", Seen: mask}, []string{"Ben"}},
		"a hidden value":    {store.ContactQuery{Field: "plan", Value: "gold 13800138000", Seen: mask}, nil},
		"a part of it":      {store.ContactQuery{Field: "plan", Value: "gold 1380", Seen: mask}, nil},
		"a long beginning":  {store.ContactQuery{Field: "plan", Value: "golden" + strings.Repeat("x", 200)}, nil},
		"no word in values": {store.ContactQuery{Words: "golden"}, nil},
	} {
		if got := r.contacts(c.q); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	_, err := r.BlockContact(t.Context(), ben.ID, true)
	r.must(err)
	if got := r.contacts(store.ContactQuery{Field: "plan", Value: "gold", Blocked: true}); !slices.Equal(got, []string{"Ben"}) {
		t.Errorf("blocked ones: %q", got)
	}
}
