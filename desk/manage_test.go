package desk

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/admin"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// pages is a browser without scripts: it follows what the server answers with one cookie.
type pages struct {
	t      *testing.T
	d      *Desk
	cookie string
	extra  []string // headers
}

func managed(t *testing.T) *pages {
	t.Helper()
	d := openDesk(t, testOptions(t))
	login, password, _ := d.FirstLogin()
	return &pages{t: t, d: d, cookie: logIn(t, d, login, password)}
}

func (p *pages) ask(method, path string, form url.Values) (int, *http.Response, string) {
	p.t.Helper()
	extra := append([]string{"Cookie", p.cookie}, p.extra...)
	if form != nil {
		extra = append(extra, "Content-Type", "application/x-www-form-urlencoded")
	}
	status, resp := call(p.d, method, path, form.Encode(), extra...)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return status, resp, string(body)
}

func (p *pages) get(path string, want int) string {
	p.t.Helper()
	status, _, body := p.ask("GET", path, nil)
	if status != want {
		p.t.Fatalf("GET %s: %d, want %d\n%s", path, status, want, body)
	}
	return body
}

// post sends a form that has to be accepted, and returns where it leads.
func (p *pages) post(path string, form url.Values) string {
	p.t.Helper()
	status, resp, body := p.ask("POST", path, form)
	if status != http.StatusSeeOther {
		p.t.Fatalf("POST %s: %d\n%s", path, status, visible(body))
	}
	return resp.Header.Get("Location")
}

// refused sends a form that has to be shown again, and returns the errors by field.
func (p *pages) refused(path string, form url.Values, want int) (map[string]string, string) {
	p.t.Helper()
	status, _, body := p.ask("POST", path, form)
	if status != want {
		p.t.Fatalf("POST %s: %d, want %d\n%s", path, status, want, visible(body))
	}
	errs := make(map[string]string)
	for _, m := range regexp.MustCompile(`data-testid="error-([^"]+)">([^<]*)`).FindAllStringSubmatch(body, -1) {
		errs[m[1]] = html.UnescapeString(m[2])
	}
	return errs, body
}

// visible is the text of a page.
func visible(body string) string {
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, " "))), " ")
}

func shownOnce(body string) string {
	m := regexp.MustCompile(`data-testid="once-text">([^<]*)<`).FindStringSubmatch(body)
	if m == nil {
		return ""
	}
	return m[1]
}

func idOf(location string) string {
	path, _, _ := strings.Cut(location, "?")
	return path[strings.LastIndex(path, "/")+1:]
}

