package proto

import (
	"fmt"
	"unicode/utf8"
)

// Status is what an agent says about itself, or what another with that right says about it.
type Status struct {
	Status    string `json:"status"`    // online, busy, away, finishing or offline
	Accepting *bool  `json:"accepting"` // absent = as it was
	Agent     string `json:"agent"`     // "" = the sender
}

// Active says that somebody works at the client.
type Active struct{}

// Agents asks for all members of staff and for the queues.
type Agents struct{}

// Assign gives a conversation to an agent.
type Assign struct {
	Agent string `json:"agent"`
	Rev   int64  `json:"rev"` // expected revision, 0 = any
}

// Priority sets the priority of an open conversation, and answers that command.
type Priority struct {
	Priority string `json:"priority"` // urgent, high, normal or low
}

// Snooze puts a conversation aside until a time, and answers that command. The conversation comes back earlier when its
// customer writes.
type Snooze struct {
	Until int64 `json:"until"` // Unix milliseconds; 0 = bring it back now
}

// Handoff asks for a person instead of the bot.
type Handoff struct {
	Reason string `json:"reason"`
}

// Watch asks for the events of a conversation until Unwatch.
type Watch struct{}

// Unwatch ends a Watch.
type Unwatch struct{}

// Accept takes a conversation that another agent offers.
type Accept struct{}

// Decline refuses a conversation that another agent offers.
type Decline struct{}

func checkStatus(p any) *Error {
	s := p.(*Status)
	switch s.Status {
	case "online", "busy", "away", "finishing", "offline":
	default:
		return fail(CodeBadRequest, `status must be "online", "busy", "away", "finishing" or "offline"`)
	}
	if len(s.Agent) > maxIDBytes {
		return fail(CodeBadRequest, fmt.Sprintf("agent is over %d bytes", maxIDBytes))
	}
	return nil
}

func checkAssign(p any) *Error {
	a := p.(*Assign)
	if a.Agent == "" || len(a.Agent) > maxIDBytes {
		return fail(CodeBadRequest, fmt.Sprintf("agent must have 1 to %d bytes", maxIDBytes))
	}
	return checkRev(a.Rev)
}

func checkPriority(p any) *Error {
	switch p.(*Priority).Priority {
	case "urgent", "high", "normal", "low":
		return nil
	}
	return fail(CodeBadRequest, `priority must be "urgent", "high", "normal" or "low"`)
}

func checkSnooze(p any) *Error {
	if p.(*Snooze).Until < 0 {
		return fail(CodeBadRequest, "until is negative")
	}
	return nil
}

func checkHandoff(p any) *Error {
	if utf8.RuneCountInString(p.(*Handoff).Reason) > maxReasonChars {
		return fail(CodeBadRequest, fmt.Sprintf("reason is over %d characters", maxReasonChars))
	}
	return nil
}

// AgentStatus is an agent's own view of its status.
type AgentStatus struct {
	Status    string `json:"status"`
	Accepting bool   `json:"accepting"`
	Active    int    `json:"active"`         // conversations that the agent has
	Capacity  int    `json:"capacity"`       // 0 = none
	Idle      bool   `json:"idle,omitempty"` // away because nothing was done
}

// Me is the identity of the client that is welcomed. Role and permissions are those of an agent.
type Me struct {
	Party
	Role  string   `json:"role,omitempty"`
	Perms []string `json:"perms,omitempty"`
}

// AgentInfo is one member of staff as the others see it, and the payload of ev.agent.
type AgentInfo struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Role      string   `json:"role"`
	Serves    bool     `json:"serves"` // the role may answer customers
	Status    string   `json:"status"`
	Accepting bool     `json:"accepting"`
	Active    int      `json:"active"`
	Capacity  int      `json:"capacity"` // 0 = none
	Groups    []string `json:"groups"`
	Online    bool     `json:"online"`
	Idle      bool     `json:"idle,omitempty"`      // away because nothing was done
	Skills    []string `json:"skills,omitempty"`    // that chats may ask for
	Languages []string `json:"languages,omitempty"` // that the agent speaks, absent = any
}

// GroupInfo is the queue of a group.
type GroupInfo struct {
	ID      string `json:"id"`   // "" = the queue of sites without a group
	Name    string `json:"name"` // "" likewise
	Waiting int    `json:"waiting"`
	Longest int64  `json:"longest"` // longest wait in milliseconds, 0 = nobody waits
	Online  int    `json:"online"`  // members that are online and accept conversations
}

// AgentList answers agents.
type AgentList struct {
	Agents []AgentInfo `json:"agents"`
	Groups []GroupInfo `json:"groups"`
	Sites  []string    `json:"sites"` // their keys
}

// OfferInfo is an offer as the agent that makes it sees it.
type OfferInfo struct {
	Agent   Party `json:"agent"`
	Expires int64 `json:"expires"` // Unix milliseconds
}

// Offered answers a transfer that is an offer.
type Offered struct {
	Head  Head      `json:"head"`
	Offer OfferInfo `json:"offer"`
}

// Offer is the payload of ev.offer.
type Offer struct {
	From    Party  `json:"from"`
	Note    string `json:"note,omitempty"`
	Expires int64  `json:"expires"` // Unix milliseconds
	Row     Row    `json:"row"`
}

// Results of an offer.
const (
	OfferAccepted = "accepted"
	OfferDeclined = "declined"
	OfferExpired  = "expired"
	OfferCanceled = "cancelled"
)

// OfferEnd is the payload of ev.offer_end.
type OfferEnd struct {
	Result string `json:"result"`
	Agent  Party  `json:"agent"` // the agent that was offered the conversation
}

// WatchEnd is the payload of ev.watch_end. The session gets no more events of the conversation.
type WatchEnd struct {
	Reason string `json:"reason"` // "closed" or "forbidden"
}
