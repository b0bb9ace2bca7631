package desk

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

const (
	shopSecret = "the shop's secret of at least 32 bytes"
	nextSecret = "the shop's next secret, 32 bytes too"
)

func shopKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
}

// newShop makes a site that signs identities.
func newShop(t *testing.T, d *Desk, o store.SiteSettings) store.Site {
	t.Helper()
	o.Secrets = []string{shopSecret, nextSecret}
	o.Keys = []string{base64.StdEncoding.EncodeToString(shopKey().Public().(ed25519.PublicKey))}
	s, err := d.store.CreateSite(testkit.Context(t), store.Site{Key: "shop", Name: "Shop", BotName: "Eddy", Settings: o})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// signed is an identity of a customer of the shop.
func signed(t *testing.T, sub string, changes jwt.MapClaims) string {
	t.Helper()
	c := jwt.MapClaims{"sub": sub, "aud": "shop", "exp": time.Now().Add(time.Hour).Unix(), "name": "Customer " + sub}
	for k, v := range changes {
		c[k] = v
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString([]byte(shopSecret))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// visitorInfo is the answer to a visitor.
type visitorInfo struct {
	Token, Contact, Name string
	New, Verified        bool
	Site                 struct {
		Key, Name, Color, Greeting, Consent string
		PreChat                             []store.Field
		Rate                                bool
	}
}

// session asks for a visitor's session.
func session(t *testing.T, d *Desk, in map[string]string) (int, visitorInfo, proto.Error) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	status, resp := call(d, "POST", "/api/v1/widget/session", string(body))
	if status != http.StatusOK {
		return status, visitorInfo{}, desktest.Into[proto.Error](t, resp)
	}
	return status, desktest.Into[visitorInfo](t, resp), proto.Error{}
}

// One browser, and who it is after each step: what counts is the signed identity, never what the browser kept.
func TestIdentitiesOnOneBrowser(t *testing.T) {
	d := openDesk(t, testOptions(t))
	newShop(t, d, store.SiteSettings{Color: "#123456", Greeting: "Hello", Consent: "We keep it.", RateChat: true, PreChat: []store.Field{{Name: "email", Label: "E-mail", Type: "email", Required: true}}})
	var kept string
	step := func(name, identity string, fresh, verified bool) visitorInfo {
		t.Helper()
		status, v, e := session(t, d, map[string]string{"site": "shop", "token": kept, "identity": identity, "locale": "zh-CN"})
		if status != 200 || v.New != fresh || v.Verified != verified || (v.Token == kept) == fresh {
			t.Fatalf("%s: %d %+v %+v", name, status, v, e)
		}
		kept = v.Token
		return v
	}
	anonymous := step("first visit", "", true, false)
	if s := anonymous.Site; s.Color != "#123456" || s.Greeting != "Hello" || s.Consent == "" || !s.Rate || len(s.PreChat) != 1 || s.PreChat[0].Type != "email" {
		t.Errorf("look: %+v", s)
	}
	anonymousToken := kept
	ann := step("Ann logs in", signed(t, "ann", nil), true, true)
	if ann.Contact == anonymous.Contact || ann.Name != "Customer ann" {
		t.Errorf("merged: %+v", ann)
	}
	if again := step("the page is loaded again", signed(t, "ann", jwt.MapClaims{"name": "Ann B."}), false, true); again.Contact != ann.Contact || again.Name != "Ann B." {
		t.Errorf("again: %+v", again)
	}
	annToken := kept
	bob := step("Bob logs in", signed(t, "bob", nil), true, true)
	if bob.Contact == ann.Contact || bob.Contact == anonymous.Contact {
		t.Errorf("Bob is %+v", bob)
	}
	if _, err := d.store.Hot().ContactByToken(t.Context(), auth.HashToken(annToken), time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Ann's token still lives: %v", err)
	}
	bobToken := kept
	nobody := step("Bob logs out", "", true, false)
	if nobody.Contact == bob.Contact || nobody.Contact == anonymous.Contact {
		t.Errorf("after logging out: %+v", nobody)
	}
	if _, err := d.store.Hot().ContactByToken(t.Context(), auth.HashToken(bobToken), time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Bob's token still lives: %v", err)
	}
	if back := step("Ann logs in again", signed(t, "ann", nil), true, true); back.Contact != ann.Contact {
		t.Errorf("Ann is somebody else: %+v", back)
	}
	kept = anonymousToken
	if first := step("the first token", "", false, false); first.Contact != anonymous.Contact {
		t.Errorf("the anonymous visitor is %+v", first)
	}
	c, err := d.store.Cold().Contact(t.Context(), ann.Contact)
	if err != nil || c.External != "ann" || !c.Verified || c.Locale != "zh-CN" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestIdentityOverALimit: a signed identity that breaks a limit is refused with the limit and the size, in the answer and in
// the log. The log repeats no value, and a flood does not fill it.
func TestIdentityOverALimit(t *testing.T) {
	o, now := testOptions(t), time.Now().Truncate(time.Second)
	var log testkit.Output
	o.Logger, o.Now = slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now }
	d := openDesk(t, o)
	newShop(t, d, store.SiteSettings{})
	refused := func(identity, want string) {
		t.Helper()
		status, _, e := session(t, d, map[string]string{"site": "shop", "identity": identity})
		if status != 401 || e.Code != proto.CodeUnauthorized || e.Text != "The signed identity is not valid: "+want+"." {
			t.Errorf("%d %+v, want %s", status, e, want)
		}
		if !strings.Contains(log.String(), strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("not in the log: %s", want)
		}
	}
	many := map[string]any{}
	for i := range auth.MaxAttributes + 1 {
		many[fmt.Sprint("a", i)] = "x"
	}
	const long = "Ann Lee"
	for want, claims := range map[string]jwt.MapClaims{
		"name has 101 characters, the limit is 100":             {"name": strings.Repeat("名", 94) + long},
		"name has control characters":                           {"name": long + "\n" + long},
		"sub has 201 bytes, the limit is 200":                   {"sub": strings.Repeat("x", 194) + long},
		"locale has 42 bytes, the limit is 35":                  {"locale": strings.Repeat(long, 6)},
		"there are 21 attributes, the limit is 20":              {"attributes": many},
		`attribute "plan" has 501 characters, the limit is 500`: {"attributes": map[string]any{"plan": strings.Repeat("x", 494) + long}},
		"exp is 48h0m0s ahead, the limit is 24h0m0s":            {"exp": now.Add(48 * time.Hour).Unix()},
	} {
		refused(signed(t, "ann", claims), want)
	}
	for range 100 {
		refused(strings.Repeat("x", auth.MaxIdentityBytes+1), "the token has 4097 bytes, the limit is 4096")
	}
	if n := strings.Count(log.String(), "identity refused"); n != 20 || strings.Contains(log.String(), long) {
		t.Errorf("%d lines in the log, want 20 without a value:\n%s", n, log.String())
	}
}

func TestIdentityRefusals(t *testing.T) {
	d := openDesk(t, testOptions(t))
	newShop(t, d, store.SiteSettings{})
	edTokenFor := func(key ed25519.PrivateKey) string {
		s, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{"sub": "ann", "aud": "shop", "exp": time.Now().Add(time.Hour).Unix()}).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"sub": "ann", "aud": "shop", "exp": time.Now().Add(time.Hour).Unix()}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	byPublicKey, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "aud": "shop", "exp": time.Now().Add(time.Hour).Unix()}).
		SignedString([]byte(shopKey().Public().(ed25519.PublicKey)))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for name, c := range map[string]struct {
		identity string
		status   int
		code     proto.Code
	}{
		"none":                    {none, 401, proto.CodeUnauthorized},
		"HS256 by the public key": {byPublicKey, 401, proto.CodeUnauthorized},
		"wrong key":               {edTokenFor(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))), 401, proto.CodeUnauthorized},
		"wrong aud":               {signed(t, "ann", jwt.MapClaims{"aud": "demo"}), 401, proto.CodeUnauthorized},
		"expired":                 {signed(t, "ann", jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()}), 401, proto.CodeTokenExpired},
		"exp too far":             {signed(t, "ann", jwt.MapClaims{"exp": time.Now().Add(25 * time.Hour).Unix()}), 401, proto.CodeUnauthorized},
		"no exp":                  {signed(t, "ann", jwt.MapClaims{"exp": nil}), 401, proto.CodeUnauthorized},
		"noise":                   {"noise", 401, proto.CodeUnauthorized},
		"good by EdDSA":           {edTokenFor(shopKey()), 200, ""},
		"good":                    {signed(t, "ann", nil), 200, ""},
	} {
		status, v, e := session(t, d, map[string]string{"site": "shop", "identity": c.identity})
		if status != c.status || e.Code != c.code || (status == 200) != (v.Token != "") {
			t.Errorf("%s: %d %+v %+v", name, status, v, e)
		}
		if status != 200 {
			refused++
		}
	}
	if got := d.Stats().IdentitiesBad; got != uint64(refused) {
		t.Errorf("%d refusals counted, want %d", got, refused)
	}
	if status, _, _ := session(t, d, map[string]string{"site": "demo", "identity": signed(t, "ann", jwt.MapClaims{"aud": "demo"})}); status != 401 {
		t.Errorf("a site without keys: %d", status)
	}
	if status, _, e := session(t, d, map[string]string{"site": "shop", "identity": strings.Repeat("x", auth.MaxIdentityBytes+1)}); status != 401 {
		t.Errorf("too large: %d %+v", status, e)
	}
}

