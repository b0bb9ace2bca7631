package sso

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"
)

// Seal keeps values in browsers that can neither read nor change them. Any goroutine may call its methods.
type Seal struct {
	aead cipher.AEAD
	now  func() time.Time
}

type sealed struct {
	Until int64 `json:"u"` // Unix seconds
	Value any   `json:"v"`
}

// NewSeal returns a seal of a secret.
func NewSeal(secret []byte, now func() time.Time) (*Seal, error) {
	key := sha256.Sum256(secret)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Seal{aead, now}, err
}

// Close seals a value for one purpose and some time. The value must be one that encoding/json takes.
func (s *Seal) Close(purpose string, value any, life time.Duration) (string, error) {
	plain, err := json.Marshal(sealed{s.now().Add(life).Unix(), value})
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, []byte(purpose))), err
}

// Open reads into value what Close has sealed for the same purpose. false means that it was not, or is too old.
func (s *Seal) Open(purpose, text string, value any) bool {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	plain, err := s.aead.Open(nil, nil, data, []byte(purpose))
	in := sealed{Value: value}
	return err == nil && json.Unmarshal(plain, &in) == nil && s.now().Unix() < in.Until
}
