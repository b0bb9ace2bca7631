package desk

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/sso"
	"github.com/go-eddy/eddy/desk/sso/ssotest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// ssoRig is a desk with a provider.
type ssoRig struct {
	*testing.T
	d     *Desk
	o     Options
	idp   *ssotest.Provider
	clock *desktest.Clock
}

func newSSORig(t *testing.T, rules front.SSORules, change func(*Options)) *ssoRig {
	t.Helper()
	r := &ssoRig{T: t, clock: desktest.NewClock()}
	r.idp = ssotest.New(t, r.clock.Now)
	r.o = testOptions(t)
	r.o.Now, r.o.PublicURL = r.clock.Now, "http://desk.example"
	r.o.SSO = &SSO{Provider: sso.Options{Issuer: r.idp.Issuer(), ClientID: ssotest.ClientID, Secret: ssotest.Secret}, Rules: rules}
	if change != nil {
		change(&r.o)
	}
	r.d = openDesk(t, r.o)
	testkit.Eventually(t, "the provider to be discovered", func() bool { return r.d.sso.Ready() == nil })
	return r
}

// browser keeps cookies, as a browser does.
type browser struct {
	r       *ssoRig
	cookies map[string]string
}

func (r *ssoRig) browser() *browser { return &browser{r, make(map[string]string)} }

