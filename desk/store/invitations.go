package store

import (
	"context"
	"time"

	"github.com/go-eddy/eddy/desk/perm"
)

// Invitation is a link by which somebody makes an account, once. Times are Unix milliseconds.
type Invitation struct {
	ID      string
	Name    string // of the account, unless its owner chooses another
	Role    perm.Role
	Groups  []string // those that are gone by then are left out
	By      Actor    // the administrator who made it; it works while that account may manage
	Created int64
	Expires int64
	Ended   int64  // used or revoked, 0 = neither
	Agent   string // the account that was made with it, "" = none
}

// Limits of invitations.
const (
	MaxInvitations    = 100 // that can be used at once
	MaxInvitationLife = 7 * 24 * time.Hour
)

// Check returns what is wrong with an invitation as an Invalid.
func (v *Invitation) Check(now time.Time) error {
	var i Invalid
	i.text("name", v.Name, MaxName, false, true)
	i.need(v.Role.Valid(), "role", ReasonUnknown)
	if life := v.Expires - now.UnixMilli(); life <= 0 || life > MaxInvitationLife.Milliseconds() {
		i.add("expires", ReasonRange, MaxInvitationLife.Milliseconds())
	}
	return i.err()
}

// InvitationReader are the reads of invitations. Methods block and honour ctx.
type InvitationReader interface {
	// Invitation returns the invitation of a token. The error is ErrNotFound, also if it was used or revoked or its maker
	// may not manage any more, or ErrExpired.
	Invitation(ctx context.Context, t Token, now time.Time) (Invitation, error)
	// Invitations returns those that have not ended, the newest first, also expired ones. Behind them are those ended
	// last, at most MaxInvitations of both kinds.
	Invitations(ctx context.Context) ([]Invitation, error)
}

// InvitationWrites are the changes of invitations. They block until committed and honour ctx.
type InvitationWrites interface {
	// CreateInvitation adds an invitation and makes its id; those that expired a week ago are removed. The error is an
	// Invalid for wrong fields. So it is, about the field "invitations", if there are MaxInvitations.
	CreateInvitation(ctx context.Context, v Invitation, t Token) (Invitation, error)
	// AcceptInvitation makes an account with the role and the groups of an invitation, which ends by that. The account
	// belongs to id, unless that is nobody. Errors: those of Invitation and CreateAgentFor; the invitation stays then.
	AcceptInvitation(ctx context.Context, t Token, a AgentAccount, id Identity) (AgentAccount, error)
	// RevokeInvitation ends an invitation. The error is ErrNotFound if it has ended.
	RevokeInvitation(ctx context.Context, id string) error
}
