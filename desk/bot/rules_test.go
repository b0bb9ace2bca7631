package bot

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

const shop = `{
  "greeting": {"en": "Welcome", "zh": "欢迎"},
  "buttons": ["refund", "ship"],
  "unknown": {"say": {"en": "Pardon?", "zh": "没听懂"}, "limit": 3, "ask": ["email"]},
  "handoff": {"en": "A person comes", "zh": "转人工"},
  "rules": [
    {"name": "human", "keywords": ["human", "人工"], "handoff": true},
    {"name": "refund", "label": {"en": "Refund", "zh": "退款"}, "keywords": ["refund", "money back", "退款"], "ask": ["order", "email", "phone"],
     "reply": [{"en": "Noted.", "zh": "已记录。"}], "handoff": true, "reason": "refund"},
    {"name": "ship", "label": {"en": "Shipping", "zh": "物流"}, "keywords": ["shipping", "物流"], "ask": ["order"],
     "reply": [{"en": "Two days.", "zh": "两天。"}, {"en": "Anything else?", "zh": "还有吗？"}], "buttons": ["refund"]}
  ],
  "fields": [
    {"name": "order", "ask": {"en": "Order number?", "zh": "订单号？"}},
    {"name": "email", "type": "email", "ask": {"en": "Address?", "zh": "邮箱？"}, "invalid": {"en": "Not an address.", "zh": "邮箱不对。"}, "tries": 2},
    {"name": "phone", "type": "tel", "ask": {"en": "Phone?", "zh": "电话？"}}
  ]
}`

// dialogue talks to a bot as the hub does: nothing is kept but the history and the contact's attributes, and every turn
// is answered by a new bot.
type dialogue struct {
	t       *testing.T
	config  string
	locale  string
	history []store.Event
	attrs   map[string]string
	last    Reply
	n       int
}

func (d *dialogue) turn(t Turn) Reply {
	d.t.Helper()
	c, err := ParseRules(d.config)
	if err != nil {
		d.t.Fatal(err)
	}
	d.n++
	t.ID, t.Locale, t.Attributes = fmt.Sprint(d.n), d.locale, d.attrs
	if !t.Opening {
		d.history = append(d.history, store.Event{ID: t.ID, Kind: store.KindText, From: store.Actor{Kind: store.Customer}, Body: t.Text, Payload: t.Payload})
	}
	t.History = d.history
	r, err := NewRules(c).Reply(d.t.Context(), t)
	if err != nil {
		d.t.Fatal(err)
	}
	if len(r.Say) > store.MaxBotMessages {
		d.t.Fatalf("%d messages", len(r.Say))
	}
	for _, s := range r.Say {
		d.history = append(d.history, store.Event{Kind: store.KindText, From: store.Actor{Kind: store.Bot}, Body: s.Body, Buttons: s.Buttons, Memo: s.Memo})
	}
	if d.attrs == nil {
		d.attrs = make(map[string]string)
	}
	for k, v := range r.Attributes {
		d.attrs[k] = v
	}
	d.last = r
	return r
}

// says sends a text, or with "!" in front presses a button, and compares what the bot says, joined by "|".
func (d *dialogue) says(text, want string) {
	d.t.Helper()
	turn := Turn{Text: text}
	if button, ok := strings.CutPrefix(text, "!"); ok {
		turn = Turn{Text: "label", Payload: button}
	}
	d.turn(turn)
	d.expect(text, want)
}

func (d *dialogue) expect(text, want string) {
	d.t.Helper()
	var said []string
	for _, s := range d.last.Say {
		said = append(said, s.Body)
	}
	if got := strings.Join(said, "|"); got != want {
		d.t.Fatalf("to %q the bot says %q, want %q", text, got, want)
	}
}

