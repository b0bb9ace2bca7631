package desk

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// factorRig is a desk with a clock and an account whose app is the library's.
type factorRig struct {
	*testing.T
	d      *Desk
	clock  *desktest.Clock
	ada    store.AgentAccount
	cookie string
	secret string
}

func newFactorRig(t *testing.T, change func(*Options)) *factorRig {
	t.Helper()
	r := &factorRig{T: t, clock: desktest.NewClock()}
	o := testOptions(t)
	o.Now = r.clock.Now
	if change != nil {
		change(&o)
	}
	r.d = openDesk(t, o)
	return r
}

// code is what the app shows a while from now.
func (r *factorRig) code(later time.Duration) string {
	r.Helper()
	code, err := totp.GenerateCode(r.secret, r.clock.Now().Add(later))
	if err != nil {
		r.Fatal(err)
	}
	return code
}

func (r *factorRig) api(path, body string) (int, proto.Error, *http.Response) {
	r.Helper()
	status, resp := call(r.d, "POST", "/api/v1/agent/"+path, body, "Cookie", r.cookie)
	if status < 400 {
		return status, proto.Error{}, resp
	}
	return status, desktest.Into[proto.Error](r, resp), resp
}

// log in with a password and a code; the device is unknown.
func (r *factorRig) login(password, code string) (int, proto.Error, *http.Response) {
	r.Helper()
	status, resp := call(r.d, "POST", "/api/v1/agent/login", fmt.Sprintf(`{"login":"ada","password":%q,"code":%q}`, password, code))
	if status == http.StatusOK {
		return status, proto.Error{}, resp
	}
	if len(resp.Cookies()) > 0 {
		r.Errorf("a refused login gets the cookies %v", resp.Cookies())
	}
	return status, desktest.Into[proto.Error](r, resp), resp
}

func (r *factorRig) expectLogin(what, code string, want int, reason string) {
	r.Helper()
	if status, e, _ := r.login(usual, code); status != want || e.Reason != reason {
		r.Errorf("%s: %d %+v, want %d %q", what, status, e, want, reason)
	}
}

// setUp sets up the second factor of the account and returns its recovery codes.
func (r *factorRig) setUp() []string {
	r.Helper()
	_, resp := call(r.d, "GET", "/api/v1/agent/factor", "", "Cookie", r.cookie)
	offer := desktest.Into[struct{ Secret, URI, QR string }](r, resp)
	if u, err := url.Parse(offer.URI); err != nil || u.Query().Get("secret") != offer.Secret || !strings.HasPrefix(offer.QR, "data:image/png;base64,") {
		r.Fatalf("%+v %v", offer, err)
	}
	r.secret = offer.Secret
	status, e, resp := r.api("factor", fmt.Sprintf(`{"password":%q,"secret":%q,"code":%q}`, usual, r.secret, r.code(-30*time.Second))) // a clock that is slow
	if status != http.StatusOK {
		r.Fatalf("set-up: %d %+v", status, e)
	}
	codes := desktest.Into[struct{ Recovery []string }](r, resp).Recovery
	r.clock.Move(90 * time.Second) // beyond the window of that code
	return codes
}