// A site that enforces identities lets nobody else in: not over HTTP, and not with a token from before.
func TestEnforcedIdentity(t *testing.T) {
	s := serve(t, testOptions(t))
	site := newShop(t, s.desk, store.SiteSettings{})
	_, before, _ := session(t, s.desk, map[string]string{"site": "shop"})
	site.Settings.Enforce = true
	s.ok(s.desk.store.UpdateSite(s.ctx, site))
	for name, in := range map[string]map[string]string{"nothing": {"site": "shop"}, "an old token": {"site": "shop", "token": before.Token}} {
		if status, _, e := session(t, s.desk, in); status != 401 || e.Code != proto.CodeUnauthorized {
			t.Errorf("%s: %d %+v", name, status, e)
		}
	}
	if code, closed := s.knock(before.Token); code != proto.CodeUnauthorized || closed != proto.CloseUnauthorized {
		t.Errorf("hello with an old token: %q, close %d", code, closed)
	}
	_, ann, _ := session(t, s.desk, map[string]string{"site": "shop", "identity": signed(t, "ann", nil)})
	if code, _ := s.knock(ann.Token); code != "" {
		t.Errorf("hello with an identity: %q", code)
	}
}

// knock says hello with a visitor's token and returns the error's code and the close code, or "" for a welcome.
func (s *served) knock(token string) (proto.Code, int) {
	s.t.Helper()
	conn, err := desktest.Dial(s.ctx, s.base.Load().(string), nil)
	s.ok(err)
	defer func() { _ = conn.Close() }()
	s.ok(conn.Write(s.ctx, fmt.Appendf(nil, `{"t":"hello","id":"1","d":{"token":%q}}`, token)))
	data, err := conn.Read(s.ctx)
	s.ok(err)
	var f desktest.Frame
	s.ok(json.Unmarshal(data, &f))
	if f.T == "welcome" {
		return "", 0
	}
	var e proto.Error
	f.Decode(&e)
	_, err = conn.Read(s.ctx)
	return e.Code, closeCode(err)
}

