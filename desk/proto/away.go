package proto

// Away says why no person answers a customer now, who can leave a message instead. The zero value means that people are
// there.
type Away struct {
	Reason string `json:"reason,omitempty"` // "hours", or "absent": nobody who takes chats is online
	Opens  int64  `json:"opens,omitempty"`  // of "hours": when people are there again, absent if that is not known
}

// Leave leaves a message for the time when people are there.
type Leave struct {
	ClientID string `json:"client_id"` // as of Send
	Name     string `json:"name"`      // optional
	Email    string `json:"email"`     // where answers go
	Body     string `json:"body"`

	Page    string            `json:"page"` // this and the others as of Open, for a new conversation
	Fields  map[string]string `json:"fields"`
	Consent bool              `json:"consent"`
}

func checkLeave(p any) *Error {
	l := p.(*Leave)
	if err := checkClientID(&l.ClientID); err != nil {
		return err
	}
	if err := CheckText("body", l.Body, true); err != nil {
		return err
	}
	return checkOpen(&Open{Page: l.Page, Fields: l.Fields})
}
