package sso

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/go-eddy/eddy/desk/sso/ssotest"
	"github.com/go-eddy/eddy/internal/testkit"
)

func options(idp *ssotest.Provider) Options {
	return Options{Issuer: idp.Issuer(), ClientID: ssotest.ClientID, Secret: ssotest.Secret, Redirect: "https://desk.example/console", Timeout: testkit.Patience,
		Claim: "realm_access.roles", Logger: slog.New(slog.DiscardHandler), Now: time.Now}
}

func open(t *testing.T, o Options) *Provider {
	t.Helper()
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// ready opens a provider and waits until it is discovered.
func ready(t *testing.T, idp *ssotest.Provider) *Provider {
	t.Helper()
	p := open(t, options(idp))
	testkit.Eventually(t, "the provider to be discovered", func() bool { return p.Ready() == nil })
	return p
}

func begin(t *testing.T, p *Provider) (string, Flow) {
	t.Helper()
	address, flow, err := p.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return address, flow
}

func TestLogin(t *testing.T) {
	idp := ssotest.New(t, time.Now)
	p := ready(t, idp)
	address, flow := begin(t, p)
	for _, secret := range []string{flow.Verifier, ssotest.Secret} {
		if strings.Contains(address, secret) {
			t.Errorf("a secret stands in %s", address)
		}
	}
	state, code := idp.LogIn(address, jwt.MapClaims{"sub": "7", "email": "Lin@Desk.Example", "email_verified": true, "preferred_username": "lin", "name": "Lin",
		"realm_access": map[string]any{"roles": []any{"support", "it", 5, "support"}}})
	who, err := p.Finish(testkit.Context(t), flow, state, code)
	if err != nil || who.Issuer != idp.Issuer() || who.Subject != "7" || who.Email != "lin@desk.example" || who.Login != "lin" || who.Name != "Lin" || !slices.Equal(who.Groups, []string{"support", "it"}) {
		t.Errorf("%+v %v", who, err)
	}
	if _, err := p.Finish(testkit.Context(t), flow, state, code); !errors.Is(err, ErrRefused) {
		t.Errorf("the code again: %v", err)
	}
	if p.client.Timeout != testkit.Patience || open(t, func() Options { o := options(idp); o.Timeout = 0; return o }()).client.Timeout != DefaultTimeout {
		t.Error("calls of the provider are not bounded")
	}
}

// TestHostileTokens: a token that is not for this client, this login and this moment proves nobody.
func TestHostileTokens(t *testing.T) {
	idp := ssotest.New(t, time.Now)
	p := ready(t, idp)
	hour := func(n time.Duration) int64 { return time.Now().Add(n * time.Hour).Unix() }
	for what, change := range map[string]jwt.MapClaims{
		"another issuer": {"iss": "https://evil.example"}, "another audience": {"aud": "shop"}, "no audience": {"aud": nil},
		"two audiences and no party": {"aud": []string{ssotest.ClientID, "shop"}}, "another party": {"aud": []string{ssotest.ClientID, "shop"}, "azp": "shop"},
		"another party alone": {"azp": "shop"}, "another nonce": {"nonce": "x"}, "no nonce": {"nonce": nil}, "expired": {"exp": hour(-1)}, "from the future": {"iat": hour(1)}, "no expiry": {"exp": nil},
		"not yet": {"nbf": hour(1)}, "no subject": {"sub": nil}, "a party that is no text": {"azp": 7}, "a long subject": {"sub": strings.Repeat("x", maxSubject+1)},
	} {
		claims := jwt.MapClaims{"sub": "7"}
		for name, v := range change {
			claims[name] = v
		}
		address, flow := begin(t, p)
		state, code := idp.LogIn(address, claims)
		if who, err := p.Finish(testkit.Context(t), flow, state, code); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %+v %v", what, who, err)
		}
	}
	for what, sign := range map[string]func(jwt.MapClaims) string{
		"none": func(c jwt.MapClaims) string {
			return idp.Signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, c)
		},
		"the secret":    func(c jwt.MapClaims) string { return idp.Signed(jwt.SigningMethodHS256, []byte(ssotest.Secret), c) },
		"another's key": func(c jwt.MapClaims) string { return ssotest.New(t, time.Now).SignedByItself(c) },
		"nothing":       func(jwt.MapClaims) string { return "x" },
		"a large token": func(jwt.MapClaims) string { return strings.Repeat("x", 100_000) },
	} {
		idp.Sign(sign)
		address, flow := begin(t, p)
		state, code := idp.LogIn(address, jwt.MapClaims{"sub": "7"})
		who, err := p.Finish(testkit.Context(t), flow, state, code)
		if !errors.Is(err, ErrRefused) || len(err.Error()) > 1000 {
			t.Errorf("signed by %s: %+v %.2000v", what, who, err)
		}
	}
}

