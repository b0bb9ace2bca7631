package api

import (
	"context"

	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// Conversation is one row of a list. Times are Unix milliseconds, 0 = never.
type Conversation struct {
	ID        string            `json:"id"`
	Site      string            `json:"site"` // its key
	State     string            `json:"state"`
	Contact   proto.HitContact  `json:"contact"`
	Owner     *proto.Party      `json:"owner,omitempty"`
	Group     string            `json:"group"`
	Priority  string            `json:"priority"` // in the queue: urgent, high, normal or low
	Tags      []string          `json:"tags"`
	Locale    string            `json:"locale"`
	Last      uint64            `json:"last"` // number of the last event
	At        int64             `json:"at"`   // of the last event
	Times     ConversationTimes `json:"times"`
	Snoozed   int64             `json:"snoozed"` // until then its agent has put it aside, 0 = not
	Score     int               `json:"score"`   // 1 to 5, 0 = not rated
	Abandoned bool              `json:"abandoned"`
	Previous  string            `json:"previous"` // the contact's conversation before this one
}

// ConversationTimes are the times of a conversation.
type ConversationTimes struct {
	Opened   int64 `json:"opened"`
	Queued   int64 `json:"queued"`
	Assigned int64 `json:"assigned"`
	Closed   int64 `json:"closed"`
	Waiting  int64 `json:"waiting"` // the customer's first unanswered text
}

// Conversations is one page of a list. The cursor is "" at the end.
type Conversations struct {
	Conversations []Conversation `json:"conversations"`
	Cursor        string         `json:"cursor"`
}

// Detail is one conversation.
type Detail struct {
	Conversation
	Reason  string `json:"reason"`  // of the close
	Comment string `json:"comment"` // on the score
}

// Event is one entry of a conversation: a message, a note or a change of its state.
type Event struct {
	Seq     uint64         `json:"seq"`
	ID      string         `json:"id"`
	Kind    string         `json:"kind"`
	From    proto.Party    `json:"from"`
	Text    string         `json:"text"`
	Payload string         `json:"payload,omitempty"`
	Buttons []proto.Button `json:"buttons,omitempty"`
	Files   []proto.File   `json:"files,omitempty"`
	Change  *Change        `json:"change,omitempty"` // of kind event
	Time    int64          `json:"time"`
}

// Change is what an event has changed.
type Change struct {
	Event     string       `json:"event"`
	State     string       `json:"state"`
	Owner     *proto.Party `json:"owner,omitempty"`
	Group     string       `json:"group"`
	Reason    string       `json:"reason"`
	Abandoned bool         `json:"abandoned"`
}

// Events is one page of a conversation.
type Events struct {
	Events []Event `json:"events"`
	Last   uint64  `json:"last"` // number of the conversation's last event
	More   bool    `json:"more"` // there are events after this page
}

// Contact is a customer.
type Contact struct {
	proto.ContactCard
	Site string `json:"site"` // its key
}

// Message is a message to send.
type Message struct {
	Text string `json:"text"`
}

// Sent is a message that is stored.
type Sent struct {
	ID        string `json:"id"`
	Seq       uint64 `json:"seq"`
	Time      int64  `json:"time"`
	Duplicate bool   `json:"duplicate"` // it was stored by an earlier call
}

// Report is the rows of a report, and everything in its period.
type Report struct {
	Rows  []store.ReportRow `json:"rows"`
	Total store.ReportRow   `json:"total"`
}

// contactOf returns a contact with all that is known of it. site is the key of its site.
func contactOf(ctx context.Context, r store.Reader, c *store.Contact, site string) (Contact, error) {
	fields, err := r.FieldValues(ctx, c.ID)
	return Contact{ContactCard: hub.Card(c, fields), Site: site}, err
}

func party(a store.Actor) *proto.Party {
	if a.IsZero() {
		return nil
	}
	return &proto.Party{Kind: string(a.Kind), ID: a.ID, Name: a.Name}
}

// conversation returns a row of a list. sites are the keys of the sites by id.
func conversation(c *store.Conversation, sites map[string]string) Conversation {
	row := Conversation{
		ID: c.ID, Site: sites[c.Site], State: string(c.State), Contact: proto.HitContact{ID: c.Contact, Name: c.ContactName}, Owner: party(c.Owner),
		Group: c.Group, Priority: c.Priority.Name(), Tags: c.TagList(), Locale: c.Locale, Last: c.LastSeq, At: c.At, Snoozed: c.SnoozedUntil, Score: c.Score, Abandoned: c.Abandoned, Previous: c.Prev,
		Times: ConversationTimes{Opened: c.OpenedAt, Queued: c.QueuedAt, Assigned: c.AssignedAt, Closed: c.ClosedAt, Waiting: c.WaitingSince},
	}
	if row.Tags == nil {
		row.Tags = []string{}
	}
	return row
}

func event(e *store.Event) Event {
	ev := Event{Seq: e.Seq, ID: e.ID, Kind: e.Kind, From: *party(e.From), Text: e.Body, Payload: e.Payload, Time: e.Time}
	for _, b := range e.Buttons {
		ev.Buttons = append(ev.Buttons, proto.Button(b))
	}
	for i := range e.Files {
		ev.Files = append(ev.Files, hub.FileOf(&e.Files[i]))
	}
	if ch := e.Change; ch != nil {
		ev.Change = &Change{Event: ch.Event, State: string(ch.State), Owner: party(ch.Owner), Group: ch.Group, Reason: ch.Reason, Abandoned: ch.Abandoned}
	}
	return ev
}
