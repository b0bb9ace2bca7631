package desk

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/internal/testkit"
)

// routeRights says who may use each route: p everybody, k who proves itself otherwise (a visitor's token, a signature), and
// of staff a agent, s supervisor, m administrator, r auditor. It is written by hand: a new route has to be added, and what is
// not said here may be used by nobody.
func routeRights() map[string]string {
	rights := map[string]string{
		"GET /{$}": "p", "GET /chat/{site}": "p", "GET /widget/{site}": "p", "GET /widget.js": "p", "GET /widget/{site}/look.js": "p", "GET /widget/{site}/logo/{hash}": "p", "GET /shop": "p", "GET /console": "p", "GET /console/worker.js": "p",
		"GET /assets/{path...}": "p", "GET /healthz": "p", "GET /readyz": "p", "GET /ws": "p",
		"POST /api/v1/poll/open": "p", "POST /api/v1/poll": "k", "GET /api/v1/poll": "k", "POST /api/v1/poll/close": "k",
		"POST /api/v1/widget/transcript": "k", "POST /api/v1/agent/conversations/{id}/transcript": "asm",
		"GET /reset": "p", "GET /api/v1/agent/reset": "p", "POST /api/v1/agent/reset": "p", "POST /api/v1/agent/reset/password": "k",
		"POST /api/v1/agent/login": "p", "POST /api/v1/agent/logout": "p",
		"POST /api/v1/widget/session": "p", "POST /api/v1/widget/uploads": "k", "GET /files/{id}": "k", "POST /api/v1/bot/turns/{id}": "k",
		"GET /api/v1/agent/me": "asmr", "POST /api/v1/agent/ticket": "asmr", "POST /api/v1/agent/password": "asmr",
		"GET /api/v1/agent/filters": "asmr", "POST /api/v1/agent/filters": "asmr", "POST /api/v1/agent/filters/drop": "asmr",
		"POST /api/v1/agent/push": "asm", "POST /api/v1/agent/push/drop": "asmr",
		"GET /api/v1/agent/sessions": "asmr", "POST /api/v1/agent/sessions/revoke": "asmr", "POST /api/v1/agent/uploads": "asm", "GET /api/v1/agent/contacts/{id}/export": "sm",
		"GET /wall": "smr", "GET /wall/reports": "asmr", "GET /api/v1/supervisor/wall": "smr", "GET /api/v1/supervisor/reports": "asmr", "GET /api/v1/supervisor/reports/choices": "asmr",
		"POST /api/v1/supervisor/agents/{id}/status": "sm",
		"GET /admin": "m", "GET /admin/audit": "mr", "POST /admin/language": "smr", "GET /admin/contacts": "smr", "GET /admin/contacts/{id}": "smr",
	}
	for _, kind := range []string{"agents", "groups", "sites", "canned", "bots", "webhooks"} {
		for _, route := range []string{"GET /admin/" + kind, "GET /admin/" + kind + "/new", "POST /admin/" + kind, "GET /admin/" + kind + "/{id}",
			"POST /admin/" + kind + "/{id}", "POST /admin/" + kind + "/{id}/delete"} {
			rights[route] = "m"
		}
	}
	for _, route := range []string{"GET /admin/keys", "GET /admin/keys/new", "POST /admin/keys", "POST /admin/keys/{id}/revoke"} {
		rights[route] = "m"
	}
	for _, route := range []string{"GET /admin/invitations", "GET /admin/invitations/new", "POST /admin/invitations", "POST /admin/invitations/{id}/revoke"} {
		rights[route] = "m"
	}
	rights["POST /api/v1/agent/invitation"], rights["POST /api/v1/agent/invitation/accept"] = "k", "k"
	rights["GET /api/v1/agent/sso"] = "p"
	for _, route := range []string{"begin", "finish", "code"} {
		rights["POST /api/v1/agent/sso/"+route] = "k"
	}
	rights["POST /admin/agents/{id}/unlink"] = "m"
	for _, route := range []string{"GET /admin/fields", "GET /admin/fields/new-field", "POST /admin/fields", "GET /admin/fields/{id}", "POST /admin/fields/{id}", "POST /admin/fields/{id}/delete"} {
		rights[route] = "m"
	}
	for _, what := range []string{"", "/block", "/erase", "/merge", "/fields"} {
		rights["POST /admin/contacts/{id}"+what] = "sm"
	}
	for _, route := range []string{"GET /admin/mail", "POST /admin/mail/test", "POST /admin/mail/{id}/retry", "POST /admin/mail/{id}/discard"} {
		rights[route] = "m"
	}
	rights["GET /api/v1/openapi.json"] = "p"
	for _, route := range []string{"GET /api/v1/conversations", "GET /api/v1/conversations/{id}", "GET /api/v1/conversations/{id}/events",
		"POST /api/v1/conversations/{id}/messages", "POST /api/v1/conversations/{id}/tags", "GET /api/v1/contacts/{id}", "GET /api/v1/reports",
		"GET /api/v1/events", "POST /api/v1/conversations", "POST /api/v1/contacts", "PATCH /api/v1/contacts/{id}"} {
		rights[route] = "k" // see TestEveryCallNeedsItsScope
	}
	rights["GET /api/v1/agent/factor"], rights["POST /api/v1/agent/factor"] = "asmr", "asmr"
	rights["POST /api/v1/agent/factor/recovery"], rights["POST /api/v1/agent/factor/remove"] = "asmr", "asmr"
	rights["POST /admin/agents/{id}/factor"] = "m"
	rights["POST /admin/webhooks/{id}/secret"], rights["POST /admin/webhooks/{id}/dead"] = "m", "m"
	rights["POST /admin/agents/{id}/password"], rights["POST /admin/sites/{id}/secret"] = "m", "m"
	rights["GET /admin/sites/{id}/rules"], rights["POST /admin/sites/{id}/rules"] = "m", "m"
	return rights
}

