package front

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore/sqlitetest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sqlitetest.Closing{M: m}) }

// open returns a Front on an empty store, without a hub and with no files.
func open(t *testing.T, o Options) *Front {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Store, o.Logger, o.LoginIdle, o.Patience = sqlitetest.Lend(t, o.Now), slog.New(slog.DiscardHandler), time.Hour, testkit.Patience
	place, err := files.OpenDirectory(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	if o.Files, err = files.Open(files.Options{Place: place}); err != nil {
		t.Fatal(err)
	}
	f, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func call(f *Front, method, path, body string, extra ...string) (int, *http.Response) {
	return desktest.Ask(f.Handler(), method, path, body, extra...)
}

// employ makes an account with a role; it returns the account and the cookie of a login.
func employ(t *testing.T, f *Front, role perm.Role, login string) (store.AgentAccount, string) {
	t.Helper()
	a, err := f.store.CreateAgent(testkit.Context(t), store.AgentAccount{Login: login, Name: login, Password: "x", Role: role})
	if err != nil {
		t.Fatal(err)
	}
	token, hash := auth.NewToken()
	if err := f.store.CreateAgentSession(testkit.Context(t), hash, a.ID, f.o.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	return a, f.cookieName() + "=" + token
}

// One kind of request cannot take all workers of the HTTP pool.
func TestRequestsHavePlaces(t *testing.T) {
	f := open(t, Options{})
	for range cap(f.places.staff) {
		f.places.staff <- struct{}{}
	}
	if status, _ := call(f, "GET", "/api/v1/agent/me", ""); status != http.StatusServiceUnavailable {
		t.Errorf("me: %d", status)
	}
	if status, _ := call(f, "POST", "/api/v1/widget/session", `{"site":"demo"}`); status != http.StatusNotFound { // served: this store has no site
		t.Errorf("a customer: %d", status)
	}
	for range cap(f.places.staff) {
		<-f.places.staff
	}
	if f.Counters.RequestsBusy.Load() != 1 {
		t.Error("not counted")
	}
}