func TestRulesCollect(t *testing.T) {
	d := &dialogue{t: t, config: shop, locale: "en-GB"}
	d.turn(Turn{Opening: true})
	d.expect("", "Welcome")
	if b := d.last.Say[0].Buttons; len(b) != 2 || b[0] != (store.Button{Label: "Refund", Value: "refund"}) {
		t.Fatalf("buttons %+v", b)
	}
	d.says("I want my MONEY   back!", "Order number?")
	d.says("A-17", "Address?")
	d.says("none of your business", "Not an address.")
	d.says("it is Ann@Example.com.", "Phone?")
	d.says("+44 (20) 7946-0958", "Noted.|A person comes")
	if r := d.last; !r.Handoff || r.Reason != "refund" || d.attrs["order"] != "A-17" || d.attrs["email"] != "ann@example.com" || d.attrs["phone"] != "+442079460958" {
		t.Fatalf("%+v, known %v", r, d.attrs)
	}
	for _, want := range []string{"• order: A-17", "• phone: +442079460958", "• I want my MONEY   back!", "• +44 (20)"} {
		if !strings.Contains(d.last.Summary, want) {
			t.Errorf("no %q in the summary %q", want, d.last.Summary)
		}
	}
	// What is known is not asked for again.
	d.history = append(d.history, store.Event{Kind: store.KindEvent})
	d.says("!ship", "Two days.|Anything else?")
	if s := d.last.Say; len(s[0].Buttons) != 0 || len(s[1].Buttons) != 1 || d.last.Handoff || d.last.Summary != "" {
		t.Fatalf("%+v", d.last)
	}
}

func TestRulesGoOnWithoutAField(t *testing.T) {
	d := &dialogue{t: t, config: shop}
	d.says("refund", "Order number?")
	d.says("  ", "Order number?")
	d.says("7", "Address?")
	d.says("no", "Not an address.")
	d.says("no!", "Phone?")
	d.says("12", "Phone?")
	d.says("1234567890123456", "Phone?")
	d.says("call me", "Noted.|A person comes")
	if d.attrs["email"] != "" || d.attrs["phone"] != "" || d.attrs["order"] != "7" {
		t.Fatalf("%v", d.attrs)
	}
}

// Whoever asks for a person, or presses a button, gets out of the questions; a keyword of another rule is an answer.
func TestRulesEscape(t *testing.T) {
	d := &dialogue{t: t, config: shop}
	d.says("refund", "Order number?")
	d.says("shipping label 9", "Address?")
	d.says("!ship", "Two days.|Anything else?")
	d.says("refund", "Address?")
	d.says("a human please", "A person comes")
	if !d.last.Handoff || d.last.Reason != "rule “human”" || d.attrs["order"] != "shipping label 9" {
		t.Fatalf("%+v %v", d.last, d.attrs)
	}
}

func TestRulesUnknown(t *testing.T) {
	d := &dialogue{t: t, config: shop}
	d.says("bla", "Pardon?")
	d.says("bla", "Pardon?")
	d.says("!ship", "Order number?")
	d.says("1", "Two days.|Anything else?")
	d.says("bla", "Pardon?") // the count begins anew
	if b := d.last.Say[0].Buttons; len(b) != 2 {
		t.Errorf("buttons %+v", b)
	}
	d.says("bla", "Pardon?")
	d.says("bla", "Address?")
	d.says("ann@example.com", "A person comes")
	if !d.last.Handoff || d.last.Reason != "the bot had no answer" {
		t.Fatalf("%+v", d.last)
	}
	// After people have had the conversation the bot begins anew.
	d.says("bla", "Pardon?")
	d.says("bla", "Pardon?")
	d.history = append(d.history, store.Event{Kind: store.KindEvent})
	d.says("bla", "Pardon?")
}

func TestRulesLanguage(t *testing.T) {
	d := &dialogue{t: t, config: shop, locale: "en"}
	d.says("你好", "没听懂")
	d.says("refund", "订单号？") // who has written Chinese goes on in Chinese
	d = &dialogue{t: t, config: shop, locale: "zh_TW"}
	d.says("hello", "没听懂")
	d = &dialogue{t: t, config: shop, locale: "fr-FR"}
	d.says("bonjour", "Pardon?")
	d = &dialogue{t: t, config: strings.Replace(shop, "{", `{"language": "zh",`, 1), locale: "fr-FR"}
	d.says("bonjour", "没听懂")
	d.says("退款", "订单号？")
	d.says("1", "邮箱？")
	d.says("邮箱是ann@example.com。", "电话？")
	d.says("１３８００１３８０００", "已记录。|转人工")
	if d.attrs["phone"] != "13800138000" || !strings.HasPrefix(d.last.Summary, "已收集：") || !strings.Contains(d.last.Summary, "客户说：") {
		t.Fatalf("%v %q", d.attrs, d.last.Summary)
	}
}

