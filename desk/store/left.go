package store

import (
	"errors"
	"time"

	"github.com/go-eddy/eddy/desk/hours"
)

// ErrAway refuses to let a customer wait for an agent while nobody is there. A LeftMessage is not refused.
var ErrAway = errors.New("store: nobody is there for this queue now")

// Unserved reports whether nobody serves the customers of a site that wait in the queue of a group ("" = none). It is called
// on the writer's goroutine, may be called often, and must not block or use the store. nil never refuses anything.
type Unserved func(site, group string) bool

// LeftMessage leaves a customer's message for the time when somebody is there. It goes into the open conversation of the
// contact, which becomes Deferred, or else into a new one. The error is ErrConflict while an agent has the conversation,
// and a *FieldError for a wrong name or address or what the site asks. A message that was left before is a duplicate.
type LeftMessage struct {
	Open     // of a new conversation, which no bot greets
	ClientID string
	Name     string // of the customer, "" = as it is
	Email    string // becomes Conversation.ReplyTo
	Body     string
}

// Check returns what is wrong with name or address as a *FieldError.
func (c *LeftMessage) Check() error {
	for _, f := range []struct {
		Field
		value string
	}{{Field{Name: nameField, Type: "text"}, c.Name}, {Field{Name: emailField, Type: "email"}, c.Email}} {
		why := ""
		switch {
		case f.value != "":
			why = f.check(f.value)
		case f.Name == emailField:
			why = "is required"
		}
		if why != "" {
			return &FieldError{Field: f.Name, Why: why}
		}
	}
	return nil
}

// Answers returns name and address under the names of the attributes of a contact.
func (c *LeftMessage) Answers() map[string]string {
	all := map[string]string{emailField: c.Email}
	if c.Name != "" {
		all[nameField] = c.Name
	}
	return all
}

// DefaultAwayAfter is how long nobody takes chats until customers leave messages, unless a site says otherwise.
const DefaultAwayAfter = 5 * time.Minute

// Absence returns for how long nobody who takes chats is online until customers leave messages, 0 = they always wait.
func (s *SiteSettings) Absence() time.Duration { return span(s.AwayAfter, DefaultAwayAfter) }

// hours checks hours. The fields of a problem are hours_zone, hours_holidays, and hours_0 (Monday) to hours_6.
func (i *Invalid) hours(h hours.Hours) {
	_, problems := hours.Parse(h)
	for _, p := range problems {
		*i = append(*i, Problem{Field: "hours_" + p.Field, Reason: p.Reason, Limit: int64(p.Limit), Value: p.Value})
	}
}
