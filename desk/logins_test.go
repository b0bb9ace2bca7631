package desk

import (
	"fmt"
	"net/http"
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

const usual = "a long enough password" // of employ

func TestPasswordChange(t *testing.T) {
	s := serve(t, testOptions(t))
	d := s.desk
	ada, cookie := employ(t, d, perm.Agent, "ada")
	other := logIn(t, d, "ada", usual)
	watched := s.newWeb().Agent("ada", usual)
	t.Cleanup(watched.Close)
	s.ok(watched.Connected(s.ctx))
	change := func(cookie, old, now string) (int, proto.Error) {
		status, resp := call(d, "POST", "/api/v1/agent/password", fmt.Sprintf(`{"old":%q,"new":%q}`, old, now), "Cookie", cookie)
		if status == http.StatusNoContent {
			return status, proto.Error{}
		}
		return status, desktest.Into[proto.Error](t, resp)
	}
	for name, c := range map[string]struct {
		old, now string
		want     int
	}{
		"wrong old one": {"not the password", "another good one", 403}, "short": {usual, "short", 422}, "the same": {usual, usual, 422},
		"long": {usual, strings.Repeat("abcdef", 60), 422}, "one letter": {usual, strings.Repeat("a", 20), 422},
	} {
		if status, e := change(cookie, c.old, c.now); status != c.want || e.Text == "" {
			t.Errorf("%s: %d %+v", name, status, e)
		}
	}
	if status, _ := change("", usual, "another good one"); status != 401 {
		t.Errorf("without a login: %d", status)
	}
	if status, e := change(cookie, usual, "another good one"); status != 204 {
		t.Fatalf("%d %+v", status, e)
	}
	for c, want := range map[string]int{cookie: 200, other: 401} {
		if status, _ := call(d, "GET", "/api/v1/agent/me", "", "Cookie", c); status != want {
			t.Errorf("login after the change: %d, want %d", status, want)
		}
	}
	testkit.Eventually(t, "the session to be closed", func() bool { return d.Stats().Closes["4101"] > 0 })
	if status, _ := call(d, "POST", "/api/v1/agent/login", credentials("ada", usual)); status != 401 {
		t.Errorf("the old password: %d", status)
	}
	logIn(t, d, "ada", "another good one")
	desktest.AuditLines(t, d.store, store.AuditQuery{Who: ada.ID, Action: store.AuditPassword}, 1)
	if rows := desktest.AuditLines(t, d.store, store.AuditQuery{Who: ada.ID, Action: store.AuditLoginFailed}, 2); rows[1].Detail != "password change" || rows[0].Detail != "login" {
		t.Errorf("%+v", rows)
	}
}

// Guessing the old password is slowed down like guessing at the login, but neither keeps the other back.
func TestPasswordChangeIsThrottled(t *testing.T) {
	o, now := testOptions(t), time.Now()
	o.Now = func() time.Time { return now } // the delay does not go by
	d := openDesk(t, o)
	_, cookie := employ(t, d, perm.Agent, "ada")
	for i := 0; ; i++ {
		status, _ := call(d, "POST", "/api/v1/agent/password", `{"old":"a guess","new":"another good one"}`, "Cookie", cookie)
		if status == 429 {
			break
		}
		if i > 20 || status != 403 {
			t.Fatalf("guess %d: %d", i, status)
		}
	}
	logIn(t, d, "ada", usual)
	_, bob := employ(t, d, perm.Agent, "bob")
	for status := 0; status != 429; {
		status, _ = call(d, "POST", "/api/v1/agent/login", credentials("bob", "a guess"))
	}
	if status, _ := call(d, "POST", "/api/v1/agent/password", fmt.Sprintf(`{"old":%q,"new":"another good one"}`, usual), "Cookie", bob); status != 204 {
		t.Errorf("change of a password that others guess: %d", status)
	}
}

// Guesses from elsewhere lock nobody out: not a few of them, and however many, not from a device on which the account has
// logged in before.
func TestLoginIsNotLockedFromOutside(t *testing.T) {
	o, clock := testOptions(t), desktest.NewClock()
	o.Now = clock.Now // no allowance comes back
	o.TrustedProxies = prefixes(t, "192.0.2.0/24")
	d := openDesk(t, o)
	employ(t, d, perm.Agent, "ada")
	employ(t, d, perm.Agent, "bob")
	attempt := func(login, password, from string, cookies ...*http.Cookie) (int, []*http.Cookie) {
		header := []string{"X-Forwarded-For", from}
		for _, c := range cookies {
			header = append(header, "Cookie", c.Name+"="+c.Value)
		}
		status, resp := call(d, "POST", "/api/v1/agent/login", credentials(login, password), header...)
		return status, resp.Cookies()
	}
	for i := range 6 {
		if status, _ := attempt("ada", "a guess", fmt.Sprint("198.51.100.", i)); status != 401 {
			t.Fatalf("guess %d: %d", i, status)
		}
	}
	status, mine := attempt("ADA", usual, "203.0.113.7")
	if status != 200 {
		t.Fatalf("the right password after six guesses from elsewhere: %d", status)
	}
	for i := 0; ; i++ { // addresses of one network of IPv6 are one
		if status, _ := attempt("ada", "a guess", fmt.Sprintf("2001:db8::%x", i)); status == 429 {
			break
		} else if i > 10 {
			t.Fatal("a network of IPv6 guesses on and on")
		}
	}
	for i := 0; status != 429; i++ {
		if status, _ = attempt("ada", "a guess", fmt.Sprintf("10.0.%d.%d", i/250, i%250)); i > 1000 {
			t.Fatal("many addresses guess on and on")
		}
	}
	if status, _ := attempt("ada", usual, "203.0.113.8"); status != 429 {
		t.Errorf("an unknown device: %d", status)
	}
	_, bobs := attempt("bob", usual, "203.0.113.8")
	forged := *bobs[1]
	forged.Name = mine[1].Name
	if status, _ := attempt("ada", usual, "203.0.113.8", &forged); status != 429 {
		t.Errorf("a device of another account: %d", status)
	}
	for range 5 {
		if status, _ := attempt("ada", "mistyped", "203.0.113.7", mine[1]); status != 401 {
			t.Errorf("a known device: %d", status)
		}
	}
	if status, _ := attempt("ada", usual, "203.0.113.7", mine[1]); status != 429 {
		t.Errorf("a known device that guesses: %d", status)
	}
	clock.Move(time.Second)
	if status, _ := attempt("ada", usual, "203.0.113.99", mine[1]); status != 200 {
		t.Errorf("a known device: %d", status)
	}
}

// employ makes an account with a role and logs it in; it returns the account and the cookie.
func employ(t *testing.T, d *Desk, role perm.Role, login string) (store.AgentAccount, string) {
	t.Helper()
	hash, err := d.hasher.Hash(t.Context(), usual)
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.store.CreateAgent(testkit.Context(t), store.AgentAccount{Login: login, Name: login, Password: hash, Role: role, Capacity: 9})
	if err != nil {
		t.Fatal(err)
	}
	return a, logIn(t, d, login, usual)
}

func logIn(t *testing.T, d *Desk, login, password string) string {
	t.Helper()
	status, resp := call(d, "POST", "/api/v1/agent/login", credentials(login, password))
	if status != http.StatusOK {
		t.Fatalf("login of %s: %d", login, status)
	}
	return resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
}

// loginInfo is one login as its owner sees it.
type loginInfo struct {
	ID, IP                 string
	Created, Seen, Expires int64
	UserAgent              string `json:"user_agent"`
	Current                bool
}

func TestLoginSessions(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.KeepIP = front.KeepShortIP
	o.Now = clock.Now
	d := openDesk(t, o)
	ada, first := employ(t, d, perm.Agent, "ada")
	_, resp := call(d, "POST", "/api/v1/agent/login", credentials("ada", usual), "User-Agent", strings.Repeat("浏", 500))
	second := resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
	third := logIn(t, d, "ada", usual)
	list := func(cookie string) []loginInfo {
		t.Helper()
		status, resp := call(d, "GET", "/api/v1/agent/sessions", "", "Cookie", cookie)
		if status != 200 {
			t.Fatalf("%d", status)
		}
		return desktest.Into[struct{ Sessions []loginInfo }](t, resp).Sessions
	}
	revoke := func(cookie, body string) int {
		status, _ := call(d, "POST", "/api/v1/agent/sessions/revoke", body, "Cookie", cookie)
		return status
	}
	all := list(second)
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	var mine, another loginInfo
	for _, l := range all {
		if l.IP != "192.0.2.0/24" || l.Created == 0 || l.Seen == 0 || l.Expires <= l.Created || len(l.ID) != 32 {
			t.Errorf("%+v", l)
		}
		if l.Current {
			mine = l
		} else {
			another = l
		}
	}
	if n := len([]rune(mine.UserAgent)); n != 120 || another.UserAgent != "" {
		t.Errorf("user agents of %d and %q", n, another.UserAgent)
	}
	for body, want := range map[string]int{
		`{}`: 400, `{"id":"x","all":true}`: 400, `{"id":"` + strings.Repeat("0", 32) + `"}`: 404, `{"id":7}`: 400,
		`{"agent":"` + agentOf(t, d, "agent") + `"}`: 403, `{"agent":"nobody"}`: 403,
	} {
		if got := revoke(second, body); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
	if got := revoke(second, `{"id":"`+another.ID+`"}`); got != 204 || len(list(second)) != 2 {
		t.Errorf("one: %d, %d left", got, len(list(second)))
	}
	fourth := logIn(t, d, "ada", usual)
	if got := revoke(second, `{"all":true}`); got != 204 || len(list(second)) != 1 {
		t.Errorf("all: %d, %d left", got, len(list(second)))
	}
	for _, c := range []string{first, third, fourth} {
		if status, _ := call(d, "GET", "/api/v1/agent/me", "", "Cookie", c); status != 401 {
			t.Errorf("a revoked login: %d", status)
		}
	}
	_, boss := employ(t, d, perm.Supervisor, "boss")
	if got := revoke(boss, `{"agent":"nobody"}`); got != 404 {
		t.Errorf("of nobody: %d", got)
	}
	if got := revoke(boss, `{"agent":"`+ada.ID+`"}`); got != 204 {
		t.Errorf("by a supervisor: %d", got)
	}
	_, auditor := employ(t, d, perm.Auditor, "auditor")
	admin := agentOf(t, d, "agent")
	chief := enter(t, d, store.AgentAccount{ID: admin})
	for target, cookie := range map[string]string{admin: chief, agentOf(t, d, "auditor"): auditor} {
		if got := revoke(boss, `{"agent":"`+target+`"}`); got != 403 {
			t.Errorf("of a role with other rights, by a supervisor: %d", got)
		}
		if status, _ := call(d, "GET", "/api/v1/agent/me", "", "Cookie", cookie); status != 200 {
			t.Errorf("its login: %d", status)
		}
	}
	desktest.AuditLines(t, d.store, store.AuditQuery{Who: agentOf(t, d, "boss"), Action: store.AuditDenied}, 2)
	if got := revoke(chief, `{"agent":"`+agentOf(t, d, "boss")+`"}`); got != 204 {
		t.Errorf("of a supervisor, by an administrator: %d", got)
	}
	if status, _ := call(d, "GET", "/api/v1/agent/me", "", "Cookie", second); status != 401 {
		t.Errorf("ended by a supervisor: %d", status)
	}
	if rows := desktest.AuditLines(t, d.store, store.AuditQuery{Action: store.AuditRevoke, Target: "agent " + ada.ID}, 3); len(rows) != 3 {
		t.Errorf("%+v", rows)
	}
	logIn(t, d, "ada", usual)
	clock.Move(o.LoginIdle + 25*time.Hour)
	if fresh := logIn(t, d, "ada", usual); len(list(fresh)) != 1 {
		t.Errorf("idle logins are listed: %+v", list(fresh))
	}
}

func agentOf(t *testing.T, d *Desk, login string) string {
	t.Helper()
	a, err := d.store.Cold().AgentByLogin(t.Context(), login)
	if err != nil {
		t.Fatal(err)
	}
	return a.ID
}

// Nothing of where logins come from is kept unless it is asked for, and no password that was typed into the wrong field.
func TestLoginsAreAuditedWithoutSecrets(t *testing.T) {
	d := openDesk(t, testOptions(t))
	ada, cookie := employ(t, d, perm.Agent, "ada")
	call(d, "POST", "/api/v1/agent/login", credentials("ada", "wrong"))
	call(d, "POST", "/api/v1/agent/login", credentials("my secret password", "ada"))
	call(d, "POST", "/api/v1/agent/logout", "", "Cookie", cookie)
	rows := desktest.AuditLines(t, d.store, store.AuditQuery{}, 4)
	var actions []string
	for _, r := range rows {
		actions = append(actions, r.Action)
		if r.IP != "" || strings.Contains(fmt.Sprintf("%+v", r), "my secret password") || strings.Contains(fmt.Sprintf("%+v", r), "wrong") {
			t.Errorf("%+v", r)
		}
	}
	if got := strings.Join(actions, " "); got != "logout login_failed login_failed login" || rows[1].Target != "no such account" || rows[2].Who.ID != ada.ID {
		t.Errorf("%s: %+v", got, rows)
	}
	all, err := d.store.Cold().AgentSessions(t.Context(), ada.ID, time.Now())
	if err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	logIn(t, d, "ada", usual)
	if all, _ = d.store.Cold().AgentSessions(t.Context(), ada.ID, time.Now()); len(all) != 1 || all[0].IP != "" || all[0].UserAgent != "" {
		t.Errorf("%+v", all)
	}
}

// A change of the role takes hold of sessions that are open, and a disabled account loses them.
func TestRoleChangeReachesOpenSessions(t *testing.T) {
	s := serve(t, testOptions(t))
	account, _ := employ(t, s.desk, perm.Agent, "lin")
	lin := s.newWeb().Agent("lin", usual)
	t.Cleanup(lin.Close)
	s.ok(lin.Connected(s.ctx))
	conv, err := s.customer().Open(s.ctx, "human")
	s.ok(err)
	account.Role = perm.Auditor
	s.ok(s.desk.store.UpdateAgent(s.ctx, account))
	take := func() proto.Code {
		f, err := lin.Do(s.ctx, "take", conv, proto.Take{})
		s.ok(err)
		var e proto.Error
		if f.T == "err" {
			f.Decode(&e)
		}
		return e.Code
	}
	testkit.Eventually(t, "an auditor to be refused", func() bool { return take() == proto.CodeForbidden })
	account.Role = perm.Agent
	s.ok(s.desk.store.UpdateAgent(s.ctx, account))
	testkit.Eventually(t, "the agent to be let", func() bool { return take() != proto.CodeForbidden })
	if _, n := lin.Welcome(); n != 1 {
		t.Errorf("%d welcomes", n)
	}
	account.Disabled = true
	s.ok(s.desk.store.UpdateAgent(s.ctx, account))
	testkit.Eventually(t, "the session to be closed", func() bool { return s.desk.Stats().Closes["4101"] > 0 })
	if status, _ := call(s.desk, "POST", "/api/v1/agent/login", credentials("lin", usual)); status != 401 {
		t.Errorf("login of a disabled account: %d", status)
	}
}
