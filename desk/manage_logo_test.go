package desk

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/internal/testkit"
)

// withLogo is a form with a file as browsers send it, nil for none, and its type.
func withLogo(t *testing.T, form url.Values, name string, content []byte) (body, mime string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for field, values := range form {
		if err := w.WriteField(field, values[0]); err != nil {
			t.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("logo", name)
	if err == nil {
		_, err = part.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// upload sends a form with a file. It returns the status, what is said at the logo, and the page.
func (p *pages) upload(path string, form url.Values, name string, content []byte) (status int, said, page string) {
	p.t.Helper()
	body, mime := withLogo(p.t, form, name, content)
	status, resp := call(p.d, "POST", path, body, "Cookie", p.cookie, "Content-Type", mime)
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	_, said, _ = strings.Cut(string(answer), `data-testid="error-logo">`)
	said, _, _ = strings.Cut(said, "<")
	return status, said, string(answer)
}

func (p *pages) logo(key string) store.Logo {
	p.t.Helper()
	s, err := p.d.store.Cold().SiteByKey(p.t.Context(), key)
	if err != nil {
		p.t.Fatal(err)
	}
	return s.Logo
}

// A logo is stored with the form of its site, replaced and removed there, and stays when the form is saved without one.
func TestManageLogo(t *testing.T) {
	p := managed(t)
	name := url.Values{"key": {"shop"}, "name": {"Shop"}}
	if status, said, _ := p.upload("/admin/sites", name, "page.html", picture(t, 40, 30)); status != http.StatusSeeOther {
		t.Fatalf("a new site with a logo: %d, %q", status, said)
	}
	site, err := p.d.store.Cold().SiteByKey(t.Context(), "shop")
	if err != nil || site.Logo.Width != 40 || site.Logo.Type != "image/png" {
		t.Fatalf("stored %+v (%v)", site.Logo, err)
	}
	at, first := "/admin/sites/"+site.ID, site.Logo
	if page := p.get(at, http.StatusOK); !strings.Contains(page, `src="/widget/shop/logo/`+first.Hash+`" width="40" height="30"`) || !strings.Contains(page, `enctype="multipart/form-data"`) {
		t.Error("the form does not show the logo that is stored")
	}
	if status, said, _ := p.upload(at, name, "", nil); status != http.StatusSeeOther || p.logo("shop").Hash != first.Hash { // as a browser sends no file
		t.Errorf("saved without a file: %d, %q, stored %+v", status, said, p.logo("shop"))
	}
	p.post(at, name)
	p.post(at+"/secret", url.Values{"new": {"1"}})
	if p.logo("shop").Hash != first.Hash {
		t.Errorf("after changes of something else: %+v", p.logo("shop"))
	}

	ticked := url.Values{"name": {"Shop"}, "logo_remove": {"on"}}
	if status, said, _ := p.upload(at, ticked, "logo.png", picture(t, 50, 30)); status != http.StatusSeeOther || p.logo("shop").Width != 50 {
		t.Errorf("replaced, though the box is ticked: %d, %q, %+v", status, said, p.logo("shop"))
	}
	if status, _ := call(p.d, "GET", "/widget/shop/logo/"+first.Hash, ""); status != http.StatusNotFound {
		t.Errorf("the one before is still there: %d", status)
	}
	stale, _, _ := strings.Cut(strings.SplitN(p.get(at, http.StatusOK), `name="version" value="`, 2)[1], `"`)
	p.upload(at, name, "logo.png", picture(t, 60, 30))
	if status, _, _ := p.upload(at, url.Values{"name": {"Shop"}, "version": {stale}}, "logo.png", picture(t, 70, 30)); status != http.StatusConflict || p.logo("shop").Width != 60 {
		t.Errorf("somebody else has replaced it meanwhile: %d, %+v", status, p.logo("shop"))
	}
	p.post(at, ticked)
	if l := p.logo("shop"); l.Hash != "" {
		t.Errorf("removed: %+v", l)
	}
	if page := p.get(at, http.StatusOK); strings.Contains(page, "logo_remove") {
		t.Error("a logo that is not there can be removed")
	}

	rows, err := p.d.store.Cold().Audit(t.Context(), store.AuditQuery{Limit: 100})
	changes := 0
	for _, r := range rows {
		if r.Target == "site "+site.ID && (r.Action == store.AuditUpdate || r.Action == store.AuditCreate) {
			changes++
		}
	}
	if err != nil || changes != 6 {
		t.Errorf("%d changes of the site in the audit log, want 6 (%v)", changes, err)
	}
}

// What is no logo is refused at its field, with the limit and the value, and changes nothing.
func TestManageLogoRefused(t *testing.T) {
	p := managed(t)
	name := url.Values{"name": {"Shop"}}
	s, err := p.d.store.CreateSite(t.Context(), store.Site{Key: "shop", Name: "Before", Logo: store.NewLogo("image/png", 1, 1, []byte("kept"))})
	if err != nil {
		t.Fatal(err)
	}
	at := "/admin/sites/" + s.ID
	for _, c := range []struct {
		what    string
		content []byte
		says    []string
	}{
		{"too many bytes", append(picture(t, 1, 1), make([]byte, 300_000)...), []string{"131072", fmt.Sprint(len(picture(t, 1, 1)) + 300_000)}},
		{"too many pixels", picture(t, 2049, 3), []string{"2048", "2049 × 3"}},
		{"SVG", []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), []string{"SVG", "scripts"}},
		{"a page that is called a picture", []byte("<!doctype html><script>alert(1)</script>"), []string{"text/html", "PNG"}},
		{"cut off", picture(t, 9, 9)[:30], []string{"damaged"}},
		{"empty", []byte{}, []string{"PNG"}},
	} {
		status, said, page := p.upload(at, name, "logo.png", c.content)
		if status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", c.what, status)
		}
		for _, want := range c.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: it says %q, want %s", c.what, said, want)
			}
		}
		if !strings.Contains(page, `/logo/`+s.Logo.Hash) || !strings.Contains(page, `value="Shop"`) {
			t.Errorf("%s: the form has lost what was entered, or the logo that is stored", c.what)
		}
	}
	if status, said, _ := p.upload(at, url.Values{"name": {""}}, "logo.png", picture(t, 9, 9)); status != http.StatusUnprocessableEntity || !strings.Contains(said, "again") {
		t.Errorf("a mistake elsewhere: %d, %q", status, said)
	}
	status, _, page := p.upload(at, name, "logo.png", make([]byte, 520<<10))
	if said := visible(page); status != http.StatusRequestEntityTooLarge || !strings.Contains(said, "it has 521 KiB, and at most 512 KiB") || !strings.Contains(said, "at most 128 KiB") {
		t.Errorf("a form that is too large: %d, %s", status, said)
	}
	if got, err := p.d.store.Cold().Site(t.Context(), s.ID); err != nil || got.Name != "Before" || got.Logo.Hash != s.Logo.Hash {
		t.Errorf("what was refused has changed %+v (%v)", got, err)
	}
	for _, role := range []perm.Role{perm.Auditor, perm.Agent, perm.Supervisor} {
		_, cookie := employ(t, p.d, role, "one-"+string(role))
		other := &pages{t: t, d: p.d, cookie: cookie}
		if status, _, _ := other.upload(at, name, "logo.png", picture(t, 9, 9)); status != http.StatusForbidden || p.logo("shop").Hash != s.Logo.Hash {
			t.Errorf("%s: %d, %+v", role, status, p.logo("shop"))
		}
	}
}

// A form that announces far too much is refused by its page at once, before its body has come, and keeps no place.
func TestManageLogoFarTooLarge(t *testing.T) {
	p := managed(t)
	if err := p.d.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	address := p.d.Addr().String()
	for range 40 { // more than there are places of staff
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /admin/sites HTTP/1.1\r\nHost: %s\r\nCookie: %s\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 9000000\r\n\r\n--x", address, p.cookie)
		if err := conn.SetReadDeadline(time.Now().Add(testkit.Patience)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(page), "it has 8790 KiB, and at most 512 KiB") {
			t.Fatalf("%d, %v: %s", resp.StatusCode, err, visible(string(page)))
		}
	}
}
