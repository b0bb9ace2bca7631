package front

import (
	"encoding/json"
	"html"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/web"
	"github.com/go-eddy/eddy/internal/testkit"
)

// lookOf returns what the loader is told of a site's button.
func lookOf(t *testing.T, f *Front, address string) (l look) {
	t.Helper()
	status, resp := call(f, "GET", address, "")
	script := strings.TrimSpace(body(t, resp))
	entered, ok := strings.CutPrefix(strings.TrimSuffix(script, ");"), "EddyDesk.furnish(")
	if status != http.StatusOK || !ok || resp.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || resp.Header.Get("Cache-Control") != lookFresh {
		t.Fatalf("%s: %d, %v: %s", address, status, resp.Header, script)
	}
	if strings.ContainsAny(entered, "<>&\u2028") {
		t.Errorf("%s: what was entered can end the script: %s", address, entered)
	}
	if err := json.Unmarshal([]byte(entered), &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// What a site has entered for its button comes with what the loader says in a language of a file.
func TestWidgetLook(t *testing.T) {
	folder := t.TempDir()
	arabic, err := json.Marshal(web.Language{Name: "العربية", Dir: "rtl", Texts: map[string]string{"widget.open": "افتح", "retry": "أعد"}})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "ar.json"), arabic, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, Options{Languages: folder})
	if _, err := f.store.CreateSite(testkit.Context(t), store.Site{Key: "plain", Name: "Plain"}); err != nil {
		t.Fatal(err)
	}
	if l := lookOf(t, f, "/widget/plain/look.js?locale=fr"); l.Side != "" || l.Proactive != nil || l.Words != nil {
		t.Errorf("a site that has entered nothing: %+v", l)
	}
	_, err = f.store.CreateSite(testkit.Context(t), store.Site{Key: "shop", Name: "Shop", Settings: store.SiteSettings{Color: "#7a3cc2", Look: store.SiteLook{
		Side: "left", Proactive: []store.Proactive{{Text: "May I help? </script>\u2028", Page: "/prices", After: 20, Scroll: 50}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	l := lookOf(t, f, "/widget/shop/look.js?locale=ar-EG")
	if l.Side != "left" || l.Color != "#7a3cc2" || l.Dir != "rtl" || l.Words["open"] != "افتح" || len(l.Words) != 1 {
		t.Errorf("the look is %+v", l)
	}
	if len(l.Proactive) != 1 || l.Proactive[0].Text != "May I help? </script>\u2028" || l.Proactive[0].After != 20 || l.Proactive[0].ID == (store.Proactive{Text: "Another"}).ID() {
		t.Errorf("the proactive are %+v", l.Proactive)
	}
	if l := lookOf(t, f, "/widget/shop/look.js?locale=es"); l.Words["open"] != "Abrir el chat" || l.Dir != "" {
		t.Errorf("a language that comes with the program: %+v", l)
	}
	if status, _ := call(f, "GET", "/widget/nothing/look.js", ""); status != http.StatusNotFound {
		t.Errorf("no such site: %d", status)
	}
}

var languagesOf = regexp.MustCompile(`<meta name="languages" content="([^"]*)">`)

// The customer page knows every language, and can keep its texts for ever.
func TestLanguagesOfThePage(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("he.json", `{"name":"\"><b>","dir":"rtl","texts":{"retry":"שוב"}}`)
	write("es.json", `{"name":"Castellano","texts":{"retry":"Otra vez"}}`)
	f := open(t, Options{Languages: folder})
	for address, want := range map[string]string{"/chat/demo": "he", "/widget/demo": "es"} {
		_, resp := call(f, "GET", address, "")
		found := languagesOf.FindStringSubmatch(body(t, resp))
		var all map[string]struct{ Name, Dir, At string }
		if found == nil {
			t.Fatalf("%s names no languages", address)
		}
		if err := json.Unmarshal([]byte(html.UnescapeString(found[1])), &all); err != nil || len(all) != 2 || all["he"].Dir != "rtl" || all["he"].Name != `"><b>` || all["es"].Name != "Castellano" {
			t.Errorf("%s: %v, %v", address, all, err)
		}
		kept(t, f, "/assets/lang/"+want+".json", all[want].At)
	}
	write("en.json", `{"name":"English","texts":{"retry":"Again"}}`)
	if _, err := loadLanguages(folder); err == nil || !strings.Contains(err.Error(), "en.json: this language is built in") {
		t.Errorf("a language that is built in: %v", err)
	}
	if _, err := loadLanguages(filepath.Join(folder, "he.json")); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a file in place of the folder: %v", err)
	}
}