// TestUnverifiedEmail: an address that the provider has not verified is none.
func TestUnverifiedEmail(t *testing.T) {
	idp := ssotest.New(t, time.Now)
	p := ready(t, idp)
	for verified, want := range map[any]string{true: "a@x.example", "true": "a@x.example", false: "", "yes": "", 1: "", nil: ""} {
		address, flow := begin(t, p)
		state, code := idp.LogIn(address, jwt.MapClaims{"sub": "7", "email": "a@x.example", "email_verified": verified})
		if who, err := p.Finish(testkit.Context(t), flow, state, code); err != nil || who.Email != want {
			t.Errorf("verified %v: %+v %v", verified, who, err)
		}
	}
}

// TestUserInfo: what the id token does not say is asked of the provider, about the same person.
func TestUserInfo(t *testing.T) {
	idp := ssotest.New(t, time.Now)
	p := ready(t, idp)
	idp.Thin("email", "email_verified", "name", "realm_access")
	login := func() (Person, error) {
		address, flow := begin(t, p)
		state, code := idp.LogIn(address, jwt.MapClaims{"sub": "7", "email": "a@x.example", "email_verified": true, "name": "A", "realm_access": map[string]any{"roles": []any{"it"}}})
		return p.Finish(testkit.Context(t), flow, state, code)
	}
	if who, err := login(); err != nil || who.Email != "a@x.example" || who.Name != "A" || !slices.Equal(who.Groups, []string{"it"}) {
		t.Errorf("%+v %v", who, err)
	}
	for what, c := range map[string]struct {
		answer string
		status int
		want   error
	}{
		"another person": {`{"sub":"8","email":"b@x.example","email_verified":true}`, 200, ErrRefused}, "nobody": {`{}`, 200, ErrRefused},
		"an error": {`{}`, 500, ErrUnavailable},
	} {
		idp.Before(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/userinfo" {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.answer)
			}
			return r.URL.Path != "/userinfo"
		})
		if who, err := login(); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v %v", what, who, err)
		}
	}
}

// TestForeignFlow: a code is of use only to the browser that has begun the login.
func TestForeignFlow(t *testing.T) {
	idp := ssotest.New(t, time.Now)
	p := ready(t, idp)
	address, mine := begin(t, p)
	_, other := begin(t, p)
	state, code := idp.LogIn(address, jwt.MapClaims{"sub": "7"})
	verifier := other
	verifier.State = mine.State
	for what, flow := range map[string]Flow{"another login": other, "no login": {}, "another verifier": verifier} {
		if who, err := p.Finish(testkit.Context(t), flow, state, code); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %+v %v", what, who, err)
		}
	}
	address, mine = begin(t, p)
	_, code = idp.LogIn(address, jwt.MapClaims{"sub": "7"})
	for _, state := range []string{"", other.State} {
		if who, err := p.Finish(testkit.Context(t), mine, state, code); !errors.Is(err, ErrRefused) {
			t.Errorf("the state %q: %+v %v", state, who, err)
		}
	}
	if _, err := p.Finish(testkit.Context(t), Flow{}, "", code); !errors.Is(err, ErrRefused) {
		t.Errorf("no state at all: %v", err)
	}
}

