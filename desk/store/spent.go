package store

import "context"

// Spent is what one server tells of a limit that several servers count together: how much it has spent, or holds.
type Spent struct {
	Node  string // the server; set by OthersSpent
	Limit string
	Key   string // of what the limit is for, a digest
	N     float64
}

// SpentRows is how many of them one call tells or returns.
const SpentRows = 256

// SharedLimits tell servers what others have spent. What is older than a minute is forgotten. Methods block until committed and
// honour ctx.
type SharedLimits interface {
	// ShareSpent tells the others what this server has spent, at most SpentRows at once.
	ShareSpent(ctx context.Context, all []Spent) error
}

// SpentReader reads what others have spent. Methods block and honour ctx.
type SpentReader interface {
	// OthersSpent returns what other servers have told behind a place, and the place to go on from. more means that there is more.
	OthersSpent(ctx context.Context, after int64) (all []Spent, at int64, more bool, err error)
}
