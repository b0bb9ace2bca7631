package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// NewToken returns a random 256-bit bearer token for the client, and the hash by which the server knows it.
func NewToken() (token string, hash [32]byte) {
	secret := make([]byte, 32)
	rand.Read(secret) // never fails (crypto/rand)
	token = base64.RawURLEncoding.EncodeToString(secret)
	return token, HashToken(token)
}

// HashToken returns the hash of a bearer token. The token is random, so a plain SHA-256 is enough.
func HashToken(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// NewPassword returns a random password that is easy to read aloud: 20 characters without look-alikes, 99 bits.
func NewPassword() string {
	const letters = "abcdefghijkmnpqrstuvwxyz23456789" // 32: each byte's low 5 bits choose one evenly
	b := make([]byte, 20)
	rand.Read(b)
	for i := range b {
		b[i] = letters[b[i]&31]
	}
	return string(b)
}

// keyMark is what every API key begins with, so that tools that look for leaked secrets know one.
const keyMark = "desk_"

// NewKey returns a random API key for a program, its first characters for recognising it, and the hash by which the
// server knows it.
func NewKey() (key, prefix string, hash [32]byte) {
	token, _ := NewToken()
	key = keyMark + token
	return key, key[:len(keyMark)+6], HashToken(key)
}

// LooksLikeKey reports whether a text has the form of NewKey. A text that has not need not be looked up.
func LooksLikeKey(s string) bool {
	token, ok := strings.CutPrefix(s, keyMark)
	raw, err := base64.RawURLEncoding.DecodeString(token)
	return ok && err == nil && len(raw) == 32
}