// A memo of settings that have changed since, or of another bot, is not followed.
func TestRulesStrangeMemo(t *testing.T) {
	for _, memo := range []string{`{"field":"gone","rule":"refund"}`, `{"field":"order","rule":"gone"}`, `{"field":"phone","rule":"ship"}`, `x`, `{"unknown":"x"}`, `[]`} {
		d := &dialogue{t: t, config: shop}
		d.history = []store.Event{{Kind: store.KindText, From: store.Actor{Kind: store.Bot}, Memo: memo}}
		d.says("17", "Pardon?")
	}
}

func TestKeywords(t *testing.T) {
	for _, c := range []struct {
		keyword, text string
		want          bool
	}{
		{"human", "HUMAN!", true},
		{"human", "a human, please", true},
		{"human", "humanity", false},
		{"human", "in-human", true},
		{"opening hours", "what are your Opening  hours?", true},
		{"opening hours", "hours of opening", false},
		{"人工", "我要转人工服务", true},
		{"人工", "人，工", false},
		{"agent", "我要agent谢谢", true},
		{"agent", "ＡＧＥＮＴ", true},
		{"vip会员", "我是VIP会员吗", true},
		{"24", "are you there 24/7", true},
		{"24", "order 2417", false},
		{"café", "CAFÉ?", true},
		{"ราคา", "สอบถามราคาสินค้า", true},
		{"カード", "クレジットカードで", true},
		{"a", "", false},
	} {
		folded := fold(c.text)
		if got := newKeyword(c.keyword).in(folded, words(folded)); got != c.want {
			t.Errorf("%q in %q: %v", c.keyword, c.text, got)
		}
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct{ kind, answer, want string }{
		{FieldText, "  17 B \n", "17 B"},
		{FieldText, "a\x00b", ""},
		{FieldText, strings.Repeat("长", store.MaxAttributeChars), strings.Repeat("长", store.MaxAttributeChars)},
		{FieldText, strings.Repeat("长", store.MaxAttributeChars+1), ""},
		{FieldText, "", ""},
		{FieldEmail, "ann@example.com", "ann@example.com"},
		{FieldEmail, "<Ann@Example.COM>", "ann@example.com"},
		{FieldEmail, "write to ann+x@mail.example.com, thanks", "ann+x@mail.example.com"},
		{FieldEmail, "ann@localhost", ""},
		{FieldEmail, "@example.com", ""},
		{FieldEmail, "ann@", ""},
		{FieldEmail, "ann at example.com", ""},
		{FieldEmail, "ann@exa..mple.com", ""},
		{FieldEmail, `"ann smith"@example.com`, ""},
		{FieldEmail, "ann@[127.0.0.1]", ""},
		{FieldEmail, strings.Repeat("a", 250) + "@example.com", ""},
		{FieldTel, "+49 (30) 123-456.78/9", "+4930123456789"},
		{FieldTel, "１３８ ００１３ ８０００", "13800138000"},
		{FieldTel, "12345", "12345"},
		{FieldTel, "1234", ""},
		{FieldTel, "1+2345678", ""},
		{FieldTel, "call 12345678", ""},
		{FieldTel, "1234567890123456", ""},
	} {
		f := Field{Type: c.kind}
		if got, ok := f.Parse(c.answer); ok != (c.want != "") || (ok && got != c.want) {
			t.Errorf("%s %q: %q, %v", c.kind, c.answer, got, ok)
		}
	}
}

// Whatever the settings are: they are refused, or the bot keeps its limits with every text.
func FuzzRules(f *testing.F) {
	f.Add(shop, "refund", "en")
	f.Add(DefaultRules(), "我要人工", "zh-CN")
	f.Add(minimal, "", "")
	f.Add(`{"greeting":{"en":"x"},"rules":[{}]}`, "x", "x")
	f.Fuzz(func(t *testing.T, config, text, locale string) {
		c, err := ParseRules(config)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "bot: ") {
				t.Fatal(err)
			}
			return
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(store.BotRules, string(b)); err != nil && len(b) <= MaxConfigBytes {
			t.Fatalf("accepted, and not when written again: %v", err)
		}
		d := &dialogue{t: t, config: config, locale: locale}
		d.turn(Turn{Opening: true})
		for range 4 {
			r := d.turn(Turn{Text: text})
			for i, s := range r.Say {
				if s.Body == "" || len(s.Buttons) > MaxButtons || (s.Memo != "" && i < len(r.Say)-1) {
					t.Fatalf("says %+v", r.Say)
				}
			}
			if len(r.Say) == 0 || r.Handoff == (r.Reason == "") {
				t.Fatalf("%+v", r)
			}
		}
	})
}
