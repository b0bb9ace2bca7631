package store

import (
	"context"
	"time"
)

// AskReset is a command: somebody says to have forgotten the password of an account. If the account may log in and has an
// address, a mail with a link is queued. The outcome is the same whether it has, and a line of the audit log is written
// in any case, so that neither answer nor time tells whether there is such an account.
type AskReset struct {
	Login string
	IP    string // of the client, as in Audit
}

func (AskReset) command() {}

// ResetLife is how long the link of a mail about a forgotten password works.
const ResetLife = time.Hour

// MaxResets is how many links of one account work at once, at most; while a mail is being sent it counts as well as its
// link. More are not sent.
const MaxResets = 3

// ResetReader are the reads of links for forgotten passwords.
type ResetReader interface {
	// ResetAccount returns the account whose password may be set with a token. The error is ErrNotFound if the token is
	// unknown, used or expired, or the account disabled.
	ResetAccount(ctx context.Context, t Token, now time.Time) (AgentAccount, error)
}

// ResetWrites are the changes of links for forgotten passwords. They block until committed and honour ctx.
type ResetWrites interface {
	// NewReset makes a token work once for an account, for ResetLife. Every change of the account's password or address
	// ends it. The error is ErrNotFound if the account is disabled or has another address.
	NewReset(ctx context.Context, agent, email string, t Token) error
	// UseReset sets the hash of a password and ends every login of the account, and all its tokens. Error: as
	// ResetAccount.
	UseReset(ctx context.Context, t Token, hash string) error
}
