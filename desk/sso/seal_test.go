package sso

import (
	"testing"
	"time"
)

// TestSeal: what is sealed opens for its purpose and in its time, and only as it is.
func TestSeal(t *testing.T) {
	now := time.Unix(1000, 0)
	seal := func(secret string) *Seal {
		t.Helper()
		s, err := NewSeal([]byte(secret), func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := seal("one")
	text, err := s.Close("flow", Flow{State: "a", Nonce: "b"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var f Flow
	if !s.Open("flow", text, &f) || f.State != "a" || f.Nonce != "b" {
		t.Errorf("%+v", f)
	}
	flip := []byte(text)
	flip[len(flip)/2] ^= 1
	for what, open := range map[string]func() bool{
		"another purpose": func() bool { return s.Open("code", text, &f) }, "another secret": func() bool { return seal("two").Open("flow", text, &f) },
		"changed": func() bool { return s.Open("flow", string(flip), &f) }, "cut": func() bool { return s.Open("flow", text[:10], &f) },
		"nothing": func() bool { return s.Open("flow", "", &f) }, "no base64": func() bool { return s.Open("flow", "!", &f) },
	} {
		if open() {
			t.Errorf("%s: it opens", what)
		}
	}
	now = now.Add(time.Minute)
	if s.Open("flow", text, &f) {
		t.Error("too late: it opens")
	}
}
