package desk

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

var resetLink = regexp.MustCompile(`https://desk\.example/reset#(\S+)`)

// linkOf returns the token of the link in a mail.
func linkOf(t *testing.T, m desktest.Received) string {
	t.Helper()
	found := resetLink.FindStringSubmatch(m.Body)
	if found == nil {
		t.Fatalf("no link in %q", m.Body)
	}
	return found[1]
}

func askReset(d *Desk, login string, extra ...string) (int, *http.Response) {
	return call(d, "POST", "/api/v1/agent/reset", fmt.Sprintf(`{"login":%q}`, login), extra...)
}

func useReset(d *Desk, token, password string) int {
	status, _ := call(d, "POST", "/api/v1/agent/reset/password", fmt.Sprintf(`{"token":%q,"password":%q}`, token, password))
	return status
}

// TestForgottenPassword: an account with an address gets a link, which sets a new password once and ends every login. The
// token lies nowhere in the data.
func TestForgottenPassword(t *testing.T) {
	s := desktest.NewMailServer(t, "starttls")
	p := managedBy(t, mailing(t, s))
	a, cookie := employ(t, p.d, perm.Agent, "kim")
	p.post("/admin/agents/"+a.ID, url.Values{"name": {"Kim"}, "role": {"agent"}, "capacity": {"1"}, "email": {"kim@home.example"}})
	if status, _ := askReset(p.d, " KIM "); status != http.StatusNoContent {
		t.Fatal(status)
	}
	m := s.Await(t, 1)[0]
	token := linkOf(t, m)
	if m.To != "kim@home.example" || m.Subject != "New password for Desk" || !strings.Contains(m.Body, "Kim") || !strings.Contains(m.Body, "60 minutes") {
		t.Errorf("%+v", m)
	}
	if status := useReset(p.d, token, "kim"); status != http.StatusUnprocessableEntity {
		t.Errorf("a short password: %d", status)
	}
	if status := useReset(p.d, token+"x", "another long one"); status != http.StatusNotFound {
		t.Errorf("another token: %d", status)
	}
	if status := useReset(p.d, token, "another long one"); status != http.StatusNoContent {
		t.Errorf("the link: %d", status)
	}
	if status := useReset(p.d, token, "and one more of it"); status != http.StatusNotFound {
		t.Errorf("a second time: %d", status)
	}
	if status, _ := call(p.d, "GET", "/api/v1/agent/me", "", "Cookie", cookie); status != http.StatusUnauthorized {
		t.Errorf("the login of before: %d", status)
	}
	if status, _ := call(p.d, "POST", "/api/v1/agent/login", credentials("kim", usual)); status != http.StatusUnauthorized {
		t.Errorf("the password of before: %d", status)
	}
	logIn(t, p.d, "kim", "another long one")
	lines := desktest.AuditLines(t, p.d.store, store.AuditQuery{Target: "agent " + a.ID}, 4)
	var said []string
	for _, l := range lines {
		said = append(said, l.Action+" "+l.Detail)
		if strings.Contains(fmt.Sprint(l), token) || strings.Contains(fmt.Sprint(l), "another long one") {
			t.Errorf("%+v", l)
		}
	}
	if all := strings.Join(said, ", "); !strings.Contains(all, "password_changed by mail") || !strings.Contains(all, "password_reset_asked mail") {
		t.Error(all)
	}
}

// TestResetTellsNothing: whether there is such an account, whether it has an address or may log in, the answer is the same.
func TestResetTellsNothing(t *testing.T) {
	s := desktest.NewMailServer(t, "starttls")
	p := managedBy(t, mailing(t, s))
	for _, a := range []store.AgentAccount{{Login: "kim", Email: "kim@home.example"}, {Login: "plain"}, {Login: "gone", Email: "gone@home.example", Disabled: true}} {
		a.Name, a.Password = a.Login, "x"
		if _, err := p.d.store.CreateAgent(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	for _, login := range []string{"kim", "plain", "gone", "nobody", "kim@home.example"} {
		status, resp := askReset(p.d, login)
		if status != http.StatusNoContent || len(resp.Header["Retry-After"]) > 0 {
			t.Errorf("%s: %d %v", login, status, resp.Header)
		}
	}
	desktest.AuditLines(t, p.d.store, store.AuditQuery{Action: store.AuditReset}, 5)
	if got := s.Await(t, 1); len(got) != 1 || got[0].To != "kim@home.example" {
		t.Errorf("%+v", got)
	}
	for body, want := range map[string]int{`{}`: http.StatusBadRequest, `{"login":" "}`: http.StatusBadRequest, `{"login":"` + strings.Repeat("x", 300) + `"}`: http.StatusBadRequest} {
		if status, _ := call(p.d, "POST", "/api/v1/agent/reset", body); status != want {
			t.Errorf("%.20s: %d", body, status)
		}
	}
}

// TestResetIsLimited: an address asks five times and then waits; an account gets three mails an hour, whoever asks.
func TestResetIsLimited(t *testing.T) {
	s := desktest.NewMailServer(t, "starttls")
	o := mailing(t, s)
	clock := desktest.NewClock()
	o.Now, o.TrustedProxies = clock.Now, prefixes(t, "192.0.2.0/24")
	p := managedBy(t, o)
	if _, err := p.d.store.CreateAgent(t.Context(), store.AgentAccount{Login: "kim", Name: "Kim", Password: "x", Email: "kim@home.example"}); err != nil {
		t.Fatal(err)
	}
	from := func(ip string) []string { return []string{"X-Forwarded-For", ip} }
	for range 5 {
		if status, _ := askReset(p.d, "nobody", from("198.51.100.7")...); status != http.StatusNoContent {
			t.Fatal(status)
		}
	}
	status, resp := askReset(p.d, "nobody", from("198.51.100.7")...)
	if status != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", status, resp.Header)
	}
	for i := range 5 {
		if status, _ := askReset(p.d, "kim", from(fmt.Sprint("198.51.100.", 10+i))...); status != http.StatusNoContent {
			t.Errorf("another address: %d", status)
		}
		desktest.AuditLines(t, p.d.store, store.AuditQuery{Action: store.AuditReset}, 6+i)
		testkit.Eventually(t, "an empty queue", func() bool { // a mail that is just being sent counts as well as its link
			n, err := p.d.store.Cold().MailCounts(t.Context())
			return err == nil && n.Queued == 0
		})
	}
	s.Await(t, store.MaxResets)
	clock.Move(store.ResetLife)
	askReset(p.d, "kim", from("198.51.100.20")...)
	if got := s.Await(t, store.MaxResets+1); len(got) != store.MaxResets+1 {
		t.Errorf("%d mails", len(got))
	}
	if status := useReset(p.d, linkOf(t, s.Mails()[0]), "another long one"); status != http.StatusNotFound {
		t.Errorf("a link of an hour ago: %d", status)
	}
}

// TestResetWithoutMail: a server without mail says so, and stores nothing.
func TestResetWithoutMail(t *testing.T) {
	d := openDesk(t, testOptions(t))
	status, resp := call(d, "GET", "/api/v1/agent/reset", "")
	if known := desktest.Into[struct{ Mail bool }](t, resp); status != http.StatusOK || known.Mail {
		t.Errorf("%d %+v", status, known)
	}
	if status, _ := askReset(d, "agent"); status != http.StatusConflict {
		t.Errorf("%d", status)
	}
	if rows, err := d.store.Cold().Audit(t.Context(), store.AuditQuery{Action: store.AuditReset}); err != nil || len(rows) > 0 {
		t.Errorf("%+v %v", rows, err)
	}
}
