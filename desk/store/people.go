package store

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// People are the writes about persons as a whole. They go through the same writer as everything else, block until
// committed and honour ctx. After ErrUnavailable the change may still be made.
type People interface {
	// EraseContact makes a contact an anonymous stub without name, attributes, identity and tokens. From then on nobody
	// reads or changes it, it can neither write nor open conversations, and nobody reopens those it has. Doing so again is
	// no error. The error is ErrNotFound if there is no such contact. The caller ends its open conversations, and calls
	// EraseMore until nothing is left.
	EraseContact(ctx context.Context, contact string) error
	// EraseMore removes closed conversations of contacts that are erased, as DropClosed does. The numbers of the reports
	// stay. Conversations that are still open wait for a later call, also after a restart.
	EraseMore(ctx context.Context, limit int) (Dropped, error)
	// MergeContacts moves the conversations, tokens and the identity of a contact to another one of the same site, which
	// keeps its own name and attributes and gets those that it lacks. The first contact is gone then, and whoever was it
	// is the other one. The error is ErrNotFound for a contact that is not there, and ErrMerge if these two may not become
	// one. It cannot be undone.
	MergeContacts(ctx context.Context, from, into string) (Contact, error)
	// NoteContact sets what staff have noted about a contact, at most MaxContactNote characters, else an Invalid.
	NoteContact(ctx context.Context, contact, note string) error
}

// ErrMerge refuses to merge two contacts: of two sites, a verified and an anonymous one, one that is blocked with one that
// is not, a contact with itself, or one that has an open conversation.
var ErrMerge = errors.New("store: these contacts may not become one")

// MaxContactNote is the length of a note about a contact in characters.
const MaxContactNote = 2000

// ContactQuery selects contacts that have done something or are known by something, the newest first. Zero fields select
// all.
type ContactQuery struct {
	Words   string // each is the beginning of a word of the name, the external id or an attribute, or of a number's digits
	Site    string
	Blocked bool
	Field   string // key of an own field; the contact has a value of it
	Value   string // and its value begins so, upper and lower case of ASCII are the same; "" = any
	Exact   bool   // the value is Value, and does not only begin so
	Cursor  string // of the page before
	Limit   int    // 1 to MaxContactPage, else MaxContactPage

	// Seen returns a text as the reader sees it. Words find only what is in that, and a value only the whole of what is
	// shown. nil is the text itself.
	Seen func(text string) string
}

// MaxContactPage is the largest number of contacts that one query returns, and maxContactWords that of words in it.
const (
	MaxContactPage  = 100
	maxContactWords = 8
)

// Keys returns the words of a query as they are looked for, at most a few.
func (q *ContactQuery) Keys() []string {
	keys := strings.Fields(asciiLower(q.Words))
	if digits := strings.NewReplacer(" ", "", "-", "", ".", "", "/", "", "(", "", ")", "", "+", "").Replace(q.Words); len(digits) >= 5 && strings.Trim(digits, "0123456789") == "" {
		keys = []string{digits}
	}
	return keys[:min(len(keys), maxContactWords)]
}

// maxValueKey is how many characters of a value contacts are found by.
const maxValueKey = 100

// ValueKey returns the value of a query as it is looked for.
func (q *ContactQuery) ValueKey() string {
	key := []rune(asciiLower(q.Value))
	return string(key[:min(len(key), maxValueKey)])
}

// Shows reports whether a contact still has what was looked for when it is shown to the reader.
func (q *ContactQuery) Shows(c *Contact) bool {
	if q.Seen == nil {
		return true
	}
	texts := []string{c.Name, c.External}
	for _, v := range c.Attributes {
		texts = append(texts, v)
	}
	var words []string
	for _, text := range texts {
		words = append(words, strings.Fields(asciiLower(q.Seen(text)))...)
	}
	for _, key := range q.Keys() {
		if !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, key) }) {
			return false
		}
	}
	return true
}

// asciiLower is what SQL makes of the letters of a key.
func asciiLower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Visited stores where a customer is, in place of what was known before (see Facts.After). As a command it belongs to no
// conversation. The error is ErrNotFound if there is no such contact.
type Visited struct {
	Contact string
	Facts   Facts
}

func (Visited) command() {}

// PeopleReader are the reads about persons. Methods block and honour ctx.
type PeopleReader interface {
	// Visits returns what is known of a contact's last visit, and how many conversations it has had in which anybody but
	// a bot has done something. The error is ErrNotFound if there is no such contact.
	Visits(ctx context.Context, contact string) (Facts, int, error)
	// Contacts returns one page and the cursor of the next one, "" at the end. A page may be short although there are
	// more. The error is ErrCursor for a cursor that no page has given.
	Contacts(ctx context.Context, q ContactQuery) ([]Contact, string, error)
	// ContactNote returns what staff have noted about a contact, or ErrNotFound.
	ContactNote(ctx context.Context, contact string) (string, error)
}
