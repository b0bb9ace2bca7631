package desk

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

var inviteLink = regexp.MustCompile(`data-testid="once-text">http://example\.com/console#invite=([A-Za-z0-9_-]{43})<`)

// invite makes an invitation on the pages and returns the token of its link.
func (p *pages) invite(form url.Values) string {
	p.t.Helper()
	to := p.post("/admin/invitations", form)
	page := p.get(to, http.StatusOK)
	m := inviteLink.FindStringSubmatch(page)
	if m == nil {
		p.t.Fatalf("no link on\n%s", page)
	}
	if again := p.get(to, http.StatusOK); strings.Contains(again, m[1]) {
		p.t.Error("the link is shown twice")
	}
	return m[1]
}

// accept asks for the account of an invitation.
func (p *pages) accept(token, login, name, password string) (int, proto.Error, *http.Response) {
	p.t.Helper()
	status, resp := call(p.d, "POST", "/api/v1/agent/invitation/accept", fmt.Sprintf(`{"token":%q,"login":%q,"name":%q,"password":%q}`, token, login, name, password))
	if status == http.StatusOK {
		return status, proto.Error{}, resp
	}
	if len(resp.Cookies()) > 0 {
		p.t.Errorf("a refusal sets %v", resp.Cookies())
	}
	return status, desktest.Into[proto.Error](p.t, resp), resp
}

// TestInvitations: whoever has the link makes one account with the role and groups of the invitation, and is logged in.
func TestInvitations(t *testing.T) {
	p := managed(t)
	g, err := p.d.store.CreateGroup(testkit.Context(t), store.Group{Name: "Sales"})
	if err != nil {
		t.Fatal(err)
	}
	token := p.invite(url.Values{"name": {"Zoe"}, "role": {"supervisor"}, "groups": {g.ID, "unknown"}, "days": {"2"}})
	status, resp := call(p.d, "POST", "/api/v1/agent/invitation", fmt.Sprintf(`{"token":%q}`, token))
	if about := desktest.Into[struct{ Name, Role, By string }](t, resp); status != 200 || about.Name != "Zoe" || about.Role != "supervisor" || about.By != "Agent" {
		t.Errorf("%d %+v", status, about)
	}
	for what, c := range map[string]struct {
		token, login, name, password string
		status                       int
		reason                       string
	}{
		"another token": {token[1:] + "A", "zoe", "Zoe", usual, 404, ""}, "no token": {"", "zoe", "Zoe", usual, 404, ""},
		"a bad login": {token, "z o e", "Zoe", usual, 422, "login"}, "no name": {token, "zoe", " ", usual, 422, "name"},
		"a short password": {token, "zoe", "Zoe", "short", 422, "password"}, "a login that is taken": {token, "Agent", "Zoe", usual, 409, "login"},
	} {
		if status, e, _ := p.accept(c.token, c.login, c.name, c.password); status != c.status || e.Reason != c.reason || e.Text == "" {
			t.Errorf("%s: %d %+v", what, status, e)
		}
	}
	status, e, resp := p.accept(token, " Zoe ", "Zoe Z.", usual)
	if status != http.StatusOK {
		t.Fatalf("%d %+v", status, e)
	}
	cookie := resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	if status, _ := call(p.d, "GET", "/wall", "", "Cookie", cookie); status != 200 {
		t.Errorf("a page of supervisors: %d", status)
	}
	zoe, err := p.d.store.Cold().AgentByLogin(t.Context(), "zoe")
	if err != nil || zoe.Name != "Zoe Z." || zoe.Role != perm.Supervisor || zoe.Login != "zoe" {
		t.Errorf("%+v %v", zoe, err)
	}
	if members, err := p.d.store.Cold().Members(t.Context()); err != nil || len(members[g.ID]) != 1 {
		t.Errorf("%v %v", members, err)
	}
	logIn(t, p.d, "zoe", usual)
	if status, _, _ := p.accept(token, "another", "Another", usual); status != 404 {
		t.Errorf("the link again: %d", status)
	}
	if page := p.get("/admin/invitations", 200); !strings.Contains(page, "/admin/agents/"+zoe.ID) || strings.Contains(page, token) {
		t.Errorf("the list says\n%s", page)
	}
	rows, err := p.d.store.Cold().Audit(t.Context(), store.AuditQuery{Action: store.AuditCreate})
	if err != nil {
		t.Fatal(err)
	}
	made := false
	for _, row := range rows {
		made = made || strings.HasPrefix(row.Target, "invitation ") && strings.Contains(row.Detail, "accepted as login zoe")
		if strings.Contains(fmt.Sprint(row), token) {
			t.Errorf("the token stands in %+v", row)
		}
	}
	if !made {
		t.Errorf("%+v", rows)
	}
}

