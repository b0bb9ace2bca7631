package push

import (
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"

	"github.com/go-eddy/eddy/desk/store"
)

// keys is the pair by which push services know this server (VAPID, RFC 8292), in base64url.
type keys struct{ public, private string }

// loadKeys returns the pair that belongs to the data of a store. It is made of a secret of the database, so it is in every
// backup, and browsers stay subscribed after a restore.
func loadKeys(ctx context.Context, s store.Store) (keys, error) {
	secret, err := s.Secret(ctx, "push")
	if err != nil {
		return keys{}, err
	}
	return derive(sha256.Sum256(secret)), nil
}

// derive returns the pair of a seed. About one seed in four billion is no private key of P-256; its hash is taken instead.
func derive(seed [sha256.Size]byte) keys {
	for {
		key, err := ecdh.P256().NewPrivateKey(seed[:])
		if err == nil {
			return keys{base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes()), base64.RawURLEncoding.EncodeToString(key.Bytes())}
		}
		seed = sha256.Sum256(seed[:])
	}
}
