package store

import (
	"strings"
	"testing"
)

func TestPreChatFields(t *testing.T) {
	for _, c := range []struct {
		kind, value string
		ok          bool
	}{
		{"text", "anything 你好", true}, {"text", strings.Repeat("界", maxFieldChars), true}, {"text", strings.Repeat("界", maxFieldChars+1), false},
		{"text", "two\nlines", false}, {"text", "a\x00b", false}, {"text", "\xff", false},
		{"email", "ann@example.com", true}, {"email", "ann.lee+shop@sub.example.co.uk", true}, {"email", "ann@localhost", true}, {"email", "安@例子.中国", true},
		{"email", "ann", false}, {"email", "@example.com", false}, {"email", "ann@", false}, {"email", "Ann <ann@example.com>", false}, {"email", "ann@example.com, bob@example.com", false},
		{"email", `"x y"@example.com`, false}, {"email", "ann@[127.0.0.1]", false}, {"email", "ann@-example.com", false}, {"email", "ann@example.com.", false},
		{"email", strings.Repeat("a", 250) + "@example.com", false}, {"email", "ann@example.com\r\nBcc: x@example.com", false},
		{"tel", "+86 138 0013 8000", true}, {"tel", "(030) 901820-0", true}, {"tel", "110", false}, {"tel", "call me", false}, {"tel", "1+23456", false},
		{"tel", strings.Repeat("1", maxTelChars+1), false}, {"tel", "１２３４５６", false},
	} {
		s := SiteSettings{PreChat: []Field{{Name: "f", Type: c.kind}}}
		kept, err := s.CheckPreChat(nil, map[string]string{"f": c.value, "other": "x"}, false)
		if (err == nil) != c.ok || (c.ok && (len(kept) != 1 || kept["f"] != c.value)) {
			t.Errorf("%s %.60q: %v, %v", c.kind, c.value, kept, err)
		}
	}
	s := SiteSettings{PreChat: []Field{{Name: "f", Required: true}}}
	if _, err := s.CheckPreChat(map[string]string{"f": "known"}, nil, false); err != nil {
		t.Error(err)
	}
	if _, err := s.CheckPreChat(nil, map[string]string{"f": " \t "}, false); err == nil || !strings.Contains(err.Error(), "f is required") {
		t.Error(err)
	}
}
