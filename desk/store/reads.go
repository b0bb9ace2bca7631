package store

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-eddy/eddy/desk/perm"
)

// ErrBlocked refuses a contact that staff have blocked.
var ErrBlocked = errors.New("store: the contact is blocked")

// Mark is how far one side of a conversation has got. Read is never above Delivered.
type Mark struct{ Delivered, Read uint64 }

// Raise returns the mark moved up to another one. It never moves down, and not above last.
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

// Places says where in a conversation the two streams differ, and which messages are unread. All numbers are those of
// the staff stream, in order.
type Places struct {
	Conv   string
	Hidden []uint64 // events that the customer's stream does not have
	Unread []uint64 // messages of the customer above the mark of staff, the first MaxUnread
}

// MaxUnread is the number up to which unread messages are counted.
const MaxUnread = 999

// TagList returns the tags of a conversation.
func (c *Conversation) TagList() []string {
	if c.Tags == "" {
		return nil
	}
	return strings.Split(c.Tags, ",")
}

// Tag adds and removes tags. The outcome's conversation has the new ones. The error is ErrTooMany if there would be more
// than MaxTags.
type Tag struct {
	Conv   string
	By     Actor // an agent, or System
	Add    []string
	Remove []string
}

// MaxTags is the largest number of tags of a conversation.
const MaxTags = 20

// Rate stores what the customer thinks of a conversation that is closed. For an open one the error is ErrConflict.
type Rate struct {
	Conv    string
	By      Actor // its customer
	Score   int   // 1 to MaxScore
	Comment string
}

// MaxScore is the best rating; the worst is 1.
const MaxScore = 5

func (Tag) command()  {}
func (Rate) command() {}

// Scope limits reads to what one agent may see. An agent sees the conversations that it has or had. It also sees those
// of its groups and of everybody's queue, unless another agent has them now. It sees closed ones of the contacts that it
// serves now. A closed conversation of no group is no longer in everybody's queue. Conversations that only All lets
// through are marked.
type Scope struct {
	Agent string
	All   bool

	// Seen returns a text of a message as the agent sees it. A search finds only what is in that, and its hits have it.
	// nil is the text itself.
	Seen func(text string) string
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

// Filter selects conversations. Zero fields select all.
type Filter struct {
	Contact string
	Open    bool // in any state but Closed
	State   State
	Snoozed bool   // put aside by its agent
	Tag     string // upper and lower case are the same
	Agent   string // has it, or had it last
	Group   string
	Site    string
	From    int64 // opened then or later, Unix milliseconds
	To      int64 // opened before, 0 = no bound

	ScoreFrom int // rated with this or more
	ScoreTo   int // rated with this or less
}

// Match reports whether the filter selects the conversation.
func (f *Filter) Match(c *Conversation) bool {
	is := func(want, has string) bool { return want == "" || want == has }
	return is(f.Contact, c.Contact) && is(string(f.State), string(c.State)) && is(f.Group, c.Group) && is(f.Site, c.Site) &&
		(!f.Open || c.State != Closed) && (!f.Snoozed || c.Snoozed()) && (f.Agent == "" || f.Agent == c.LastAgent && c.AssignedAt > 0) &&
		(f.Tag == "" || slices.ContainsFunc(c.TagList(), func(tag string) bool { return strings.EqualFold(tag, f.Tag) })) &&
		f.From <= c.OpenedAt && (f.To == 0 || c.OpenedAt < f.To) &&
		f.ScoreFrom <= c.Score && (f.ScoreTo == 0 || c.Score > 0 && c.Score <= f.ScoreTo)
}

// Past is a conversation of a list that is not live.
type Past struct {
	Conversation
	Page  string // where the customer was when it was opened, "" = unknown
	Other bool   // seen by Scope.All only
}

// ContactPatch changes what is stored about a contact.
type ContactPatch struct {
	Contact    string
	Name       string            // "" = as it is
	Attributes map[string]string // those named are set, "" removes
	Fields     map[string]string // values of own fields by key, "" removes

	Role perm.Role // of who changes own fields, "" = a program
}

// MaxAttributes is the largest number of attributes of a contact.
const MaxAttributes = 32

// StaffReader are the reads of staff. Methods block and honour ctx.
type StaffReader interface {
	// Places returns the Places of one conversation, or of every open one if conv is "". Conversations that have none
	// may be missing.
	Places(ctx context.Context, conv string) ([]Places, error)
	// Access returns what an agent may do with a conversation, or ErrNotFound.
	Access(ctx context.Context, s Scope, conv string) (Access, error)
	// History returns at most limit conversations, those opened last first, and the cursor of the next page, "" at the
	// end. What is opened or closed meanwhile moves no page. A page may be short although there are more, except of one
	// contact without other conditions.
	History(ctx context.Context, s Scope, f Filter, cursor string, limit int) ([]Past, string, error)
	// Search returns at most limit messages that a query finds in the conversations of a filter, the newest first, and
	// the cursor of the next page, "" at the end. A page may be short although there are more. A query without a word or
	// with too many is ErrQuery.
	Search(ctx context.Context, s Scope, query string, f Filter, cursor string, limit int) ([]Hit, string, error)
	// Canned returns prepared replies for an agent. Those whose short name begins with q come first, then those whose
	// title or text contains q. Replies of the locale, of its language and of every language count, and all if locale is
	// "".
	Canned(ctx context.Context, agent, q, locale string, limit int) ([]Canned, error)
}

// StaffWrites are changes by staff outside conversations. They block until committed and honour ctx.
type StaffWrites interface {
	// SaveMarks raises the marks of conversations. A mark above the last event or below the stored one is ignored.
	SaveMarks(ctx context.Context, marks []ConvMarks) error
	// PatchContact changes a contact. The error is ErrTooMany if it would have more than MaxAttributes, and a *FieldError
	// for a value of an own field.
	PatchContact(ctx context.Context, p ContactPatch) (Contact, error)
	// BlockContact blocks or unblocks a contact. A blocked contact can neither open conversations nor write.
	BlockContact(ctx context.Context, contact string, blocked bool) (Contact, error)
}

// ErrTooMany refuses a change after which there would be more tags or attributes than there may be.
var ErrTooMany = errors.New("store: too many tags or attributes")

// ErrQuery refuses a search that has no word to look for, or too many.
var ErrQuery = errors.New("store: the search has no word, or too many")

// ErrCursor refuses a page whose cursor was not given by the page before.
var ErrCursor = errors.New("store: unknown cursor")