// The token of an identity lives no longer than the identity, and ends with its connections when the browser is another's.
func TestTokenOfAnIdentityEnds(t *testing.T) {
	s := serve(t, testOptions(t))
	newShop(t, s.desk, store.SiteSettings{})
	_, ann, _ := session(t, s.desk, map[string]string{"site": "shop", "identity": signed(t, "ann", nil)})
	if _, err := s.desk.store.Hot().ContactByToken(s.ctx, auth.HashToken(ann.Token), time.Now().Add(2*time.Hour)); !errors.Is(err, store.ErrExpired) {
		t.Errorf("after the identity has expired: %v", err)
	}
	conn, err := desktest.Dial(s.ctx, s.base.Load().(string), nil)
	s.ok(err)
	defer func() { _ = conn.Close() }()
	s.ok(conn.Write(s.ctx, fmt.Appendf(nil, `{"t":"hello","id":"1","d":{"token":%q}}`, ann.Token)))
	_, err = conn.Read(s.ctx)
	s.ok(err)
	session(t, s.desk, map[string]string{"site": "shop", "token": ann.Token})
	for err == nil {
		_, err = conn.Read(s.ctx)
	}
	if closeCode(err) != proto.CloseUnauthorized {
		t.Errorf("the old connection: %v", err)
	}
	if code, _ := s.knock(ann.Token); code != proto.CodeUnauthorized {
		t.Errorf("hello with the old token: %q", code)
	}
}