// Who may see a page, and that no page changes anything when it comes from another site or without a login.
func TestManageRoutesAreGuarded(t *testing.T) {
	boss := managed(t)
	all, err := admin.New(admin.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	paths := make(map[string]string)
	for _, route := range all.Routes() {
		method, path, _ := strings.Cut(route.Pattern, " ")
		paths[method+" "+strings.Replace(path, "{id}", "none", 1)] = string(route.Needs)
		want := perm.Manage
		switch path {
		case "/admin/audit":
			want = perm.ViewAudit
		case "/admin/language":
			want = perm.ReadOthers
		}
		if strings.HasPrefix(path, "/admin/contacts") {
			want = map[string]perm.Permission{"GET": perm.ReadOthers, "POST": perm.Whisper}[method]
			for end, other := range map[string]perm.Permission{"/block": perm.Block, "/merge": perm.Personal, "/erase": perm.Personal} {
				if strings.HasSuffix(path, end) {
					want = other
				}
			}
		}
		if route.Needs != want {
			t.Errorf("%s needs %s, want %s", route.Pattern, route.Needs, want)
		}
	}
	if len(paths) < 30 {
		t.Fatalf("only %d routes", len(paths))
	}
	for _, role := range perm.Roles() {
		_, cookie := employ(t, boss.d, role, "some-"+string(role))
		p := &pages{t: t, d: boss.d, cookie: cookie}
		for route, needs := range paths {
			method, path, _ := strings.Cut(route, " ")
			status, resp, _ := p.ask(method, path, url.Values{})
			if allowed := role.Can(perm.Permission(needs)); allowed == (status == http.StatusForbidden) || status >= 500 {
				t.Errorf("%s of %s: %d", route, role, status)
			}
			if status == http.StatusOK && (resp.Header.Get("Cache-Control") != "no-store" || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'")) {
				t.Errorf("%s: headers %v", route, resp.Header)
			}
		}
	}
	stranger := &pages{t: t, d: boss.d}
	elsewhere := &pages{t: t, d: boss.d, cookie: boss.cookie, extra: []string{"Sec-Fetch-Site", "cross-site"}}
	for route := range paths {
		method, path, _ := strings.Cut(route, " ")
		if status, resp, _ := stranger.ask(method, path, url.Values{}); status != http.StatusSeeOther || resp.Header.Get("Location") != "/console" {
			t.Errorf("%s without a login: %d", route, status)
		}
		if status, _, _ := elsewhere.ask(method, path, url.Values{}); method == "POST" && status != http.StatusForbidden {
			t.Errorf("%s from another site: %d", route, status)
		}
	}
}

func TestManageAgents(t *testing.T) {
	p := managed(t)
	group, err := p.d.store.CreateGroup(testkit.Context(t), store.Group{Name: "Sales"})
	if err != nil {
		t.Fatal(err)
	}
	entered := url.Values{"login": {" Lin "}, "name": {"Lin"}, "role": {"agent"}, "capacity": {"3"}, "groups": {group.ID, "forged"}, "locale": {"zh-CN"}}
	at := p.post("/admin/agents", entered)
	body := p.get(at, http.StatusOK)
	password := shownOnce(body)
	if len(password) < 16 {
		t.Fatalf("no password on %s\n%s", at, visible(body))
	}
	if again := p.get(at, http.StatusOK); strings.Contains(again, password) {
		t.Error("the password is shown twice")
	}
	id := idOf(at)
	linCookie := logIn(t, p.d, "lin", password)
	account, err := p.d.store.Cold().AgentByID(t.Context(), id)
	members, merr := p.d.store.Cold().Members(t.Context())
	if err != nil || merr != nil || account.Capacity != 3 || account.Locale != "zh-CN" || !slices.Equal(members[group.ID], []string{id}) {
		t.Errorf("made: %+v %v, members %v", account, err, members)
	}
	errs, body := p.refused("/admin/agents", entered, http.StatusUnprocessableEntity)
	if errs["login"] == "" || len(errs) != 1 || !strings.Contains(body, `value=" Lin "`) {
		t.Errorf("a login that is taken: %v", errs)
	}
	errs, body = p.refused("/admin/agents", url.Values{"login": {"a b"}, "name": {""}, "role": {"king"}, "capacity": {"many"}}, http.StatusUnprocessableEntity)
	for field, want := range map[string]string{"login": "form", "name": "Fill", "role": "exist", "capacity": "whole number"} {
		if !strings.Contains(errs[field], want) {
			t.Errorf("%s: %q does not say %q", field, errs[field], want)
		}
	}
	if !strings.Contains(body, `value="a b"`) || !strings.Contains(body, `value="many"`) {
		t.Error("what was entered is lost")
	}
	if errs, _ = p.refused("/admin/agents/"+id, url.Values{"name": {"x"}, "role": {"agent"}, "capacity": {"1001"}}, http.StatusUnprocessableEntity); !strings.Contains(errs["capacity"], "1000") {
		t.Errorf("a capacity of 1001: %v", errs)
	}

	p.post("/admin/agents/"+id, url.Values{"name": {"Lin Wei"}, "role": {"supervisor"}, "capacity": {"0"}})
	lines := desktest.AuditLines(t, p.d.store, store.AuditQuery{Target: "agent " + id}, 2)
	if l := lines[0]; l.Action != store.AuditRole || !strings.Contains(l.Detail, "role agent → supervisor") || !strings.Contains(l.Detail, "capacity 3 → 0") || l.Who.Name != "Agent" {
		t.Errorf("written down: %+v", l)
	}
	at = p.post("/admin/agents/"+id+"/password", url.Values{})
	second := shownOnce(p.get(at, http.StatusOK))
	if status, _ := call(p.d, "POST", "/api/v1/agent/login", credentials("lin", password)); status != http.StatusUnauthorized || second == password {
		t.Errorf("the old password: %d", status)
	}
	if status, _ := call(p.d, "GET", "/api/v1/agent/me", "", "Cookie", linCookie); status != http.StatusUnauthorized {
		t.Errorf("the old login: %d", status)
	}
	linCookie = logIn(t, p.d, "lin", second)
	p.post("/admin/agents/"+id, url.Values{"name": {"Lin Wei"}, "role": {"supervisor"}, "capacity": {"0"}, "disabled": {"on"}})
	if status, _ := call(p.d, "GET", "/api/v1/agent/me", "", "Cookie", linCookie); status != http.StatusUnauthorized {
		t.Errorf("the login of a disabled account: %d", status)
	}

	me, err := p.d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	errs, _ = p.refused("/admin/agents/"+me.ID, url.Values{"name": {"Agent"}, "role": {"agent"}, "capacity": {"5"}}, http.StatusUnprocessableEntity)
	if !strings.Contains(errs["role"], "last administrator") {
		t.Errorf("the last administrator: %v", errs)
	}
	p.get("/admin/agents/none", http.StatusNotFound)
	p.get("/admin/agents", http.StatusOK)
}

// Somebody else's login cannot fetch what is shown once.
func TestShownOnceToOneLogin(t *testing.T) {
	p := managed(t)
	at := p.post("/admin/agents", url.Values{"login": {"lin"}, "name": {"Lin"}, "role": {"agent"}, "capacity": {"3"}})
	_, cookie := employ(t, p.d, perm.Admin, "other")
	if other := (&pages{t: t, d: p.d, cookie: cookie}); shownOnce(other.get(at, http.StatusOK)) != "" {
		t.Error("another administrator's browser was shown the password")
	}
	if shownOnce(p.get(at, http.StatusOK)) == "" {
		t.Error("after that it is gone")
	}
}

func TestManageGroups(t *testing.T) {
	p := managed(t)
	me, err := p.d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.get("/admin/groups", http.StatusOK), `data-testid="empty"`) {
		t.Error("no word about there being no groups")
	}
	at := p.post("/admin/groups", url.Values{"name": {"Sales"}, "strategy": {"sticky"}, "sticky_days": {"7"}, "sticky_wait": {"60"}, "accept": {"45"}, "target": {"30"}, "target_share": {"90"}, "max_queue": {"20"}, "members": {me.ID, "forged"}})
	id := idOf(at)
	groups, err := p.d.store.Cold().Groups(t.Context())
	if err != nil || len(groups) != 1 || !reflect.DeepEqual(groups[0].Settings, store.GroupSettings{Strategy: "sticky", MaxQueue: 20, Accept: 45_000, StickyDays: 7, StickyWait: 60_000, Target: 30_000, TargetShare: 90}) {
		t.Errorf("made: %+v %v", groups, err)
	}
	if body := p.get("/admin/groups/"+id, http.StatusOK); !strings.Contains(body, `value="45"`) || !strings.Contains(body, `value="30"`) || !strings.Contains(body, `value="90"`) || !strings.Contains(body, `value="`+me.ID+`" checked`) {
		t.Errorf("the form does not show what is set: %s", body)
	}
	errs, _ := p.refused("/admin/groups/"+id, url.Values{"name": {""}, "accept": {"3601"}, "target": {"86401"}, "target_share": {"101"}, "max_queue": {"-1"}}, http.StatusUnprocessableEntity)
	if errs["name"] == "" || !strings.Contains(errs["accept"], "3600") || errs["max_queue"] == "" || !strings.Contains(errs["target"], "86400") || !strings.Contains(errs["target_share"], "100") || len(errs) != 5 {
		t.Errorf("a bad group: %v", errs)
	}
	other := idOf(p.post("/admin/groups", url.Values{"name": {"Care"}}))
	if errs, _ = p.refused("/admin/groups/"+other, url.Values{"name": {"Sales"}}, http.StatusUnprocessableEntity); errs["name"] == "" {
		t.Error("the same name twice")
	}
	site, err := p.d.store.Cold().SiteByKey(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	form := url.Values{"name": {"Demo"}, "bot_name": {"Eddy"}, "reopen": {"24"}, "group": {id}}
	p.post("/admin/sites/"+site.ID, form)
	if errs, _ = p.refused("/admin/groups/"+id+"/delete", url.Values{}, http.StatusConflict); !strings.Contains(errs["delete"], "names this group") {
		t.Errorf("a group in use: %v", errs)
	}
	form.Del("group")
	p.post("/admin/sites/"+site.ID, form)
	p.post("/admin/groups/"+id+"/delete", url.Values{})
	p.get("/admin/groups/"+id, http.StatusNotFound)
	desktest.AuditLines(t, p.d.store, store.AuditQuery{Action: store.AuditDelete, Target: "group " + id}, 1)
}

func TestManageSites(t *testing.T) {
	p := managed(t)
	form := url.Values{
		"key": {"shop"}, "name": {"The shop"}, "bot_name": {""}, "reopen": {"0"}, "origins": {"https://a.example\r\n\r\n https://b.example "}, "color": {"#0a716c"},
		"greeting": {"Hello\r\nyou"}, "consent": {"Agree"}, "idle_chat": {"10"}, "rate": {"on"}, "keep_days": {"90"}, "chats": {"20"},
		"field_name_0": {"email"}, "field_label_0": {"E-mail"}, "field_type_0": {"email"}, "field_required_0": {"on"}, "field_type_1": {"text"},
	}
	at := p.post("/admin/sites", form)
	s, err := p.d.store.Cold().SiteByKey(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	got := s.Settings
	if s.ReopenWindow != -1 || !slices.Equal(got.Origins, []string{"https://a.example", "https://b.example"}) || got.Greeting != "Hello\nyou" || got.IdleChat != 600_000 || got.KeepDays != 90 || got.Chats != 20 || !got.RateChat ||
		!slices.Equal(got.PreChat, []store.Field{{Name: "email", Label: "E-mail", Type: "email", Required: true}}) {
		t.Errorf("made: %+v", s)
	}
	body := p.get(at, http.StatusOK)
	if want := html.EscapeString(`<script src="http://example.com/widget.js" data-site="shop" async></script>`); !strings.Contains(html.UnescapeString(body), html.UnescapeString(want)) {
		t.Errorf("no line to embed: %s", body)
	}
	bad := url.Values{"name": {""}, "reopen": {"721"}, "origins": {"ftp://x"}, "color": {"red"}, "idle_chat": {"43201"}, "keep_days": {"3651"}, "chats": {"100001"}, "field_name_0": {"1x"}, "field_label_0": {"X"}, "field_type_0": {"text"}, "group": {"none"}}
	errs, body := p.refused("/admin/sites/"+s.ID, bad, http.StatusUnprocessableEntity)
	for field, want := range map[string]string{"name": "Fill", "reopen": "720", "origins": "form", "color": "form", "idle_chat": "43200", "keep_days": "3650", "chats": "100000", "prechat": "form"} {
		if !strings.Contains(errs[field], want) {
			t.Errorf("%s: %q does not say %q", field, errs[field], want)
		}
	}
	if !strings.Contains(body, `value="1x"`) || !strings.Contains(body, "ftp://x") {
		t.Error("what was entered is lost")
	}
	if errs, _ = p.refused("/admin/sites", url.Values{"key": {"shop"}, "name": {"x"}}, http.StatusUnprocessableEntity); errs["key"] == "" {
		t.Error("the same key twice")
	}

	secrets := func(want int) []string {
		t.Helper()
		s, err := p.d.store.Cold().SiteByKey(t.Context(), "shop")
		if err != nil || len(s.Settings.Secrets) != want {
			t.Fatalf("%d secrets, want %d (%v)", len(s.Settings.Secrets), want, err)
		}
		return s.Settings.Secrets
	}
	at = p.post("/admin/sites/"+s.ID+"/secret", url.Values{"new": {"1"}})
	first := shownOnce(p.get(at, http.StatusOK))
	if kept := secrets(1); kept[0] != first || len(first) < store.MinSecret {
		t.Errorf("shown %q, kept %q", first, kept)
	}
	if strings.Contains(p.get("/admin/sites/"+s.ID, http.StatusOK), first) {
		t.Error("the secret is shown again")
	}
	p.post("/admin/sites/"+s.ID+"/secret", url.Values{"new": {"1"}})
	p.post("/admin/sites/"+s.ID, form) // a change of the form leaves the secrets alone
	p.post("/admin/sites/"+s.ID+"/secret", url.Values{"new": {"1"}})
	kept := secrets(2)
	if slices.Contains(kept, first) {
		t.Error("the oldest secret has stayed")
	}
	p.post("/admin/sites/"+s.ID+"/secret", url.Values{"remove": {"1"}})
	if left := secrets(1); left[0] != kept[0] {
		t.Error("the wrong secret was removed")
	}
	for _, bad := range []url.Values{{}, {"remove": {"1"}}, {"remove": {"-1"}}, {"remove": {"x"}}} {
		p.refused("/admin/sites/"+s.ID+"/secret", bad, http.StatusBadRequest)
	}
	secrets(1)
	for _, l := range desktest.AuditLines(t, p.d.store, store.AuditQuery{Action: store.AuditSecret}, 4) {
		if strings.Contains(l.Detail, first) || strings.Contains(l.Detail, kept[0]) {
			t.Errorf("a secret stands in the audit log: %+v", l)
		}
	}
}

func TestManageCannedAndAudit(t *testing.T) {
	p := managed(t)
	p.extra = []string{"Accept-Language", "fr, zh-TW;q=0.9, en;q=0.1"}
	if body := p.get("/admin/canned", http.StatusOK); !strings.Contains(body, "还没有快捷回复") || !strings.Contains(body, `<html lang="zh-CN">`) {
		t.Errorf("not in the language of the browser: %s", visible(body))
	}
	if at := p.post("/admin/language", url.Values{"lang": {"en"}, "back": {"/admin/canned?locale=en"}}); at != "/admin/canned?locale=en" {
		t.Errorf("back to %s", at)
	}
	for _, bad := range []string{"https://evil.example/admin", "//evil.example/admin", "/administrator", "javascript:1", "/console"} {
		if at := p.post("/admin/language", url.Values{"lang": {"fr"}, "back": {bad}}); at != "/admin" {
			t.Errorf("back to %s by way of %s", at, bad)
		}
	}
	p.cookie += "; desk-language=en"
	hi := idOf(p.post("/admin/canned", url.Values{"short": {"/hi"}, "title": {"Hello"}, "body": {"Hello {{name}}\r\nHow can I help?"}}))
	p.post("/admin/canned", url.Values{"short": {"hi"}, "title": {"问候"}, "body": {"您好"}, "locale": {"zh-CN"}})
	errs, _ := p.refused("/admin/canned", url.Values{"short": {"hi"}, "title": {""}, "body": {" "}}, http.StatusUnprocessableEntity)
	if errs["title"] == "" || errs["body"] == "" || len(errs) != 2 {
		t.Errorf("a bad reply: %v", errs)
	}
	if errs, _ = p.refused("/admin/canned", url.Values{"short": {"HI"}, "title": {"x"}, "body": {"x"}}, http.StatusUnprocessableEntity); errs["short"] == "" {
		t.Error("the same name twice")
	}
	if body := p.get("/admin/canned?locale=zh-CN", http.StatusOK); strings.Count(body, `data-testid="canned-row"`) != 2 {
		t.Error("Chinese replies and those of every language")
	}
	if body := p.get("/admin/canned?locale=en", http.StatusOK); strings.Count(body, `data-testid="canned-row"`) != 1 {
		t.Error("English replies")
	}
	p.post("/admin/canned/"+hi, url.Values{"short": {"hello"}, "title": {"Hello"}, "body": {"Changed"}})
	p.post("/admin/canned/"+hi+"/delete", url.Values{})
	p.get("/admin/canned/"+hi, http.StatusNotFound)

	body := p.get("/admin/audit?target="+url.QueryEscape("canned "+hi), http.StatusOK)
	if n := strings.Count(body, `data-testid="audit-row"`); n != 3 {
		t.Errorf("%d lines about the reply, want 3", n)
	}
	if body = p.get("/admin/audit?action=deleted", http.StatusOK); strings.Count(body, `data-testid="audit-row"`) != 1 {
		t.Error("the filter by action")
	}
	if body = p.get("/admin/audit?from=2000-01-01&to=2000-01-02", http.StatusOK); strings.Contains(body, `data-testid="audit-row"`) {
		t.Error("the filter by day")
	}
	if status, _, _ := p.ask("GET", "/admin/audit?from=yesterday&before=x", nil); status != http.StatusUnprocessableEntity {
		t.Errorf("a bad day: %d", status)
	}
	for range 60 {
		if err := store.Record(testkit.Context(t), p.d.store, store.Audit{Who: store.Actor{Kind: store.Agent, ID: "x", Name: "X"}, Action: store.AuditExport, Target: "all"}); err != nil {
			t.Fatal(err)
		}
	}
	body = p.get("/admin/audit?action=export", http.StatusOK)
	next := regexp.MustCompile(`href="([^"]+)" data-testid="older"`).FindStringSubmatch(body)
	if strings.Count(body, `data-testid="audit-row"`) != 50 || next == nil {
		t.Fatal("no second page")
	}
	if body = p.get(html.UnescapeString(next[1]), http.StatusOK); strings.Count(body, `data-testid="audit-row"`) != 10 || strings.Contains(body, `data-testid="older"`) {
		t.Error("the second page")
	}
}

func TestManageBots(t *testing.T) {
	p := managed(t)
	rules := html.UnescapeString(regexp.MustCompile(`(?s)data-testid="field-rules">(.*?)</textarea>`).FindStringSubmatch(p.get("/admin/bots/new?view=json", http.StatusOK))[1])
	id := idOf(p.post("/admin/bots", url.Values{"name": {"Guide"}, "kind": {"rules"}, "rules": {rules}}))
	status, _, body := p.ask("POST", "/admin/bots/"+id, url.Values{"name": {"Guide"}, "rules": {"{\n\"greeting\": {\"en\": \"Hi\"},\n oops}"}})
	if status != http.StatusUnprocessableEntity || !strings.Contains(body, "line 3") || !strings.Contains(visible(body), "oops}") {
		t.Errorf("bad rules: %d %s", status, visible(body))
	}
	errs, _ := p.refused("/admin/bots", url.Values{"name": {"Guide"}, "kind": {"rules"}, "rules": {rules}}, http.StatusUnprocessableEntity)
	if errs["name"] == "" {
		t.Error("the same name twice")
	}
	hook := url.Values{"name": {"Hook"}, "kind": {"webhook"}, "url": {"https://bot.example/turn"}, "secret": {"a secret of the bot, long enough"}, "timeout": {"3000"}, "attributes": {"plan\nlocale"}}
	hookID := idOf(p.post("/admin/bots", hook))
	if body := p.get("/admin/bots/"+hookID, http.StatusOK); strings.Contains(body, hook.Get("secret")) || !strings.Contains(body, "https://bot.example/turn") {
		t.Error("the form of the webhook bot")
	}
	hook.Del("secret")
	hook.Set("url", "https://bot.example/other")
	p.post("/admin/bots/"+hookID, hook)
	b, err := p.d.store.Cold().Bot(t.Context(), hookID)
	if err != nil || !strings.Contains(b.Config, "a secret of the bot, long enough") || !strings.Contains(b.Config, "/other") {
		t.Errorf("changed: %+v %v", b, err)
	}
	hook.Set("url", "http://127.0.0.1/")
	if errs, _ := p.refused("/admin/bots/"+hookID, hook, http.StatusUnprocessableEntity); errs["url"] == "" {
		t.Errorf("a private address: %v", errs)
	}
	site, err := p.d.store.Cold().SiteByKey(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	p.post("/admin/sites/"+site.ID, url.Values{"name": {"Demo"}, "bot": {id}, "reopen": {"24"}})
	if status, _, _ := p.ask("POST", "/admin/bots/"+id+"/delete", url.Values{}); status != http.StatusConflict {
		t.Errorf("a bot in use: %d", status)
	}
	p.post("/admin/sites/"+site.ID, url.Values{"name": {"Demo"}, "reopen": {"24"}})
	p.post("/admin/bots/"+id+"/delete", url.Values{})
	p.get("/admin/bots/"+id, http.StatusNotFound)
}

// withoutScript is a page without the one script that each has.
func withoutScript(body string) string {
	before, rest, _ := strings.Cut(body, `<script type="module" blocking="render" src="/assets/`)
	_, after, _ := strings.Cut(rest, `js/admin.js"></script>`)
	return before + after
}

// What people have called things comes out as text, on every page.
func TestManageEscapes(t *testing.T) {
	p := managed(t)
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>{{.Me}}'`
	group := idOf(p.post("/admin/groups", url.Values{"name": {evil}}))
	at := p.post("/admin/agents", url.Values{"login": {"evil"}, "name": {evil}, "role": {"agent"}, "capacity": {"1"}, "groups": {group}})
	site := idOf(p.post("/admin/sites", url.Values{"key": {"evil"}, "name": {evil}, "bot_name": {evil}, "greeting": {"</textarea>" + evil}, "consent": {evil}, "group": {group},
		"field_name_0": {"a"}, "field_label_0": {evil}, "field_type_0": {"text"}}))
	reply := idOf(p.post("/admin/canned", url.Values{"short": {"evil"}, "title": {evil}, "body": {"</textarea>" + evil}, "group": {group}}))
	for _, path := range []string{
		"/admin", "/admin/agents", at, "/admin/groups", "/admin/groups/" + group, "/admin/sites", "/admin/sites/" + site, "/admin/sites/new", "/admin/canned", "/admin/canned/" + reply,
		"/admin/audit", "/admin/canned?locale=" + url.QueryEscape(evil), "/admin/audit?target=" + url.QueryEscape(evil), "/admin?done=" + url.QueryEscape(evil),
	} {
		body := withoutScript(p.get(path, http.StatusOK))
		for _, bad := range []string{"<script", "<img src=x", "style=", "onerror=\""} {
			if strings.Contains(body, bad) {
				t.Errorf("%s holds %s", path, bad)
			}
		}
	}
	if _, body := p.refused("/admin/agents", url.Values{"login": {evil}, "name": {evil}, "role": {evil}}, http.StatusUnprocessableEntity); strings.Contains(withoutScript(body), "<script") {
		t.Error("what is shown again is not escaped")
	}
}

func TestManageLimits(t *testing.T) {
	p := managed(t)
	if status, _, body := p.ask("POST", "/admin/canned", url.Values{"body": {strings.Repeat("x", 70<<10)}}); status != http.StatusRequestEntityTooLarge || !strings.Contains(body, "60 KiB") {
		t.Errorf("a form of 70 KiB: %d", status)
	}
	if status, _ := call(p.d, "POST", "/admin/canned", "--x\r\nno part", "Cookie", p.cookie, "Content-Type", "multipart/form-data; boundary=x"); status != http.StatusBadRequest {
		t.Errorf("a form in parts that is none: %d", status)
	}
	if status, _ := call(p.d, "POST", "/admin/canned", "%zz", "Cookie", p.cookie, "Content-Type", "application/x-www-form-urlencoded"); status != http.StatusBadRequest {
		t.Errorf("a form that is none: %d", status)
	}
}

// A change of an account counts in its running session: room for one more, other rights, and the end.
func TestManageTakesEffect(t *testing.T) {
	s := serve(t, testOptions(t))
	boss := &pages{t: t, d: s.desk, cookie: logIn(t, s.desk, "agent", s.pass)}
	form := url.Values{"login": {"lin"}, "name": {"Lin"}, "role": {"agent"}, "capacity": {"1"}}
	at := boss.post("/admin/agents", form)
	lin := s.newWeb().Agent("lin", shownOnce(boss.get(at, http.StatusOK)))
	t.Cleanup(lin.Close)
	s.ok(lin.Connected(s.ctx))
	account := "/admin/agents/" + idOf(at)
	with := func(n int) {
		t.Helper()
		boss.eventually("Lin with chats", func(w wallInfo) bool { return w.agent("Lin").Chats == n })
	}
	ann, ben := s.customer(), s.customer()
	_, err := ann.Open(s.ctx, "human")
	s.ok(err)
	with(1)
	_, err = ben.Open(s.ctx, "human")
	s.ok(err)
	boss.eventually("one who waits", func(w wallInfo) bool { return w.Waiting == 1 })
	form.Set("capacity", "2")
	boss.post(account, form)
	with(2)

	force := map[string]any{"status": "away", "accepting": true, "agent": boss.wall("").agent("Agent").ID}
	reply, err := lin.Do(s.ctx, "status", "", force)
	s.ok(err)
	if reply.T != "err" {
		t.Errorf("an agent forces the status of another: %+v", reply)
	}
	form.Set("role", "supervisor")
	boss.post(account, form)
	testkit.Eventually(t, "a supervisor to be let force a status", func() bool {
		reply, err := lin.Do(s.ctx, "status", "", force)
		s.ok(err)
		return reply.T == "ok"
	})
	form.Set("disabled", "on")
	boss.post(account, form)
	boss.eventually("Lin gone", func(w wallInfo) bool { return !w.agent("Lin").Online })
	testkit.Eventually(t, "the session to be ended", func() bool { return s.desk.Stats().Closes["4101"] == 1 })
}