// TestInvitationsEnd: a link ends by its time, by being revoked, and when its maker may not manage any more.
func TestInvitationsEnd(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	d := openDesk(t, o)
	_, cookie := employ(t, d, perm.Admin, "boss")
	p := &pages{t: t, d: d, cookie: cookie}
	for days, want := range map[string]int{"0": 422, "8": 422, "x": 422, "": 422, "7": 303} {
		if status, _, body := p.ask("POST", "/admin/invitations", url.Values{"role": {"agent"}, "days": {days}}); status != want || status == 422 && !strings.Contains(body, `data-testid="error-days"`) {
			t.Errorf("%q days: %d\n%s", days, status, body)
		}
	}
	if status, _, _ := p.ask("POST", "/admin/invitations", url.Values{"role": {"king"}, "days": {"1"}}); status != 422 {
		t.Errorf("a role that does not exist: %d", status)
	}
	late := p.invite(url.Values{"role": {"admin"}, "days": {"1"}})
	clock.Move(25 * time.Hour)
	p.cookie = logIn(t, d, "boss", usual)
	if status, e, _ := p.accept(late, "late", "Late", usual); status != http.StatusGone || e.Code != proto.CodeTokenExpired {
		t.Errorf("too late: %d %+v", status, e)
	}
	revoked := p.invite(url.Values{"role": {"agent"}, "days": {"1"}, "name": {"Rex"}})
	open, err := d.store.Cold().Invitations(t.Context())
	if err != nil || open[0].Name != "Rex" {
		t.Fatal(open, err)
	}
	p.post("/admin/invitations/"+open[0].ID+"/revoke", nil)
	if status, _, _ := p.accept(revoked, "rex", "Rex", usual); status != 404 {
		t.Errorf("revoked: %d", status)
	}
	orphan := p.invite(url.Values{"role": {"admin"}, "days": {"1"}})
	boss, err := d.store.Cold().AgentByLogin(t.Context(), "boss")
	if err != nil {
		t.Fatal(err)
	}
	boss.Disabled = true
	if err := d.store.UpdateAgent(t.Context(), boss); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := p.accept(orphan, "back", "Back door", usual); status != 404 {
		t.Errorf("of a disabled administrator: %d", status)
	}
}

// TestInvitedAdministratorSetsUpTheSecondFactor: an account of an invitation is no way around the second factor.
func TestInvitedAdministratorSetsUpTheSecondFactor(t *testing.T) {
	o := testOptions(t)
	d := openDesk(t, o)
	login, password, _ := d.FirstLogin()
	p := &pages{t: t, d: d, cookie: logIn(t, d, login, password)}
	token := p.invite(url.Values{"role": {"admin"}, "days": {"1"}})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	o.SecondFactor = front.FactorAdmins
	p.d = openDesk(t, o) // an invitation outlasts a restart
	status, e, resp := p.accept(token, "zoe", "Zoe", usual)
	if status != 200 || !desktest.Into[struct{ Agent struct{ Setup bool } }](t, resp).Agent.Setup {
		t.Fatalf("%d %+v", status, e)
	}
	cookie := resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	if status, _ := call(p.d, "GET", "/admin", "", "Cookie", cookie); status != http.StatusSeeOther {
		t.Errorf("a page before the set-up: %d", status)
	}
}
