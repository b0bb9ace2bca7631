package store

import "context"

// Fed is one part of the feed: what one command, or one change of a person, has changed.
type Fed struct {
	First, Last int64        // numbers of its rows in the outbox
	At          int64        // when that was, Unix milliseconds
	Conv        Conversation // the head after the change, or a later one; ID "" = it is about no conversation, or that is gone
	Events      []Event      // added to the conversation
	Touched     bool         // the conversation may have changed in another way, too
	Turn        string       // of a bot, which the last of the events has begun and this server has to ask for; "" = none
	Contacts    []Contact    // that have changed
	Ended       []ContactEnd
	Accounts    []string     // agents whose account has changed, or of whom logins have ended
	Setup       bool         // groups, members or sites have changed
	Files       []Attachment // about which the scanner has decided
	Presences   []Presence   // who has come to a server or gone from it; not where one server is alone
	Offers      []Offer
	Hooks       bool   // webhooks have changed, or have something to try again
	Trace       string // see OutboxRow
}

// ContactEnd says that a contact, or some of its tokens, are no more.
type ContactEnd struct {
	Contact string
	Into    string // that it was merged into, "" = none
	Erased  bool
}

// FedPage are parts of the feed.
type FedPage struct {
	All   []Fed
	Floor int64 // rows up to this one have been deleted
	Last  int64 // the last row that All covers, or the place that was asked for
	More  bool  // there is more behind Last
}

// Feed tells what has been committed. It carries the rows of the outbox, in their order, with what they are about. Any
// goroutine may call its methods.
type Feed interface {
	// Follow has take called with every part of the feed behind at, one at a time. take must not block; the part is its own.
	// A part comes after the outcome of its command, whose Outcome.Fed is the part's Last, and before a call that blocks
	// returns. Parts may be missing: First is then above the Last before it by more than one, and FeedReader has them. What
	// other processes commit is missing: a part with First above Last, and nothing else, says that there is something. stop
	// ends it; one call of take may be under way by then.
	Follow(take func(*Fed)) (at int64, stop func())
}

// FeedReader reads the feed again. Methods block and honour ctx.
type FeedReader interface {
	// Fed returns what about limit rows behind one say. Heads are as they are now. If FedPage.Floor is above after, rows are
	// missing.
	Fed(ctx context.Context, after int64, limit int) (FedPage, error)
}
