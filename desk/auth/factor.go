package auth

import (
	"bytes"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"image"
	"image/draw"
	"image/png"
	"strings"
	"time"

	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"
)

// RecoveryCodes is how many recovery codes an account gets at once.
const RecoveryCodes = 10

const (
	factorStep    = 30 * time.Second
	factorBytes   = 20 // of a secret, as RFC 4226 recommends
	factorDigits  = 6
	qrPixels      = 232
	qrMargin      = 20 // white around the code, which a camera needs on a dark page
	recoveryBytes = 10 // 80 bits: a plain hash of it is enough
)

// ErrSecret refuses a secret that NewFactor cannot have made.
var ErrSecret = errors.New("auth: the secret of a second factor is 32 letters and digits of base32")

var base32Form = base32.StdEncoding.WithPadding(base32.NoPadding)

// FactorOffer is a secret for an authenticator app, as the app can take it.
type FactorOffer struct {
	Secret string // base32, for typing
	URI    string // otpauth:
	QR     []byte // a PNG of URI
}

// NewFactor returns a new secret for the app of an account. issuer is the name of the installation. Codes are those
// that every app makes: six digits, 30 seconds, SHA-1 (RFC 6238).
func NewFactor(issuer, account string) (FactorOffer, error) {
	key, err := totp.Generate(totp.GenerateOpts{Issuer: issuer, AccountName: account, Secret: random(factorBytes)})
	if err != nil {
		return FactorOffer{}, err
	}
	img, err := key.Image(qrPixels, qrPixels)
	if err != nil {
		return FactorOffer{}, err
	}
	canvas := image.NewGray(image.Rect(0, 0, qrPixels+2*qrMargin, qrPixels+2*qrMargin))
	draw.Draw(canvas, canvas.Rect, image.White, image.Point{}, draw.Src)
	draw.Draw(canvas, image.Rect(qrMargin, qrMargin, qrMargin+qrPixels, qrMargin+qrPixels), img, image.Point{}, draw.Src)
	var b bytes.Buffer
	err = png.Encode(&b, canvas)
	return FactorOffer{Secret: key.Secret(), URI: key.URL(), QR: b.Bytes()}, err
}

// FactorSecret reads the text of a secret that NewFactor made. The error is ErrSecret.
func FactorSecret(text string) ([]byte, error) {
	text = strings.ToUpper(strings.ReplaceAll(text, " ", ""))
	secret, err := base32Form.DecodeString(text)
	if err != nil || len(secret) != factorBytes || base32Form.EncodeToString(secret) != text {
		return nil, ErrSecret
	}
	return secret, nil
}

// FactorStep finds the step of a code: the number of the 30 seconds for which the app has made it. The clocks may differ
// by skew steps. The caller has to see that a step is used once.
func FactorStep(secret []byte, code string, now time.Time, skew int64) (step int64, ok bool) {
	code = compact(code)
	middle := now.Unix() / int64(factorStep/time.Second)
	for n := max(middle-skew, 0); n <= middle+skew; n++ {
		want, err := hotp.GenerateCode(base32Form.EncodeToString(secret), uint64(n))
		if err == nil && subtle.ConstantTimeCompare([]byte(want), []byte(code)) == 1 {
			step, ok = n, true
		}
	}
	return step, ok
}

// LooksLikeFactorCode tells a code of an app from a recovery code.
func LooksLikeFactorCode(code string) bool {
	code = compact(code)
	return len(code) == factorDigits && strings.Trim(code, "0123456789") == ""
}

// NewRecoveryCodes returns codes for somebody whose app is lost, and the hashes by which the server knows them.
func NewRecoveryCodes() (codes []string, hashes [][32]byte) {
	for range RecoveryCodes {
		s := strings.ToLower(base32Form.EncodeToString(random(recoveryBytes)))
		code := s[:4] + "-" + s[4:8] + "-" + s[8:12] + "-" + s[12:]
		codes, hashes = append(codes, code), append(hashes, HashRecovery(code))
	}
	return codes, hashes
}

// HashRecovery returns the hash of a recovery code, however it is typed.
func HashRecovery(code string) [32]byte {
	return HashToken("recovery " + strings.ToLower(compact(code)))
}

// compact removes what people put between the characters of a code.
func compact(code string) string {
	return strings.NewReplacer(" ", "", "-", "").Replace(strings.TrimSpace(code))
}
