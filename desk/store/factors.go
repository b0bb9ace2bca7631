package store

import "context"

// Factor is the second factor of an account: an app that makes a new code every 30 seconds (TOTP, RFC 6238).
type Factor struct {
	Secret   []byte
	Step     int64 // of the code that was used last
	Recovery int   // recovery codes that are left
	Created  int64 // Unix milliseconds
}

// FactorWindow is how many steps the clocks of server and app may differ.
const FactorWindow = 1

// FactorReader are the reads of second factors. Methods block and honour ctx.
type FactorReader interface {
	// Factor returns the second factor of an account, or ErrNotFound.
	Factor(ctx context.Context, agent string) (Factor, error)
}

// FactorWrites are the changes of second factors. They block until committed and honour ctx.
type FactorWrites interface {
	// SetFactor gives an account its second factor with the hashes of its recovery codes. It ends the account's logins
	// except keep, which have proved only a password. The error is ErrExists if there is one, ErrNotFound without account.
	SetFactor(ctx context.Context, agent string, f Factor, recovery []Token, keep Token) error
	// UseFactor stores that the code of a step was used. The error is ErrConflict if that code or a later one of the
	// same window was used before, ErrNotFound if there is no factor. Steps far behind the last one are taken: the clock
	// was set back.
	UseFactor(ctx context.Context, agent string, step int64) error
	// UseRecovery uses up a recovery code and returns how many are left. The error is ErrNotFound if there is no such
	// code.
	UseRecovery(ctx context.Context, agent string, code Token) (left int, err error)
	// SetRecovery replaces the recovery codes. The error is ErrNotFound if there is no factor.
	SetRecovery(ctx context.Context, agent string, codes []Token) error
	// RemoveFactor removes factor and recovery codes, and ends the account's logins except keep. The error is ErrNotFound
	// if there is no factor.
	RemoveFactor(ctx context.Context, agent string, keep Token) error
}
