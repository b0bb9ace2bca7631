package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// Errors of identities.
var (
	ErrIdentity        = errors.New("auth: the identity is not valid")
	ErrIdentityExpired = errors.New("auth: the identity has expired")
)

// ClaimError says which limit an identity breaks. Where it is about a claim, the signature was good, so that the text may
// be told to whoever signs. The text has sizes and names, and never a value.
type ClaimError struct{ Text string }

// Error implements error.
func (e *ClaimError) Error() string { return ErrIdentity.Error() + ": " + e.Text }

// Is makes every ClaimError an ErrIdentity.
func (*ClaimError) Is(target error) bool { return target == ErrIdentity }

func badClaim(format string, a ...any) error { return &ClaimError{fmt.Sprintf(format, a...)} }

// Limits of a signed identity.
const (
	MaxIdentityBytes   = 4 << 10
	MaxIdentityLife    = 24 * time.Hour
	MinSecretBytes     = 32 // RFC 7518 section 3.2: a key of HS256 has at least 256 bits
	MaxAttributes      = 20
	MaxAttributeName   = 40  // characters
	MaxAttributeValue  = 500 // characters
	MaxIdentityKeys    = 2   // of each kind, the second for rotation
	maxSubject         = 200 // bytes
	maxName            = 100 // characters
	maxLocale          = 35  // bytes (RFC 5646 section 4.4.1)
	identityLeeway     = time.Minute
	maxSecretBytes     = 1 << 10
	headerCritical     = "crit"
	attributeEmail     = "email"
	attributeTelephone = "phone"
)

// Identity is a customer as the site's own backend knows it.
type Identity struct {
	Subject    string
	Name       string // "" = not told
	Locale     string // "" = not told
	Attributes map[string]string
	Expires    time.Time
}

// IdentityRules are the rules for checking an identity.
type IdentityRules struct {
	Audience string   // the key of the site
	Secrets  []string // of HS256; each has at least MinSecretBytes
	Keys     []string // Ed25519 public keys in base64, of EdDSA
	Now      time.Time
}

// claims are those of RFC 7519 and of OpenID Connect Core section 5.1, and one of Desk's own.
type claims struct {
	jwt.RegisteredClaims
	Name       string         `json:"name"`
	Locale     string         `json:"locale"`
	Email      string         `json:"email"`
	Phone      string         `json:"phone_number"`
	Attributes map[string]any `json:"attributes"`
}

// CheckIdentity verifies a signed identity: a JWT by HS256 or EdDSA, if there are keys for it. The header of the JWT
// chooses among those and nothing else. Errors are ErrIdentity, often as a ClaimError, and ErrIdentityExpired. No text
// holds the token.
func CheckIdentity(token string, rules IdentityRules) (Identity, error) {
	if len(token) > MaxIdentityBytes {
		return Identity{}, badClaim("the token has %d bytes, the limit is %d", len(token), MaxIdentityBytes)
	}
	keys, err := rules.keys()
	if err != nil {
		return Identity{}, err
	}
	var c claims
	_, err = jwt.NewParser(
		jwt.WithValidMethods(keys.methods()), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithAudience(rules.Audience),
		jwt.WithLeeway(identityLeeway), jwt.WithTimeFunc(func() time.Time { return rules.Now }), jwt.WithStrictDecoding(),
	).ParseWithClaims(token, &c, keys.of)
	switch {
	case errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenInvalidAudience):
		return Identity{}, ErrIdentityExpired
	case err != nil:
		return Identity{}, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	return c.identity(rules.Now)
}

// identityKeys are the usable keys by algorithm.
type identityKeys map[string][]jwt.VerificationKey

func (r *IdentityRules) keys() (identityKeys, error) {
	keys := make(identityKeys)
	for _, s := range r.Secrets {
		if err := CheckSecret(s); err != nil {
			return nil, err
		}
		keys["HS256"] = append(keys["HS256"], []byte(s))
	}
	for _, k := range r.Keys {
		key, err := ParseKey(k)
		if err != nil {
			return nil, err
		}
		keys["EdDSA"] = append(keys["EdDSA"], key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: the site has no key for identities", ErrIdentity)
	}
	return keys, nil
}

// CheckSecret reports whether a secret is good enough for HS256.
func CheckSecret(s string) error {
	if len(s) < MinSecretBytes || len(s) > maxSecretBytes {
		return fmt.Errorf("%w: the site's secret has %d bytes, it must have %d to %d", ErrIdentity, len(s), MinSecretBytes, maxSecretBytes)
	}
	return nil
}

// ParseKey reads an Ed25519 public key: 32 bytes in base64, with or without padding, of either alphabet.
func ParseKey(s string) (ed25519.PublicKey, error) {
	s = strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimSpace(s)), "=")
	key, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: the site's key is not %d bytes in base64", ErrIdentity, ed25519.PublicKeySize)
	}
	return key, nil
}

