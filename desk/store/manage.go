package store

import (
	"context"
	"errors"
)

// Errors of Management. Those of fields are an Invalid.
var (
	// ErrLastAdmin refuses a change after which nobody could manage the installation.
	ErrLastAdmin = errors.New("store: this is the last administrator who can log in")
	// ErrInUse refuses to delete something that is still named elsewhere.
	ErrInUse = errors.New("store: still in use")
)

// Canned is a prepared reply.
type Canned struct {
	ID     string
	Short  string // what follows the slash; unique by language and group, without regard to case
	Locale string // "" = every language
	Title  string
	Body   string
	Group  string // "" = every group
}

// Listing are the reads of the management pages. Each returns everything there is, because all of it is small. Listing
// is a part of Reader.
type Listing interface {
	// Agents returns every account, disabled ones included, by login.
	Agents(ctx context.Context) ([]AgentAccount, error)
	// Sites returns every site, by key.
	Sites(ctx context.Context) ([]Site, error)
	// Groups returns every group, by name.
	Groups(ctx context.Context) ([]Group, error)
	// Members returns the ids of the agents of every group that has some.
	Members(ctx context.Context) (map[string][]string, error)
	// CannedReplies returns every prepared reply, by what follows the slash.
	CannedReplies(ctx context.Context) ([]Canned, error)
}

// Management are the writes of the management pages. They go through the same writer as everything else, block until
// committed and honour ctx. The error is an Invalid for wrong fields, ErrNotFound for a missing row, and ErrExists for a
// name or key that is taken.
type Management interface {
	// UpdateAgent sets everything of the account with this id but login and password.
	// Disabling ends every login of the account. ErrLastAdmin: see there.
	UpdateAgent(ctx context.Context, a AgentAccount) error
	// ResetPassword sets the hash of a password and ends every login of the account.
	ResetPassword(ctx context.Context, agent, hash string) error
	// UpdateSite sets everything but the key of the site with this id. A logo without content is the one that is stored
	// already, else an Invalid. The zero Logo removes it.
	UpdateSite(ctx context.Context, s Site) error
	// UpdateGroup sets name and settings of the group with this id.
	UpdateGroup(ctx context.Context, g Group) error
	// SetMembers makes exactly these agents the members of a group.
	SetMembers(ctx context.Context, group string, agents []string) error
	// SetGroups puts an agent into exactly these groups.
	SetGroups(ctx context.Context, agent string, groups []string) error
	// DeleteGroup removes a group that no site, prepared reply or open conversation names; else ErrInUse.
	DeleteGroup(ctx context.Context, id string) error
	// CreateCanned adds a prepared reply.
	CreateCanned(ctx context.Context, c Canned) (Canned, error)
	// UpdateCanned replaces the prepared reply with this id.
	UpdateCanned(ctx context.Context, c Canned) error
	// DeleteCanned removes a prepared reply.
	DeleteCanned(ctx context.Context, id string) error
}
