package desk

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A key makes 50 calls at once and 10 a second; another key is not held back by it.
func TestKeysAreRateLimited(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	d := openDesk(t, o)
	busy, _ := newKey(t, d, perm.KeyRead)
	other, _ := newKey(t, d, perm.KeyRead)
	ask := func(secret string) (int, *http.Response) {
		return call(d, "GET", "/api/v1/conversations", "", "Authorization", "Bearer "+secret)
	}
	granted := func() (n int) {
		t.Helper()
		for {
			status, resp := ask(busy)
			if status == http.StatusTooManyRequests {
				if e := problemOf(t, resp); e.RetryMS != 250 || resp.Header.Get("Retry-After") != "1" || !strings.Contains(e.Text, "10 calls a second") {
					t.Errorf("%+v %v", e, resp.Header)
				}
				return n
			}
			if n++; status != http.StatusOK || n > 1000 {
				t.Fatalf("call %d: %d", n, status)
			}
		}
	}
	if n := granted(); n != 50 {
		t.Errorf("%d calls at once", n)
	}
	if status, _ := ask(other); status != http.StatusOK {
		t.Errorf("another key: %d", status)
	}
	clock.Move(time.Second)
	if n := granted(); n != 10 {
		t.Errorf("%d calls in the next second", n)
	}
}

