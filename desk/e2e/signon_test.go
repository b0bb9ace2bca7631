package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/sso/ssotest"
	"github.com/go-eddy/eddy/internal/testkit"
)

// provider is an OpenID provider with a page, on which a person agrees to log in or refuses.
type provider struct {
	*ssotest.Provider

	mu  sync.Mutex
	who jwt.MapClaims
}

func newProvider(t *testing.T) *provider {
	p := &provider{Provider: ssotest.New(t, time.Now)}
	p.Before(p.page)
	return p
}

// is makes a person the one who comes to the provider next.
func (p *provider) is(sub, email, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.who = jwt.MapClaims{"sub": sub, "email": email, "email_verified": true, "name": name}
}

// page is the provider's page. Its links lead back to Desk.
func (p *provider) page(w http.ResponseWriter, r *http.Request) bool {
	if r.URL.Path != "/authorize" {
		return true
	}
	p.mu.Lock()
	who := p.who
	p.mu.Unlock()
	state, code := p.LogIn(p.Issuer()+r.URL.RequestURI(), who)
	link := func(id string, q url.Values) string {
		q.Set("state", state)
		return fmt.Sprintf(`<a data-testid="%s" href="%s">%s</a> `, id, html.EscapeString(r.URL.Query().Get("redirect_uri")+"?"+q.Encode()), id)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, "<!doctype html><title>Provider</title><p>", link("agree", url.Values{"code": {code}}), link("refuse", url.Values{"error": {"access_denied"}}))
	return false
}

// trusts restarts the desk with single sign-on at a provider, and waits until it has been found.
func (d *desk) trusts(p *provider, flags ...string) {
	d.t.Helper()
	d.stop()
	d.flags = append([]string{"--public-url", d.url(""), "--oidc-issuer", p.Issuer(), "--oidc-client", ssotest.ClientID, "--oidc-secret", ssotest.Secret, "--oidc-text", "Log in with Example"}, flags...)
	d.start()
	client := &http.Client{Timeout: testkit.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	d.eventually("has found its provider", func() bool {
		res, err := client.Get(d.url("/api/v1/agent/sso"))
		if err != nil {
			return false
		}
		defer func() { _ = res.Body.Close() }()
		var said struct{ SSO struct{ Ready bool } }
		return json.NewDecoder(res.Body).Decode(&said) == nil && said.SSO.Ready
	})
}

// isIn is the expression for "the console is open for this person".
func isIn(name string) string { return node("agent-name") + `?.textContent === '` + name + `'` }

// told is the expression for "the element says this".
func told(id, words string) string { return node(id) + `?.textContent.includes('` + words + `')` }

// TestSingleSignOn is a team whose accounts people connect themselves: by an invitation, or in the menu.
func TestSingleSignOn(t *testing.T) {
	b := startBrowser(t, "en")
	idp := newProvider(t)
	d := newDesk(t)
	d.colleague("ada", "Ada Long", perm.Agent, 3)
	d.trusts(idp)

	idp.is("9", "ray@x.example", "Ray")
	ray := b.stranger("ray", phone, 740, d.url("/console"))
	ray.until("the button has its text", node("login-sso")+`?.textContent === 'Log in with Example'`)
	look(ray, "login")
	ray.click("login-sso")
	ray.click("refuse")
	ray.until("a login that was given up is told", told("login-error", "has not logged you in"))
	ray.click("login-sso")
	ray.click("agree")
	ray.until("nobody gets in without an account", told("login-error", "You have no account here")+` && location.search === ''`)

	boss := d.console(b, "boss", d.login, d.password, desktop, 800)
	link := invite(boss, d, "Zoe Ray", "agent")
	idp.is("1", "zoe@x.example", "Zoe of the provider")
	zoe := b.stranger("zoe", desktop, 800, link)
	zoe.click("invite-sso")
	zoe.click("refuse")
	zoe.until("the invitation is still there", told("invite-error", "has not logged you in")+` && `+node("invite-sso"))
	zoe.click("invite-sso")
	zoe.visible("agree")
	back := value[string](zoe, node("agree")+`.href`)
	zoe.click("agree")
	zoe.until("the invitation has made her account", isIn("Zoe Ray")+` && location.href === '`+d.url("/console")+`'`)
	again := b.stranger("again", desktop, 800, d.url("/console"))
	again.click("login-sso")
	again.click("agree")
	again.until("from then on the button is enough", isIn("Zoe Ray"))

	thief := b.stranger("thief", desktop, 800, back)
	thief.until("an address from another browser is none", told("login-error", "began in another browser"))
	thief.reload()
	thief.visible("login-user")
	zoe.navigate(back)
	zoe.until("nor one that was used, and she is logged in still", isIn("Zoe Ray")+` && `+told("notice", "has taken too long"))

	connects(b, d, idp)
	for _, p := range []*tab{ray, boss, zoe, again, thief} {
		p.clean()
	}
}

// connects is an agent who connects her account in the menu. She gives her code after the provider, too.
func connects(b *profile, d *desk, idp *provider) {
	b.t.Helper()
	idp.is("2", "ada@x.example", "Ada")
	ada := d.console(b, "ada", "ada", "ada", desktop, 800)
	ada.click("menu-button")
	ada.click("menu-sso")
	ada.click("refuse")
	ada.until("she is told, and logged in still", isIn("Ada Long")+` && `+told("notice", "has not logged you in"))
	ada.click("menu-button")
	ada.click("menu-sso")
	ada.click("agree")
	ada.until("it is connected", isIn("Ada Long"))
	ada.click("menu-button")
	ada.gone("menu-sso")
	ada.click("menu-factor")
	code := setUpFactor(ada, "ada")
	ada.click("menu-button")
	ada.click("logout")
	ada.click("login-sso")
	ada.click("agree")
	ada.until("the code alone is asked for", node("login-code")+` && !`+node("login-user"))
	look(ada, "code")
	ada.fill("login-code", "000000")
	ada.click("login-submit")
	ada.until("a wrong one is told", told("login-error", "The code is wrong"))
	ada.fill("login-code", code(30*time.Second))
	ada.click("login-submit")
	ada.until("she is in", isIn("Ada Long"))
	ada.clean()
}

// TestSingleSignOnAlone is a company whose people all come from its provider: accounts are found by their address, or made.
func TestSingleSignOnAlone(t *testing.T) {
	b := startBrowser(t, "en")
	idp := newProvider(t)
	d := newDesk(t)
	d.colleague("amy@x.example", "Amy Wood", perm.Supervisor, 3)
	d.trusts(idp, "--passwords", "none", "--oidc-link-email", "--oidc-create", "agent", "--oidc-domains", "x.example")
	come := func(name string) *tab {
		p := b.stranger(name, desktop, 800, d.url("/console"))
		p.visible("login-sso")
		p.gone("login-user")
		p.gone("login-submit")
		p.click("login-sso")
		p.click("agree")
		return p
	}
	idp.is("1", "amy@x.example", "Another name")
	amy := come("amy")
	amy.until("she has the account of her address", isIn("Amy Wood"))
	amy.click("menu-button")
	amy.visible("menu-wall")
	idp.is("2", "kim@x.example", "Kim Park")
	kim := come("kim")
	kim.until("an account is made", isIn("Kim Park"))
	kim.click("menu-button")
	kim.visible("menu-reports")
	kim.gone("menu-wall")
	idp.is("3", "eve@evil.example", "Eve")
	eve := come("eve")
	eve.until("another company's people stay outside", told("login-error", "You have no account here"))
	look(eve, "refused")
	for _, p := range []*tab{amy, kim, eve} {
		p.clean()
	}
}
