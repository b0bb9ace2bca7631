// Package ssotest is an OpenID Connect provider for tests, which can be made to lie.
package ssotest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// What the provider knows its one client by.
const (
	ClientID = "desk"
	Secret   = "a secret of the client"
)

const keyBits = 2048

// Provider is a running provider. Any goroutine may call its methods.
type Provider struct {
	t      testing.TB
	server *httptest.Server
	key    *rsa.PrivateKey
	now    func() time.Time

	mu     sync.Mutex
	codes  map[string]grant
	tokens map[string]jwt.MapClaims // what the userinfo endpoint says
	thin   []string                 // claims that only the userinfo endpoint tells
	before func(w http.ResponseWriter, r *http.Request) bool
	sign   func(claims jwt.MapClaims) string
}

type grant struct {
	claims    jwt.MapClaims
	challenge string
	redirect  string
}

// New starts a provider that ends with the test.
func New(t testing.TB, now func() time.Time) *Provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{t: t, key: key, now: now, codes: make(map[string]grant), tokens: make(map[string]jwt.MapClaims)}
	p.sign = p.SignedByItself
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userInfo)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		before := p.before
		p.mu.Unlock()
		if before == nil || before(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(p.server.Close)
	return p
}

// Issuer returns the address of the provider.
func (p *Provider) Issuer() string { return p.server.URL }

// Before makes f look at each request first; false means that f has answered. nil takes it away.
func (p *Provider) Before(f func(w http.ResponseWriter, r *http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = f
}

// Sign makes f sign the id tokens.
func (p *Provider) Sign(f func(claims jwt.MapClaims) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sign = f
}

// Signed returns a token.
func (p *Provider) Signed(method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = "1"
	s, err := token.SignedString(key)
	if err != nil {
		panic(err)
	}
	return s
}

// LogIn plays the browser and the person: it follows the address that Desk has given, logs in with these claims, and
// returns what the provider sends the browser back with.
func (p *Provider) LogIn(address string, claims jwt.MapClaims) (state, code string) {
	p.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	q := u.Query()
	if u.Path != "/authorize" || q.Get("response_type") != "code" || q.Get("client_id") != ClientID || q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || q.Get("nonce") == "" {
		p.t.Fatalf("the request for a login is %s", address)
	}
	all := jwt.MapClaims{"iss": p.Issuer(), "aud": ClientID, "nonce": q.Get("nonce"), "iat": p.now().Unix(), "exp": p.now().Add(time.Hour).Unix()}
	for name, v := range claims {
		all[name] = v
		if v == nil {
			delete(all, name)
		}
	}
	code = rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codes[code] = grant{all, q.Get("code_challenge"), q.Get("redirect_uri")}
	return q.Get("state"), code
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"issuer": p.Issuer(), "authorization_endpoint": p.Issuer() + "/authorize", "token_endpoint": p.Issuer() + "/token", "jwks_uri": p.Issuer() + "/keys", "userinfo_endpoint": p.Issuer() + "/userinfo",
		"id_token_signing_alg_values_supported": []string{"RS256", "HS256", "none"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	b64 := base64.RawURLEncoding.EncodeToString
	reply(w, http.StatusOK, map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": b64(p.key.N.Bytes()), "e": b64(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

// token gives the tokens of a code, once, to who has the verifier of its challenge.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	if unescaped, err := url.QueryUnescape(secret); ok && err == nil { // RFC 6749 2.3.1
		secret = unescaped
	}
	p.mu.Lock()
	g, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	sign := p.sign
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	switch {
	case id != ClientID || secret != Secret:
		p.mu.Lock()
		p.codes[r.FormValue("code")] = g // the client may try another way to say its secret
		p.mu.Unlock()
		reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
	case !known || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge || g.redirect != r.FormValue("redirect_uri"):
		reply(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	default:
		access, told := rand.Text(), jwt.MapClaims{"sub": g.claims["sub"]}
		p.mu.Lock()
		p.tokens[access] = told
		for _, name := range p.thin {
			told[name] = g.claims[name]
			if name != "sub" {
				delete(g.claims, name)
			}
		}
		p.mu.Unlock()
		reply(w, http.StatusOK, map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": 300, "id_token": sign(g.claims)})
	}
}

// Thin makes the userinfo endpoint tell these claims, and the id token no longer.
func (p *Provider) Thin(claims ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thin = claims
}

func (p *Provider) userInfo(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	told, ok := p.tokens[token]
	p.mu.Unlock()
	if !ok {
		reply(w, http.StatusUnauthorized, map[string]string{"error": "invalid_token"})
		return
	}
	reply(w, http.StatusOK, told)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// SignedByItself returns a token that this provider signs.
func (p *Provider) SignedByItself(claims jwt.MapClaims) string {
	return p.Signed(jwt.SigningMethodRS256, p.key, claims)
}
