package front

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

var nonceOf = regexp.MustCompile(` 'nonce-([A-Z0-9]{26})'`)

// withoutNonce is the content policy of an answer as it is on every one of them.
func withoutNonce(h http.Header) string {
	return nonceOf.ReplaceAllString(h.Get("Content-Security-Policy"), "")
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPages(t *testing.T) {
	f := open(t, Options{})
	var css string
	for name := range f.pages {
		if strings.HasSuffix(name, ".css") {
			css = "/assets/" + name
		}
	}
	for path, want := range map[string]struct {
		status int
		mime   string
	}{
		"/":                       {200, "text/html; charset=utf-8"},
		"/chat/demo":              {200, "text/html; charset=utf-8"},
		"/console":                {200, "text/html; charset=utf-8"},
		css:                       {200, "text/css; charset=utf-8"},
		"/assets/console.html":    {404, ""},
		"/assets/nothing.js":      {404, ""},
		"/assets/../console":      {307, ""},
		"/assets/../front.go":     {404, ""},
		"/assets/%2e%2e/front.go": {404, ""},
		"/chat/":                  {404, ""},
		"/nothing":                {404, ""},
		"/healthz":                {200, "text/plain; charset=utf-8"},
		"/readyz":                 {200, "text/plain; charset=utf-8"},
	} {
		status, resp := call(f, "GET", path, "")
		if status != want.status || (want.mime != "" && resp.Header.Get("Content-Type") != want.mime) {
			t.Errorf("%s: %d %q", path, status, resp.Header.Get("Content-Type"))
		}
		h := resp.Header
		if (withoutNonce(h) != contentPolicy && path != "/console") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", path, h)
		}
	}
	for _, word := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(contentPolicy, word) || strings.Contains(contentPolicy, "unsafe") {
			t.Errorf("policy %q", contentPolicy)
		}
	}
	if status, _ := call(f, "POST", "/console", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("POST to a page: %d", status)
	}
}

// TestMissingPage: what does not exist is told to people by a page in both languages, and to programs by a line. Neither
// repeats the address.
func TestMissingPage(t *testing.T) {
	f := open(t, Options{})
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, c := range []struct {
		method, path, accept string
		status               int
		page                 bool
	}{
		{"GET", "/se<b>cret", browser, 404, true}, {"GET", "/chat/", browser, 404, true}, {"GET", "/assets/secret.js", browser, 404, true},
		{"GET", "/assets/console.html", browser, 404, true}, {"GET", "/api/v1/secret", browser, 404, true}, {"HEAD", "/secret", browser, 404, true},
		{"GET", "/admin/secret", browser, 404, true}, {"GET", "/secret", "*/*", 404, false}, {"GET", "/assets/secret.js", "", 404, false},
		{"POST", "/secret", browser, 404, false}, {"GET", "/api/v1/agent/login", browser, 405, false}, {"POST", "/console", browser, 405, false},
		{"GET", "/healthz", browser, 200, false},
	} {
		status, resp := call(f, c.method, c.path, "", "Accept", c.accept)
		text, h := body(t, resp), resp.Header
		isPage := strings.HasPrefix(h.Get("Content-Type"), "text/html")
		if status != c.status || isPage != c.page || strings.Contains(text, "cret") {
			t.Errorf("%s %s, Accept %q: %d %v\n%s", c.method, c.path, c.accept, status, h, text)
		}
		if isPage && (!strings.Contains(text, "Page not found") || !strings.Contains(text, `lang="zh-CN"`) || h.Get("Cache-Control") != "no-store" || withoutNonce(h) != contentPolicy) {
			t.Errorf("%s %s: %v\n%s", c.method, c.path, h, text)
		}
		if status == 404 && h.Get("Vary") != "Accept" {
			t.Errorf("%s %s: Vary %q", c.method, c.path, h.Get("Vary"))
		}
	}
}

// TestStrictTransportSecurity: every answer says for how long to use https, whatever it is, or none does.
func TestStrictTransportSecurity(t *testing.T) {
	for limit, want := range map[time.Duration]string{0: "", 90 * time.Minute: "max-age=5400"} {
		f := open(t, Options{HTTPS: true, HSTS: limit})
		for _, path := range []string{"/", "/secret", "/api/v1/agent/me", "/healthz", "/widget.js"} {
			if _, resp := call(f, "GET", path, ""); resp.Header.Get("Strict-Transport-Security") != want {
				t.Errorf("%v: %s: %q", limit, path, resp.Header.Get("Strict-Transport-Security"))
			}
		}
	}
}

