package store

import (
	"context"
	"slices"
)

// Webhook is a program that is told of what happens by requests to its URL. Times are Unix milliseconds, 0 = never.
type Webhook struct {
	ID      string
	URL     string      // the caller has checked it (safehttp.CheckURL)
	Types   []EventType // none = all
	Site    string      // id, "" = all
	Secrets []string    // of the signatures, the newest first; at most MaxSecrets
	Private bool        // the address may be one of this machine or of a private network
	By      Actor       // the administrator who made it
	Created int64

	Position int64  // everything in the outbox up to it is delivered, waiting, or given up
	Failing  int64  // since when nothing was delivered, 0 = the last attempt was delivered
	Failure  string // of the last attempt, "" = none
	Lost     int64  // events that were deleted undelivered
}

// Limits of webhooks.
const (
	MaxWebhooks = 20
	MaxHookURL  = 1000
	MaxHookWait = 1000   // events that one webhook has failed, with those behind them in their conversations; it is told nothing new then
	MaxHookDead = 10_000 // events that one webhook keeps after it has given them up
)

// Wants reports whether the webhook is told of a row.
func (w *Webhook) Wants(r *OutboxRow) bool {
	return r.Type.Valid() && (w.Site == "" || w.Site == r.Site) && (len(w.Types) == 0 || slices.Contains(w.Types, r.Type))
}

// Check returns what is wrong with a webhook as an Invalid. The URL is checked only for its length.
func (w *Webhook) Check() error {
	var i Invalid
	i.text("url", w.URL, MaxHookURL, true, true)
	for n, t := range w.Types {
		i.need(t.Valid(), "types", ReasonUnknown)
		i.need(!slices.Contains(w.Types[:n], t), "types", ReasonTwice)
	}
	i.count("secrets", len(w.Secrets), MaxSecrets)
	i.need(len(w.Secrets) > 0, "secrets", ReasonRequired)
	for _, s := range w.Secrets {
		if len(s) < MinSecret {
			i.add("secrets", ReasonShort, MinSecret)
		}
	}
	return i.err()
}

// HookEvent is an event that a webhook could not be told yet, or will not be told.
type HookEvent struct {
	OutboxRow
	Attempts int
	Due      int64  // Unix milliseconds; it waits for those of its lane in front of it, too
	Dead     int64  // given up then, 0 = not
	Failure  string // of the last attempt
}

// HookWork is what a webhook has to do.
type HookWork struct {
	Webhook
	Due     []HookEvent // that may be told now, each the first of its lane
	Lanes   []string    // of everything that waits, Due included
	Waiting int         // events in these lanes
	NextDue int64       // when the next one that is not in Due may be told, 0 = none
}

// HookProgress is what has become of some of the events of a webhook.
type HookProgress struct {
	Hook     string
	Position int64 // never moves back
	Failing  int64
	Failure  string
	Lost     int64       // added
	Done     []int64     // numbers of events that need not wait any more
	Keep     []HookEvent // that wait, or are given up
}

// HookNumbers are what an administrator sees of a webhook.
type HookNumbers struct {
	Waiting int   // in HookWork
	Dead    int   // given up
	Behind  int64 // numbers in the outbox behind Position, events for others included
	Oldest  int64 // time of the oldest one that is not told, 0 = none
}

// HookReader are the reads of webhooks. Methods block and honour ctx.
type HookReader interface {
	// Webhooks returns all, the oldest first.
	Webhooks(ctx context.Context) ([]Webhook, error)
	// Webhook returns one, or ErrNotFound.
	Webhook(ctx context.Context, id string) (Webhook, error)
	// HookWork returns what a webhook has to do, at most limit events in Due, or ErrNotFound.
	HookWork(ctx context.Context, id string, now int64, limit int) (HookWork, error)
	// HookNumbers returns the numbers of a webhook.
	HookNumbers(ctx context.Context, id string) (HookNumbers, error)
	// DeadEvents returns the events that a webhook has given up, those last first.
	DeadEvents(ctx context.Context, id string, limit int) ([]HookEvent, error)
}

// HookWrites are the changes of webhooks. They block until committed and honour ctx. The error is an Invalid for wrong
// fields and ErrNotFound for a missing webhook.
type HookWrites interface {
	// CreateWebhook adds a webhook and makes its id. It is told what happens from now on. The error is an Invalid about
	// the field "hooks" if there are MaxWebhooks.
	CreateWebhook(ctx context.Context, w Webhook) (Webhook, error)
	// UpdateWebhook sets URL, types, site, secrets and Private of the webhook with this id. What it has failed may be
	// tried at once.
	UpdateWebhook(ctx context.Context, w Webhook) error
	// DeleteWebhook removes a webhook with everything that it has not been told.
	DeleteWebhook(ctx context.Context, id string) error
	// SaveHook stores what has become of events. Those given up beyond MaxHookDead are deleted and counted as lost, the
	// oldest first.
	SaveHook(ctx context.Context, p HookProgress) error
	// RetryDead lets a webhook try an event that it has given up once more, or all if seq is 0. It returns how many.
	RetryDead(ctx context.Context, id string, seq int64) (int, error)
	// DropDead deletes an event that a webhook has given up, or all if seq is 0. It returns how many.
	DropDead(ctx context.Context, id string, seq int64) (int, error)
}
