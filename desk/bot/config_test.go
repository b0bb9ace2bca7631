package bot

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

const minimal = `{"greeting":"Hi","unknown":{"say":"?"},"handoff":"bye","rules":[{"name":"a","keywords":["a"],"reply":["b"]}]}`

// with returns the smallest settings with one thing changed.
func with(t *testing.T, key, value string) string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(minimal), &m); err != nil {
		t.Fatal(err)
	}
	m[key] = json.RawMessage(value)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every mistake is told with the place where it is.
func TestCheckRules(t *testing.T) {
	for _, good := range []string{minimal, DefaultRules(), with(t, "language", `"zh"`),
		with(t, "fields", `[{"name":"email","type":"email","ask":"Your address?","tries":10}]`)} {
		if err := Check(store.BotRules, good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	many := func(n int, one string) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	long := func(n int) string { return `"` + strings.Repeat("长", n) + `"` }
	rule := func(fields string) string { return `[{"name":"a","keywords":["a"],"reply":["b"]` + fields + `}]` }
	for _, c := range []struct{ config, want string }{
		{"", "not usable"},
		{"{", "not usable"},
		{"{\n  \"greeting\": x}", "line 2, column 15"},
		{minimal + "{}", "after the end"},
		{"\xff{}", "UTF-8"},
		{strings.Repeat(" ", MaxConfigBytes) + "{}", "limit is 131072"},
		{with(t, "gretting", `"x"`), `unknown field "gretting"`},
		{with(t, "rules", `"x"`), "rules: a string does not belong here"},
		{with(t, "greeting", `7`), "a text is a string, or an object"},
		{with(t, "greeting", `{}`), "greeting: a text is missing"},
		{with(t, "greeting", `""`), `greeting: the text in "*" is empty`},
		{with(t, "greeting", `{"zh":"好"}`), `greeting: the text has no "en"`},
		{with(t, "greeting", `{"en":"x","english":"x"}`), `"english" is no language`},
		{with(t, "greeting", long(MaxSayChars+1)), "greeting: 4001 characters"},
		{with(t, "language", `"EN"`), "language: \"EN\" is no language"},
		{with(t, "unknown", `{}`), "unknown.say: a text is missing"},
		{with(t, "unknown", `{"say":"?","limit":21}`), "unknown.limit: 21"},
		{with(t, "unknown", `{"say":"?","limit":-1}`), "unknown.limit: -1"},
		{with(t, "unknown", `{"say":"?","ask":["x"]}`), `unknown.ask[0]: there is no field named "x"`},
		{with(t, "handoff", `{}`), "handoff: a text is missing"},
		{with(t, "buttons", `["x"]`), `buttons[0]: there is no rule named "x"`},
		{with(t, "buttons", `["a"]`), `buttons[0]: rule "a" has no label`},
		{with(t, "buttons", many(MaxButtons+1, `"a"`)), "buttons: 11 of them"},
		{with(t, "rules", many(MaxRules+1, `{"name":"a","keywords":["a"],"reply":["b"]}`)), "rules: 201 of them"},
		{with(t, "rules", many(2, `{"name":"a","keywords":["a"],"reply":["b"]}`)), `rules[1]: a second rule named "a"`},
		{with(t, "rules", `[{"name":"A b","keywords":["a"],"reply":["b"]}]`), `rules[0]: name "A b"`},
		{with(t, "rules", `[{"name":"a","reply":["b"]}]`), "rules[0]: neither keywords nor a label"},
		{with(t, "rules", `[{"name":"a","keywords":["a"]}]`), "rules[0]: neither a reply nor a hand-off"},
		{with(t, "rules", `[{"name":"a","keywords":["?!"],"reply":["b"]}]`), "rules[0].keywords[0]"},
		{with(t, "rules", `[{"name":"a","keywords":[`+long(MaxNameChars+1)+`],"reply":["b"]}]`), "rules[0].keywords[0]"},
		{with(t, "rules", `[{"name":"a","keywords":`+many(MaxKeywords+1, `"a"`)+`,"reply":["b"]}]`), "rules[0].keywords: 51 of them"},
		{with(t, "rules", `[{"name":"a","keywords":["a"],"reply":`+many(5, `"b"`)+`,"handoff":true}]`), "rules[0].reply: 6 messages"},
		{with(t, "rules", `[{"name":"a","keywords":["a"],"handoff":true,"label":"x","buttons":["a"]}]`), "rules[0].buttons: they belong under a reply"},
		{with(t, "rules", rule(`,"label":{"en":`+long(MaxLabelChars+1)+`}`)), "rules[0].label: 81 characters"},
		{with(t, "rules", rule(`,"ask":["x"]`)), `rules[0].ask[0]: there is no field named "x"`},
		{with(t, "rules", rule(`,"reason":`+long(201))), "rules[0].reason"},
		{with(t, "rules", rule(`,"label":"x","buttons":["a","a"]`)), `rules[0].buttons[1]: rule "a" is there twice`},
		{with(t, "rules", rule(`,"reply":[{}]`)), "rules[0].reply[0]: a text is missing"},
		{with(t, "fields", many(MaxFields+1, `{"name":"a","ask":"?"}`)), "fields: 21 of them"},
		{with(t, "fields", `[{"name":"e-mail","type":"mail","ask":"?"}]`), `fields[0].type: "mail"`},
		{with(t, "fields", `[{"name":"","ask":"?"}]`), `fields[0]: name ""`},
		{with(t, "fields", `[{"name":"a"}]`), "fields[0].ask: a text is missing"},
		{with(t, "fields", `[{"name":"a","ask":"?","tries":11}]`), "fields[0].tries: 11"},
		{with(t, "fields", `[{"name":"a","ask":"?"},{"name":"a","ask":"?"}]`), `fields[1]: a second field named "a"`},
	} {
		err := Check(store.BotRules, c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bot: ") {
			t.Errorf("%.200s:\n got %v\nwant %s", c.config, err, c.want)
		}
	}
	err := Check(store.BotRules, with(t, "rules", many(100, `{"name":"A"}`)))
	if err == nil || strings.Count(err.Error(), "\n") != maxProblems || !strings.Contains(err.Error(), "more problems") {
		t.Errorf("a hundred bad rules: %v", err)
	}
	if err := Check("parrot", minimal); err == nil || !strings.Contains(err.Error(), `kind "parrot"`) {
		t.Error(err)
	}
}

func TestCheckWebhook(t *testing.T) {
	const secret = `"secret":"0123456789abcdef"`
	c, err := ParseWebhook(`{"url":"https://bot.example/x",` + secret + `}`)
	if err != nil || c.Timeout().Seconds() != 8 || c.Accepted().Seconds() != 60 || c.History != 20 || c.Concurrency != 8 || c.Queue != 100 || c.Apology["zh"] == "" {
		t.Fatalf("%+v %v", c, err)
	}
	for _, bad := range []struct{ config, want string }{
		{`{"url":"http://bot.example/x",` + secret + `}`, "url: safehttp: this address may not be used"},
		{`{"url":"https://127.0.0.1/x",` + secret + `}`, "loopback"},
		{`{"url":"",` + secret + `}`, "https://"},
		{`{"url":"https://bot.example/x"}`, "secret: 0 bytes, want 16"},
		{`{"url":"https://bot.example/x","secret":"short"}`, "secret: 5 bytes"},
		{`{"url":"https://bot.example/x",` + secret + `,"timeout_ms":99}`, "timeout_ms: 99"},
		{`{"url":"https://bot.example/x",` + secret + `,"timeout_ms":60001}`, "timeout_ms: 60001"},
		{`{"url":"https://bot.example/x",` + secret + `,"concurrency":65}`, "concurrency: 65"},
		{`{"url":"https://bot.example/x",` + secret + `,"queue":-1}`, "queue: -1"},
		{`{"url":"https://bot.example/x",` + secret + `,"history":101}`, "history: 101"},
		{`{"url":"https://bot.example/x",` + secret + `,"accepted_ms":1}`, "accepted_ms: 1"},
		{`{"url":"https://bot.example/x",` + secret + `,"attributes":["E Mail"]}`, "attributes"},
		{`{"url":"https://bot.example/x",` + secret + `,"attributes":["a","a"]}`, "twice"},
		{`{"url":"https://bot.example/x",` + secret + `,"language":"english"}`, "language"},
		{`{"url":"https://bot.example/x",` + secret + `,"apology":{"zh":"好"}}`, `no "en"`},
		{`{"url":"https://bot.example/x",` + secret + `,"header":1}`, `unknown field "header"`},
	} {
		if err := Check(store.BotWebhook, bad.config); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s:\n got %v\nwant %s", bad.config, err, bad.want)
		}
	}
	if err := Check(store.BotWebhook, `{"url":"http://127.0.0.1:9/x","allow_private":true,`+secret+`}`); err != nil {
		t.Error(err)
	}
}

func TestTextJSON(t *testing.T) {
	for in, want := range map[string]string{`"hi"`: `"hi"`, `{"zh":"好","en":"hi"}`: `{"en":"hi","zh":"好"}`} {
		var x Text
		if err := json.Unmarshal([]byte(in), &x); err != nil {
			t.Fatal(err)
		}
		if out, err := json.Marshal(x); err != nil || string(out) != want {
			t.Errorf("%s became %s (%v)", in, out, err)
		}
	}
}
