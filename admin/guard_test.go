package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestToken: everything but the probes and the login page needs the token, as a header or as the cookie of a login. The
// probe gives no reasons without the token.
func TestToken(t *testing.T) {
	s := newAdmin(t, func(o *Options) { o.Addr, o.Token = "0.0.0.0:0", goodToken })
	bearerLine := "Authorization: Bearer " + goodToken
	for _, path := range []string{"/", "/stats.json", "/connections", "/debug/pprof/", "/debug/pprof/heap", "/debug/goroutines", "/admin.js", "/nothing"} {
		w := ask(s, "GET", path, "")
		if path == "/" {
			if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login" {
				t.Errorf("the page: %d to %q", w.Code, w.Header().Get("Location"))
			}
		} else if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s without the token: %d", path, w.Code)
		}
		if w := ask(s, "GET", path, "", bearerLine); w.Code == http.StatusUnauthorized {
			t.Errorf("%s with the token: %d", path, w.Code)
		}
	}
	if w := ask(s, "GET", "/healthz", ""); w.Code != 200 {
		t.Errorf("/healthz: %d", w.Code)
	}
	if w := ask(s, "GET", "/readyz", ""); w.Code != 503 || strings.Contains(w.Body.String(), "reasons") {
		t.Errorf("/readyz to a stranger: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "GET", "/readyz", "", bearerLine); w.Code != 503 || !strings.Contains(w.Body.String(), "not been done yet") {
		t.Errorf("/readyz with the token: %d %s", w.Code, w.Body)
	}
	if w := ask(s, "GET", "/login", ""); w.Code != 200 {
		t.Errorf("/login: %d", w.Code)
	}
	login := func(token string, header ...string) *http.Response {
		return ask(s, "POST", "/login", "token="+token, append(header, "Content-Type: application/x-www-form-urlencoded")...).Result()
	}
	if r := login("wrong"); r.StatusCode != 401 || len(r.Cookies()) != 0 {
		t.Errorf("login with a wrong token: %d, %v", r.StatusCode, r.Cookies())
	}
	if r := login(goodToken, "Origin: http://evil.example"); r.StatusCode != 403 || len(r.Cookies()) != 0 {
		t.Errorf("login from elsewhere: %d", r.StatusCode)
	}
	r := login(goodToken, "Origin: http://127.0.0.1:7070")
	if r.StatusCode != 303 || len(r.Cookies()) != 1 {
		t.Fatalf("login: %d, %v", r.StatusCode, r.Cookies())
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || strings.Contains(c.Value, goodToken) {
		t.Errorf("cookie %+v", c)
	}
	cookieLine := "Cookie: " + c.Name + "=" + c.Value
	if w := ask(s, "GET", "/stats.json", "", cookieLine); w.Code != 200 {
		t.Errorf("with the cookie: %d", w.Code)
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	other := func(i int) string { // one bit is another
		i += len(cookieLine) - len(c.Value)
		return cookieLine[:i] + string(letters[strings.IndexByte(letters, cookieLine[i])^1]) + cookieLine[i+1:]
	}
	for name, bad := range map[string]string{
		"later": other(8), "signed otherwise": other(20), "the same with a bit that means nothing": other(len(c.Value) - 1), "empty": "Cookie: " + c.Name + "=", "garbage": "Cookie: " + c.Name + "=!!", "short": "Cookie: " + c.Name + "=AAAA",
	} {
		if w := ask(s, "GET", "/stats.json", "", bad); w.Code != 401 {
			t.Errorf("with a cookie that is %s: %d", name, w.Code)
		}
	}
	change := func(header ...string) int {
		return ask(s, "POST", "/connections/close", `{"id":"0.0.1"}`, append(header, jsonBody)...).Code
	}
	for _, c := range []struct {
		header []string
		want   int
	}{
		{nil, 401},
		{[]string{cookieLine}, 403}, // no browser that sends the cookie is silent about the page
		{[]string{cookieLine, "Origin: http://evil.example"}, 403},
		{[]string{cookieLine, "Sec-Fetch-Site: cross-site"}, 403},
		{[]string{cookieLine, "Sec-Fetch-Site: same-origin"}, 404},
		{[]string{cookieLine, "Origin: http://127.0.0.1:7070"}, 404},
		{[]string{bearerLine}, 404},
		{[]string{bearerLine, "Origin: http://evil.example"}, 404}, // a page elsewhere cannot know it
	} {
		if got := change(c.header...); got != c.want {
			t.Errorf("a change with %q: %d, want %d", c.header, got, c.want)
		}
	}
	now := time.Now()
	s.guard.now = func() time.Time { return now.Add(sessionLife + 2*time.Second) }
	if w := ask(s, "GET", "/stats.json", "", cookieLine); w.Code != 401 {
		t.Errorf("with an old cookie: %d", w.Code)
	}
	if c := ask(s, "POST", "/logout", "", bearerLine).Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("after the logout %v", c)
	}
	another := newAdmin(t, func(o *Options) { o.Token = goodToken })
	if w := ask(another, "GET", "/stats.json", "", cookieLine); w.Code != 401 {
		t.Errorf("with a cookie of another process: %d", w.Code)
	}
}

// TestWrongTokensAreLimited: after ten wrong tokens in a minute a network has to wait, even with the right token. Other
// networks need not, as long as there are few of them.
func TestWrongTokensAreLimited(t *testing.T) {
	s := newAdmin(t, func(o *Options) { o.Token = goodToken })
	now := time.Now()
	s.guard.now = func() time.Time { return now }
	try := func(from, token string) int {
		return ask(s, "GET", "/stats.json", "", "From: "+from, "Authorization: Bearer "+token).Code
	}
	for _, bad := range []string{"", "x", goodToken + "x", goodToken[1:], strings.ToUpper(goodToken), "Bearer " + goodToken} {
		if got := try("192.0.2.9:1", bad); got != 401 {
			t.Errorf("token %q: %d", bad, got)
		}
	}
	for i := range maxTries {
		if got := try(fmt.Sprintf("[2001:db8::%d]:1", i+1), "wrong"); got != 401 {
			t.Fatalf("try %d: %d", i, got)
		}
	}
	w := ask(s, "GET", "/stats.json", "", "From: [2001:db8::99]:1", "Authorization: Bearer "+goodToken)
	if w.Code != 429 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "more than 10 wrong tokens") {
		t.Errorf("after ten tries: %d %s", w.Code, w.Body)
	}
	if got := ask(s, "POST", "/login", "token="+goodToken, "From: [2001:db8::99]:1", "Content-Type: application/x-www-form-urlencoded").Code; got != 429 {
		t.Errorf("login after ten tries: %d", got)
	}
	if got := try("[2001:db8:0:1::1]:1", goodToken); got != 200 {
		t.Errorf("another network: %d", got)
	}
	for i := range maxNetworks + maxTries {
		try(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), "wrong")
	}
	if n := len(s.guard.tries.count); n > maxNetworks+1 {
		t.Errorf("%d networks are counted, limit %d", n, maxNetworks)
	}
	if got := try("198.51.100.1:1", goodToken); got != 429 {
		t.Errorf("a network beyond the table: %d", got)
	}
	now = now.Add(triesWindow)
	if got := try("[2001:db8::99]:1", goodToken); got != 200 {
		t.Errorf("after the window: %d", got)
	}
}