// TestSecondFactor: with it a login takes password and code; each code works once, and no cookie is given before.
func TestSecondFactor(t *testing.T) {
	r := newFactorRig(t, nil)
	r.ada, r.cookie = employ(t, r.d, perm.Agent, "ada")
	other := logIn(t, r.d, "ada", usual)
	r.secret = strings.Repeat("A", 32)
	for what, c := range map[string]struct {
		body string
		want int
	}{
		"no secret":        {`{}`, 422},
		"a short secret":   {fmt.Sprintf(`{"password":%q,"secret":"AAAA","code":"123456"}`, usual), 422},
		"a wrong code":     {fmt.Sprintf(`{"password":%q,"secret":%q,"code":%q}`, usual, r.secret, r.code(time.Hour)), 403},
		"a wrong password": {fmt.Sprintf(`{"password":"x","secret":%q,"code":%q}`, r.secret, r.code(0)), 403},
	} {
		if status, e, _ := r.api("factor", c.body); status != c.want || e.Text == "" {
			t.Errorf("%s: %d %+v", what, status, e)
		}
	}
	for _, path := range []string{"factor/recovery", "factor/remove"} {
		if status, _, _ := r.api(path, fmt.Sprintf(`{"password":%q}`, usual)); status != http.StatusConflict {
			t.Errorf("%s without a second factor: %d", path, status)
		}
	}
	recovery := r.setUp()
	for c, want := range map[string]int{r.cookie: 200, other: 401} {
		if status, _ := call(r.d, "GET", "/api/v1/agent/me", "", "Cookie", c); status != want {
			t.Errorf("a login after the set-up: %d, want %d", status, want)
		}
	}
	if status, _, _ := r.api("factor", fmt.Sprintf(`{"password":%q,"secret":%q,"code":%q}`, usual, r.secret, r.code(0))); status != http.StatusConflict {
		t.Errorf("a second one: %d", status)
	}
	r.expectLogin("no code", "", 401, "second_factor")
	if status, e, _ := r.login("not the password", r.code(0)); status != 401 || e.Reason != "" {
		t.Errorf("a wrong password with the code: %d %+v", status, e)
	}
	r.expectLogin("far behind", r.code(-time.Minute), 401, "second_factor_wrong")
	r.expectLogin("a step behind", r.code(-30*time.Second), 200, "")
	r.expectLogin("the code of now", r.code(0), 200, "")
	r.expectLogin("the same again", r.code(0), 401, "second_factor_wrong")
	r.expectLogin("the one before", r.code(-30*time.Second), 401, "second_factor_wrong")
	r.expectLogin("a step ahead", r.code(30*time.Second), 200, "")
	if len(recovery) != 10 {
		t.Fatalf("recovery codes %q", recovery)
	}
	r.expectLogin("a recovery code", strings.ToUpper(strings.ReplaceAll(recovery[3], "-", " ")), 200, "")
	r.expectLogin("the same recovery code", recovery[3], 401, "second_factor_wrong")
	r.clock.Move(90 * time.Second)
	status, e, resp := r.api("factor/recovery", fmt.Sprintf(`{"password":%q,"code":%q}`, usual, r.code(0)))
	if status != http.StatusOK {
		t.Fatalf("new recovery codes: %d %+v", status, e)
	}
	fresh := desktest.Into[struct{ Recovery []string }](t, resp).Recovery
	r.expectLogin("a replaced recovery code", recovery[4], 401, "second_factor_wrong")
	r.expectLogin("a new recovery code", fresh[0], 200, "")
	if status, e, _ := r.api("factor/remove", fmt.Sprintf(`{"password":%q,"code":%q}`, usual, r.code(0))); status != 403 || e.Reason != "second_factor_wrong" {
		t.Errorf("removed with a used code: %d %+v", status, e)
	}
	if status, e, _ := r.api("factor/remove", fmt.Sprintf(`{"password":%q,"code":%q}`, usual, fresh[1])); status != http.StatusNoContent {
		t.Errorf("remove: %d %+v", status, e)
	}
	r.expectLogin("without the second factor", "", 200, "")
	lines := desktest.AuditLines(t, r.d.store, store.AuditQuery{Who: r.ada.ID, Action: store.AuditFactor}, 3)
	if lines[0].Detail != "removed" || lines[2].Detail != "set up" {
		t.Errorf("%+v", lines)
	}
	logins, err := r.d.store.Cold().Audit(t.Context(), store.AuditQuery{Who: r.ada.ID})
	if err != nil || !slices.ContainsFunc(logins, func(l store.AuditRow) bool {
		return l.Action == store.AuditLogin && l.Detail == "recovery code, 9 left"
	}) {
		t.Errorf("%+v %v", logins, err)
	}
	for _, l := range logins {
		if strings.Contains(fmt.Sprint(l), recovery[3]) || strings.Contains(fmt.Sprint(l), r.secret) {
			t.Errorf("a secret stands in %+v", l)
		}
	}
}

