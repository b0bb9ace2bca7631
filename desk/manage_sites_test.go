package desk

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// Every time that may be left out says which one counts then.
func TestManageSaysTheUsualTimes(t *testing.T) {
	p := managed(t)
	for path, want := range map[string]map[string]string{
		"/admin/sites/new":  {"idle_bot": "Empty: 15.", "idle_wait": "Empty: 10.", "idle_chat": "Empty: 30.", "warn_for": "Empty: 2."},
		"/admin/groups/new": {"sticky_days": "Empty: 7.", "sticky_wait": "Empty: 30.", "relax": "Empty: 60.", "away": "Empty: 10."},
	} {
		body := p.get(path, http.StatusOK)
		for field, says := range want {
			_, help, found := strings.Cut(body, `id="h-`+field+`">`)
			if help, _, _ = strings.Cut(help, "<"); !found || !strings.Contains(help, says) {
				t.Errorf("%s: the help of %s is %q, want %q", path, field, help, says)
			}
		}
	}
}

// The form of a new thing is filled with what is usual.
func TestManageNewFormsAreFilled(t *testing.T) {
	p := managed(t)
	for path, want := range map[string]map[string]string{
		"/admin/sites/new":  {"name": "", "bot_name": "Eddy", "reopen": "24", "idle_bot": "15", "idle_wait": "10", "idle_chat": "30", "warn_for": "2", "away_after": "5", "chats": ""},
		"/admin/groups/new": {"name": "", "sticky_days": "7", "sticky_wait": "30", "relax": "60", "away": "10", "target": ""},
	} {
		body := p.get(path, http.StatusOK)
		for field, value := range want {
			if !strings.Contains(body, ` name="`+field+`" value="`+value+`"`) {
				t.Errorf("%s: %s is not %q", path, field, value)
			}
		}
		if strings.Contains(body, `name="version"`) {
			t.Errorf("%s: what is not stored has a version", path)
		}
	}
	for _, says := range []string{`name="rate" checked`, `<option value="basic" selected`} {
		if body := p.get("/admin/sites/new", http.StatusOK); !strings.Contains(body, says) {
			t.Errorf("a new site has no %s", says)
		}
	}
}

// A colour is chosen or written. The two fields do not follow each other, so the one that was changed counts.
func TestManageColor(t *testing.T) {
	p := managed(t)
	at, _, _ := strings.Cut(p.post("/admin/sites", url.Values{"key": {"shop"}, "name": {"Shop"}}), "?")
	fields := func(body string) (text, was, pick string) {
		value := func(name string) string {
			_, rest, _ := strings.Cut(body, `name="`+name+`" value="`)
			value, _, _ := strings.Cut(rest, `"`)
			return value
		}
		return value("color"), value("color_was"), value("color_pick")
	}
	for _, c := range []struct{ what, text, pick, want, picker string }{
		{"neither", "", "#0a716c", "", "#0a716c"},
		{"chosen", "", "#7a3cc2", "#7a3cc2", "#7a3cc2"},
		{"left alone", "#7a3cc2", "#7a3cc2", "#7a3cc2", "#7a3cc2"},
		{"written", "#C03030", "#7a3cc2", "#C03030", "#C03030"},
		{"left alone, as browsers write it", "#C03030", "#c03030", "#C03030", "#C03030"},
		{"both", "#102030", "#405060", "#102030", "#102030"},
		{"taken away", "", "#102030", "", "#0a716c"},
	} {
		_, was, _ := fields(p.get(at, http.StatusOK))
		p.post(at, url.Values{"name": {"Shop"}, "color": {c.text}, "color_was": {was}, "color_pick": {c.pick}})
		s, err := p.d.store.Cold().SiteByKey(t.Context(), "shop")
		if text, was, pick := fields(p.get(at, http.StatusOK)); err != nil || s.Settings.Color != c.want || text != c.want || was != c.want || pick != c.picker {
			t.Errorf("%s: stored %q, shown %q, %q and %q (%v)", c.what, s.Settings.Color, text, was, pick, err)
		}
	}
	errs, body := p.refused(at, url.Values{"name": {""}, "color": {""}, "color_pick": {"#7a3cc2"}}, http.StatusUnprocessableEntity)
	if text, was, pick := fields(body); errs["color"] != "" || text != "#7a3cc2" || was != text || pick != text {
		t.Errorf("after a mistake elsewhere: %q, %q and %q, %v", text, was, pick, errs)
	}
	errs, body = p.refused(at, url.Values{"name": {"Shop"}, "color": {"red"}, "color_pick": {"#0a716c"}}, http.StatusUnprocessableEntity)
	if text, _, pick := fields(body); errs["color"] == "" || text != "red" || pick != "#0a716c" {
		t.Errorf("no colour: %q and %q, %v", text, pick, errs)
	}
}

// The side of the button and its proactive are entered in rows; a row without texts is none.
func TestManageLook(t *testing.T) {
	p := managed(t)
	at, _, _ := strings.Cut(p.post("/admin/sites", url.Values{"key": {"shop"}, "name": {"Shop"}}), "?")
	p.post(at, url.Values{
		"name": {"Shop"}, "side": {"left"}, "call_text_0": {"May I help?"}, "call_page_0": {"/prices"}, "call_after_0": {"20"}, "call_scroll_0": {"50"}, "call_text_1": {" "}, "call_text_3": {"Still there?"},
	})
	s, err := p.d.store.Cold().SiteByKey(t.Context(), "shop")
	want := store.SiteLook{Side: "left", Proactive: []store.Proactive{{Text: "May I help?", Page: "/prices", After: 20, Scroll: 50}, {Text: "Still there?"}}}
	if err != nil || !reflect.DeepEqual(s.Settings.Look, want) {
		t.Errorf("stored %+v (%v)", s.Settings.Look, err)
	}
	body := p.get(at, http.StatusOK)
	for _, shown := range []string{`name="call_text_1" value="Still there?"`, `name="call_scroll_0" value="50"`, `name="call_text_2" value=""`, `<option value="left" selected>`} {
		if !strings.Contains(body, shown) {
			t.Errorf("the form lacks %s", shown)
		}
	}
	for field, bad := range map[string]url.Values{
		"side":      {"side": {"top"}},
		"proactive": {"call_text_0": {"Hi"}, "call_after_0": {"3601"}},
		"300":       {"call_text_0": {strings.Repeat("é", 301)}},
		"number":    {"call_text_0": {"Hi"}, "call_scroll_0": {"half"}},
		"text":      {"call_page_0": {"/prices"}},
		"more":      {"call_text_0": {"Hi"}, "call_scroll_0": {"101"}},
	} {
		bad.Set("name", "Shop")
		group := field
		if field != "side" {
			group = "proactive"
		}
		if errs, _ := p.refused(at, bad, http.StatusUnprocessableEntity); errs[group] == "" || field == "300" && !strings.Contains(errs[group], "300") {
			t.Errorf("%s: %v", field, errs)
		}
	}
}
