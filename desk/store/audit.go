package store

import (
	"context"
	"time"
)

// Audit is one line of the audit log: who did what to whom. As a command it appends the line and belongs to no
// conversation. It never holds a text that somebody wrote, nor a secret.
type Audit struct {
	Who    Actor
	Action string // one of the Audit constants
	Target string // object of the action: a kind and an id, "agent 0190…"
	Detail string // further details in a few words
	IP     string // of the client, "" unless addresses are kept
}

func (Audit) command() {}

// Actions of the audit log.
const (
	AuditLogin       = "login"
	AuditLoginFailed = "login_failed"
	AuditLogout      = "logout"
	AuditRevoke      = "sessions_revoked"
	AuditPassword    = "password_changed"
	AuditIdentity    = "single_sign_on" // an identity was linked or unlinked
	AuditFactor      = "second_factor"  // set up, removed, reset, or new recovery codes
	AuditDenied      = "denied"         // an agent asked for what its role may not do
	AuditRead        = "read_others"
	AuditWatch       = "watch"
	AuditSearch      = "search"
	AuditOverride    = "override" // changed a conversation of another
	AuditForceState  = "force_state"
	AuditBlock       = "contact_blocked"
	AuditUnblock     = "contact_unblocked"
	AuditCreate      = "created"
	AuditUpdate      = "updated"
	AuditDelete      = "deleted"
	AuditRole        = "role_changed"
	AuditSecret      = "secret_changed"
	AuditExport      = "export"
	AuditErase       = "contact_erased"
	AuditMerge       = "contacts_merged"
	AuditReset       = "password_reset_asked"
	AuditMail        = "mail" // asked for a mail, or decided about one that was not sent
)

// AuditRow is a line of the audit log.
type AuditRow struct {
	Audit
	ID   int64 // increases
	Time int64 // Unix milliseconds
}

// AuditQuery selects lines, the newest first. Zero fields select everything.
type AuditQuery struct {
	Who    string // id of the actor
	Action string
	Target string // exactly
	From   int64  // Unix milliseconds, inclusive
	To     int64  // exclusive
	Before int64  // only lines with a smaller id: the last one of the page before
	Limit  int    // 1 to MaxAuditPage, else MaxAuditPage
}

// MaxAuditPage is the largest number of lines that one query returns.
const MaxAuditPage = 200

// maxAuditWait bounds Record where the context has no deadline.
const maxAuditWait = 5 * time.Second

// Record appends a line to the audit log and waits for its commit. It blocks and honours ctx.
func Record(ctx context.Context, s Store, a Audit) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(maxAuditWait)
	}
	result := make(chan error, 2) // a late outcome is a second one
	s.Do(a, deadline, func(out Outcome) { result <- out.Err })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
