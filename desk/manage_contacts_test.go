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

// Customers are found, noted, blocked, merged and deleted on pages, each step is recorded, and an auditor sees no private
// data and finds nobody by them.
func TestManageContacts(t *testing.T) {
	boss := managed(t)
	ctx, db := testkit.Context(t), boss.d.store
	site, err := db.Cold().SiteByKey(ctx, "demo")
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(err)
	visitor := func(name, email string) store.Contact {
		t.Helper()
		_, hash := auth.NewToken()
		c, err := db.CreateVisitor(ctx, site, hash, time.Now().Add(time.Hour))
		ok(err)
		c, err = db.PatchContact(ctx, store.ContactPatch{Contact: c.ID, Name: name, Attributes: map[string]string{"email": email}})
		ok(err)
		return c
	}
	ann, ben := visitor("Ann <b>Lee</b>", "ann@example.com"), visitor("Ben", "ben@example.com")
	rows := func(p *pages, query string) int {
		t.Helper()
		return strings.Count(p.get("/admin/contacts"+query, http.StatusOK), `data-testid="contact-row"`)
	}
	if all, found, none := rows(boss, ""), rows(boss, "?q=ann%40example.com"), rows(boss, "?q=nobody"); all != 2 || found != 1 || none != 0 {
		t.Errorf("%d rows, %d found, %d of nobody", all, found, none)
	}
	boss.get("/admin/contacts?after=x", http.StatusBadRequest)
	at := "/admin/contacts/" + ann.ID
	if body := boss.get(at, http.StatusOK); strings.Contains(body, "<b>Lee") || !strings.Contains(body, "ann@example.com") {
		t.Errorf("the page: %s", visible(body))
	}
	_, cookie := employ(t, boss.d, perm.Auditor, "rea")
	rea := &pages{t: t, d: boss.d, cookie: cookie}
	if body := rea.get(at, http.StatusOK); strings.Contains(body, "ann@example.com") || strings.Contains(body, "/erase") {
		t.Errorf("the auditor's page: %s", visible(body))
	}
	if all, found := rows(rea, ""), rows(rea, "?q=ann%40example.com"); all != 2 || found != 0 {
		t.Errorf("the auditor finds %d and %d", all, found)
	}
	boss.post(at, url.Values{"note": {"calls on Mondays"}})
	if body := boss.get(at, http.StatusOK); !strings.Contains(body, "calls on Mondays") {
		t.Error("the note is not there")
	}
	if errs, _ := boss.refused(at, url.Values{"note": {strings.Repeat("x", 2001)}}, http.StatusUnprocessableEntity); !strings.Contains(errs["note"], "2000") {
		t.Errorf("a long note: %q", errs)
	}
	boss.post(at+"/block", url.Values{"blocked": {"1"}})
	if c, err := db.Cold().Contact(ctx, ann.ID); err != nil || !c.Blocked {
		t.Errorf("blocked: %+v %v", c, err)
	}
	if errs, _ := boss.refused(at+"/merge", url.Values{"into": {ben.ID}}, http.StatusUnprocessableEntity); errs["into"] == "" {
		t.Error("a blocked one is merged with one that is not")
	}
	boss.post(at+"/block", url.Values{"blocked": {""}})
	for _, into := range []string{"", "nobody", ann.ID} {
		if errs, _ := boss.refused(at+"/merge", url.Values{"into": {into}}, http.StatusUnprocessableEntity); errs["into"] == "" {
			t.Errorf("merged into %q", into)
		}
	}
	if to := boss.post(at+"/merge", url.Values{"into": {ben.ID}}); !strings.HasPrefix(to, "/admin/contacts/"+ben.ID) {
		t.Errorf("leads to %s", to)
	}
	boss.get(at, http.StatusNotFound)
	at = "/admin/contacts/" + ben.ID
	if errs, _ := boss.refused(at+"/erase", url.Values{}, http.StatusUnprocessableEntity); errs["sure"] == "" {
		t.Error("erased without being sure")
	}
	boss.post(at+"/erase", url.Values{"sure": {"on"}})
	boss.get(at, http.StatusNotFound)
	if all := rows(boss, ""); all != 0 {
		t.Errorf("%d rows are left", all)
	}
	for action, target := range map[string]string{
		store.AuditSearch: "contacts", store.AuditRead: "contact " + ann.ID, store.AuditUpdate: "contact " + ann.ID, store.AuditBlock: "contact " + ann.ID,
		store.AuditUnblock: "contact " + ann.ID, store.AuditMerge: "contact " + ann.ID, store.AuditErase: "contact " + ben.ID,
	} {
		if lines, err := db.Cold().Audit(ctx, store.AuditQuery{Action: action, Target: target}); err != nil || len(lines) == 0 {
			t.Errorf("%s of %s is not recorded (%v)", action, target, err)
		}
	}
}
