package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Pages of a site's own origins may call the API of the widget for this site, and nothing else.
func TestCrossOriginCalls(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	d := openDesk(t, o)
	newShop(t, d, store.SiteSettings{Origins: []string{"https://shop.example", "http://localhost:8000"}})
	clock.Move(time.Minute)
	_, cookie := employ(t, d, perm.Admin, "ada")
	const path = "/api/v1/widget/session"
	for name, c := range map[string]struct {
		method, path, body, origin string
		want                       int
		cors                       bool
	}{
		"its site":                {"POST", path, `{"site":"shop"}`, "https://shop.example", 200, true},
		"with a port":             {"POST", path, `{"site":"shop"}`, "http://localhost:8000", 200, true},
		"another case":            {"POST", path, `{"site":"shop"}`, "https://Shop.Example", 200, true},
		"another site of ours":    {"POST", path, `{"site":"demo"}`, "https://shop.example", 403, true},
		"another port":            {"POST", path, `{"site":"shop"}`, "http://localhost:8001", 403, false},
		"another scheme":          {"POST", path, `{"site":"shop"}`, "http://shop.example", 403, false},
		"a subdomain":             {"POST", path, `{"site":"shop"}`, "https://a.shop.example", 403, false},
		"a longer name":           {"POST", path, `{"site":"shop"}`, "https://shop.example.evil.example", 403, false},
		"evil":                    {"POST", path, `{"site":"shop"}`, "https://evil.example", 403, false},
		"null":                    {"POST", path, `{"site":"shop"}`, "null", 403, false},
		"our own":                 {"POST", path, `{"site":"shop"}`, "http://example.com", 200, false}, // httptest's host
		"preflight":               {"OPTIONS", path, "", "https://shop.example", 204, true},
		"preflight of evil":       {"OPTIONS", path, "", "https://evil.example", 403, false},
		"login from the shop":     {"POST", "/api/v1/agent/login", credentials("ada", usual), "https://shop.example", 403, false},
		"ticket from the shop":    {"POST", "/api/v1/agent/ticket", "", "https://shop.example", 403, false},
		"revoke through the path": {"POST", "/api/v1/widget/../agent/sessions/revoke", `{"all":true}`, "https://shop.example", 307, true},
		"reading from the shop":   {"GET", "/api/v1/agent/me", "", "https://shop.example", 200, false}, // the browser keeps the answer from the page
	} {
		status, resp := call(d, c.method, c.path, c.body, "Origin", c.origin, "Cookie", cookie)
		allowed := resp.Header.Get("Access-Control-Allow-Origin")
		if status != c.want || (allowed == c.origin) != c.cors || (!c.cors && allowed != "") || resp.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d with %q, want %d", name, status, allowed, c.want)
		}
	}
	if n := d.Stats().CrossSite + d.Stats().OriginRefused; n != 10 {
		t.Errorf("%d refusals counted", n)
	}
}

// A new origin of a site counts at once or soon, and so does the end of one.
func TestOriginsAreReadAgain(t *testing.T) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	d := openDesk(t, o)
	site := newShop(t, d, store.SiteSettings{})
	ask := func() int {
		clock.Move(time.Minute)
		status, _ := call(d, "POST", "/api/v1/widget/session", `{"site":"shop"}`, "Origin", "https://shop.example")
		return status
	}
	before := ask()
	site.Settings.Origins = []string{"https://shop.example"}
	if err := d.store.UpdateSite(testkit.Context(t), site); err != nil {
		t.Fatal(err)
	}
	with := ask()
	site.Settings.Origins = nil
	if err := d.store.UpdateSite(testkit.Context(t), site); err != nil {
		t.Fatal(err)
	}
	if after := ask(); before != 403 || with != 200 || after != 403 {
		t.Errorf("%d, %d, %d", before, with, after)
	}
}

// The WebSocket of a site's own page is for customers of this site only: not for those of another, not for agents.
func TestCrossOriginSockets(t *testing.T) { crossOrigins(t, desktest.Dial) }

// The same by long polls.
func TestCrossOriginPolls(t *testing.T) {
	crossOrigins(t, func(ctx context.Context, base string, header http.Header) (desktest.Transport, error) {
		return desktest.DialPoll(ctx, base, header)
	})
}

func crossOrigins(t *testing.T, dial func(ctx context.Context, base string, header http.Header) (desktest.Transport, error)) {
	clock := desktest.NewClock()
	o := testOptions(t)
	o.Now = clock.Now
	s := serve(t, o)
	newShop(t, s.desk, store.SiteSettings{Origins: []string{"https://shop.example"}})
	clock.Move(time.Minute)
	_, shop, _ := session(t, s.desk, map[string]string{"site": "shop"})
	_, demo, _ := session(t, s.desk, map[string]string{"site": "demo"})
	_, ann, _ := session(t, s.desk, map[string]string{"site": "shop", "identity": signed(t, "ann", nil)})
	_, cookie := employ(t, s.desk, perm.Agent, "lin")
	_, resp := call(s.desk, "POST", "/api/v1/agent/ticket", "", "Cookie", cookie)
	ticket := desktest.Into[struct{ Ticket string }](t, resp).Ticket
	for name, c := range map[string]struct {
		origin, hello string
		want          proto.Code
	}{
		"a customer of the site":          {"https://shop.example", fmt.Sprintf(`{"token":%q}`, shop.Token), ""},
		"a verified one":                  {"https://shop.example", fmt.Sprintf(`{"token":%q}`, ann.Token), ""},
		"of another site":                 {"https://shop.example", fmt.Sprintf(`{"token":%q}`, demo.Token), proto.CodeForbidden},
		"an agent with cookie and ticket": {"https://shop.example", fmt.Sprintf(`{"ticket":%q}`, ticket), proto.CodeUnauthorized},
		"our own page":                    {s.base.Load().(string), fmt.Sprintf(`{"token":%q}`, demo.Token), ""},
		"no page":                         {"", fmt.Sprintf(`{"token":%q}`, demo.Token), ""},
		"no page and no token":            {"", `{"token":"guess"}`, proto.CodeUnauthorized},
	} {
		header := http.Header{"Cookie": {cookie}}
		if c.origin != "" {
			header.Set("Origin", c.origin)
		}
		conn, err := dial(s.ctx, s.base.Load().(string), header)
		s.ok(err)
		s.ok(conn.Write(s.ctx, []byte(`{"t":"hello","id":"1","d":`+c.hello+`}`)))
		data, err := conn.Read(s.ctx)
		s.ok(err)
		var f desktest.Frame
		s.ok(json.Unmarshal(data, &f))
		var e proto.Error
		if f.T == "err" {
			f.Decode(&e)
		}
		if e.Code != c.want || (c.want == "") != (f.T == "welcome") {
			t.Errorf("%s: %s %+v", name, f.T, e)
		}
		_ = conn.Close()
	}
}