// A whole page refers to its files by names that contain a hash of them, and lets its one inline script, the import
// map, run by a nonce that is never used again.
func TestPagesReferToHashedFiles(t *testing.T) {
	f := open(t, Options{})
	seen := map[string]bool{} // nonces
	type pair struct{ from, to string }
	checked := map[pair]bool{} // most pages refer to the same files
	check := func(from, to string) {
		t.Helper()
		if !checked[pair{from, to}] {
			checked[pair{from, to}] = true
			kept(t, f, from, to)
		}
	}
	for _, address := range []string{"/", "/chat/demo", "/console", "/chat/demo", "/shop", "/widget/demo"} {
		_, resp := call(f, "GET", address, "")
		html := body(t, resp)
		m := nonceOf.FindStringSubmatch(resp.Header.Get("Content-Security-Policy"))
		if m == nil || seen[m[1]] {
			t.Fatalf("%s: the policy %q has no nonce of its own", address, resp.Header.Get("Content-Security-Policy"))
		}
		seen[m[1]] = true
		if resp.Header.Get("ETag") != "" || resp.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s can be kept with its nonce: %v", address, resp.Header)
		}
		script := regexp.MustCompile(`<script type="importmap" nonce="` + m[1] + `">(.*?)</script>`).FindStringSubmatchIndex(html)
		if script == nil || strings.Contains(html, "\x00") {
			t.Fatalf("%s has no import map with its nonce:\n%s", address, html)
		}
		if first := strings.Index(html, `<link`); first < script[0] {
			t.Errorf("%s: the import map comes after a link", address)
		}
		var table struct{ Imports map[string]string }
		if err := json.Unmarshal([]byte(html[script[2]:script[3]]), &table); err != nil {
			t.Fatal(err)
		}
		for name := range f.pages {
			if strings.HasPrefix(name, "js/") && f.pages[name].cache == cacheAsk && table.Imports["/assets/"+name] == "" {
				t.Errorf("%s: the import map lacks %s", address, name)
			}
		}
		for from, to := range table.Imports {
			check(from, to)
		}
		for _, ref := range regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(html, -1) {
			check("", ref[1])
		}
	}
}

// kept checks that a name can be kept for ever, and that it is the file it stands for.
func kept(t *testing.T, f *Front, plain, hashed string) {
	t.Helper()
	status, resp := call(f, "GET", hashed, "")
	if status != http.StatusOK || resp.Header.Get("Cache-Control") != cacheForever {
		t.Errorf("%s: %d, %v", hashed, status, resp.Header)
	}
	if plain == "" {
		return
	}
	status, own := call(f, "GET", plain, "")
	if status != http.StatusOK || own.Header.Get("Cache-Control") != cacheAsk || body(t, own) != body(t, resp) {
		t.Errorf("%s and %s differ", plain, hashed)
	}
	if status, _ = call(f, "GET", strings.Replace(hashed, path.Ext(hashed), "0"+path.Ext(hashed), 1), ""); status != http.StatusNotFound {
		t.Errorf("%s with another hash: %d", hashed, status)
	}
}

func TestFilesAreSentPacked(t *testing.T) {
	f := open(t, Options{})
	const file = "/assets/css/tokens.css"
	_, resp := call(f, "GET", file, "")
	plain := body(t, resp)
	if resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("asked for nothing: %v", resp.Header)
	}
	for accept, want := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "GZIP; q=1": true, "gzip;q=0.001": true,
		"": false, "br": false, "gzip;q=0": false, "gzip; q=0.000": false, "x-gzip": false, "identity": false,
	} {
		_, resp := call(f, "GET", file, "", "Accept-Encoding", accept)
		if got := resp.Header.Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("%q: packed %v", accept, got)
			continue
		}
		if !want {
			continue
		}
		r, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != plain {
			t.Errorf("%q: %v, another content", accept, err)
		}
		tag := resp.Header.Get("ETag")
		if status, _ := call(f, "GET", file, "", "Accept-Encoding", accept, "If-None-Match", tag); status != http.StatusNotModified {
			t.Errorf("%q: a known file: %d", accept, status)
		}
		if status, _ := call(f, "GET", file, "", "If-None-Match", tag); status != http.StatusOK {
			t.Errorf("the tag of the packed file stands for the plain one: %d", status)
		}
	}
}

func TestLoaderAndShop(t *testing.T) {
	f := open(t, Options{})
	status, resp := call(f, "GET", "/widget.js", "")
	if status != http.StatusOK || resp.Header.Get("Cache-Control") != cacheLoader || resp.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("the loader: %d, %v", status, resp.Header)
	}
	for _, address := range []string{"/shop", "/widget/demo"} {
		status, resp := call(f, "GET", address, "")
		if status != http.StatusOK {
			t.Errorf("%s: %d", address, status)
		}
		if got, want := strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-src 'self'"), address == "/shop"; got != want {
			t.Errorf("%s: frames allowed %v", address, got)
		}
	}
}

// The widget's frame may be held by the pages of its site's origins, by nobody else.
func TestWidgetMayBeHeldByItsSite(t *testing.T) {
	f := open(t, Options{})
	_, err := f.store.CreateSite(testkit.Context(t), store.Site{Key: "other", Name: "Other", Settings: store.SiteSettings{
		Origins: []string{"https://shop.example", "http://localhost:8000"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"https://evil.example; script-src *", "https://evil.example script-src", "javascript:1", "https://", "%", "'unsafe-inline'", "https://*.example.org"} {
		if _, err := f.store.CreateSite(testkit.Context(t), store.Site{Key: "bad", Name: "Bad", Settings: store.SiteSettings{Origins: []string{bad}}}); err == nil {
			t.Errorf("the store takes the origin %q, which would stand in a policy", bad)
		}
	}
	for address, want := range map[string]string{
		"/widget/demo":    "frame-ancestors 'self'",
		"/widget/nothing": "frame-ancestors 'self'",
		"/widget/other":   "frame-ancestors 'self' https://shop.example http://localhost:8000",
		"/console":        "frame-ancestors 'none'",
		"/shop":           "frame-ancestors 'none'",
	} {
		_, resp := call(f, "GET", address, "")
		policy := resp.Header.Get("Content-Security-Policy")
		if got := policy[strings.Index(policy, "frame-ancestors"):]; got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
