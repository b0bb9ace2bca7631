package desk

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
)

// Programs set own fields with a contact, whoever may see them, within the limits, and read them masked. An attribute of
// the same name stays apart.
func TestFieldsOfPrograms(t *testing.T) {
	s := serve(t, testOptions(t))
	for _, f := range []store.OwnField{
		{Key: "plan", Label: "Plan", Kind: store.FieldChoice, Choices: []string{"Gold", "Tin"}, See: store.FieldAdmins, Edit: store.FieldPrograms},
		{Key: "phone", Label: "Phone", Kind: store.FieldText, See: store.FieldStaff, Edit: store.FieldStaff},
	} {
		s.ok(s.desk.store.CreateOwnField(s.ctx, f))
	}
	p := s.program(perm.KeyContacts, perm.KeyWrite)
	save := func(body string, want int) (stored api.Stored, problem string) {
		t.Helper()
		status, data := p.ask("POST", "/api/v1/contacts", body)
		if status != want {
			t.Fatalf("%s: %d %s", body, status, data)
		}
		if want == http.StatusOK {
			into(p, status, data, &stored)
		}
		return stored, string(data)
	}
	got, _ := save(`{"site":"demo","external":"u1","attributes":{"plan":"free"},"fields":{"plan":"Gold","phone":"13800138000"}}`, http.StatusOK)
	if !got.New || got.Fields["plan"] != "Gold" || got.Attributes["plan"] != "free" || got.Fields["phone"] == "13800138000" || got.Fields["phone"] == "" {
		t.Errorf("%+v", got)
	}
	if values, err := s.desk.store.Cold().FieldValues(s.ctx, got.ID); err != nil || values["phone"] != "13800138000" {
		t.Errorf("stored %v %v", values, err)
	}
	var many []string
	for i := range 31 {
		many = append(many, fmt.Sprintf(`"k%d":"v"`, i))
	}
	for body, says := range map[string]string{
		`{"site":"demo","external":"u2","fields":{"plan":"Silver"}}`:                            `field plan must be one of its 2 choices, not \"Silver\"`,
		`{"site":"demo","external":"u2","fields":{"nothing":"x"}}`:                              `field nothing is unknown`,
		`{"site":"demo","external":"u2","fields":{"phone":"` + strings.Repeat("x", 501) + `"}}`: `at most 500 characters`,
		`{"site":"demo","external":"u2","fields":{` + strings.Join(many, ",") + `}}`:            `the limit is 30`,
	} {
		if _, problem := save(body, http.StatusBadRequest); !strings.Contains(problem, says) {
			t.Errorf("%.90s: %s", body, problem)
		}
	}
	site, err := s.desk.store.Cold().SiteByKey(s.ctx, "demo")
	s.ok(err)
	if _, fresh, err := s.desk.store.SaveContact(s.ctx, site, store.Profile{External: "u2"}); err != nil || !fresh {
		t.Errorf("a refused call has made the contact (%v)", err)
	}
	status, data := p.ask("PATCH", "/api/v1/contacts/"+got.ID, `{"fields":{"plan":""},"attributes":{"plan":""}}`)
	var patched api.Stored
	into(p, status, data, &patched)
	if _, has := patched.Fields["plan"]; has || len(patched.Attributes) != 0 || len(patched.Fields) != 1 {
		t.Errorf("patched: %+v", patched)
	}
	if status, data := p.ask("PATCH", "/api/v1/contacts/"+got.ID, `{"fields":{"plan":"x"}}`); status != http.StatusBadRequest || !strings.Contains(string(data), "field plan") {
		t.Errorf("a wrong value: %d %s", status, data)
	}
	if c := get[api.Contact](p, "/api/v1/contacts/"+got.ID); len(c.Fields) != 1 || c.Fields["phone"] == "13800138000" {
		t.Errorf("read: %+v", c)
	}
	lines, err := s.desk.store.Cold().Audit(s.ctx, store.AuditQuery{Action: store.AuditUpdate, Target: "contact " + got.ID})
	if err != nil || len(lines) != 2 {
		t.Errorf("recorded: %+v %v", lines, err)
	}
}
