package auth

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a password that a person chooses.
const (
	MinPassword     = 10  // characters
	MaxPassword     = 256 // bytes
	minPasswordRich = 5   // different characters
)

// ErrPassword says why a password may not be chosen. Its text says what to change.
var ErrPassword = errors.New("auth: choose another password")

// CheckPassword reports whether an account may have a password. The rules are about length and not about kinds of
// characters.
func CheckPassword(login, password string) error {
	different := make(map[rune]bool)
	for _, r := range password {
		different[r] = true
	}
	switch {
	case !utf8.ValidString(password):
		return fmt.Errorf("%w: it is not valid UTF-8", ErrPassword)
	case utf8.RuneCountInString(password) < MinPassword:
		return fmt.Errorf("%w: it has less than %d characters", ErrPassword, MinPassword)
	case len(password) > MaxPassword:
		return fmt.Errorf("%w: it has more than %d bytes", ErrPassword, MaxPassword)
	case len(different) < minPasswordRich:
		return fmt.Errorf("%w: it has less than %d different characters", ErrPassword, minPasswordRich)
	case strings.EqualFold(strings.TrimSpace(password), strings.TrimSpace(login)):
		return fmt.Errorf("%w: it is the login", ErrPassword)
	}
	return nil
}
