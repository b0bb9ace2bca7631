package store

import (
	"context"
	"errors"
	"strings"
)

// ErrBlocked refuses a contact that staff have blocked.
var ErrBlocked = errors.New("store: the contact is blocked")

// Mark is how far one side of a conversation has got. Read is never above Delivered.
type Mark struct{ Delivered, Read uint64 }

// Raise returns the mark moved up to another one, never down, and not above last.
func (m Mark) Raise(to Mark, last uint64) Mark {
	to.Delivered = min(max(to.Delivered, to.Read), last)
	to.Read = min(to.Read, last)
	return Mark{max(m.Delivered, to.Delivered), max(m.Read, to.Read)}
}

// Marks is how far both sides have got, each in the numbers of its own stream: the customer's are PSeq, those of staff Seq.
type Marks struct{ Customer, Staff Mark }

// ConvMarks are the marks of one conversation.
type ConvMarks struct {
	Conv string
	Marks
}

// Places tells where in a conversation the two streams differ, and what waits to be read. All are numbers of the staff stream in order.
type Places struct {
	Conv   string
	Hidden []uint64 // events that the customer's stream does not have
	Unread []uint64 // messages of the customer above the mark of staff, the first MaxUnread
}

// MaxUnread is as far as unread messages are counted.
const MaxUnread = 999

// TagList returns the tags of a conversation.
func (c *Conversation) TagList() []string {
	if c.Tags == "" {
		return nil
	}
	return strings.Split(c.Tags, ",")
}

// Tag adds and removes tags; the outcome's conversation has the new ones. ErrTooMany: there would be more than MaxTags.
type Tag struct {
	Conv   string
	By     Actor // an agent
	Add    []string
	Remove []string
}

// MaxTags is the most tags a conversation has.
const MaxTags = 20

// Rate sets what the customer thinks of a conversation while it is closed; otherwise it is ErrConflict.
type Rate struct {
	Conv    string
	By      Actor // its customer
	Score   int   // 1 to 5
	Comment string
}

func (Tag) command()  {}
func (Rate) command() {}

// Scope limits what is read to what one agent may see: the conversations it has or had, those of its groups and of
// everybody's queue unless another agent has them now, and what is closed of the contacts that it serves now. A closed one of
// no group is no longer in everybody's queue. Others that All lets through carry a mark.
type Scope struct {
	Agent string
	All   bool
}

// Access is what an agent may do with a conversation by its Scope.
type Access int

// Accesses. Other means that only Scope.All lets the agent see it.
const (
	NoAccess Access = iota
	OwnAccess
	OtherAccess
)

// Hit is one message that a search has found.
type Hit struct {
	Event       Event
	State       State // of the conversation
	Contact     string
	ContactName string
	Other       bool // seen by Scope.All only
}

// Past is a conversation of a contact's history.
type Past struct {
	Conversation
	Other bool // seen by Scope.All only
}

// ContactPatch changes what is kept of a contact.
type ContactPatch struct {
	Contact    string
	Name       string            // "" = as it is
	Attributes map[string]string // those named are set, "" removes
}

// MaxAttributes is the most attributes a contact has.
const MaxAttributes = 32

// StaffReader are the reads of staff. Methods block and honour ctx.
type StaffReader interface {
	// Places returns those of one conversation, or of every open one if conv is "". Conversations that have none may be missing.
	Places(ctx context.Context, conv string) ([]Places, error)
	// Access tells what an agent may do with a conversation, or ErrNotFound.
	Access(ctx context.Context, s Scope, conv string) (Access, error)
	// History returns conversations of a contact, the newest first, at most limit, and the cursor of the next page, "" at the end.
	History(ctx context.Context, s Scope, contact, cursor string, limit int) ([]Past, string, error)
	// Search returns messages that a query finds, the newest first, at most limit, and the cursor of the next page, "" at the end.
	// A page may be short although there are more. A query without a word or with too many is ErrQuery.
	Search(ctx context.Context, s Scope, query, cursor string, limit int) ([]Hit, string, error)
	// Canned returns the canned replies for an agent whose short name begins with q, or whose title or text contains it,
	// in that order. Those of the locale, its language and of every language count, all if it is "".
	Canned(ctx context.Context, agent, q, locale string, limit int) ([]Canned, error)
}

// StaffWrites are changes outside conversations that staff make. They block until committed and honour ctx.
type StaffWrites interface {
	// SaveMarks raises the marks of conversations; what is above the last event or below what is stored counts for nothing.
	SaveMarks(ctx context.Context, marks []ConvMarks) error
	// PatchContact changes a contact. ErrTooMany: it would have more than MaxAttributes.
	PatchContact(ctx context.Context, p ContactPatch) (Contact, error)
	// BlockContact blocks or unblocks a contact: a blocked one neither opens nor writes.
	BlockContact(ctx context.Context, contact string, blocked bool) (Contact, error)
}

// ErrTooMany refuses a change after which there would be more tags or attributes than there may be.
var ErrTooMany = errors.New("store: too many tags or attributes")

// ErrQuery is what a search is refused with that has no word to look for, or too many.
var ErrQuery = errors.New("store: the search has no word, or too many")

// ErrCursor is what a page is refused with whose cursor was not given by the page before.
var ErrCursor = errors.New("store: unknown cursor")
