// Package realop logs in at a provider that others have written: the OpenID Connect server of zitadel. It is a module of
// its own, so that the server's modules are none of Desk's.
package realop

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/go-eddy/eddy/desk/sso"
	"github.com/go-eddy/eddy/internal/testkit"
)

const (
	client, secret = "desk", "a secret of the client"
	back           = "http://localhost:9999/console"
	password       = "verysecure" // of the example's user
)

// TestLoginAtARealProvider goes through the pages of the provider as a browser does.
func TestLoginAtARealProvider(t *testing.T) {
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	issuer := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) + "/"
	storage.RegisterClients(storage.WebClient(client, secret, back))
	silent := slog.New(slog.DiscardHandler)
	handler = exampleop.SetupServer(issuer, storage.NewStorage(storage.NewUserStore(issuer)), silent, false)
	for _, c := range []struct {
		secret string
		good   bool
	}{{secret, true}, {"another", false}} {
		p, err := sso.Open(sso.Options{Issuer: issuer, ClientID: client, Secret: c.secret, Redirect: back, Scopes: []string{"profile", "email"}, Timeout: testkit.Patience, Logger: silent, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		testkit.Eventually(t, "the provider to be discovered", func() bool { return p.Ready() == nil })
		address, flow, err := p.Begin()
		if err != nil {
			t.Fatal(err)
		}
		state, code := logIn(t, address)
		who, err := p.Finish(testkit.Context(t), flow, state, code)
		if good := err == nil && who.Issuer == issuer && who.Subject == "id1" && who.Email == "test-user@zitadel.ch" && who.Name != ""; good != c.good {
			t.Errorf("with the secret %q: %+v %v", c.secret, who, err)
		}
		if _, err := p.Finish(testkit.Context(t), flow, state, code); err == nil {
			t.Error("a code works twice")
		}
	}
}

// logIn follows the redirects of the provider, fills in its form, and returns what it sends back to Desk.
func logIn(t *testing.T, address string) (state, code string) {
	t.Helper()
	jar, _ := cookiejar.New(nil)
	var last *url.URL
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), back) {
			last = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	page, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(page.Body)
	_ = page.Body.Close()
	id := page.Request.URL.Query().Get("authRequestID")
	if id == "" {
		t.Fatalf("no form at %s: %s", page.Request.URL, body)
	}
	done, err := browser.PostForm(page.Request.URL.String(), url.Values{"id": {id}, "username": {"test-user@localhost"}, "password": {password}})
	if err != nil {
		t.Fatal(err)
	}
	body, _ = io.ReadAll(done.Body)
	_ = done.Body.Close()
	if last == nil {
		t.Fatalf("the provider has not sent back: %s", body)
	}
	return last.Query().Get("state"), last.Query().Get("code")
}
