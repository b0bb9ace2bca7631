package front

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Every role meets every permission at the gate: with a route of the API and with a page.
func TestStaffGate(t *testing.T) {
	f := open(t, Options{KeepIP: KeepShortIP})
	mux := http.NewServeMux()
	permissions := perm.Admin.Permissions()
	served := 0
	for _, p := range append(permissions, anyStaff) {
		h := f.staff(p, func(w http.ResponseWriter, r *http.Request, s store.AgentSession) {
			served++
			if s.Agent.Role == "" || s.Token == (store.Token{}) {
				t.Errorf("session %+v", s)
			}
			if _, ok := r.Context().Deadline(); !ok {
				t.Error("no deadline")
			}
		})
		mux.HandleFunc("/api/test/for-"+string(p)+"/x", h)
		mux.HandleFunc("/page/for-"+string(p)+"/x", h)
	}
	ask := func(path, cookie string) *http.Response {
		_, resp := desktest.Ask(mux, "GET", path, "", "Cookie", cookie)
		return resp
	}
	for _, role := range perm.Roles() {
		account, cookie := employ(t, f, role, "the-"+string(role))
		refused := 0
		for _, p := range append(permissions, anyStaff) {
			before := served
			api, page := ask("/api/test/for-"+string(p)+"/x", cookie), ask("/page/for-"+string(p)+"/x", cookie)
			if p == anyStaff || role.Can(p) {
				if served != before+2 || api.StatusCode != 200 || page.StatusCode != 200 {
					t.Errorf("%s, %q: %d %d", role, p, api.StatusCode, page.StatusCode)
				}
				continue
			}
			refused += 2
			if e := desktest.Into[proto.Error](t, api); served != before || api.StatusCode != 403 || e.Code != proto.CodeForbidden {
				t.Errorf("%s, %q: %d %+v", role, p, api.StatusCode, e)
			}
			if page.StatusCode != 403 || !strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%s, page for %q: %d", role, p, page.StatusCode)
			}
		}
		if refused == 0 {
			continue
		}
		rows := desktest.AuditLines(t, f.store, store.AuditQuery{Who: account.ID, Action: store.AuditDenied}, min(refused, deniedBurst))
		if r := rows[0]; !strings.Contains(r.Target, "/x") || !strings.HasPrefix(r.Detail, "needs ") || r.IP != "192.0.2.0/24" {
			t.Errorf("%s: %+v", role, r)
		}
	}
	before := served
	for _, cookie := range []string{"", "desk=", "desk=guess", "other=1"} {
		api, page := ask("/api/test/for-serve/x", cookie), ask("/page/for-serve/x", cookie)
		if e := desktest.Into[proto.Error](t, api); api.StatusCode != 401 || e.Code != proto.CodeUnauthorized {
			t.Errorf("%q: %d %+v", cookie, api.StatusCode, e)
		}
		if page.StatusCode != http.StatusSeeOther || page.Header.Get("Location") != "/console" {
			t.Errorf("%q, page: %d to %q", cookie, page.StatusCode, page.Header.Get("Location"))
		}
	}
	if served != before {
		t.Error("served without a login")
	}
	if f.Counters.RequestsDenied.Load() == 0 {
		t.Error("refusals are not counted")
	}
}

// A flood of refusals does not fill the audit log.
func TestDenialsInTheAuditLogAreBounded(t *testing.T) {
	clock := desktest.NewClock()
	f := open(t, Options{Now: clock.Now})
	account, cookie := employ(t, f, perm.Auditor, "ada")
	h := f.staff(perm.Manage, func(http.ResponseWriter, *http.Request, store.AgentSession) { t.Error("served") })
	for range 3 * deniedBurst {
		desktest.Ask(h, "GET", "/api/x", "", "Cookie", cookie)
	}
	clock.Move(time.Second)
	desktest.Ask(h, "GET", "/api/x", "", "Cookie", cookie)
	if err := f.audit(testkit.Context(t), account.Actor(), store.AuditExport, "the end", "", ""); err != nil {
		t.Fatal(err)
	}
	if rows := desktest.AuditLines(t, f.store, store.AuditQuery{Who: account.ID, Action: store.AuditDenied}, 1); len(rows) != deniedBurst+1 {
		t.Errorf("%d lines, want %d", len(rows), deniedBurst+1)
	}
}

// What cannot be written down is an error.
func TestAuditFailsWithTheStore(t *testing.T) {
	f := open(t, Options{})
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.audit(testkit.Context(t), store.Actor{}, store.AuditExport, "", "", ""); !errors.Is(err, store.ErrStopped) {
		t.Errorf("audit on a closed store: %v", err)
	}
	f.auditSoon(store.Actor{}, store.AuditDenied, "", "", "")
	if f.Counters.AuditLost.Load() != 1 {
		t.Error("the lost line is not counted")
	}
}

func TestKeepIP(t *testing.T) {
	for ip, want := range map[string][3]string{
		"192.0.2.77":                 {"", "192.0.2.0/24", "192.0.2.77"},
		"::ffff:192.0.2.77":          {"", "192.0.2.0/24", "192.0.2.77"},
		"2001:db8:1:2:3:4:5:6":       {"", "2001:db8:1::/48", "2001:db8:1:2:3:4:5:6"},
		"fe80::1%eth0":               {"", "fe80::/48", "fe80::1"},
		"":                           {"", "", ""},
		"unix":                       {"", "", ""},
		"192.0.2.77<script>alert(1)": {"", "", ""},
	} {
		for i, keep := range []KeepIP{KeepNoIP, KeepShortIP, KeepFullIP} {
			if got := keep.keep(ip); got != want[i] {
				t.Errorf("%q with %d: %q, want %q", ip, keep, got, want[i])
			}
		}
	}
}
