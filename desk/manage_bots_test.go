package desk

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/store"
)

var (
	fieldTags  = regexp.MustCompile(`(?s)<(input|textarea|option)([^>]*)>([^<]*)`)
	attributes = regexp.MustCompile(`([a-z-]+)(?:="([^"]*)")?`)
	selects    = regexp.MustCompile(`(?s)<select[^>]* name="([^"]*)"[^>]*>.*?</select>`)
	patterns   = regexp.MustCompile(`(?s)<template.*?</template>`)
)

// filledIn returns what a browser without scripts would send for the form of a page.
func filledIn(t *testing.T, page string) url.Values {
	t.Helper()
	_, page, found := strings.Cut(page, ` novalidate>`)
	page, _, _ = strings.Cut(page, "</form>")
	if !found {
		t.Fatal("the page has no form of rules")
	}
	page = patterns.ReplaceAllString(page, "")
	form := make(url.Values)
	for _, s := range selects.FindAllStringSubmatch(page, -1) {
		for _, m := range fieldTags.FindAllStringSubmatch(s[0], -1) {
			if a := attributesOf(m[2]); a["selected"] == "selected" || !form.Has(s[1]) {
				form.Set(s[1], a["value"])
			}
		}
	}
	for _, m := range fieldTags.FindAllStringSubmatch(page, -1) {
		a := attributesOf(m[2])
		switch {
		case a["name"] == "":
		case m[1] == "textarea":
			form.Set(a["name"], html.UnescapeString(m[3]))
		case a["type"] != "checkbox":
			form.Set(a["name"], a["value"])
		case a["checked"] != "":
			form.Set(a["name"], "on")
		}
	}
	return form
}

func attributesOf(tag string) map[string]string {
	all := make(map[string]string)
	for _, m := range attributes.FindAllStringSubmatch(tag, -1) {
		value := html.UnescapeString(m[2])
		if !strings.Contains(m[0], "=") {
			value = m[1]
		}
		all[m[1]] = value
	}
	return all
}

const shopRules = `{"language":"en","greeting":{"en":"Hello","zh":"您好","de":"Guten Tag"},"buttons":["human"],
"unknown":{"say":"?","limit":2,"ask":["mail"]},"handoff":{"en":"A person <comes>","zh":"转人工"},
"rules":[{"name":"human","label":{"en":"Person","zh":"人工"},"keywords":["agent","real person"],"handoff":true,"reason":"asked"},
{"name":"refund","keywords":["refund","退款"],"ask":["mail"],"reply":[{"en":"Noted.","zh":"已登记"},{"en":"Anything else?","zh":"还有吗"}],"buttons":["human"]}],
"fields":[{"name":"mail","type":"email","ask":{"en":"Your address?","zh":"邮箱？"},"invalid":{"en":"No address."},"tries":2}]}`

