package auth

import (
	"bytes"
	"errors"
	"image/color"
	"image/png"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFactorStep: the codes of RFC 6238, appendix B, are found in their own step and in those beside it, and nowhere else.
func TestFactorStep(t *testing.T) {
	secret := []byte("12345678901234567890")
	for unix, code := range map[int64]string{1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		for late := int64(-3); late <= 3; late++ {
			step, ok := FactorStep(secret, code[:3]+" "+code[3:], time.Unix(unix+30*late, 0), 1)
			if near := late >= -1 && late <= 1; ok != near || ok && step != unix/30 {
				t.Errorf("%s at %d, %d steps late: step %d, %v", code, unix, late, step, ok)
			}
		}
	}
	if step, ok := FactorStep(secret, "287082", time.Unix(59, 0), 1); !ok || step != 1 {
		t.Errorf("step %d, %v", step, ok)
	}
	for _, code := range []string{"", "0", "28708", "2870822", "287083", "９９９９９９"} {
		if _, ok := FactorStep(secret, code, time.Unix(59, 0), 1); ok {
			t.Errorf("%q is taken", code)
		}
	}
}

func TestNewFactor(t *testing.T) {
	o, err := NewFactor("Desk desk.example", "lin@desk.example")
	if err != nil {
		t.Fatal(err)
	}
	secret, err := FactorSecret(" " + strings.ToLower(o.Secret[:4]) + " " + o.Secret[4:])
	if err != nil || len(secret) != factorBytes {
		t.Errorf("%q: %v", o.Secret, err)
	}
	u, err := url.Parse(o.URI)
	if err != nil || u.Scheme != "otpauth" || u.Host != "totp" || u.Path != "/Desk desk.example:lin@desk.example" || u.Query().Get("secret") != o.Secret || u.Query().Get("issuer") != "Desk desk.example" {
		t.Errorf("%s: %v", o.URI, err)
	}
	img, err := png.Decode(bytes.NewReader(o.QR))
	if err != nil {
		t.Fatal(err)
	}
	for i := range img.Bounds().Dx() { // a camera needs white around the code, whatever the page's colour
		for _, c := range []color.Color{img.At(i, qrMargin-1), img.At(qrMargin-1, i)} {
			if y := color.GrayModel.Convert(c).(color.Gray).Y; y != 255 {
				t.Fatalf("the margin is %d at %d", y, i)
			}
		}
	}
	if other, err := NewFactor("Desk", "lin"); err != nil || other.Secret == o.Secret {
		t.Errorf("the same secret again, %v", err)
	}
	for _, bad := range []string{"", "x", o.Secret[:31], o.Secret + "A", strings.Repeat("1", 32)} {
		if _, err := FactorSecret(bad); !errors.Is(err, ErrSecret) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRecoveryCodes(t *testing.T) {
	codes, hashes := NewRecoveryCodes()
	if len(codes) != RecoveryCodes || len(hashes) != RecoveryCodes {
		t.Fatal(codes)
	}
	for i, code := range codes {
		if len(code) != 19 || LooksLikeFactorCode(code) || slices.Contains(codes[:i], code) || HashRecovery(" "+strings.ToUpper(strings.ReplaceAll(code, "-", " "))) != hashes[i] {
			t.Errorf("%q", code)
		}
	}
	if !LooksLikeFactorCode(" 123-456 ") || LooksLikeFactorCode("12345") || LooksLikeFactorCode("12345a") {
		t.Error("codes of an app")
	}
}
