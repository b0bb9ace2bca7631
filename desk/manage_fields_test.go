package desk

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// visitorNamed is a visitor of the demo site.
func (p *pages) visitorNamed(name string, fields map[string]string) store.Contact {
	p.t.Helper()
	ctx, db := testkit.Context(p.t), p.d.store
	site, err := db.Cold().SiteByKey(ctx, "demo")
	if err != nil {
		p.t.Fatal(err)
	}
	_, hash := auth.NewToken()
	c, err := db.CreateVisitor(ctx, site, hash, time.Now().Add(time.Hour))
	if err != nil {
		p.t.Fatal(err)
	}
	if c, err = db.PatchContact(ctx, store.ContactPatch{Contact: c.ID, Name: name, Fields: fields}); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// field is the form of an own field.
func fieldForm(key, label, kind string, more ...string) url.Values {
	f := url.Values{"key": {key}, "label": {label}, "kind": {kind}, "see": {"staff"}, "edit": {"staff"}}
	for i := 0; i+1 < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

// Own fields are defined, changed and removed on pages. No value goes before somebody has seen how many go, and each step
// is recorded.
func TestManageFields(t *testing.T) {
	boss := managed(t)
	ctx, db := testkit.Context(t), boss.d.store
	if body := boss.get("/admin/fields", http.StatusOK); !strings.Contains(body, `data-testid="empty"`) {
		t.Error("the empty list does not say so")
	}
	boss.get("/admin/fields/new-field", http.StatusOK)
	if to := boss.post("/admin/fields", fieldForm("plan", "Plan <b>", "choice", "choices", "Gold\r\n Silver \r\n\r\n", "position", "2")); to != "/admin/fields/plan?done=created" {
		t.Errorf("leads to %s", to)
	}
	boss.post("/admin/fields", fieldForm("new", "New", "text", "choices", "left from before"))
	if body := boss.get("/admin/fields/new", http.StatusOK); !strings.Contains(body, `data-testid="delete"`) {
		t.Error("a field with the key new has no page")
	}
	for name, c := range map[string]struct {
		form  url.Values
		field string
		says  string
	}{
		"no name":         {fieldForm("a", "", "text"), "label", "Fill this in"},
		"a long name":     {fieldForm("a", strings.Repeat("é", 61), "text"), "label", "60"},
		"a bad key":       {fieldForm("A b", "A", "text"), "key", "form"},
		"a long key":      {fieldForm(strings.Repeat("a", 41), "A", "text"), "key", "40"},
		"a key twice":     {fieldForm("plan", "A", "text"), "key", "taken"},
		"no choices":      {fieldForm("a", "A", "choice"), "choices", "Fill this in"},
		"many choices":    {fieldForm("a", "A", "choice", "choices", strings.Repeat("x\n", 20)+strings.Repeat("y\n", 31)), "choices", "50"},
		"a long choice":   {fieldForm("a", "A", "choice", "choices", strings.Repeat("x", 81)), "choices", "80"},
		"a choice twice":  {fieldForm("a", "A", "choice", "choices", "x\nx"), "choices", "twice"},
		"no such kind":    {fieldForm("a", "A", "picture"), "kind", "exist"},
		"wider to change": {fieldForm("a", "A", "text", "see", "admins"), "edit", "may not see"},
		"a place":         {fieldForm("a", "A", "text", "position", "1001"), "position", "1000"},
		"no such level":   {fieldForm("a", "A", "text", "see", "programs"), "see", ""},
	} {
		if errs, _ := boss.refused("/admin/fields", c.form, http.StatusUnprocessableEntity); !strings.Contains(errs[c.field], c.says) {
			t.Errorf("%s: %q", name, errs)
		}
	}
	ann, ben := boss.visitorNamed("Ann", map[string]string{"plan": "Gold"}), boss.visitorNamed("Ben", map[string]string{"plan": "Gold"})
	body := boss.get("/admin/fields/plan", http.StatusOK)
	if !strings.Contains(visible(body), "Customers with a value: 2") || strings.Contains(body, "Plan <b>") {
		t.Errorf("the page: %s", visible(body))
	}
	version := versionIn(body)
	if errs, _ := boss.refused("/admin/fields/plan", fieldForm("", "Plan", "choice", "choices", "Silver"), http.StatusUnprocessableEntity); !strings.Contains(errs["choices"], "have them: 2") {
		t.Errorf("a choice that two have: %q", errs)
	}
	if errs, _ := boss.refused("/admin/fields/plan", fieldForm("", "Plan", "text"), http.StatusUnprocessableEntity); !strings.Contains(errs["kind"], "have them: 2") {
		t.Errorf("another kind: %q", errs)
	}
	boss.post("/admin/fields/plan", fieldForm("other", "Plan", "choice", "choices", "Gold\nTin", "see", "supervisors", "edit", "admins"))
	boss.refused("/admin/fields/plan", fieldForm("", "Mine", "choice", "choices", "Gold", "version", version), http.StatusConflict)
	all, err := db.Cold().OwnFields(ctx)
	if err != nil || len(all) != 2 || all[1].Label != "Plan" && all[0].Label != "Plan" {
		t.Errorf("%+v %v", all, err)
	}
	at := "/admin/fields/plan/delete"
	for name, form := range map[string]url.Values{"not sure": {"values": {"2"}}, "not told": {"sure": {"on"}}, "told less": {"sure": {"on"}, "values": {"1"}}} {
		if errs, body := boss.refused(at, form, http.StatusUnprocessableEntity); errs["sure"] == "" || !strings.Contains(visible(body), "Customers with a value: 2") || !strings.Contains(body, `value="Plan"`) {
			t.Errorf("removed %s: %q", name, errs)
		}
	}
	for _, c := range []store.Contact{ann, ben} {
		if v, err := db.Cold().FieldValues(ctx, c.ID); err != nil || v["plan"] != "Gold" {
			t.Errorf("%s has %v (%v)", c.Name, v, err)
		}
	}
	boss.post(at, url.Values{"sure": {"on"}, "values": {"2"}})
	boss.get("/admin/fields/plan", http.StatusNotFound)
	boss.post("/admin/fields/new/delete", url.Values{"values": {"0"}}) // nobody has a value
	boss.refusedAt(at, http.StatusNotFound)
	if v, err := db.Cold().FieldValues(ctx, ann.ID); err != nil || len(v) != 0 {
		t.Errorf("left: %v (%v)", v, err)
	}
	for action, detail := range map[string]string{store.AuditCreate: "choice, seen by staff, changed by staff", store.AuditUpdate: "choice, seen by supervisors, changed by admins", store.AuditDelete: "2 values"} {
		lines, err := db.Cold().Audit(ctx, store.AuditQuery{Action: action, Target: "field plan"})
		if err != nil || len(lines) != 1 || lines[0].Detail != detail {
			t.Errorf("%s is recorded as %+v (%v)", action, lines, err)
		}
	}
}

// refusedAt posts an empty form.
func (p *pages) refusedAt(path string, want int) {
	p.t.Helper()
	if status, _, _ := p.ask("POST", path, url.Values{}); status != want {
		p.t.Errorf("POST %s: %d, want %d", path, status, want)
	}
}

func versionIn(body string) string {
	_, rest, _ := strings.Cut(body, `name="version" value="`)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}

// The page of a customer shows the own fields that are for its reader, takes changes of those that the reader may change,
// and two who change at once do not overwrite each other. The list finds customers by a value.
func TestManageFieldValues(t *testing.T) {
	boss := managed(t)
	ctx, db := testkit.Context(t), boss.d.store
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []store.OwnField{
		{Key: "phone", Label: "Phone", Kind: store.FieldText, See: store.FieldSupervisors, Edit: store.FieldSupervisors},
		{Key: "credit", Label: "Credit", Kind: store.FieldNumber, See: store.FieldStaff, Edit: store.FieldAdmins},
		{Key: "since", Label: "Since", Kind: store.FieldDate, See: store.FieldStaff, Edit: store.FieldStaff},
		{Key: "vip", Label: "VIP", Kind: store.FieldYesNo, See: store.FieldAdmins, Edit: store.FieldAdmins},
	} {
		ok(db.CreateOwnField(ctx, f))
	}
	ann := boss.visitorNamed("Ann", map[string]string{"phone": "13800138000", "credit": "5", "vip": "yes"})
	boss.visitorNamed("Ben", map[string]string{"phone": "13800", "credit": "50", "vip": "no"})
	at := "/admin/contacts/" + ann.ID
	first := boss.get(at, http.StatusOK)
	if text := visible(first); !strings.Contains(text, "VIP Yes") || !strings.Contains(text, "Phone 13800138000") || strings.Contains(first, `data-testid="own-since"`) {
		t.Errorf("the page: %s", text)
	}
	_, cookie := employ(t, boss.d, perm.Auditor, "rea")
	rea := &pages{t: t, d: boss.d, cookie: cookie}
	_, cookie = employ(t, boss.d, perm.Supervisor, "sue")
	sue := &pages{t: t, d: boss.d, cookie: cookie}
	if body := rea.get(at, http.StatusOK); strings.Contains(body, "13800138000") || strings.Contains(body, "VIP") || !strings.Contains(body, `data-testid="own-phone"`) || strings.Contains(body, "save-fields") {
		t.Errorf("the auditor's page: %s", visible(body))
	}
	if body := sue.get(at, http.StatusOK); strings.Contains(body, "VIP") || !strings.Contains(body, `name="own_phone"`) || strings.Contains(body, `name="own_credit"`) {
		t.Errorf("the supervisor's page: %s", visible(body))
	}
	rea.refusedAt(at+"/fields", http.StatusForbidden)
	seen := versionIn(sue.get(at, http.StatusOK))
	sue.post(at+"/fields", url.Values{"own_phone": {"13900139000"}, "own_since": {"2024-02-29"}, "own_credit": {"1000000"}, "own_vip": {""}})
	want := map[string]string{"phone": "13900139000", "credit": "5", "since": "2024-02-29", "vip": "yes"}
	check := func() {
		t.Helper()
		v, err := db.Cold().FieldValues(ctx, ann.ID)
		if ok(err); len(v) != len(want) {
			t.Errorf("values %v, want %v", v, want)
		}
		for key, value := range want {
			if v[key] != value {
				t.Errorf("%s is %q, want %q", key, v[key], value)
			}
		}
	}
	check()
	sue.refused(at+"/fields", url.Values{"own_phone": {"13700137000"}, "version": {seen}}, http.StatusConflict)
	if errs, body := boss.refused(at+"/fields", url.Values{"own_credit": {"a lot"}, "own_since": {"2023-02-29"}}, http.StatusUnprocessableEntity); errs["own_credit"] == "" || errs["own_since"] == "" || !strings.Contains(body, `value="a lot"`) {
		t.Errorf("wrong values: %q", errs)
	}
	check()
	if errs, body := boss.refused(at+"/merge", url.Values{"into": {"nobody"}}, http.StatusUnprocessableEntity); errs["into"] == "" || !strings.Contains(body, `name="own_phone" value="13900139000"`) {
		t.Error("after another form of the page was refused, the fields are empty")
	}
	boss.post(at+"/fields", url.Values{"own_vip": {"no"}, "own_credit": {""}})
	want["vip"] = "no"
	delete(want, "credit")
	check()
	lines, err := db.Cold().Audit(ctx, store.AuditQuery{Action: store.AuditUpdate, Target: "contact " + ann.ID})
	if err != nil || len(lines) != 2 || lines[0].Detail != "fields credit, vip" || lines[1].Detail != "fields phone, since" {
		t.Errorf("recorded: %+v (%v)", lines, err)
	}
	boss.refusedAt("/admin/contacts/nobody/fields", http.StatusNotFound)
	for query, want := range map[string]int{
		"?field=phone": 2, "?field=phone&value=138": 1, "?field=phone&value=139": 1, "?field=phone&value=9": 0, "?field=credit&value=5": 0, "?field=credit&value=050.0": 1,
		"?field=vip&value=No": 2, "?field=vip&value=yes": 0, "?field=since&value=2024-02-29": 1, "?field=": 2,
	} {
		if got := strings.Count(boss.get("/admin/contacts"+query, http.StatusOK), `data-testid="contact-row"`); got != want {
			t.Errorf("%s: %d rows, want %d", query, got, want)
		}
	}
	sue.get("/admin/contacts?field=vip", http.StatusBadRequest) // not for a supervisor
	boss.get("/admin/contacts?field=nothing", http.StatusBadRequest)
	for query, want := range map[string]int{"?field=phone": 2, "?field=phone&value=1390013": 0, "?field=phone&value=13900139000": 0, "?field=phone&value=13800": 1} {
		if got := strings.Count(rea.get("/admin/contacts"+query, http.StatusOK), `data-testid="contact-row"`); got != want {
			t.Errorf("the auditor's %s: %d rows, want %d", query, got, want)
		}
	}
}