func TestPreChatOverTheWire(t *testing.T) {
	s := serve(t, testOptions(t))
	newShop(t, s.desk, store.SiteSettings{Consent: "We keep it.", PreChat: []store.Field{{Name: "name", Label: "Name", Type: "text"}, {Name: "email", Label: "E-mail", Type: "email", Required: true}}})
	ann := s.web.Customer("shop")
	t.Cleanup(ann.Close)
	for name, d := range map[string]map[string]any{
		"nothing":       {},
		"no consent":    {"fields": map[string]string{"email": "ann@example.com"}},
		"not an e-mail": {"fields": map[string]string{"email": "ann"}, "consent": true},
	} {
		f, err := ann.Do(s.ctx, "conv.open", "", d)
		s.ok(err)
		var e proto.Error
		if f.Decode(&e); f.T != "err" || e.Code != proto.CodeBadRequest || !strings.HasPrefix(e.Text, "field ") {
			t.Errorf("%s: %s %+v", name, f.T, e)
		}
	}
	f, err := ann.Do(s.ctx, "conv.open", "", map[string]any{"fields": map[string]string{"name": "Ann", "email": "ann@example.com"}, "consent": true})
	if err != nil || f.T != "ok" {
		t.Fatalf("%s %v", f.D, err)
	}
	ann.Send(f.C, "hello")
	got, err := ann.Event(s.ctx, f.C, func(f desktest.Frame) bool { return f.T == "ev.msg" && strings.Contains(string(f.D), `"hello"`) })
	s.ok(err)
	var m proto.Msg
	if got.Decode(&m); m.From.Name != "Ann" {
		t.Errorf("the message is from %+v", m.From)
	}
	c, err := s.desk.store.Cold().Contact(s.ctx, m.From.ID)
	if err != nil || c.Attributes["email"] != "ann@example.com" || c.Name != "Ann" {
		t.Errorf("%+v, %v", c, err)
	}
}

// New visitors are limited by address, which a trusted proxy may name, and by site.
func TestNewVisitorsPerAddress(t *testing.T) {
	o := testOptions(t)
	o.NewVisitorsPerIP = hub.Rate{PerSecond: 0.001, Burst: 2}
	o.NewVisitors = hub.Rate{PerSecond: 0.001, Burst: 5}
	o.TrustedProxies = prefixes(t, "192.0.2.0/24") // that of httptest
	d := openDesk(t, o)
	newShop(t, d, store.SiteSettings{})
	ask := func(site, from string) int {
		status, _ := call(d, "POST", "/api/v1/widget/session", `{"site":"`+site+`"}`, "X-Forwarded-For", from)
		return status
	}
	for i, c := range []struct {
		site, from string
		want       int
	}{
		{"demo", "198.51.100.1", 200}, {"demo", "198.51.100.1", 200}, {"demo", "198.51.100.1", 429}, {"shop", "198.51.100.1", 429},
		{"demo", "evil, 198.51.100.1", 429}, {"demo", "198.51.100.9, 198.51.100.1", 429}, {"demo", "198.51.100.1, 192.0.2.7", 429},
		{"demo", "2001:db8::1", 200}, {"demo", "2001:db8::2", 200}, {"demo", "2001:db8::3", 429}, {"demo", "2001:db8:0:1::3", 200},
		{"demo", "198.51.100.2", 429}, {"shop", "198.51.100.2", 200}, {"demo", "127.0.0.1", 429},
	} {
		if got := ask(c.site, c.from); got != c.want {
			t.Errorf("%d: %s from %s: %d, want %d", i, c.site, c.from, got, c.want)
		}
	}
	if d.Stats().VisitorsRefused != 8 {
		t.Errorf("%d refusals counted", d.Stats().VisitorsRefused)
	}
}

