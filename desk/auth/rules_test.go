package auth

import (
	"errors"
	"strings"
	"testing"
)

func TestPasswordRules(t *testing.T) {
	for password, ok := range map[string]bool{
		"correct horse": true, "密码密码一二三四五六": true, NewPassword(): true, strings.Repeat("abcde", 51): true,
		"": false, "short one": false, "aaaaaaaaaaaaaaaa": false, "abababababab": false, strings.Repeat("abcde", 52): false,
		"long-login@example.com": false, " LONG-login@example.com ": false, "valid enough\xff": false,
	} {
		if err := CheckPassword("long-login@example.com", password); (err == nil) != ok || (err != nil && !errors.Is(err, ErrPassword)) {
			t.Errorf("%.40q: %v", password, err)
		}
	}
}