// TestSecondFactorIsThrottled: who knows the password guesses few codes, from however many addresses; the browser on
// which the account has logged in is not kept back by that.
func TestSecondFactorIsThrottled(t *testing.T) {
	r := newFactorRig(t, func(o *Options) { o.TrustedProxies = prefixes(t, "192.0.2.0/24") })
	r.ada, r.cookie = employ(t, r.d, perm.Agent, "ada")
	recovery := r.setUp()
	_, _, known := r.login(usual, recovery[0])
	device := known.Cookies()[1]
	attempt := func(n int, code string, extra ...string) int {
		status, _ := call(r.d, "POST", "/api/v1/agent/login", fmt.Sprintf(`{"login":"ada","password":%q,"code":%q}`, usual, code),
			append([]string{"X-Forwarded-For", fmt.Sprintf("10.0.%d.%d", n/250, n%250)}, extra...)...)
		return status
	}
	guesses := 0
	for ; attempt(guesses, r.code(time.Hour)) != 429; guesses++ {
		if guesses > 60 {
			t.Fatal("codes are guessed on and on")
		}
	}
	if guesses < 10 {
		t.Errorf("%d wrong codes are allowed", guesses)
	}
	if status := attempt(1000, recovery[1]); status != 429 {
		t.Errorf("another unknown device with a right code: %d", status)
	}
	if status := attempt(1001, recovery[1], "Cookie", device.Name+"="+device.Value); status != 200 {
		t.Errorf("the known device: %d", status)
	}
	r.clock.Move(time.Hour)
	if status := attempt(1002, r.code(0)); status != 200 {
		t.Errorf("an hour later: %d", status)
	}
}

// TestSecondFactorRequired: an account that needs one can do nothing before it is set up, also when its role becomes
// one that needs it, and again when it is removed.
func TestSecondFactorRequired(t *testing.T) {
	clock, o := desktest.NewClock(), testOptions(t)
	o.SecondFactor, o.Now = front.FactorAdmins, clock.Now
	s := serve(t, o)
	r := &factorRig{T: t, d: s.desk, clock: clock}
	r.ada, r.cookie = employ(t, r.d, perm.Supervisor, "ada")
	me := func() (status int, setUp bool) {
		status, resp := call(r.d, "GET", "/api/v1/agent/me", "", "Cookie", r.cookie)
		return status, desktest.Into[struct{ Agent struct{ Setup bool } }](t, resp).Agent.Setup
	}
	if status, must := me(); status != 200 || must {
		t.Fatalf("a supervisor: %d, %v", status, must)
	}
	watched := s.newWeb().Agent("ada", usual)
	t.Cleanup(watched.Close)
	s.ok(watched.Connected(s.ctx))
	promoted := r.ada
	promoted.Role = perm.Admin
	if err := r.d.store.UpdateAgent(t.Context(), promoted); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the session to be closed", func() bool { return r.d.Stats().Closes["4101"] > 0 })
	barred := func() {
		t.Helper()
		if status, must := me(); status != 200 || !must {
			t.Errorf("me: %d, %v", status, must)
		}
		for _, route := range []string{"POST ticket", "GET sessions", "POST password"} {
			method, path, _ := strings.Cut(route, " ")
			status, resp := call(r.d, method, "/api/v1/agent/"+path, "{}", "Cookie", r.cookie)
			if e := desktest.Into[proto.Error](t, resp); status != 403 || e.Reason != "second_factor_setup" {
				t.Errorf("%s: %d %+v", route, status, e)
			}
		}
		if status, resp := call(r.d, "GET", "/admin", "", "Cookie", r.cookie); status != http.StatusSeeOther || resp.Header.Get("Location") != "/console" {
			t.Errorf("a page: %d", status)
		}
	}
	barred()
	r.setUp()
	open := func() {
		t.Helper()
		if _, must := me(); must {
			t.Error("it must be set up still")
		}
		if status, _ := call(r.d, "GET", "/admin", "", "Cookie", r.cookie); status != 200 {
			t.Errorf("a page: %d", status)
		}
	}
	open()
	if status, e, _ := r.api("factor/remove", fmt.Sprintf(`{"password":%q,"code":%q}`, usual, r.code(30*time.Second))); status != http.StatusNoContent {
		t.Fatalf("remove: %d %+v", status, e)
	}
	barred()
}

