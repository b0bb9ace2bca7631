package desk

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/store"
)

var versionShown = regexp.MustCompile(`name="version" value="([0-9a-f]+)"`)

// versionOf is what the form on a page says it was made from.
func versionOf(t *testing.T, body string) string {
	t.Helper()
	m := versionShown.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no version in the form:\n%s", visible(body))
	}
	return m[1]
}

// Who saves a form that somebody else has saved meanwhile is told so, once for each change, and keeps what was entered.
func TestManageSavedMeanwhile(t *testing.T) {
	p := managed(t)
	site, err := p.d.store.Cold().SiteByKey(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	for kind, c := range map[string]struct {
		at    string
		field string
		form  url.Values
	}{
		"agents": {p.post("/admin/agents", url.Values{"login": {"lin"}, "name": {"Lin"}, "role": {"agent"}, "capacity": {"3"}}), "name", url.Values{"role": {"agent"}, "capacity": {"3"}}},
		"groups": {p.post("/admin/groups", url.Values{"name": {"Sales"}}), "name", url.Values{}},
		"sites":  {"/admin/sites/" + site.ID, "greeting", url.Values{"name": {"Demo"}, "bot_name": {"Eddy"}, "reopen": {"24"}}},
		"canned": {p.post("/admin/canned", url.Values{"short": {"hi"}, "title": {"t"}, "body": {"b"}}), "body", url.Values{"short": {"hi"}, "title": {"t"}}},
		"bots":   {p.post("/admin/bots", url.Values{"name": {"B"}, "kind": {store.BotRules}, "rules": {bot.DefaultRules()}}), "name", url.Values{"rules": {bot.DefaultRules()}}},
	} {
		at, _, _ := strings.Cut(c.at, "?")
		save := func(value, version string) url.Values {
			form := maps.Clone(c.form)
			form.Set(c.field, value)
			form.Set("version", version)
			return form
		}
		mine := versionOf(t, p.get(at, http.StatusOK))
		if again := versionOf(t, p.get(at, http.StatusOK)); again != mine {
			t.Errorf("%s: %s is %s the next time", kind, mine, again)
		}
		p.post(at, save("primo "+kind, mine))
		errs, body := p.refused(at, save("secundo "+kind, mine), http.StatusConflict)
		if !strings.Contains(visible(body), "Somebody else has saved") || !strings.Contains(body, "secundo "+kind) || len(errs) != 1 {
			t.Errorf("%s: told %v\n%s", kind, errs, visible(body))
		}
		if stored := p.get(at, http.StatusOK); !strings.Contains(stored, "primo "+kind) || strings.Contains(stored, "secundo "+kind) {
			t.Errorf("%s: the change of the first is gone", kind)
		}
		p.post(at, save("secundo "+kind, versionOf(t, body))) // having been told
		if stored := p.get(at, http.StatusOK); !strings.Contains(stored, "secundo "+kind) {
			t.Errorf("%s: what was saved deliberately is not there", kind)
		}
	}
}

// Of many who save at the same moment, one does.
func TestManageSavedAtOnce(t *testing.T) {
	p := managed(t)
	at, _, _ := strings.Cut(p.post("/admin/groups", url.Values{"name": {"Sales"}}), "?")
	seen := versionOf(t, p.get(at, http.StatusOK))
	var saved, told atomic.Int32
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		wg.Go(func() {
			status, _ := call(p.d, "POST", at, url.Values{"name": {name}, "version": {seen}}.Encode(), "Cookie", p.cookie, "Content-Type", "application/x-www-form-urlencoded")
			switch status {
			case http.StatusSeeOther:
				saved.Add(1)
			case http.StatusConflict:
				told.Add(1)
			default:
				t.Errorf("%s: %d", name, status)
			}
		})
	}
	wg.Wait()
	if saved.Load() != 1 || told.Load() != 5 {
		t.Errorf("%d saved, %d were told", saved.Load(), told.Load())
	}
	groups, err := p.d.store.Cold().Groups(t.Context())
	if err != nil || !slices.ContainsFunc(groups, func(g store.Group) bool { return len(g.Name) == 1 }) {
		t.Errorf("%+v %v", groups, err)
	}
}
