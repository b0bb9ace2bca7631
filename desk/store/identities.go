package store

import "context"

// Identity is who somebody is at a provider of single sign-on. The zero value is nobody.
type Identity struct{ Issuer, Subject string }

// IdentityReader are the reads of identities. Methods block and honour ctx.
type IdentityReader interface {
	// AgentByIdentity returns the account of an identity, also if it is disabled, or ErrNotFound.
	AgentByIdentity(ctx context.Context, id Identity) (AgentAccount, error)
}

// IdentityWrites are the changes of identities. They block until committed and honour ctx.
type IdentityWrites interface {
	// CreateAgentFor adds an account that belongs to an identity, as CreateAgent does. The error is also ErrExists if the
	// identity belongs to another account.
	CreateAgentFor(ctx context.Context, a AgentAccount, id Identity) (AgentAccount, error)
	// LinkIdentity makes an identity belong to an account. The error is ErrExists if it belongs to one, or the account has
	// an identity of that issuer, ErrNotFound without account.
	LinkIdentity(ctx context.Context, agent string, id Identity) error
	// UnlinkIdentities removes the identities of an account and ends its logins. The error is ErrNotFound if it has none.
	UnlinkIdentities(ctx context.Context, agent string) error
}
