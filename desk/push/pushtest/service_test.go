package pushtest

import (
	"crypto/ecdh"
	"encoding/base64"
	"testing"
)

// The example of RFC 8291, appendix A, is read as it was written. A changed byte is not.
func TestOpen(t *testing.T) {
	decode := func(s string) []byte {
		t.Helper()
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	key, err := ecdh.P256().NewPrivateKey(decode("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"))
	if err != nil {
		t.Fatal(err)
	}
	b := Browser{Auth: decode("BTBZMqHH6r4Tts7J_aSIgg"), key: key}
	body := decode("DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN")
	if text, err := b.Open(body); err != nil || text != "When I grow up, I want to be a watermelon" {
		t.Errorf("%q %v", text, err)
	}
	for i := range body {
		changed := append([]byte{}, body...)
		changed[i] ^= 1
		if text, err := b.Open(changed); err == nil && i >= saltBytes+4 {
			t.Errorf("byte %d: %q", i, text)
		}
	}
	if _, err := b.Open(body[:headerBytes]); err == nil {
		t.Error("half a message")
	}
}