// Wrong keys of one address are no longer looked up after 20; other addresses are not held back.
func TestGuessingKeysIsLimited(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	o.TrustedProxies = prefixes(t, "192.0.2.0/24") // that of httptest
	d := openDesk(t, o)
	right, _ := newKey(t, d, perm.KeyRead)
	ask := func(secret, from string) (int, *http.Response) {
		return call(d, "GET", "/api/v1/conversations", "", "Authorization", "Bearer "+secret, "X-Forwarded-For", from)
	}
	for range 30 { // calls with the right key are no guesses
		if status, _ := ask(right, "198.51.100.1"); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	for i := range 20 {
		wrong, _, _ := auth.NewKey()
		if status, _ := ask(wrong, "198.51.100.1"); status != http.StatusUnauthorized {
			t.Fatalf("guess %d: %d", i, status)
		}
	}
	status, resp := ask("desk_x", "198.51.100.1")
	if e := problemOf(t, resp); status != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "10" || !strings.Contains(e.Text, "wrong keys") {
		t.Errorf("one guess more: %d %+v", status, e)
	}
	if status, _ := ask(right, "198.51.100.2"); status != http.StatusOK {
		t.Errorf("another address: %d", status)
	}
	clock.Move(10 * time.Second)
	if status, _ := ask(right, "198.51.100.1"); status != http.StatusOK {
		t.Errorf("later: %d", status)
	}
}

// What a key reads is in the audit log, once in ten minutes for each thing; the use of a key is stored as rarely.
func TestProgramsAreAudited(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	d := openDesk(t, o)
	if err := d.hub.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	secret, key := newKey(t, d, perm.KeyRead, perm.KeyContacts)
	conv, contact := waiting(t, d)
	uses := make(map[int64]bool)
	for i := range 4 {
		clock.Move(time.Minute)
		if i == 2 {
			clock.Move(10 * time.Minute)
		}
		for _, path := range []string{"conversations", "conversations/" + conv, "conversations/" + conv + "/events", "contacts/" + contact, "conversations/none"} {
			call(d, "GET", "/api/v1/"+path, "", "Authorization", "Bearer "+secret)
			k, err := d.store.Cold().APIKey(t.Context(), auth.HashToken(secret))
			if err != nil || k.Used == 0 {
				t.Fatal(k.Used, err)
			}
			uses[k.Used] = true
		}
	}
	if len(uses) != 2 {
		t.Errorf("%d times of use were stored", len(uses))
	}
	rows, err := d.store.Cold().Audit(t.Context(), store.AuditQuery{Who: key.ID})
	if err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for _, r := range rows {
		if r.Action != store.AuditRead || r.Who.Name != "Shop" || !strings.Contains(r.Detail, key.Prefix) || strings.Contains(r.Detail, secret) {
			t.Errorf("%+v", r)
		}
		count[r.Target]++
	}
	if len(count) != 3 || count["conversations"] != 2 || count["conversation "+conv] != 2 || count["contact "+contact] != 2 {
		t.Errorf("%v", count)
	}
}

// unwritten is a store that writes no lines of the audit log.
type unwritten struct{ store.Store }

func (u unwritten) Do(cmd store.Command, deadline time.Time, done func(store.Outcome)) {
	if _, ok := cmd.(store.Audit); ok {
		done(store.Outcome{Err: store.ErrUnavailable})
		return
	}
	u.Store.Do(cmd, deadline, done)
}

// What cannot be logged is not read.
func TestProgramsReadNothingUnlogged(t *testing.T) {
	o := testOptions(t)
	o.WrapStore = func(s store.Store) store.Store { return unwritten{s} }
	d := openDesk(t, o)
	if err := d.hub.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	secret, _ := newKey(t, d, perm.KeyScopes()...)
	conv, contact := waiting(t, d)
	for range 2 {
		for _, path := range []string{"conversations", "conversations/" + conv, "conversations/" + conv + "/events", "contacts/" + contact} {
			if status, _ := call(d, "GET", "/api/v1/"+path, "", "Authorization", "Bearer "+secret); status != http.StatusServiceUnavailable {
				t.Errorf("%s: %d", path, status)
			}
		}
	}
}

// An administrator makes a key, which is shown once and stored as a hash, and revokes it. Both are in the audit log.
func TestManageKeys(t *testing.T) {
	boss := managed(t)
	if body := boss.get("/admin/keys", http.StatusOK); !strings.Contains(body, `data-testid="empty"`) {
		t.Error(visible(body))
	}
	boss.get("/admin/keys/new", http.StatusOK)
	for name, c := range map[string]struct {
		form  map[string][]string
		field string
	}{
		"no name":          {map[string][]string{"scopes": {"read"}}, "name"},
		"no scope":         {map[string][]string{"name": {"Shop"}}, "scopes"},
		"an unknown scope": {map[string][]string{"name": {"Shop"}, "scopes": {"admin"}}, "scopes"},
	} {
		if errs, _ := boss.refused("/admin/keys", c.form, http.StatusUnprocessableEntity); errs[c.field] == "" {
			t.Errorf("%s: %v", name, errs)
		}
	}
	page := boss.post("/admin/keys", map[string][]string{"name": {"<b>Shop"}, "scopes": {"read", "tags"}})
	body := boss.get(page, http.StatusOK)
	secret := shownOnce(body)
	if !auth.LooksLikeKey(secret) || !strings.Contains(body, "&lt;b&gt;Shop") {
		t.Fatalf("%q: %s", secret, visible(body))
	}
	if again := boss.get(page, http.StatusOK); strings.Contains(again, secret) {
		t.Error("the key is shown again")
	}
	ask := func(path string) int {
		status, _ := call(boss.d, "GET", path, "", "Authorization", "Bearer "+secret)
		return status
	}
	if a, b := ask("/api/v1/conversations"), ask("/api/v1/reports?by=day&from=0&to=1"); a != http.StatusOK || b != http.StatusForbidden {
		t.Errorf("the new key: %d %d", a, b)
	}
	keys, err := boss.d.store.Cold().APIKeys(t.Context())
	if err != nil || len(keys) != 1 || keys[0].By.Name != "Agent" || !strings.HasPrefix(secret, keys[0].Prefix) || len(keys[0].Prefix) > 12 {
		t.Fatalf("%+v %v", keys, err)
	}
	if to := boss.post("/admin/keys/"+keys[0].ID+"/revoke", map[string][]string{}); to != "/admin/keys?done=revoked" {
		t.Errorf("revoked: %s", to)
	}
	if status := ask("/api/v1/conversations"); status != http.StatusUnauthorized {
		t.Errorf("revoked, it still gets %d", status)
	}
	boss.refused("/admin/keys/"+keys[0].ID+"/revoke", map[string][]string{}, http.StatusNotFound)
	body = boss.get("/admin/keys", http.StatusOK)
	if strings.Contains(body, `data-testid="revoke"`) || !strings.Contains(body, keys[0].Prefix) {
		t.Error(visible(body))
	}
	for _, action := range []string{store.AuditCreate, store.AuditDelete} {
		rows, err := boss.d.store.Cold().Audit(t.Context(), store.AuditQuery{Target: "key " + keys[0].ID, Action: action})
		if err != nil || len(rows) != 1 || rows[0].Who.Name != "Agent" || strings.Contains(rows[0].Detail, secret) {
			t.Errorf("%s: %+v %v", action, rows, err)
		}
	}
	for range store.MaxAPIKeys {
		newKey(t, boss.d, perm.KeyRead)
	}
	if errs, body := boss.refused("/admin/keys", map[string][]string{"name": {"x"}, "scopes": {"read"}}, http.StatusUnprocessableEntity); errs["keys"] == "" && !strings.Contains(body, fmt.Sprint(store.MaxAPIKeys)) {
		t.Errorf("one too many: %v", errs)
	}
}
