package store

import (
	"fmt"
	"maps"
	"net/mail"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Profile is what the backend of a site says about one of its customers.
type Profile struct {
	External   string // the customer's id there, unique in a site
	Name       string // "" = keep what is known
	Locale     string // "" = keep what is known
	Attributes map[string]string

	Fields map[string]string // values of own fields by key, "" removes; only a program says them
}

// Limits of what customers say of themselves.
const (
	maxFieldChars  = 500
	maxEmailBytes  = 254 // RFC 5321 section 4.5.3.1.3, without the angle brackets
	minTelDigits   = 5
	maxTelChars    = 32
	nameField      = "name"
	emailField     = "email"
	consentField   = "consent"
	maxContactName = 100
)

// FieldError is an answer to a question before a chat, or a value of an own field, that is not accepted.
type FieldError struct {
	Field  string
	Why    string
	Barred bool // whoever asks may not change it at all
}

// Error implements error.
func (e *FieldError) Error() string { return "store: field " + e.Field + " " + e.Why }

// CheckPreChat checks a customer's answers against the questions of the site and returns the answers to keep. Those have
// no blanks around them, and answers to questions that were not asked are left out. What is known of the contact already
// need not be answered again. An error is a *FieldError.
func (s *SiteSettings) CheckPreChat(known, answers map[string]string, consent bool) (map[string]string, error) {
	kept := make(map[string]string)
	for _, f := range s.PreChat {
		v := strings.TrimSpace(answers[f.Name])
		if v == "" {
			if f.Required && known[f.Name] == "" {
				return nil, &FieldError{Field: f.Name, Why: "is required"}
			}
			continue
		}
		if why := f.check(v); why != "" {
			return nil, &FieldError{Field: f.Name, Why: why}
		}
		kept[f.Name] = v
	}
	if s.Consent != "" && !consent {
		return nil, &FieldError{Field: consentField, Why: "is required"}
	}
	return kept, nil
}

func (f *Field) check(v string) string {
	limit := maxFieldChars
	if f.Name == nameField {
		limit = maxContactName
	}
	switch {
	case !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl):
		return "must be one line of text"
	case utf8.RuneCountInString(v) > limit:
		return fmt.Sprintf("is over %d characters", limit)
	case f.Type == "email" && len(v) > maxEmailBytes:
		return fmt.Sprintf("is over %d bytes", maxEmailBytes)
	case f.Type == "email" && !isEmail(v):
		return "must be an e-mail address"
	case f.Type == "tel" && !isTel(v):
		return "must be a telephone number"
	}
	return ""
}

// isEmail is as strict as a browser's form field: one plain address with a domain.
func isEmail(s string) bool {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || len(s) > maxEmailBytes {
		return false
	}
	_, domain, _ := strings.Cut(s, "@")
	return !strings.ContainsAny(domain, "@[]") && !strings.HasPrefix(s, `"`) && strings.Trim(domain, ".-") == domain && domain != ""
}

// isTel accepts a number as people write it: digits, and between them blanks, dots, dashes, slashes and brackets.
func isTel(s string) bool {
	digits := 0
	for i, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r == '+' && i == 0, strings.ContainsRune(" .-/()", r):
		default:
			return false
		}
	}
	return digits >= minTelDigits && len(s) <= maxTelChars
}

// Email returns the address of the contact, as its site or the contact itself has given it, or "".
func (c *Contact) Email() string {
	if to := c.Attributes[emailField]; ValidEmail(to) {
		return to
	}
	return ""
}

// Describe adds what a customer has said about itself. It never changes what the site's backend has said.
func (c *Contact) Describe(answers map[string]string) {
	all := maps.Clone(c.Attributes)
	if all == nil {
		all = make(map[string]string)
	}
	for name, v := range answers {
		if c.Verified && all[name] != "" {
			continue
		}
		if name == nameField && !c.Verified {
			c.Name = v
		}
		all[name] = v
	}
	c.Attributes = all
}