var routeForm = regexp.MustCompile(`^(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) /\S*$`)

// routePatterns reads the patterns of every route out of the sources, so that none can be forgotten: whatever is handed to
// a mux there, and every literal that has the form of a pattern.
func routePatterns(t *testing.T) []string {
	t.Helper()
	consts := make(map[string]string)
	var files []*ast.File
	for _, dir := range []string{"front/*.go", "admin/*.go", "api/*.go"} {
		names, err := filepath.Glob(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
			ast.Inspect(file, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
					for i, name := range v.Names {
						if s, ok := text(v.Values[i], nil); ok {
							consts[name.Name] = s
						}
					}
				}
				return true
			})
		}
	}
	var found []string
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			if call, ok := e.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && len(call.Args) == 2 && (f.Sel.Name == "HandleFunc" || f.Sel.Name == "Handle") {
					if _, known := text(call.Args[0], consts); !known {
						if s, ok := call.Args[0].(*ast.SelectorExpr); !ok || s.Sel.Name != "Pattern" {
							t.Errorf("a route whose pattern cannot be read from the source: %T", call.Args[0])
						}
					}
				}
			}
			if s, ok := text(e, consts); ok && routeForm.MatchString(s) && !slices.Contains(found, s) {
				found = append(found, s)
			}
			return true
		})
	}
	if len(found) < 15 {
		t.Fatalf("found only %q", found)
	}
	return found
}

// text returns the value of a string expression made of literals and constants.
func text(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		s, ok := consts[e.Name]
		return s, ok
	case *ast.BinaryExpr:
		a, ok1 := text(e.X, consts)
		b, ok2 := text(e.Y, consts)
		return a + b, ok1 && ok2 && e.Op == token.ADD
	}
	return "", false
}

var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// request makes an address of a pattern.
func request(pattern string) (method, path string) {
	method, path, _ = strings.Cut(pattern, " ")
	path = strings.TrimSuffix(path, "{$}")
	return method, wildcard.ReplaceAllString(path, "x")
}

