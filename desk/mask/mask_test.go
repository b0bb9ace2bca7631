package mask

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "hello, 你好": "hello, 你好",
		// e-mail
		"ann@example.com": "a•••@•••.com",
		"write to ann.lee+shop@mail.example.co.uk, please": "write to a•••@•••.uk, please",
		"邮箱：安@例子.中国":                                       "邮箱：安•••@•••.中国",
		"ann＠example．com":                                  "a•••@•••．com",
		"<ann@example.com>;bob@example.org":                "<a•••@•••.com>;b•••@•••.org",
		"13800138000@qq.com":                               "1•••@•••.com",
		"@here and me@ and a @ b.c":                        "@here and me@ and a @ b.c",
		// cards
		"4111111111111111":                   "•••1111",
		"card 4111 1111 1111 1111 exp 12/27": "card •••1111 exp 12/27",
		"5500-0000-0000-0004":                "•••0004",
		"378282246310005":                    "•••0005",
		"6222021234567890128":                "•••0128",
		"卡号６２２２０２１２３４５６７８９０１２８": "卡号•••0128",
		"4111111111111112":        "4111111111111112", // check digit is wrong
		"0000000000000000":        "•••00",            // no card, but it begins like a number with a 0
		"41111111111111111111111": "41111111111111111111111",
		// Chinese mobile numbers
		"13800138000":                   "•••00",
		"我的电话是13800138000，请回电":          "我的电话是•••00，请回电",
		"138 0013 8000":                 "•••00",
		"138-0013-8000 或 139-0013-9000": "•••00 或 •••00",
		"+86 138 0013 8001":             "+•••01",
		"008613800138001":               "•••01",
		"8613800138001":                 "•••01",
		"１３８００１３８００１":                   "•••01",
		"12800138000":                   "12800138000", // no such prefix
		"138001380001":                  "138001380001",
		// other telephone numbers
		"+1 (415) 555-2671":            "+•••71",
		"415-555-2671":                 "•••71",
		"(415) 555-2671":               "(•••71",
		"4155552671":                   "•••71",
		"+49 30 901820":                "+•••20",
		"030 901820":                   "•••20",
		"010-62345678":                 "•••78",
		"01 23 45 67 89":               "•••89",
		"＋44 20 7946 0958":             "＋•••58",
		"call 2 times: 13800138000":    "call 2 times: •••00",
		"2 13800138000":                "2 •••00",
		"13800138000 4111111111111111": "•••00 •••1111",
		// what stays
		"order 20240131001":            "order 20240131001",
		"2024-01-31 10:30":             "2024-01-31 10:30",
		"31.01.2024, 01/02/2024":       "31.01.2024, 01/02/2024",
		"1700000000 and 1700000000123": "1700000000 and 1700000000123",
		"it costs 1,299.00 or 12 34":   "it costs 1,299.00 or 12 34",
		"room 101, 110, 10086":         "room 101, 110, 10086",
		"v1.2.3.4":                     "v1.2.3.4",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestTextOfMuch(t *testing.T) {
	long := strings.Repeat("1 ", 100_000) + strings.Repeat("9", 100_000) + strings.Repeat("a@", 10_000)
	if Text(long) != long {
		t.Error("changed")
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"13800138000", "4111 1111 1111 1111", "ann@example.com", "+1 (415) 555-2671", "\xff138\xff", "１３８－００", "000000000000 000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if utf8.ValidString(s) && !utf8.ValidString(got) {
			t.Fatalf("%q became %q", s, got)
		}
		digits := func(s string) (n int) {
			for _, r := range s {
				if isDigit(r) {
					n++
				}
			}
			return n
		}
		if again := Text(got); digits(got) > digits(s) || digits(again) > digits(got) {
			t.Fatalf("%q shows more: %q, %q", s, got, again)
		}
	})
}
