package front

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// A visitor is told where the logo of the site is. What is there may be kept for ever, and is nothing but a picture.
func TestLogo(t *testing.T) {
	f := open(t, Options{})
	ctx := testkit.Context(t)
	content := "\x89PNG\r\n\x1a\n<script>alert(1)</script>"
	shop, err := f.store.CreateSite(ctx, store.Site{Key: "shop", Name: "Shop", Logo: store.NewLogo("image/png", 40, 30, []byte(content))})
	if err != nil {
		t.Fatal(err)
	}
	told := func(site string) *logoInfo {
		t.Helper()
		_, resp := call(f, "POST", "/api/v1/widget/session", fmt.Sprintf(`{"site":%q}`, site))
		return desktest.Into[visitorInfo](t, resp).Site.Logo
	}
	if _, err := f.store.CreateSite(ctx, store.Site{Key: "plain", Name: "Plain"}); err != nil || told("plain") != nil {
		t.Errorf("a site without a logo: %+v (%v)", told("plain"), err)
	}
	l := told("shop")
	if l == nil || l.Width != 40 || l.Height != 30 || l.At != "/widget/shop/logo/"+shop.Logo.Hash {
		t.Fatalf("the visitor is told %+v", l)
	}
	for method, want := range map[string]string{"GET": content, "HEAD": ""} {
		status, resp := call(f, method, l.At, "")
		if got := body(t, resp); status != http.StatusOK || got != want {
			t.Errorf("%s: %d, %q", method, status, got)
		}
		for header, want := range map[string]string{
			"Content-Type": "image/png", "Cache-Control": cacheForever, "X-Content-Type-Options": "nosniff", "Content-Security-Policy": filePolicy,
			"Cross-Origin-Resource-Policy": "same-origin", "ETag": `"` + shop.Logo.Hash + `"`,
		} {
			if got := resp.Header.Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", method, header, got, want)
			}
		}
	}
	if status, resp := call(f, "GET", l.At, "", "If-None-Match", `"`+shop.Logo.Hash+`"`); status != http.StatusNotModified || body(t, resp) != "" {
		t.Errorf("asked again: %d", status)
	}
	for what, at := range map[string]string{"of another site": strings.Replace(l.At, "shop", "plain", 1), "of no site": strings.Replace(l.At, "shop", "none", 1), "another": l.At + "0"} {
		if status, resp := call(f, "GET", at, ""); status != http.StatusNotFound || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", what, status, resp.Header)
		}
	}
	shop.Logo = store.NewLogo("image/gif", 1, 2, []byte("another"))
	if err := f.store.UpdateSite(ctx, shop); err != nil {
		t.Fatal(err)
	}
	next := told("shop")
	if status, _ := call(f, "GET", l.At, ""); status != http.StatusNotFound || next.At == l.At || next.Height != 2 {
		t.Errorf("replaced: the one before is answered %d, the visitor is told %+v", status, next)
	}
	for range cap(f.places.widget) {
		f.places.widget <- struct{}{}
	}
	if status, _ := call(f, "GET", next.At, ""); status != http.StatusServiceUnavailable {
		t.Errorf("beyond the places: %d", status)
	}
}

// The pages allow no more than they did: a logo comes from this server.
func TestLogoNeedsNoOtherPolicy(t *testing.T) {
	f := open(t, Options{})
	if _, err := f.store.CreateSite(testkit.Context(t), store.Site{Key: "shop", Name: "Shop", Logo: store.NewLogo("image/png", 1, 1, []byte("x"))}); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"/chat/shop", "/widget/shop"} {
		_, resp := call(f, "GET", page, "")
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "; img-src 'self' data:; ") {
			t.Errorf("%s: %s", page, policy)
		}
	}
}
