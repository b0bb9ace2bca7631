package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
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