// The chats of one address are counted with their first message; the address is the one that the proxy names.
func TestNewConversationsPerAddress(t *testing.T) {
	o := testOptions(t)
	o.TrustedProxies = prefixes(t, "127.0.0.0/8")
	o.Limits.Chats = 2
	s := serve(t, o)
	from := func(ip string) *desktest.Client {
		token := ""
		c := desktest.New(func(ctx context.Context) (desktest.Transport, proto.Hello, error) {
			if token == "" {
				var v visitorInfo
				if err := s.web.Post(ctx, "/api/v1/widget/session", map[string]string{"site": "demo"}, &v); err != nil {
					return nil, proto.Hello{}, err
				}
				token = v.Token
			}
			conn, err := desktest.Dial(ctx, s.base.Load().(string), http.Header{"X-Forwarded-For": {ip}})
			return conn, proto.Hello{Token: token}, err
		})
		t.Cleanup(c.Close)
		return c
	}
	write := func(c *desktest.Client) proto.Code {
		f, err := c.Do(s.ctx, "conv.open", "", proto.Open{})
		s.ok(err)
		if f.T != "err" {
			f, err = c.Do(s.ctx, "msg.send", f.C, proto.Send{ClientID: uuid.NewString(), Body: "hello"})
			s.ok(err)
		}
		var e proto.Error
		if f.T == "err" {
			f.Decode(&e)
			if e.RetryMS < 29*time.Minute.Milliseconds() || e.RetryMS > 30*time.Minute.Milliseconds() {
				t.Errorf("retry after %d ms", e.RetryMS)
			}
		}
		return e.Code
	}
	ann, bob, eve, far := from("198.51.100.1"), from("198.51.100.1"), from("198.51.100.1"), from("198.51.100.2")
	for i, c := range []struct {
		who  *desktest.Client
		want proto.Code
	}{{ann, ""}, {ann, ""}, {ann, ""}, {bob, ""}, {eve, proto.CodeRateLimited}, {bob, ""}, {far, ""}} {
		if got := write(c.who); got != c.want {
			t.Errorf("step %d: %q, want %q", i, got, c.want)
		}
	}
}

// A blocked contact gets 403 and no token, with its token as with its identity; unblocked it is itself again.
func TestBlockedVisitorOverHTTP(t *testing.T) {
	d := openDesk(t, testOptions(t))
	newShop(t, d, store.SiteSettings{})
	_, anonymous, _ := session(t, d, map[string]string{"site": "shop"})
	_, ann, _ := session(t, d, map[string]string{"site": "shop", "identity": signed(t, "ann", nil)})
	for name, c := range map[string]struct {
		contact string
		in      map[string]string
	}{
		"by token":    {anonymous.Contact, map[string]string{"site": "shop", "token": anonymous.Token}},
		"by identity": {ann.Contact, map[string]string{"site": "shop", "identity": signed(t, "ann", nil)}},
		"by both":     {ann.Contact, map[string]string{"site": "shop", "identity": signed(t, "ann", nil), "token": ann.Token}},
	} {
		if _, err := d.store.BlockContact(testkit.Context(t), c.contact, true); err != nil {
			t.Fatal(err)
		}
		if status, v, e := session(t, d, c.in); status != 403 || e.Code != proto.CodeBlocked || v.Token != "" {
			t.Errorf("%s: %d %+v %+v", name, status, v, e)
		}
		if _, err := d.store.BlockContact(testkit.Context(t), c.contact, false); err != nil {
			t.Fatal(err)
		}
		if status, v, _ := session(t, d, c.in); status != 200 || v.Contact != c.contact {
			t.Errorf("%s, unblocked: %d %+v", name, status, v)
		}
	}
}