func (k identityKeys) methods() []string {
	methods := make([]string, 0, len(k))
	for m := range maps.Keys(k) {
		methods = append(methods, m)
	}
	return methods
}

// of returns the keys of the algorithm that the token names, which is known to be one of methods. A token with
// extensions that must be understood is refused (RFC 7515 section 4.1.11).
func (k identityKeys) of(t *jwt.Token) (any, error) {
	if _, ok := t.Header[headerCritical]; ok {
		return nil, errors.New("auth: the header has crit")
	}
	return jwt.VerificationKeySet{Keys: k[t.Method.Alg()]}, nil
}

// identity checks what the parser does not check: the lifetime, the subject and the sizes.
func (c *claims) identity(now time.Time) (Identity, error) {
	id := Identity{Subject: c.Subject, Name: strings.TrimSpace(c.Name), Locale: c.Locale, Expires: c.ExpiresAt.Time}
	switch {
	case id.Expires.After(now.Add(MaxIdentityLife + identityLeeway)):
		return Identity{}, badClaim("exp is %v ahead, the limit is %v", id.Expires.Sub(now).Round(time.Second), MaxIdentityLife)
	case c.IssuedAt != nil && c.IssuedAt.After(id.Expires):
		return Identity{}, badClaim("iat is after exp")
	}
	attributes, err := c.attributes()
	if err != nil {
		return Identity{}, err
	}
	id.Attributes = attributes
	return id, id.Check("sub")
}

// Check checks the sizes of an identity, a *ClaimError. subject is what its field is called.
func (id *Identity) Check(subject string) error {
	if strings.TrimSpace(id.Subject) == "" {
		return badClaim("%s is missing", subject)
	}
	for _, text := range []struct {
		claim, value string
		size, limit  int
		unit         string
	}{
		{subject, id.Subject, len(id.Subject), maxSubject, "bytes"}, {"name", id.Name, utf8.RuneCountInString(id.Name), maxName, "characters"},
		{"locale", id.Locale, len(id.Locale), maxLocale, "bytes"},
	} {
		if text.size > text.limit {
			return badClaim("%s has %d %s, the limit is %d", text.claim, text.size, text.unit, text.limit)
		}
		if !printable(text.value) {
			return badClaim("%s has control characters", text.claim)
		}
	}
	return CheckAttributes(id.Attributes)
}

func (c *claims) attributes() (map[string]string, error) {
	all := make(map[string]string)
	for name, v := range c.Attributes {
		switch v := v.(type) {
		case string:
			all[name] = v
		case bool:
			all[name] = strconv.FormatBool(v)
		case float64:
			all[name] = strconv.FormatFloat(v, 'f', -1, 64)
		default:
			return nil, badClaim("attribute %.40q is not a string, a number or a boolean", name)
		}
	}
	for name, v := range map[string]string{attributeEmail: c.Email, attributeTelephone: c.Phone} {
		if v != "" {
			all[name] = v
		}
	}
	return all, nil
}

// CheckAttributes checks the sizes of a contact's attributes.
func CheckAttributes(all map[string]string) error {
	if len(all) > MaxAttributes {
		return badClaim("there are %d attributes, the limit is %d", len(all), MaxAttributes)
	}
	for name, v := range all {
		switch {
		case name == "" || utf8.RuneCountInString(name) > MaxAttributeName || !printable(name):
			return badClaim("attribute %.60q has a name of %d characters, it must have 1 to %d, none of them a control character", name, utf8.RuneCountInString(name), MaxAttributeName)
		case utf8.RuneCountInString(v) > MaxAttributeValue:
			return badClaim("attribute %.40q has %d characters, the limit is %d", name, utf8.RuneCountInString(v), MaxAttributeValue)
		case !utf8.ValidString(v):
			return badClaim("attribute %.40q is not UTF-8", name)
		}
	}
	return nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
