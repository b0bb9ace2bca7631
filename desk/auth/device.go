package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
)

// Devices knows again the browsers on which an account has logged in. The browser keeps a random value with the server's
// signature, so the server keeps nothing. The value proves no password: it only spares its account the delays that
// others have caused. Any goroutine may call all methods.
type Devices struct{ key []byte }

const deviceBytes = 16

// NewDevices returns the devices of a server that signs with key.
func NewDevices(key []byte) *Devices { return &Devices{key} }

// Name returns a name for the value of one account, so that a browser can keep those of several.
func (d *Devices) Name(account string) string { return hex.EncodeToString(d.sign("name", account)[:8]) }

// New returns the value for a device on which the account has just logged in.
func (d *Devices) New(account string) string {
	id := random(deviceBytes)
	return base64.RawURLEncoding.EncodeToString(append(id, d.sign("device", string(id)+account)...))
}

// Known returns the identity of the device that has this value for the account, "" if the value is none of the server's
// or of another account.
func (d *Devices) Known(account, value string) (device string) {
	b, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(b) != deviceBytes+sha256.Size || !hmac.Equal(b[deviceBytes:], d.sign("device", string(b[:deviceBytes])+account)) {
		return ""
	}
	return string(b[:deviceBytes])
}

// sign returns the signature of a text for one purpose.
func (d *Devices) sign(purpose, text string) []byte {
	h := hmac.New(sha256.New, d.key)
	h.Write([]byte(purpose + " " + text))
	return h.Sum(nil)
}
