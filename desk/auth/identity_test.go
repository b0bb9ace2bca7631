package auth

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"strings"
	"testing"
	"time"
)

// The tests sign by hand, so that the library is not its own witness.

var identityNow = time.Unix(1_800_000_000, 0)

const (
	secretA = "secret A, which has more than 32 bytes"
	secretB = "secret B, which has more than 32 bytes"
)

func testKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(rune(seed)), ed25519.SeedSize)))
}

func publicOf(k ed25519.PrivateKey) string {
	return base64.StdEncoding.EncodeToString(k.Public().(ed25519.PublicKey))
}

func segment(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func signMAC(header, payload string, h func() hash.Hash, key []byte) string {
	m := hmac.New(h, key)
	m.Write([]byte(header + "." + payload))
	return header + "." + payload + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

func alg(name string) string { return segment(map[string]string{"alg": name, "typ": "JWT"}) }

func hs256(c map[string]any, secret string) string {
	return signMAC(alg("HS256"), segment(c), sha256.New, []byte(secret))
}

func edDSA(c map[string]any, k ed25519.PrivateKey) string {
	text := alg("EdDSA") + "." + segment(c)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k, []byte(text)))
}

// goodClaims are accepted; changes replace or, if nil, remove claims.
func goodClaims(changes map[string]any) map[string]any {
	c := map[string]any{"sub": "user-7", "aud": "shop", "exp": identityNow.Add(time.Hour).Unix()}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func TestIdentityIsAccepted(t *testing.T) {
	k, other := testKey(1), testKey(2)
	both := IdentityRules{Audience: "shop", Secrets: []string{secretA, secretB}, Keys: []string{publicOf(other), publicOf(k)}, Now: identityNow}
	full := goodClaims(map[string]any{
		"name": " Ann Lee ", "locale": "zh-CN", "email": "ann@example.com", "phone_number": "+1 555", "iat": identityNow.Unix(), "nbf": identityNow.Unix(),
		"attributes": map[string]any{"plan": "gold", "orders": 7, "vip": true},
	})
	for name, token := range map[string]string{
		"HS256": hs256(full, secretA), "HS256, the second secret": hs256(full, secretB), "EdDSA": edDSA(full, k), "EdDSA, the other key": edDSA(full, other),
	} {
		id, err := CheckIdentity(token, both)
		if err != nil || id.Subject != "user-7" || id.Name != "Ann Lee" || id.Locale != "zh-CN" || !id.Expires.Equal(identityNow.Add(time.Hour)) {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
		if want := (map[string]string{"plan": "gold", "orders": "7", "vip": "true", "email": "ann@example.com", "phone": "+1 555"}); !maps.Equal(id.Attributes, want) {
			t.Errorf("%s: %v", name, id.Attributes)
		}
	}
	for name, c := range map[string]map[string]any{
		"audience among others": {"aud": []string{"another", "shop"}},
		"exp in 24 hours":       {"exp": identityNow.Add(24 * time.Hour).Unix()},
		"expired this minute":   {"exp": identityNow.Add(-30 * time.Second).Unix()},
		"a clock that is ahead": {"iat": identityNow.Add(30 * time.Second).Unix(), "nbf": identityNow.Add(30 * time.Second).Unix()},
		"claims we do not know": {"iss": "anybody", "jti": "1", "x": map[string]any{"y": 1}},
		"long subject":          {"sub": strings.Repeat("s", maxSubject)},
	} {
		if _, err := CheckIdentity(hs256(goodClaims(c), secretA), both); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestForgedIdentities(t *testing.T) {
	k := testKey(1)
	secrets := IdentityRules{Audience: "shop", Secrets: []string{secretA}, Now: identityNow}
	keys := IdentityRules{Audience: "shop", Keys: []string{publicOf(k)}, Now: identityNow}
	both := IdentityRules{Audience: "shop", Secrets: []string{secretA}, Keys: []string{publicOf(k)}, Now: identityNow}
	good := goodClaims(nil)
	public := []byte(k.Public().(ed25519.PublicKey))
	with := func(name string, v any) string { return hs256(goodClaims(map[string]any{name: v}), secretA) }
	raw := func(payload string) string {
		return signMAC(alg("HS256"), base64.RawURLEncoding.EncodeToString([]byte(payload)), sha256.New, []byte(secretA))
	}
	many := make(map[string]any)
	for i := range MaxAttributes + 1 {
		many[fmt.Sprint("a", i)] = "x"
	}
	parts := strings.Split(hs256(good, secretA), ".")
	var flipped []byte
	{
		sig, _ := base64.RawURLEncoding.DecodeString(parts[2])
		sig[0] ^= 1
		flipped = sig
	}
	for name, c := range map[string]struct {
		rules IdentityRules
		token string
		want  error
	}{
		"none":                            {both, alg("none") + "." + segment(good) + ".", ErrIdentity},
		"NONE":                            {both, alg("NONE") + "." + segment(good) + ".", ErrIdentity},
		"none with a signature":           {both, alg("none") + "." + segment(good) + "." + parts[2], ErrIdentity},
		"no algorithm":                    {both, segment(map[string]string{}) + "." + segment(good) + "." + parts[2], ErrIdentity},
		"lower case":                      {both, signMAC(alg("hs256"), segment(good), sha256.New, []byte(secretA)), ErrIdentity},
		"HS384":                           {both, signMAC(alg("HS384"), segment(good), sha512.New384, []byte(secretA)), ErrIdentity},
		"HS512":                           {both, signMAC(alg("HS512"), segment(good), sha512.New, []byte(secretA)), ErrIdentity},
		"HS256 where there are only keys": {keys, hs256(good, secretA), ErrIdentity},
		"HS256 by the public key":         {keys, signMAC(alg("HS256"), segment(good), sha256.New, public), ErrIdentity},
		"HS256 by the public key, both":   {both, signMAC(alg("HS256"), segment(good), sha256.New, public), ErrIdentity},
		"HS256 by its base64":             {both, hs256(good, publicOf(k)), ErrIdentity},
		"EdDSA where there is a secret":   {secrets, edDSA(good, k), ErrIdentity},
		"EdDSA by another key":            {both, edDSA(good, testKey(2)), ErrIdentity},
		"another secret":                  {both, hs256(good, secretB), ErrIdentity},
		"empty secret":                    {both, hs256(good, ""), ErrIdentity},
		"no signature":                    {both, parts[0] + "." + parts[1] + ".", ErrIdentity},
		"a changed signature":             {both, parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(flipped), ErrIdentity},
		"another payload":                 {both, parts[0] + "." + segment(goodClaims(map[string]any{"sub": "admin"})) + "." + parts[2], ErrIdentity},
		"two parts":                       {both, parts[0] + "." + parts[1], ErrIdentity},
		"four parts":                      {both, strings.Join(parts, ".") + ".x", ErrIdentity},
		"padding":                         {both, strings.Join(parts, ".") + "=", ErrIdentity},
		"nothing":                         {both, "", ErrIdentity},
		"noise":                           {both, "a.b.c", ErrIdentity},
		"its own key in the header": {both, signMAC(segment(map[string]any{"alg": "HS256", "jwk": map[string]string{"kty": "oct", "k": "AAAA"}, "kid": "../../dev/null"}), segment(good), sha256.New, []byte("AAAA")),
			ErrIdentity},
		"critical extension":      {both, signMAC(segment(map[string]any{"alg": "HS256", "crit": []string{"b64"}, "b64": false}), segment(good), sha256.New, []byte(secretA)), ErrIdentity},
		"wrong aud":               {both, with("aud", "another"), ErrIdentity},
		"no aud":                  {both, with("aud", nil), ErrIdentity},
		"empty aud":               {both, with("aud", ""), ErrIdentity},
		"aud with our name in it": {both, with("aud", "shop2"), ErrIdentity},
		"aud by a number":         {both, with("aud", 7), ErrIdentity},
		"no exp":                  {both, with("exp", nil), ErrIdentity},
		"exp is a string":         {both, with("exp", "tomorrow"), ErrIdentity},
		"exp too far":             {both, with("exp", identityNow.Add(24*time.Hour+2*time.Minute).Unix()), ErrIdentity},
		"exp at the end of time":  {both, raw(`{"sub":"a","aud":"shop","exp":99999999999}`), ErrIdentity},
		"expired":                 {both, with("exp", identityNow.Add(-2*time.Minute).Unix()), ErrIdentityExpired},
		"expired, wrong key":      {both, hs256(goodClaims(map[string]any{"exp": identityNow.Add(-time.Hour).Unix()}), secretB), ErrIdentity},
		"expired, wrong aud":      {both, hs256(goodClaims(map[string]any{"exp": identityNow.Add(-time.Hour).Unix(), "aud": "x"}), secretA), ErrIdentity},
		"not yet":                 {both, with("nbf", identityNow.Add(2*time.Minute).Unix()), ErrIdentity},
		"from the future":         {both, with("iat", identityNow.Add(2*time.Minute).Unix()), ErrIdentity},
		"no sub":                  {both, with("sub", nil), ErrIdentity},
		"empty sub":               {both, with("sub", ""), ErrIdentity},
		"blank sub":               {both, with("sub", "  "), ErrIdentity},
		"sub is a number":         {both, with("sub", 7), ErrIdentity},
		"long sub":                {both, with("sub", strings.Repeat("s", maxSubject+1)), ErrIdentity},
		"sub with a zero":         {both, with("sub", "a\x00b"), ErrIdentity},
		"long name":               {both, with("name", strings.Repeat("名", maxName+1)), ErrIdentity},
		"name with a line":        {both, with("name", "Ann\nAdmin"), ErrIdentity},
		"long locale":             {both, with("locale", strings.Repeat("x", maxLocale+1)), ErrIdentity},
		"too many attributes":     {both, with("attributes", many), ErrIdentity},
		"nested attribute":        {both, with("attributes", map[string]any{"a": []int{1}}), ErrIdentity},
		"null attribute":          {both, with("attributes", map[string]any{"a": nil}), ErrIdentity},
		"long attribute":          {both, with("attributes", map[string]any{"a": strings.Repeat("x", MaxAttributeValue+1)}), ErrIdentity},
		"nameless attribute":      {both, with("attributes", map[string]any{"": "x"}), ErrIdentity},
		"claims are null":         {both, raw(`null`), ErrIdentity},
		"claims are a list":       {both, raw(`[]`), ErrIdentity},
		"too large":               {both, with("x", strings.Repeat("x", MaxIdentityBytes)), ErrIdentity},
		"no keys":                 {IdentityRules{Audience: "shop", Now: identityNow}, hs256(good, ""), ErrIdentity},
		"no keys, none":           {IdentityRules{Audience: "shop", Now: identityNow}, alg("none") + "." + segment(good) + ".", ErrIdentity},
		"a short secret":          {IdentityRules{Audience: "shop", Secrets: []string{"short"}, Now: identityNow}, hs256(good, "short"), ErrIdentity},
		"a damaged key":           {IdentityRules{Audience: "shop", Keys: []string{"AAAA"}, Now: identityNow}, edDSA(good, k), ErrIdentity},
	} {
		id, err := CheckIdentity(c.token, c.rules)
		if !errors.Is(err, c.want) || id.Subject != "" && err == nil {
			t.Errorf("%s: %+v, %v; want %v", name, id, err, c.want)
		}
		if err != nil && len(c.token) > 100 && strings.Contains(err.Error(), c.token[50:]) {
			t.Errorf("%s: the error holds the token", name)
		}
	}
}

func TestParseKey(t *testing.T) {
	key := testKey(1).Public().(ed25519.PublicKey)
	for _, s := range []string{base64.StdEncoding.EncodeToString(key), base64.RawStdEncoding.EncodeToString(key), base64.URLEncoding.EncodeToString(key), " " + base64.RawURLEncoding.EncodeToString(key) + "\n"} {
		if got, err := ParseKey(s); err != nil || !got.Equal(key) {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", "AAAA", "!", base64.StdEncoding.EncodeToString(append(key, 1)), base64.StdEncoding.EncodeToString(testKey(1))} {
		if _, err := ParseKey(s); !errors.Is(err, ErrIdentity) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// Whatever the token is, there is an answer, and nothing is accepted that was not signed with a key of ours.
func FuzzCheckIdentity(f *testing.F) {
	k := testKey(1)
	rules := IdentityRules{Audience: "shop", Secrets: []string{secretA}, Keys: []string{publicOf(k)}, Now: identityNow}
	good := hs256(goodClaims(map[string]any{"attributes": map[string]any{"a": 1}}), secretA)
	for _, s := range []string{good, edDSA(goodClaims(nil), k), alg("none") + "." + segment(goodClaims(nil)) + ".", "..", "a.b.c", good + "="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		id, err := CheckIdentity(token, rules)
		if err == nil && (id.Subject == "" || CheckAttributes(id.Attributes) != nil || !(token == good || strings.HasPrefix(token, alg("EdDSA")))) {
			t.Fatalf("%q was accepted as %+v", token, id)
		}
		if err != nil && !errors.Is(err, ErrIdentity) && !errors.Is(err, ErrIdentityExpired) {
			t.Fatal(err)
		}
	})
}
