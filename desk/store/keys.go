package store

import (
	"context"
	"slices"

	"github.com/go-eddy/eddy/desk/perm"
)

// APIKey lets a program use the integration API. Only the hash of its secret is stored. Times are Unix milliseconds, 0 =
// never.
type APIKey struct {
	ID      string
	Name    string
	Prefix  string // first characters of the secret, for recognising it
	Scopes  []perm.KeyScope
	By      Actor // the administrator who made it
	Created int64
	Used    int64 // exact to some minutes
	Revoked int64 // the key no longer works
}

// MaxAPIKeys is the largest number of keys that work at once.
const MaxAPIKeys = 100

// Can reports whether the key has a scope.
func (k *APIKey) Can(s perm.KeyScope) bool { return slices.Contains(k.Scopes, s) }

// Actor returns the key as an actor. It is the server that acts, under the id and name of the key.
func (k *APIKey) Actor() Actor { return Actor{Kind: System, ID: k.ID, Name: k.Name} }

// Check returns what is wrong with a key as an Invalid.
func (k *APIKey) Check() error {
	var i Invalid
	i.text("name", k.Name, MaxName, true, true)
	if len(k.Scopes) == 0 {
		i.add("scopes", ReasonRequired, 0)
	}
	for n, s := range k.Scopes {
		i.need(s.Valid(), "scopes", ReasonUnknown)
		i.need(!slices.Contains(k.Scopes[:n], s), "scopes", ReasonTwice)
	}
	return i.err()
}

// KeyReader are the reads of API keys. Methods block and honour ctx.
type KeyReader interface {
	// APIKey returns the key of a secret, or ErrNotFound, also if the key is revoked.
	APIKey(ctx context.Context, t Token) (APIKey, error)
	// APIKeys returns the keys that work, the newest first. Behind them are those revoked last, at most MaxAPIKeys.
	APIKeys(ctx context.Context) ([]APIKey, error)
}

// KeyWrites are the changes of API keys. They block until committed and honour ctx.
type KeyWrites interface {
	// CreateAPIKey adds a key and makes its id. The error is an Invalid for wrong fields. So it is, about the field
	// "keys", if there are MaxAPIKeys that work.
	CreateAPIKey(ctx context.Context, k APIKey, t Token) (APIKey, error)
	// RevokeAPIKey ends a key for ever. The error is ErrNotFound if there is none that works.
	RevokeAPIKey(ctx context.Context, id string) error
	// TouchAPIKey stores that a key has been used now.
	TouchAPIKey(ctx context.Context, id string) error
}
