package store

import "errors"

// ErrAway refuses to let a customer wait for an agent while nobody is there. A LeftMessage is not refused.
var ErrAway = errors.New("store: nobody is there for this queue now")

// Away reports whether nobody serves the customers of a site that wait in the queue of a group ("" = none). It is called
// on the writer's goroutine, may be called often, and must not block or use the store. nil never refuses anything.
type Away func(site, group string) bool

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
			return &FieldError{f.Name, why}
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