// TestProviderIsDown: a provider that does not answer, or sends too much, is asked again, and costs nothing but its login.
func TestProviderIsDown(t *testing.T) {
	idp := ssotest.New(t, time.Now)
	endless := func(w http.ResponseWriter) {
		_, _ = io.Copy(w, io.LimitReader(zeros{}, 4*maxAnswer))
	}
	answers := make(chan func(http.ResponseWriter), 4)
	answers <- func(w http.ResponseWriter) {
		http.Error(w, strings.Repeat("x", 10_000), http.StatusInternalServerError)
	}
	answers <- endless
	answers <- func(w http.ResponseWriter) { fmt.Fprint(w, `{"issuer":"https://evil.example"}`) }
	answers <- func(w http.ResponseWriter) { w.Header().Set("Location", "/elsewhere"); w.WriteHeader(http.StatusFound) }
	idp.Before(func(w http.ResponseWriter, _ *http.Request) bool {
		select {
		case answer := <-answers:
			answer(w)
			return false
		default:
			return true
		}
	})
	o := options(idp)
	again := make(chan time.Time, 4)
	var pauses []time.Duration
	o.after = func(d time.Duration) <-chan time.Time {
		pauses = append(pauses, d)
		return again
	}
	p := open(t, o)
	for n := range 4 {
		testkit.Eventually(t, "an attempt to fail", func() bool { return len(answers) == 3-n })
		if _, _, err := p.Begin(); !errors.Is(err, ErrUnavailable) || len(err.Error()) > 1000 {
			t.Errorf("attempt %d: %.2000v", n, err)
		}
		if _, err := p.Finish(testkit.Context(t), Flow{State: "x"}, "x", "x"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("attempt %d: %v", n, err)
		}
		again <- time.Time{}
	}
	testkit.Eventually(t, "the provider to be discovered", func() bool { return p.Ready() == nil })
	if !slices.Equal(pauses, []time.Duration{firstPause, 2 * firstPause, 4 * firstPause, 8 * firstPause}) {
		t.Errorf("pauses %v", pauses)
	}
	for what, f := range map[string]func(http.ResponseWriter){"endless": endless, "an error": func(w http.ResponseWriter) { http.Error(w, "no", http.StatusBadGateway) }} {
		address, flow := begin(t, p)
		state, code := idp.LogIn(address, jwt.MapClaims{"sub": "7"})
		idp.Before(func(w http.ResponseWriter, _ *http.Request) bool { f(w); return false })
		if who, err := p.Finish(testkit.Context(t), flow, state, code); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %+v %v", what, who, err)
		}
	}
	idp.Before(nil)
}

// TestSlowProvider: a login ends with its context, whatever the provider does.
func TestSlowProvider(t *testing.T) {
	idp := ssotest.New(t, time.Now)
	p := ready(t, idp)
	address, flow := begin(t, p)
	state, code := idp.LogIn(address, jwt.MapClaims{"sub": "7"})
	ctx, cancel := context.WithCancel(testkit.Context(t))
	idp.Before(func(_ http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client has gone
		cancel()
		<-r.Context().Done()
		return false
	})
	if who, err := p.Finish(ctx, flow, state, code); !errors.Is(err, ErrUnavailable) {
		t.Errorf("%+v %v", who, err)
	}
}

func TestCheck(t *testing.T) {
	good := Options{Issuer: "https://login.example/realm", ClientID: "desk", Redirect: "https://desk.example/console"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]func(*Options){
		`"login.example"`: func(o *Options) { o.Issuer = "login.example" }, "https address": func(o *Options) { o.Issuer = "http://login.example" },
		`"https://x?y"`: func(o *Options) { o.Issuer = "https://x?y" }, `the issuer is ""`: func(o *Options) { o.Issuer = "" },
		"client id": func(o *Options) { o.ClientID = "" }, "--public-url": func(o *Options) { o.Redirect = "" },
	} {
		o := good
		change(&o)
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %s", o, err, says)
		}
	}
	local := good
	local.Issuer = "http://127.0.0.1:8080"
	if err := local.Check(); err != nil {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