// The form writes what the JSON would, whatever the settings have.
func TestManageRulesForm(t *testing.T) {
	p := managed(t)
	id := idOf(p.post("/admin/bots", url.Values{"name": {"Guide"}, "kind": {"rules"}, "rules": {shopRules}}))
	config := func() *bot.RulesConfig {
		t.Helper()
		b, err := p.d.store.Cold().Bot(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		c, err := bot.ParseRules(b.Config)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := config()
	form := filledIn(t, p.get("/admin/bots/"+id, http.StatusOK))
	p.post("/admin/bots/"+id, form)
	if after := config(); !reflect.DeepEqual(after, before) {
		t.Errorf("saved without a change:\n%+v\nwas\n%+v", after, before)
	}

	form = filledIn(t, p.get("/admin/bots/"+id, http.StatusOK))
	for _, press := range []string{"rules.add", "rules[2].up", "rules[0].down", "rules[1].remove", "fields.add", "fields[1].remove"} {
		form.Set("do", press)
		status, _, body := p.ask("POST", "/admin/bots/"+id, form)
		if status != http.StatusOK {
			t.Fatalf("%s: %d", press, status)
		}
		form = filledIn(t, body)
	}
	if got := config(); !reflect.DeepEqual(got, before) {
		t.Error("a button that stores nothing has stored something")
	}
	if form.Get("rules[0].name") != "" || form.Get("rules[1].name") != "refund" || form.Has("rules[2].name") {
		t.Errorf("rules are %q, %q", form.Get("rules[0].name"), form.Get("rules[1].name"))
	}
	for field, value := range map[string]string{
		"rules[0].name": "human", "rules[0].label.en": "Somebody", "rules[0].handoff": "on", "unknown.limit": "", "rules[1].reply[2].en": "Third",
	} {
		form.Set(field, value)
	}
	p.post("/admin/bots/"+id, form)
	c := config()
	if len(c.Rules) != 2 || c.Rules[0].Label["en"] != "Somebody" || len(c.Rules[1].Reply) != 3 || c.Unknown.Limit != 0 || c.Greeting["de"] != "Guten Tag" {
		t.Errorf("changed to %+v", c)
	}
}

// What is wrong stands at its field with the limit and the value, and what was entered stays.
func TestManageRulesMistakes(t *testing.T) {
	p := managed(t)
	form := filledIn(t, p.get("/admin/bots/new", http.StatusOK))
	form.Set("name", "Guide")
	for field, value := range map[string]string{
		"greeting.en": strings.Repeat("x", 4001), "unknown.limit": "21", "rules[0].name": "Human!", "rules[1].buttons": "nobody",
		"rules[1].keywords": "fine\n?!", "rules[1].reply[1].zh": "只有中文", "buttons": "hours",
	} {
		form.Set(field, value)
	}
	errs, body := p.refused("/admin/bots", form, http.StatusUnprocessableEntity)
	for field, want := range map[string]string{
		"greeting.en": "4001 characters in \"en\", the limit is 4000", "unknown.limit": "21, want 0", "rules[0].name": "\"Human!\"",
		"rules[1].buttons": "no rule named \"nobody\"", "rules[1].keywords": "\"?!\"", "rules[1].reply[1].en": "no \"en\"",
	} {
		if !strings.Contains(html.UnescapeString(errs[field]), want) {
			t.Errorf("%s: %q, want %q (%v)", field, errs[field], want, errs)
		}
	}
	if got := filledIn(t, body); got.Get("rules[0].name") != "Human!" || got.Get("rules[1].reply[1].zh") != "只有中文" {
		t.Error("what was entered is gone")
	}
	form.Set("unknown.limit", "many")
	if errs, body := p.refused("/admin/bots", form, http.StatusUnprocessableEntity); errs["unknown.limit"] == "" || filledIn(t, body).Get("unknown.limit") != "many" {
		t.Errorf("a limit that is no number: %v", errs)
	}
	p.extra = []string{"Accept-Language", "zh"}
	form.Set("unknown.limit", "21")
	if errs, _ := p.refused("/admin/bots", form, http.StatusUnprocessableEntity); !strings.Contains(errs["unknown.limit"], "21 无效") {
		t.Errorf("in Chinese: %v", errs)
	}
}

// The largest settings fit through the form, and a form beyond its bound is refused.
func TestManageLargeRules(t *testing.T) {
	p := managed(t)
	form := filledIn(t, p.get("/admin/bots/new", http.StatusOK))
	form.Set("name", "Large")
	for i := range bot.MaxRules {
		at := fmt.Sprintf("rules[%d].", i)
		form.Set(at+"name", fmt.Sprintf("r%d", i))
		form.Set(at+"keywords", fmt.Sprintf("word%d", i))
		form.Set(at+"reply[0].en", strings.Repeat("字", 100))
	}
	form.Set("buttons", "")
	form.Set("rules[1].buttons", "")
	id := idOf(p.post("/admin/bots", form))
	if b, err := p.d.store.Cold().Bot(t.Context(), id); err != nil || len(b.Config) < 60<<10 {
		t.Errorf("%d bytes stored, %v", len(b.Config), err)
	}
	form.Set("rules[0].reply[0].en", strings.Repeat("x", 600<<10))
	if status, _, _ := p.ask("POST", "/admin/bots/"+id, form); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a form over the bound: %d", status)
	}
}

var said = regexp.MustCompile(`(?s)data-testid="(tried-[a-z]+)"[^>]*>([^<]*)<`)

// The tryout answers by what is in the form, which nobody has saved.
func TestManageTryout(t *testing.T) {
	p := managed(t)
	id := idOf(p.post("/admin/bots", url.Values{"name": {"Guide"}, "kind": {"rules"}, "rules": {shopRules}}))
	form := filledIn(t, p.get("/admin/bots/"+id, http.StatusOK))
	form.Set("rules[1].keywords", "money")
	for _, step := range []struct{ do, text, want string }{
		{"try", "", "tried-why:The greeting;tried-said:Hello;tried-button:Person"},
		{"try", "my money please", "tried-why:Rule “refund”;tried-said:Your address?"},
		{"try", "nonsense", "tried-why:Taken as the answer to “mail”;tried-said:No address."},
		{"try", "ann@example.com", "tried-why:Taken as the answer to “mail”;tried-said:Noted.;tried-said:Anything else?;tried-button:Person"},
		{"try=human", "", "tried-why:Rule “human”;tried-said:A person <comes>;tried-handoff:A person takes over: asked"},
		{"try", "refund", "tried-why:No rule fits;tried-said:?;tried-button:Person"},
	} {
		form.Set("do", step.do)
		form.Set("try", step.text)
		status, _, body := p.ask("POST", "/admin/bots/"+id, form)
		var got []string
		for _, m := range said.FindAllStringSubmatch(body, -1) {
			got = append(got, m[1]+":"+strings.TrimSpace(html.UnescapeString(m[2])))
		}
		if status != http.StatusOK || strings.Join(got, ";") != step.want {
			t.Fatalf("%q: %d %s, want %s", step.text, status, got, step.want)
		}
		form = filledIn(t, body)
	}
	if b, err := p.d.store.Cold().Bot(t.Context(), id); err != nil || strings.Contains(b.Config, "money") {
		t.Errorf("the tryout has stored something: %v", err)
	}
	form.Set("do", "try")
	form.Set("try", strings.Repeat("x", 2001))
	if errs, _ := p.refused("/admin/bots/"+id, form, http.StatusUnprocessableEntity); !strings.Contains(errs["try"], "2001 characters; at most 2000") {
		t.Errorf("a message over the bound: %v", errs)
	}
	form.Set("try", "hello")
	form.Set("handoff.en", "")
	form.Set("handoff.zh", "")
	if errs, _ := p.refused("/admin/bots/"+id, form, http.StatusUnprocessableEntity); errs["handoff.en"] == "" {
		t.Errorf("a form with a mistake: %v", errs)
	}
}

// The form of an assistant keeps its key to itself, tells mistakes at their field, and the list says what was used today.
func TestManageAssistant(t *testing.T) {
	p := managed(t)
	form := filledIn(t, p.get("/admin/bots/new?kind=assistant", http.StatusOK))
	for field, value := range map[string]string{
		"name": "Ada", "url": "https://models.example/v1/chat/completions", "model": "m1", "key": "a-key-of-the-account", "system": "Be kind.\nBe short.",
		"greeting.zh": "您好", "greeting.en": "Hello", "handoff_words": "boss\nchief", "temperature": "0.3", "limits.tokens_day": "5000", "tool": "on",
	} {
		form.Set(field, value)
	}
	id := idOf(p.post("/admin/bots", form))
	config := func() *bot.AssistantConfig {
		t.Helper()
		b, err := p.d.store.Cold().Bot(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.Config, "idle_ms") {
			t.Error("a default was stored")
		}
		c, err := bot.ParseAssistant(b.Config)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := config()
	if before.Key != "a-key-of-the-account" || before.Limits.TokensDay != 5000 || before.Greeting["zh"] != "您好" || *before.Temperature != 0.3 || len(before.HandoffWords) != 2 || !before.Tool {
		t.Errorf("%+v", before)
	}
	page := p.get("/admin/bots/"+id, http.StatusOK)
	if strings.Contains(page, before.Key) {
		t.Error("the key is shown")
	}
	p.post("/admin/bots/"+id, filledIn(t, page))
	if after := config(); !reflect.DeepEqual(after, before) {
		t.Errorf("saved without a change:\n%+v\nwas\n%+v", after, before)
	}

	form = filledIn(t, p.get("/admin/bots/"+id, http.StatusOK))
	form.Set("url", "https://models.example/v2/chat/completions")
	p.post("/admin/bots/"+id, form)
	form = filledIn(t, p.get("/admin/bots/"+id, http.StatusOK))
	form.Set("url", "https://elsewhere.example/v1")
	if errs, _ := p.refused("/admin/bots/"+id, form, http.StatusUnprocessableEntity); errs["key"] == "" {
		t.Errorf("a key for another server: %v", errs)
	}
	form.Set("key", "another-key")
	p.post("/admin/bots/"+id, form)
	if c := config(); c.Key != "another-key" {
		t.Errorf("%+v", c)
	}

	form = filledIn(t, p.get("/admin/bots/"+id, http.StatusOK))
	for field, value := range map[string]string{
		"max_tokens": "5", "limits.tokens_day": "999", "temperature": "hot", "marker": "x", "handoff_words": "fine\n?!", "url": "http://127.0.0.1/",
		"knowledge": strings.Repeat("x", bot.MaxKnowledgeBytes+1),
	} {
		form.Set(field, value)
	}
	errs, _ := p.refused("/admin/bots/"+id, form, http.StatusUnprocessableEntity)
	for field, want := range map[string]string{
		"max_tokens": "5, want 16 up to 32000", "limits.tokens_day": "999, want 1000", "temperature": "number", "marker": "1 characters, want 3 up to 64",
		"handoff_words": "?!", "url": "https", "knowledge": "65537 bytes, the limit is 65536",
	} {
		if !strings.Contains(errs[field], want) {
			t.Errorf("%s: %q, want %q", field, errs[field], want)
		}
	}

	if err := p.d.store.AddBotUsage(t.Context(), id, time.Now().Format(time.DateOnly), store.BotUsage{Calls: 3, Prompt: 4000, Completion: 1000}); err != nil {
		t.Fatal(err)
	}
	if list := visible(p.get("/admin/bots", http.StatusOK)); !strings.Contains(list, "5000 of 5000 tokens, 3 answers used up") {
		t.Errorf("the list says %s", list)
	}
}

// A webhook bot has a greeting of its own.
func TestManageWebhookGreeting(t *testing.T) {
	p := managed(t)
	form := filledIn(t, p.get("/admin/bots/new?kind=webhook", http.StatusOK))
	for field, value := range map[string]string{"name": "Hook", "url": "https://bot.example/turn", "secret": "a secret of the bot, long enough", "greeting.en": "Welcome"} {
		form.Set(field, value)
	}
	id := idOf(p.post("/admin/bots", form))
	if form = filledIn(t, p.get("/admin/bots/"+id, http.StatusOK)); form.Get("greeting.en") != "Welcome" {
		t.Errorf("shown as %q", form.Get("greeting.en"))
	}
	form.Set("greeting.en", "")
	p.post("/admin/bots/"+id, form)
	if b, err := p.d.store.Cold().Bot(t.Context(), id); err != nil || strings.Contains(b.Config, "greeting") {
		t.Errorf("%s %v", b.Config, err)
	}
}