// TestSecondFactorReset: an administrator removes it, and every login of the account ends.
func TestSecondFactorReset(t *testing.T) {
	r := newFactorRig(t, nil)
	r.ada, r.cookie = employ(t, r.d, perm.Agent, "ada")
	boss, bosses := employ(t, r.d, perm.Admin, "boss")
	reset := func() int {
		status, _ := call(r.d, "POST", "/admin/agents/"+r.ada.ID+"/factor", "", "Cookie", bosses, "Content-Type", "application/x-www-form-urlencoded")
		return status
	}
	if status := reset(); status != http.StatusNotFound {
		t.Errorf("nothing to reset: %d", status)
	}
	r.setUp()
	if status := reset(); status != http.StatusSeeOther {
		t.Errorf("reset: %d", status)
	}
	if status, _ := call(r.d, "GET", "/api/v1/agent/me", "", "Cookie", r.cookie); status != 401 {
		t.Errorf("its login: %d", status)
	}
	r.expectLogin("afterwards", "", 200, "")
	if lines := desktest.AuditLines(t, r.d.store, store.AuditQuery{Who: boss.ID, Action: store.AuditFactor}, 1); lines[0].Target != "agent "+r.ada.ID {
		t.Errorf("%+v", lines)
	}
}

// TestSecondFactorMeetsTheClock: a clock that was ahead, and was set back, keeps nobody out.
func TestSecondFactorMeetsTheClock(t *testing.T) {
	r := newFactorRig(t, nil)
	r.ada, r.cookie = employ(t, r.d, perm.Agent, "ada")
	r.setUp()
	r.clock.Move(12 * time.Hour)
	r.expectLogin("ahead", r.code(0), 200, "")
	r.clock.Move(-12 * time.Hour)
	r.expectLogin("set back", r.code(0), 200, "")
	r.expectLogin("the same code again", r.code(0), 401, "second_factor_wrong")
}

// TestSecondFactorStaysWithOtherChanges: another password, role or a restart leave it as it is.
func TestSecondFactorStaysWithOtherChanges(t *testing.T) {
	r := newFactorRig(t, nil)
	r.ada, r.cookie = employ(t, r.d, perm.Agent, "ada")
	r.setUp()
	if status, e, _ := r.api("password", fmt.Sprintf(`{"old":%q,"new":"another good one"}`, usual)); status != http.StatusNoContent {
		t.Fatalf("%d %+v", status, e)
	}
	a, err := r.d.store.Cold().AgentByID(t.Context(), r.ada.ID)
	if err != nil {
		t.Fatal(err)
	}
	a.Role, a.Disabled = perm.Supervisor, true
	if err := r.d.store.UpdateAgent(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if status, e, _ := r.login("another good one", r.code(0)); status != 401 || e.Reason != "" {
		t.Errorf("a disabled account: %d %+v", status, e)
	}
	a.Disabled = false
	if err := r.d.store.UpdateAgent(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if status, e, _ := r.login("another good one", ""); status != 401 || e.Reason != "second_factor" {
		t.Errorf("with another password: %d %+v", status, e)
	}
	if status, e, _ := r.login("another good one", r.code(0)); status != 200 {
		t.Errorf("with the code: %d %+v", status, e)
	}
}
