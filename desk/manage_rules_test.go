package desk

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// Rules are made, tried before they are stored, reordered and removed; what is wrong with one is told beside its field.
func TestManageRules(t *testing.T) {
	p := managed(t)
	ctx := t.Context()
	g, err := p.d.store.CreateGroup(ctx, store.Group{Name: "Returns"})
	if err != nil {
		t.Fatal(err)
	}
	site, _, _ := strings.Cut(p.post("/admin/sites", url.Values{"key": {"shop"}, "name": {"Shop"}}), "?")
	at := site + "/rules"
	if !strings.Contains(p.get(site, http.StatusOK), `href="`+at+`"`) {
		t.Error("the site does not lead to its rules")
	}
	two := url.Values{
		"rule_page_0": {"/returns"}, "rule_begins_0": {"on"}, "rule_group_0": {g.ID}, "rule_skills_0": {"Returns,  big  orders"},
		"rule_language_2": {"zh-CN"}, "rule_priority_2": {"high"}, // a row was left empty
	}
	ask := func(more url.Values) string {
		t.Helper()
		form := url.Values{}
		for _, values := range []url.Values{two, more} {
			for field, v := range values {
				form[field] = v
			}
		}
		status, _, body := p.ask(http.MethodPost, at, form)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		_, said, _ := strings.Cut(body, `data-testid="tried">`)
		said, _, _ = strings.Cut(said, "<")
		return said
	}
	stored := func() []store.RouteRule {
		t.Helper()
		s, err := p.d.store.Cold().SiteByKey(ctx, "shop")
		if err != nil {
			t.Fatal(err)
		}
		return s.Settings.Rules
	}
	for want, try := range map[string]url.Values{
		"Rule 1 fits. Group: Returns. Priority: Normal. Skills: big orders, returns.": {"try_page": {"https://shop.example/returns/7"}, "try_language": {"zh"}},
		"Rule 2 fits. Group: Everybody. Priority: High.":                              {"try_page": {"https://shop.example/"}, "try_language": {"zh-TW"}},
		"No rule fits. Group: Everybody. Priority: as usual.":                         {"try_language": {"en"}},
	} {
		try.Set("do", "try")
		if got := ask(try); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := ask(url.Values{"do": {"try"}, "rule_attribute_2": {"plan"}, "rule_value_2": {"gold"}, "try_language": {"zh"}, "try_attributes": {"size=xl\r\nplan = Gold"}}); !strings.HasPrefix(got, "Rule 2") {
		t.Errorf("by an attribute: %q", got)
	}
	if got := ask(url.Values{"do": {"try"}, "rule_answer_2": {"refund"}, "try_language": {"zh"}, "try_answer": {"hello\r\nRefund"}}); !strings.HasPrefix(got, "Rule 2") {
		t.Errorf("by an answer: %q", got)
	}
	if len(stored()) != 0 {
		t.Fatalf("trying has stored %+v", stored())
	}
	p.post(at, two)
	first := store.RouteRule{Page: "/returns", Begins: true, Group: g.ID, Skills: "big orders,returns"}
	second := store.RouteRule{Language: "zh", Priority: "high"}
	if got := stored(); len(got) != 2 || got[0] != first || got[1] != second {
		t.Fatalf("%+v", got)
	}
	shown := p.get(at, http.StatusOK)
	if !strings.Contains(shown, `value="big orders, returns"`) || strings.Count(shown, `data-testid="rule"`) != 3 {
		t.Errorf("shown:\n%s", shown)
	}
	for action, want := range map[string]string{"up 1": `name="rule_language_0" value="zh"`, "remove 0": `name="rule_language_0" value="zh"`, "up 0": `name="rule_language_1" value="zh"`, "up x": `name="rule_language_1" value="zh"`} {
		if status, _, body := p.ask(http.MethodPost, at, url.Values{"rule_page_0": {"/returns"}, "rule_priority_0": {"low"}, "rule_language_1": {"zh"}, "rule_priority_1": {"low"}, "do": {action}}); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %s", action, status, want)
		}
	}
	errs, body := p.refused(at, url.Values{"rule_page_1": {strings.Repeat("x", 301)}, "rule_language_2": {"Chinese"}, "rule_priority_2": {"low"}}, http.StatusUnprocessableEntity)
	if errs["rule_page_0"] != "Too long: at most 300 characters." || errs["rule_group_0"] == "" || errs["rule_language_1"] == "" {
		t.Errorf("%q in\n%s", errs, body)
	}
	if errs, _ := p.refused(at, url.Values{"rule_group_0": {"nobody"}}, http.StatusUnprocessableEntity); errs["rule_group_0"] == "" {
		t.Errorf("an unknown group: %q", errs)
	}
	p.post(site, url.Values{"name": {"Shop 2"}}) // the site's own form leaves the rules alone
	if len(stored()) != 2 {
		t.Errorf("%+v", stored())
	}
	p.post(at, url.Values{})
	if len(stored()) != 0 {
		t.Errorf("%+v", stored())
	}
}