// enter starts a login session of an account without asking for its password.
func enter(t *testing.T, d *Desk, a store.AgentAccount) (cookie string) {
	t.Helper()
	token, hash := auth.NewToken()
	if err := d.store.CreateAgentSession(testkit.Context(t), hash, a.ID, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return "desk=" + token
}

// Role × route: deny by default. Without a login no route of staff answers; with one exactly those that the role may use.
func TestRoleTimesRoute(t *testing.T) {
	d := openDesk(t, testOptions(t))
	letters := map[perm.Role]string{perm.Agent: "a", perm.Supervisor: "s", perm.Admin: "m", perm.Auditor: "r"}
	rights := routeRights()
	cookies := make(map[perm.Role]string)
	for _, role := range perm.Roles() {
		a, err := d.store.CreateAgent(testkit.Context(t), store.AgentAccount{Login: "some-" + string(role), Name: "x", Password: "x", Role: role})
		if err != nil {
			t.Fatal(err)
		}
		cookies[role] = enter(t, d, a)
	}
	for _, pattern := range routePatterns(t) {
		may, known := rights[pattern]
		if !known {
			t.Errorf("%s is not in the table of routes: say in routeRights who may use it", pattern)
			continue
		}
		method, path := request(pattern)
		if strings.ContainsAny(may, "pk") {
			if status, _ := call(d, method, path, "{}"); may == "k" && status < 400 {
				t.Errorf("%s without a proof: %d", pattern, status)
			}
			continue
		}
		for _, cookie := range []string{"", "desk=guess"} {
			status, resp := call(d, method, path, "{}", "Cookie", cookie)
			page := !strings.HasPrefix(path, "/api/")
			if (page && (status != http.StatusSeeOther || resp.Header.Get("Location") != "/console")) || (!page && status != http.StatusUnauthorized) {
				t.Errorf("%s without a login: %d", pattern, status)
			}
		}
		for _, role := range perm.Roles() {
			status, _ := call(d, method, path, "{}", "Cookie", cookies[role])
			if allowed := status != http.StatusForbidden; allowed != strings.Contains(may, letters[role]) || status == http.StatusUnauthorized {
				t.Errorf("%s as %s: %d, the table says %q", pattern, role, status, may)
			}
		}
	}
}

// CSRF: no route that may change something takes a request that a browser sends for another site, whoever is logged in.
func TestCrossSiteOnEveryRoute(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	d := openDesk(t, o)
	_, err := d.store.CreateSite(testkit.Context(t), store.Site{Key: "x", Name: "X", Settings: store.SiteSettings{Origins: []string{"https://shop.example"}}})
	if err != nil {
		t.Fatal(err)
	}
	clock.Move(time.Minute)
	admin, err := d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	cookie := enter(t, d, admin)
	changing := 0
	for _, pattern := range routePatterns(t) {
		_, path := request(pattern)
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			for name, header := range map[string][]string{
				"cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"},
				"another origin": {"Origin", "https://evil.example"}, "no origin of its own": {"Origin", "null"},
				"a site's origin": {"Origin", "https://shop.example", "Sec-Fetch-Site", "cross-site"},
			} {
				if name == "a site's origin" && (strings.HasPrefix(path, "/api/v1/widget/") || strings.HasPrefix(path, "/api/v1/poll")) {
					continue // which may; see TestCrossOriginCalls, TestCrossOriginPolls
				}
				status, _ := call(d, method, path, "{}", append(header, "Cookie", cookie)...)
				if status != http.StatusForbidden {
					t.Errorf("%s %s, %s: %d", method, path, name, status)
				}
				changing++
			}
		}
	}
	if d.Stats().CrossSite != uint64(changing) {
		t.Errorf("%d of %d refusals counted", d.Stats().CrossSite, changing)
	}
}

// A GET changes nothing: it commits nothing but lines of the audit log.
func TestGetChangesNothing(t *testing.T) {
	d := openDesk(t, testOptions(t))
	admin, err := d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	cookie := enter(t, d, admin)
	lines := func() int {
		rows, err := d.store.Cold().Audit(t.Context(), store.AuditQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	db := d.store.(*sqlstore.DB)
	for _, pattern := range routePatterns(t) {
		method, path := request(pattern)
		if method != http.MethodGet {
			continue
		}
		commands, audited := db.Stats().Commands, lines()
		call(d, method, path, "", "Cookie", cookie)
		if wrote := int(db.Stats().Commands - commands); wrote != lines()-audited {
			t.Errorf("%s made %d changes", pattern, wrote)
		}
	}
}

// Every page says what it may load, and that nobody may frame it but a site's pages its widget.
func TestEveryAnswerHasItsPolicy(t *testing.T) {
	d := openDesk(t, testOptions(t))
	admin, err := d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	cookie := enter(t, d, admin)
	for _, pattern := range routePatterns(t) {
		method, path := request(pattern)
		_, resp := call(d, method, path, "{}", "Cookie", cookie)
		policy := resp.Header.Get("Content-Security-Policy")
		framed := pattern == "GET /widget/{site}"
		if strings.HasPrefix(path, "/files/") {
			if !strings.Contains(policy, "sandbox") && !strings.Contains(policy, "default-src 'none'") {
				t.Errorf("%s: %q", pattern, policy)
			}
			continue
		}
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "frame-ancestors 'none'") == framed ||
			resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %q", pattern, policy)
		}
		for _, c := range resp.Cookies() {
			if c.Name == "desk" && (!c.HttpOnly || c.SameSite != http.SameSiteLaxMode) {
				t.Errorf("%s sets %+v", pattern, c)
			}
		}
	}
}
