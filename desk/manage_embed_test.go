package desk

import (
	"html"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestManageEmbedLine: the line for web pages has the configured address, or the host of the request, if that is one. It
// says which. What a client writes into Host gets no further.
func TestManageEmbedLine(t *testing.T) {
	line := regexp.MustCompile(`data-testid="embed">([^<]*)</textarea>`)
	from := regexp.MustCompile(`data-testid="embed-from">([^<]*)</p>`)
	for _, c := range []struct{ public, host, origin, says string }{
		{"", "desk.example:8443", "http://desk.example:8443", "opened this page"}, {"", "[::1]:80", "http://[::1]:80", "opened this page"},
		{"", `evil.example"onload="x`, "", "is not valid"}, {"", "evil.example/x#", "", "is not valid"}, {"", "", "", "is not valid"}, {"", "a b", "", "is not valid"},
		{"https://chat.example", "evil.example", "https://chat.example", "--public-url"}, {"https://chat.example", `"`, "https://chat.example", "--public-url"},
	} {
		o := testOptions(t)
		o.PublicURL = c.public
		d := openDesk(t, o)
		login, password, _ := d.FirstLogin()
		demo, err := d.store.Cold().SiteByKey(t.Context(), "demo")
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/admin/sites/"+demo.ID, nil)
		r.Header.Set("Cookie", logIn(t, d, login, password))
		r.Host = c.host
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, r)
		got, want := "", ""
		if m := line.FindStringSubmatch(w.Body.String()); m != nil {
			got = html.UnescapeString(m[1])
		}
		if c.origin != "" {
			want = `<script src="` + c.origin + `/widget.js" data-site="demo" async></script>`
		}
		if m := from.FindStringSubmatch(w.Body.String()); w.Code != 200 || got != want || m == nil || !strings.Contains(m[1], c.says) {
			t.Errorf("%q, Host %q: %d, the line is %q, want %q; it is told %q", c.public, c.host, w.Code, got, want, m)
		}
	}
}