func (b *browser) post(path, body string) (int, proto.Error, *http.Response) {
	b.r.Helper()
	var all []string
	for name, value := range b.cookies {
		all = append(all, name+"="+value)
	}
	status, resp := call(b.r.d, "POST", "/api/v1/agent/"+path, body, "Cookie", strings.Join(all, "; "))
	for _, c := range resp.Cookies() {
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	if status < 400 {
		return status, proto.Error{}, resp
	}
	return status, desktest.Into[proto.Error](b.r, resp), resp
}

// begin asks for the provider's address.
func (b *browser) begin(body string) string {
	b.r.Helper()
	status, e, resp := b.post("sso/begin", body)
	if status != http.StatusOK {
		b.r.Fatalf("begin: %d %+v", status, e)
	}
	address := desktest.Into[struct{ URL string }](b.r, resp).URL
	if u, err := url.Parse(address); err != nil || u.Query().Get("redirect_uri") != "http://desk.example/console" {
		b.r.Fatalf("%s %v", address, err)
	}
	return address
}

// logIn goes to the provider and comes back.
func (b *browser) logIn(body string, claims jwt.MapClaims) (int, proto.Error) {
	b.r.Helper()
	state, code := b.r.idp.LogIn(b.begin(body), claims)
	status, e, _ := b.post("sso/finish", fmt.Sprintf(`{"state":%q,"code":%q}`, state, code))
	return status, e
}

// me returns the login of the account that the browser is logged in as, "" if it is not.
func (b *browser) me() string {
	b.r.Helper()
	status, resp := call(b.r.d, "GET", "/api/v1/agent/me", "", "Cookie", "desk="+b.cookies["desk"])
	if status != http.StatusOK {
		return ""
	}
	return desktest.Into[struct{ Agent struct{ Login string } }](b.r, resp).Agent.Login
}

func (b *browser) expect(what, body string, claims jwt.MapClaims, want int, reason string) {
	b.r.Helper()
	if status, e := b.logIn(body, claims); status != want || e.Reason != reason {
		b.r.Errorf("%s: %d %+v, want %d %q", what, status, e, want, reason)
	}
	if in := b.me() != ""; in != (want == http.StatusOK) {
		b.r.Errorf("%s: logged in is %v", what, in)
	}
}

func person(sub, email string) jwt.MapClaims {
	return jwt.MapClaims{"sub": sub, "email": email, "email_verified": true, "name": "Some One"}
}

// TestSingleSignOn: a person is known by issuer and subject once an invitation or its owner has connected the account;
// a stranger is refused.
func TestSingleSignOn(t *testing.T) {
	r := newSSORig(t, front.SSORules{Text: "Log in at Example"}, nil)
	status, resp := call(r.d, "GET", "/api/v1/agent/sso", "")
	if said := desktest.Into[struct {
		SSO struct {
			Text  string
			Ready bool
		}
	}](t, resp); status != 200 || said.SSO.Text != "Log in at Example" || !said.SSO.Ready {
		t.Errorf("%d %+v", status, said)
	}
	ada, _ := employ(t, r.d, perm.Agent, "ada@desk.example")
	r.browser().expect("a stranger", "{}", person("1", "x@desk.example"), 403, "sso_unknown")
	r.browser().expect("an address alone", "{}", person("2", "ada@desk.example"), 403, "sso_unknown")
	b := r.browser()
	b.post("login", credentials("ada@desk.example", usual))
	if status, e := b.logIn(`{"connect":true}`, person("2", "other@x.example")); status != 200 {
		t.Fatalf("connect: %d %+v", status, e)
	}
	r.browser().expect("the owner", "{}", person("2", "another@x.example"), 200, "")
	if status, e := b.logIn(`{"connect":true}`, person("3", "")); status != 409 || e.Reason != "sso_taken" {
		t.Errorf("a second person: %d %+v", status, e)
	}
	_, _ = employ(t, r.d, perm.Agent, "bob")
	bob := r.browser()
	bob.post("login", credentials("bob", usual))
	if status, e := bob.logIn(`{"connect":true}`, person("2", "")); status != 409 || e.Reason != "sso_taken" {
		t.Errorf("another's person: %d %+v", status, e)
	}
	if status, e, _ := r.browser().post("sso/begin", `{"connect":true}`); status != 401 {
		t.Errorf("connect without a login: %d %+v", status, e)
	}
	left := r.browser()
	left.post("login", credentials("bob", usual))
	state, code := r.idp.LogIn(left.begin(`{"connect":true}`), person("9", ""))
	left.post("logout", "")
	left.post("login", credentials("ada@desk.example", usual))
	if status, e, _ := left.post("sso/finish", fmt.Sprintf(`{"state":%q,"code":%q}`, state, code)); status != 401 {
		t.Errorf("another account is logged in meanwhile: %d %+v", status, e)
	}
	rows, err := r.d.store.Cold().Audit(t.Context(), store.AuditQuery{Target: "agent " + ada.ID})
	if err != nil || rows[0].Action != store.AuditLogin {
		t.Errorf("%+v %v", rows, err)
	}
	if desktest.AuditLines(t, r.d.store, store.AuditQuery{Who: ada.ID, Action: store.AuditIdentity}, 2)[1].Detail != "linked by its owner" {
		t.Error("linking is not logged")
	}
	ada.Disabled, ada.Linked = true, true
	if err := r.d.store.UpdateAgent(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	r.browser().expect("a disabled account", "{}", person("2", ""), 403, "sso_unknown")
}

// TestSingleSignOnByInvitation: the link of an invitation makes an account without a password.
func TestSingleSignOnByInvitation(t *testing.T) {
	r := newSSORig(t, front.SSORules{}, func(o *Options) { o.PasswordLogin = front.PasswordAdmins })
	login, password, _ := r.d.FirstLogin()
	p := &pages{t: t, d: r.d, cookie: logIn(t, r.d, login, password)}
	token := func(role string) string {
		t.Helper()
		page := p.get(p.post("/admin/invitations", url.Values{"role": {role}, "days": {"1"}, "name": {"Zoe"}}), 200)
		_, rest, ok := strings.Cut(page, "http://desk.example/console#invite=")
		if !ok {
			t.Fatalf("no link on\n%s", page)
		}
		return rest[:43]
	}
	invited := token("supervisor")
	if status, e, _ := p.accept(invited, "zoe", "Zoe", usual); status != 403 || e.Reason != "password_off" {
		t.Errorf("a password where there are none: %d %+v", status, e)
	}
	b := r.browser()
	b.expect("the invitation", fmt.Sprintf(`{"invitation":%q}`, invited), person("1", "zoe@x.example"), 200, "")
	zoe, err := r.d.store.Cold().AgentByLogin(t.Context(), "zoe@x.example")
	if err != nil || zoe.Name != "Zoe" || zoe.Role != perm.Supervisor || zoe.Password != "" || !zoe.Linked {
		t.Errorf("%+v %v", zoe, err)
	}
	r.browser().expect("afterwards", "{}", person("1", ""), 200, "")
	if status, e := r.browser().logIn(fmt.Sprintf(`{"invitation":%q}`, invited), person("4", "y@x.example")); status != 404 {
		t.Errorf("the link again: %d %+v", status, e)
	}
	second := token("agent")
	r.browser().expect("a person who has an account", fmt.Sprintf(`{"invitation":%q}`, second), person("1", "y@x.example"), 409, "sso_taken")
	r.browser().expect("another person", fmt.Sprintf(`{"invitation":%q}`, second), person("5", "y@x.example"), 200, "")
	for _, password := range []string{"", "x"} {
		if status, _ := call(r.d, "POST", "/api/v1/agent/login", credentials("zoe@x.example", password)); status != 401 {
			t.Errorf("an account without a password, by %q: %d", password, status)
		}
	}
	p.post("/admin/agents/"+zoe.ID+"/unlink", nil)
	if b.me() != "" {
		t.Error("an account that was disconnected is logged in still")
	}
	r.browser().expect("disconnected", "{}", person("1", ""), 403, "sso_unknown")
}

// TestSingleSignOnMeetsTheSecondFactor: the code is asked for after the provider, too, and an address of the provider
// is no way around it.
func TestSingleSignOnMeetsTheSecondFactor(t *testing.T) {
	r := newSSORig(t, front.SSORules{LinkEmail: true}, nil)
	f := &factorRig{T: t, d: r.d, clock: r.clock}
	f.ada, f.cookie = employ(t, r.d, perm.Agent, "ada")
	_, _ = employ(t, r.d, perm.Agent, "eve@x.example")
	r.browser().expect("an address without a second factor", "{}", person("1", "eve@x.example"), 200, "")
	if a, err := r.d.store.Cold().AgentByIdentity(t.Context(), store.Identity{Issuer: r.idp.Issuer(), Subject: "1"}); err != nil || a.Login != "eve@x.example" {
		t.Errorf("%+v %v", a, err)
	}
	r.browser().expect("another person with that address", "{}", person("2", "eve@x.example"), 403, "sso_taken")
	f.setUp()
	if err := r.d.store.LinkIdentity(t.Context(), f.ada.ID, store.Identity{Issuer: r.idp.Issuer(), Subject: "3"}); err != nil {
		t.Fatal(err)
	}
	b := r.browser()
	b.expect("the provider alone", "{}", person("3", ""), 401, "second_factor")
	if status, e, _ := r.browser().post("sso/code", fmt.Sprintf(`{"code":%q}`, f.code(0))); status != 400 || e.Reason != "sso_lost" {
		t.Errorf("a code without the provider: %d %+v", status, e)
	}
	if status, e, _ := b.post("sso/code", fmt.Sprintf(`{"code":%q}`, f.code(time.Hour))); status != 401 || e.Reason != "second_factor_wrong" || b.me() != "" {
		t.Errorf("a wrong code: %d %+v", status, e)
	}
	if status, e, _ := b.post("sso/code", fmt.Sprintf(`{"code":%q}`, f.code(0))); status != 200 || b.me() != "ada" {
		t.Errorf("the code: %d %+v", status, e)
	}
	late := r.browser()
	late.expect("the provider alone", "{}", person("3", ""), 401, "second_factor")
	r.clock.Move(10 * time.Minute)
	if status, e, _ := late.post("sso/code", fmt.Sprintf(`{"code":%q}`, f.code(0))); status != 400 || e.Reason != "sso_lost" {
		t.Errorf("too late: %d %+v", status, e)
	}
	zoe, _ := employ(t, r.d, perm.Agent, "zoe@x.example")
	if err := r.d.store.SetFactor(t.Context(), zoe.ID, store.Factor{Secret: []byte("x")}, nil, store.Token{}); err != nil {
		t.Fatal(err)
	}
	r.browser().expect("the address of an account with a second factor", "{}", person("4", "zoe@x.example"), 403, "sso_connect")
}

// TestSingleSignOnRules: who gets in, and as what.
func TestSingleSignOnRules(t *testing.T) {
	r := newSSORig(t, front.SSORules{Create: perm.Agent, Domains: []string{"desk.example"}, Roles: map[string]perm.Role{"support": perm.Agent, "it": perm.Supervisor}},
		func(o *Options) { o.SSO.Provider.Claim = "groups" })
	in := func(sub, email string, groups ...string) jwt.MapClaims {
		claims := person(sub, email)
		claims["groups"] = groups
		return claims
	}
	r.browser().expect("another domain", "{}", in("1", "x@desk.example.evil", "it"), 403, "sso_unknown")
	r.browser().expect("no address", "{}", in("1", "", "it"), 403, "sso_unknown")
	r.browser().expect("no group", "{}", in("1", "x@desk.example", "guests"), 403, "sso_unknown")
	r.browser().expect("new", "{}", in("1", "x@Desk.Example", "guests", "support", "it"), 200, "")
	role := func(want perm.Role) {
		t.Helper()
		a, err := r.d.store.Cold().AgentByLogin(t.Context(), "x@desk.example")
		if err != nil || a.Role != want || a.Name != "Some One" {
			t.Errorf("%+v %v, want %s", a, err, want)
		}
	}
	role(perm.Supervisor)
	r.browser().expect("another group", "{}", in("1", "x@desk.example", "support"), 200, "")
	role(perm.Agent)
	r.browser().expect("out of every group", "{}", in("1", "x@desk.example"), 403, "sso_unknown")
	_, _ = employ(t, r.d, perm.Agent, "taken@desk.example")
	r.browser().expect("a login that is taken", "{}", in("2", "taken@desk.example", "it"), 403, "sso_taken")
	boss, err := r.d.store.Cold().AgentByLogin(t.Context(), "agent")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.d.store.LinkIdentity(t.Context(), boss.ID, store.Identity{Issuer: r.idp.Issuer(), Subject: "3"}); err != nil {
		t.Fatal(err)
	}
	r.browser().expect("the last administrator", "{}", in("3", "boss@desk.example", "support"), 200, "")
	if boss, err = r.d.store.Cold().AgentByID(t.Context(), boss.ID); err != nil || boss.Role != perm.Admin {
		t.Errorf("%+v %v", boss, err)
	}
}

// TestSingleSignOnFlows: two tabs do not disturb each other, and a login that another browser has begun, or that took
// too long, is none.
func TestSingleSignOnFlows(t *testing.T) {
	r := newSSORig(t, front.SSORules{Create: perm.Agent, Domains: []string{"x.example"}}, nil)
	b := r.browser()
	finish := func(b *browser, state, code string) (int, string) {
		t.Helper()
		status, e, _ := b.post("sso/finish", fmt.Sprintf(`{"state":%q,"code":%q}`, state, code))
		return status, e.Reason
	}
	first, second := b.begin("{}"), b.begin("{}")
	state, code := r.idp.LogIn(first, person("1", "a@x.example"))
	if status, reason := finish(r.browser(), state, code); status != 400 || reason != "sso_lost" {
		t.Errorf("another browser: %d %s", status, reason)
	}
	if status, reason := finish(b, state, code); status != 200 {
		t.Errorf("the first tab: %d %s", status, reason)
	}
	if status, reason := finish(b, state, code); status != 400 || reason != "sso_lost" {
		t.Errorf("the first tab again: %d %s", status, reason)
	}
	state, code = r.idp.LogIn(second, person("1", "a@x.example"))
	if status, reason := finish(b, state, "x"+code); status != 403 || reason != "sso_refused" {
		t.Errorf("another code: %d %s", status, reason)
	}
	state, code = r.idp.LogIn(b.begin("{}"), person("1", "a@x.example"))
	r.clock.Move(time.Hour)
	if status, reason := finish(b, state, code); status != 400 || reason != "sso_lost" {
		t.Errorf("too late: %d %s", status, reason)
	}
	for range 100 {
		if status, _ := b.logIn("{}", person("1", "a@x.example")); status == 429 {
			return
		}
	}
	t.Error("one address asks the provider on and on")
}

// TestSingleSignOnWithoutItsProvider: the start does not wait for the provider, pages and /readyz tell, and passwords
// work.
func TestSingleSignOnWithoutItsProvider(t *testing.T) {
	clock := desktest.NewClock()
	idp := ssotest.New(t, clock.Now)
	idp.Before(func(w http.ResponseWriter, _ *http.Request) bool { http.Error(w, "no", 500); return false })
	o := testOptions(t)
	o.PublicURL = "http://desk.example"
	o.SSO = &SSO{Provider: sso.Options{Issuer: idp.Issuer(), ClientID: ssotest.ClientID, Secret: ssotest.Secret}}
	d := openDesk(t, o)
	r := &ssoRig{T: t, d: d, o: o, idp: idp, clock: clock}
	if status, resp := call(d, "GET", "/api/v1/agent/sso", ""); status != 200 || desktest.Into[struct{ SSO struct{ Ready bool } }](t, resp).SSO.Ready {
		t.Errorf("a dead provider is ready: %d", status)
	}
	if status, e, _ := r.browser().post("sso/begin", "{}"); status != 503 || e.Code != proto.CodeUnavailable {
		t.Errorf("begin: %d %+v", status, e)
	}
	status, resp := call(d, "GET", "/readyz", "")
	said := make([]byte, 200)
	n, _ := resp.Body.Read(said)
	if status != 200 || !strings.HasPrefix(string(said[:n]), "ready\n") || !strings.Contains(string(said[:n]), "single sign-on does not work") {
		t.Errorf("%d %q", status, said[:n])
	}
	login, password, _ := d.FirstLogin()
	logIn(t, d, login, password)
	plain := openDesk(t, testOptions(t))
	if status, resp := call(plain, "GET", "/api/v1/agent/sso", ""); status != 200 || desktest.Into[map[string]any](t, resp)["sso"] != nil {
		t.Errorf("without single sign-on: %d", status)
	}
	if status, _ := call(plain, "POST", "/api/v1/agent/sso/begin", "{}"); status != 404 {
		t.Errorf("begin without single sign-on: %d", status)
	}
}

// TestPasswordsSwitchedOff: the way back stays open for administrators unless it is closed, too.
func TestPasswordsSwitchedOff(t *testing.T) {
	for policy, want := range map[front.PasswordPolicy][2]int{front.PasswordAll: {200, 200}, front.PasswordAdmins: {403, 200}, front.PasswordNone: {403, 403}} {
		r := newSSORig(t, front.SSORules{}, func(o *Options) { o.PasswordLogin = policy })
		for i, role := range []perm.Role{perm.Supervisor, perm.Admin} {
			hash, err := r.d.hasher.Hash(t.Context(), usual)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.d.store.CreateAgent(t.Context(), store.AgentAccount{Login: string(role), Name: "x", Password: hash, Role: role}); err != nil {
				t.Fatal(err)
			}
			status, e, _ := r.browser().post("login", credentials(string(role), usual))
			if status != want[i] || status == 403 && e.Reason != "password_off" {
				t.Errorf("%q, %s: %d %+v", policy, role, status, e)
			}
			if status, e, _ := r.browser().post("login", credentials(string(role), "wrong")); status != 401 {
				t.Errorf("%q, %s, a wrong password: %d %+v", policy, role, status, e)
			}
		}
	}
}

func TestCheckSSO(t *testing.T) {
	good := func() *SSO {
		return &SSO{Provider: sso.Options{Issuer: "https://login.example", ClientID: "desk", Claim: "groups"}, Rules: front.SSORules{Domains: []string{"x.example"}, Create: perm.Agent}}
	}
	if err := errors.Join(CheckSSO(nil, "", front.PasswordAll), CheckSSO(good(), "https://desk.example", front.PasswordNone)); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]func(*SSO){
		"client id": func(s *SSO) { s.Provider.ClientID = "" }, `the role "king"`: func(s *SSO) { s.Rules.Create = "king" },
		"everybody whom": func(s *SSO) { s.Rules.Domains = nil }, "no claim": func(s *SSO) { s.Rules.Roles, s.Provider.Claim = map[string]perm.Role{"a": perm.Agent}, "" },
		`"a" the role "b"`: func(s *SSO) { s.Rules.Roles = map[string]perm.Role{"a": "b"} },
	} {
		s := good()
		change(s)
		if err := CheckSSO(s, "https://desk.example", front.PasswordAll); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
	}
	if err := CheckSSO(good(), "", front.PasswordAll); err == nil || !strings.Contains(err.Error(), "--public-url") {
		t.Errorf("without an address: %v", err)
	}
	if err := CheckSSO(nil, "", front.PasswordAdmins); err == nil || !strings.Contains(err.Error(), "nobody else") {
		t.Errorf("no way in: %v", err)
	}
}
