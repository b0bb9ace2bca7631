package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// verify is what the page about the API tells receivers to do.
func verify(secret, timestamp, signatures string, body []byte) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	want := "v1=" + hex.EncodeToString(mac.Sum(nil))
	for _, s := range strings.Split(signatures, ",") {
		if hmac.Equal([]byte(s), []byte(want)) {
			return true
		}
	}
	return false
}
