package words

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // separated by blanks
	}{
		"empty":          {"", ""},
		"punctuation":    {" .,;!?\"'*()-—、。！", ""},
		"emoji":          {"👍🏽 ❤️", ""},
		"words":          {"Hello, hello WORLD", "hello world"},
		"number":         {"Order #10-2345 for 99.90€", "order 10 2345 for 99 90"},
		"address":        {"Mail Ann.Lee+x@Example.COM!", "mail ann lee x example com"},
		"one character":  {"退", "退"},
		"Chinese":        {"我要退款", "我 我要 要 要退 退 退款 款"},
		"mixed":          {"买A4纸ok", "买 a4 纸 ok"},
		"Japanese":       {"です", "で です す"},
		"Korean":         {"환불", "환 환불 불"},
		"full width":     {"ＡＢＣ１２３　ｘ", "abc123 x"},
		"case":           {"ÄÖÜ Straße ΣΟΦΟΣ σοφος Kelvin", "äöü straße σοφοσ kelvin"},
		"marks":          {"e\u0301te\u0301 \u0301", "e\u0301te\u0301"},
		"Hindi":          {"नमस्ते दुनिया", "नमस्ते दुनिया"},
		"syntax":         {`"a" AND b* OR NEAR(c) -d ^e col:f`, "a and b or near c d e col f"},
		"bad UTF-8":      {"a\xffb", "a b"},
		"beyond the BMP": {"𠮷野", "𠮷 𠮷野 野"},
		"long word":      {strings.Repeat("x", 100), strings.Repeat("x", MaxWordRunes)},
	} {
		if got := strings.Join(Of(c.text), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestOfIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 8000 {
		b.WriteRune(rune(0x4e00 + i))
	}
	if got := Of(b.String()); len(got) != MaxWords {
		t.Errorf("%d words, want %d", len(got), MaxWords)
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		terms string
		ok    bool
	}{
		"empty":         {"", "", false},
		"only signs":    {`"*" ()`, "", false},
		"one character": {"退", "退", true},
		"pairs":         {"我要退款", "我要 要退 退款", true},
		"mixed":         {"Refund 退款 A4纸", "refund 退款 a4 纸", true},
		"twice":         {"a A ａ", "a", true},
		"most":          {strings.Join(numbers(MaxTerms), " "), strings.Join(numbers(MaxTerms), " "), true},
		"too many":      {strings.Join(numbers(MaxTerms+1), " "), "", false},
		"too long":      {strings.Repeat("文", 200), "文文", true},
		"a long part":   {strings.Join(numbers(MaxTerms+1), "-"), "", false},
	} {
		q, ok := Parse(c.query)
		if got := strings.Join(q.Terms, " "); got != c.terms || ok != c.ok {
			t.Errorf("%s: %q %v, want %q %v", name, got, ok, c.terms, c.ok)
		}
	}
}

func numbers(n int) []string {
	var all []string
	for i := range n {
		all = append(all, strings.Repeat("1", i+1))
	}
	return all
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		query, text string
		want        bool
	}{
		{"退款", "我要退款", true}, {"退款", "退掉款项", false}, {"款退", "我要退款", false},
		{"ann@example.com", "to ANN@example.com please", true}, {"ann@example.com", "ann com example", false},
		{"10-2345", "order 10-2345", true}, {"10-2345", "order 2345 10", false},
		{"b a", "a b", true}, {"(退款)", "退款", true}, {"“退款”", "为什么退款？", true},
	} {
		q, ok := Parse(c.query)
		if !ok {
			t.Fatal(c.query)
		}
		if got := q.Match(c.text); got != c.want {
			t.Errorf("%q in %q: %v", c.query, c.text, got)
		}
	}
}

func TestSnippet(t *testing.T) {
	long := strings.Repeat("甲", 300) + "退款" + strings.Repeat("乙", 300)
	for name, c := range map[string]struct{ query, text, want string }{
		"short":     {"b", "a\nb\u202ec", "a b c"},
		"middle":    {"退款", long, "…" + strings.Repeat("甲", 5) + "退款" + strings.Repeat("乙", 11) + "…"},
		"beginning": {"退款", long[900:], "退款" + strings.Repeat("乙", 17) + "…"},
		"end":       {"退款", long[:906], "…" + strings.Repeat("甲", 17) + "退款"},
		"nowhere":   {"丙", long, strings.Repeat("甲", 19) + "…"},
	} {
		q, _ := Parse(c.query)
		if got := q.Snippet(c.text, 20); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Whatever is said, its words are bounded and clean, and every stretch of it finds it.
func FuzzWords(f *testing.F) {
	for _, s := range []string{"Hello 我要退款 A4", "ann@example.com", "\xff\x00\u0301", "ＡＢＣ　", `"a" OR b*`, "𠮷野家です", "ǅ İı ſ K"} {
		f.Add(s, 0, len(s))
	}
	f.Fuzz(func(t *testing.T, text string, from, to int) {
		all := Of(text)
		if len(all) > MaxWords {
			t.Fatalf("%d words", len(all))
		}
		for i, w := range all {
			if w == "" || !utf8.ValidString(w) || utf8.RuneCountInString(w) > MaxWordRunes || strings.ContainsAny(w, " \"*'^:()-+\x00") || slices.Contains(all[:i], w) && i < 100 {
				t.Fatalf("word %q of %q", w, text)
			}
			if again := Of(w); len(again) == 0 || utf8.RuneCountInString(w) == 1 && again[0] != w {
				t.Fatalf("word %q is %q", w, again)
			}
		}
		if utf8.RuneCountInString(Fold(text)) != utf8.RuneCountInString(strings.ToValidUTF8(text, "\ufffd")) {
			t.Fatalf("folding changes the number of characters of %q", text)
		}
		if from < 0 || to > len(text) || from >= to || len(all) == MaxWords {
			return
		}
		q, ok := Parse(text[from:to])
		if !ok {
			return
		}
		if n := utf8.RuneCountInString(q.Snippet(text, 20)); n > 20 {
			t.Fatalf("snippet of %d characters", n)
		}
		if len(q.Terms) > MaxTerms || len(q.Terms) == 0 {
			t.Fatalf("%d terms", len(q.Terms))
		}
	})
}

// A text is found by itself.
func FuzzFindsItself(f *testing.F) {
	for _, s := range []string{"Hello 我要退款 A4", "ann@example.com", "\xff\x00\u0301", "ＡＢＣ　x", "é́ 𠮷野家です"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, ok := Parse(text)
		if !ok {
			return
		}
		all := Of(text)
		for _, term := range q.Terms {
			if !slices.Contains(all, term) && len(all) < MaxWords {
				t.Fatalf("%q is not a word of %q: %q", term, text, all)
			}
		}
		if !q.Match(text) {
			t.Fatalf("%q does not match itself: %q", text, q.parts)
		}
	})
}
