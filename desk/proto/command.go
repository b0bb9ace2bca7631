package proto

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/trace"
)

// Limits of one message, checked before anything else sees the message.
const (
	MaxHelloBytes    = 4 << 10   // before welcome
	MaxCustomerBytes = 64 << 10  // customer, after welcome
	MaxAgentBytes    = 256 << 10 // agent, after welcome
	MaxTextChars     = 8000      // characters (Unicode code points) of a message body
	MaxSeen          = 64        // conversations named in hello
	MaxSyncEvents    = 200       // events in one sync page
	defaultSync      = 100
	maxIDBytes       = 64
	maxTokenBytes    = 512
	maxReasonChars   = 200
	maxPayloadBytes  = 256
	maxPageBytes     = 2000
	maxFields        = 20
	maxFieldChars    = 1000
)

// Command is one decoded client message. Payload has exactly one of the payload types below.
type Command struct {
	Type    string
	ID      string // request id, "" only where the type needs none
	Conv    string // conversation id, "" where the type needs none
	Payload any    // pointer to one of the payload types

	Trace *trace.Request // of the command, nil = it is not sampled; Decode leaves it empty
}

// Hello authenticates the connection and asks for what was missed.
type Hello struct {
	Token  string            `json:"token"`  // customer's visitor token
	Ticket string            `json:"ticket"` // agent's single-use ticket
	Device string            `json:"device"`
	Locale string            `json:"locale"`
	Seen   map[string]uint64 `json:"seen"` // conversation → last sequence held
}

// Open asks for a conversation, or for the one that is already open.
type Open struct {
	Wants string `json:"wants"` // "bot" (default) or "human"
	Page  string `json:"page"`

	Fields  map[string]string `json:"fields"`  // answers to the questions of the site
	Consent bool              `json:"consent"` // to the text of the site
}

// Send appends a message.
type Send struct {
	ClientID    string   `json:"client_id"` // UUID; canonical form after decoding
	Kind        string   `json:"kind"`      // "text" or "file"
	Body        string   `json:"body"`      // optional with files
	Payload     string   `json:"payload"`   // value of the pressed button
	Attachments []string `json:"attachments,omitempty"`
}

// Note appends a message that only staff see.
type Note struct {
	ClientID    string   `json:"client_id"` // as of Send
	Body        string   `json:"body"`
	Attachments []string `json:"attachments,omitempty"`
}

// Typing tells the other side that the sender is writing.
type Typing struct {
	On bool `json:"on"`
}

// Take makes the calling agent the owner.
type Take struct {
	Rev   int64 `json:"rev"`   // expected revision, 0 = any
	Force bool  `json:"force"` // from another agent, beyond capacity and group
}

// Transfer passes a conversation on, either to an agent or to the queue of a group. Exactly one of the two is set.
type Transfer struct {
	Agent string `json:"agent"`
	Group string `json:"group"`
	Note  string `json:"note"`  // for staff
	Rev   int64  `json:"rev"`   // expected revision, 0 = any
	Force bool   `json:"force"` // another agent's conversation, without asking the new agent
}

// Return gives a conversation back to the queue, where it keeps its place.
type Return struct {
	Note  string `json:"note"`  // for staff
	Rev   int64  `json:"rev"`   // expected revision, 0 = any
	Force bool   `json:"force"` // another agent's
}

// Reopen puts a closed conversation back into the queue.
type Reopen struct {
	Rev int64 `json:"rev"` // expected revision, 0 = any
}

// Close ends a conversation.
type Close struct {
	Reason string `json:"reason"`
	Force  bool   `json:"force"` // another agent's
}

// Sync asks for events after a sequence number.
type Sync struct {
	After uint64 `json:"after"`
	Limit int    `json:"limit"` // 1 to MaxSyncEvents after decoding
}

// Ping measures the round trip.
type Ping struct {
	Time int64 `json:"time"`
}

type envelope struct {
	T  *string         `json:"t"`
	ID *string         `json:"id"`
	C  string          `json:"c"`
	D  json.RawMessage `json:"d"`
}

// kind says what one command type needs.
type kind struct {
	payload func() any
	check   func(payload any) *Error
	conv    bool // c is required
	noID    bool // id may be absent
}

func kindOf(t string) (kind, bool) {
	switch t {
	case "hello":
		return kind{payload: func() any { return new(Hello) }, check: checkHello}, true
	case "conv.open":
		return kind{payload: func() any { return new(Open) }, check: checkOpen}, true
	case "conv.leave":
		return kind{payload: func() any { return new(Leave) }, check: checkLeave}, true
	case "msg.send":
		return kind{payload: func() any { return new(Send) }, check: checkSend, conv: true}, true
	case "typing":
		return kind{payload: func() any { return new(Typing) }, conv: true, noID: true}, true
	case "take":
		return kind{payload: func() any { return new(Take) }, check: checkTake, conv: true}, true
	case "note.send":
		return kind{payload: func() any { return new(Note) }, check: checkNote, conv: true}, true
	case "transfer":
		return kind{payload: func() any { return new(Transfer) }, check: checkTransfer, conv: true}, true
	case "return":
		return kind{payload: func() any { return new(Return) }, check: checkReturn, conv: true}, true
	case "reopen":
		return kind{payload: func() any { return new(Reopen) }, check: checkReopen, conv: true}, true
	case "conv.close":
		return kind{payload: func() any { return new(Close) }, check: checkClose, conv: true}, true
	case "sync":
		return kind{payload: func() any { return new(Sync) }, check: checkSync, conv: true}, true
	case "file.links":
		return kind{payload: func() any { return new(FileLinks) }, check: checkFileLinks}, true
	case "status":
		return kind{payload: func() any { return new(Status) }, check: checkStatus}, true
	case "agents":
		return kind{payload: func() any { return new(Agents) }}, true
	case "active":
		return kind{payload: func() any { return new(Active) }, noID: true}, true
	case "assign":
		return kind{payload: func() any { return new(Assign) }, check: checkAssign, conv: true}, true
	case "priority":
		return kind{payload: func() any { return new(Priority) }, check: checkPriority, conv: true}, true
	case "snooze":
		return kind{payload: func() any { return new(Snooze) }, check: checkSnooze, conv: true}, true
	case "conv.handoff":
		return kind{payload: func() any { return new(Handoff) }, check: checkHandoff, conv: true}, true
	case "watch":
		return kind{payload: func() any { return new(Watch) }, conv: true}, true
	case "unwatch":
		return kind{payload: func() any { return new(Unwatch) }, conv: true}, true
	case "transfer.accept":
		return kind{payload: func() any { return new(Accept) }, conv: true}, true
	case "transfer.decline":
		return kind{payload: func() any { return new(Decline) }, conv: true}, true
	case "ping":
		return kind{payload: func() any { return new(Ping) }}, true
	}
	return readKind(t)
}

// Decode parses one message and checks its shape and its limits. data is not kept. After a failure the command still has
// the type and the request id if these could be read, so that the error can be addressed.
func Decode(data []byte) (Command, *Error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return Command{}, fail(CodeBadRequest, jsonText(err))
	}
	var cmd Command
	if e.ID != nil {
		if *e.ID == "" || len(*e.ID) > maxIDBytes {
			return cmd, fail(CodeBadRequest, fmt.Sprintf("id must have 1 to %d bytes", maxIDBytes))
		}
		cmd.ID = *e.ID
	}
	if e.T == nil || *e.T == "" {
		return cmd, fail(CodeBadRequest, "t (the message type) is missing")
	}
	k, ok := kindOf(*e.T)
	if !ok {
		return cmd, fail(CodeUnknownType, fmt.Sprintf("unknown message type %.40q", *e.T))
	}
	cmd.Type = *e.T
	if cmd.ID == "" && !k.noID {
		return cmd, fail(CodeBadRequest, "id (the request id) is missing")
	}
	if len(e.C) > maxIDBytes || (k.conv && e.C == "") {
		return cmd, fail(CodeBadRequest, fmt.Sprintf("c (the conversation id) must have 1 to %d bytes", maxIDBytes))
	}
	cmd.Conv = e.C
	cmd.Payload = k.payload()
	if len(e.D) > 0 {
		if err := json.Unmarshal(e.D, cmd.Payload); err != nil {
			return cmd, fail(CodeBadRequest, jsonText(err))
		}
	}
	if k.check != nil {
		if perr := k.check(cmd.Payload); perr != nil {
			return cmd, perr
		}
	}
	return cmd, nil
}

func checkHello(p any) *Error {
	h := p.(*Hello)
	if (h.Token == "") == (h.Ticket == "") {
		return fail(CodeBadRequest, "hello needs either token (customer) or ticket (agent)")
	}
	if len(h.Token) > maxTokenBytes || len(h.Ticket) > maxTokenBytes {
		return fail(CodeBadRequest, fmt.Sprintf("token or ticket is over %d bytes", maxTokenBytes))
	}
	if len(h.Device) > maxIDBytes || len(h.Locale) > maxIDBytes {
		return fail(CodeBadRequest, fmt.Sprintf("device or locale is over %d bytes", maxIDBytes))
	}
	if len(h.Seen) > MaxSeen {
		return fail(CodeBadRequest, fmt.Sprintf("seen names %d conversations, the limit is %d", len(h.Seen), MaxSeen))
	}
	return nil
}

func checkOpen(p any) *Error {
	o := p.(*Open)
	if o.Wants == "" {
		o.Wants = "bot"
	}
	if o.Wants != "bot" && o.Wants != "human" {
		return fail(CodeBadRequest, `wants must be "bot" or "human"`)
	}
	if len(o.Page) > maxPageBytes {
		return fail(CodeBadRequest, fmt.Sprintf("page is over %d bytes", maxPageBytes))
	}
	if len(o.Fields) > maxFields {
		return fail(CodeBadRequest, fmt.Sprintf("fields has %d entries, the limit is %d", len(o.Fields), maxFields))
	}
	for name, v := range o.Fields {
		if len(name) > maxIDBytes || utf8.RuneCountInString(v) > maxFieldChars {
			return fail(CodeBadRequest, fmt.Sprintf("a field's name is over %d bytes or its text over %d characters", maxIDBytes, maxFieldChars))
		}
	}
	return nil
}

func checkSend(p any) *Error {
	s := p.(*Send)
	if err := checkClientID(&s.ClientID); err != nil {
		return err
	}
	if s.Kind == "" {
		s.Kind = "text"
	}
	if s.Kind != "text" && s.Kind != "file" {
		return fail(CodeBadRequest, `kind must be "text" or "file"`)
	}
	if (s.Kind == "file") != (len(s.Attachments) > 0) {
		return fail(CodeBadRequest, `kind "file" and attachments need each other`)
	}
	if len(s.Payload) > maxPayloadBytes {
		return fail(CodeBadRequest, fmt.Sprintf("payload is over %d bytes", maxPayloadBytes))
	}
	if err := checkAttachments(s.Attachments); err != nil {
		return err
	}
	return CheckText("body", s.Body, len(s.Attachments) == 0)
}

func checkNote(p any) *Error {
	n := p.(*Note)
	if err := checkClientID(&n.ClientID); err != nil {
		return err
	}
	if err := checkAttachments(n.Attachments); err != nil {
		return err
	}
	return CheckText("body", n.Body, len(n.Attachments) == 0)
}

// checkClientID puts a client id into its canonical form.
func checkClientID(s *string) *Error {
	id, err := uuid.Parse(*s)
	if err != nil || len(*s) != 36 {
		return fail(CodeBadRequest, "client_id must be a UUID of 36 characters")
	}
	*s = id.String()
	return nil
}

// CheckText checks the text of a message. field is its name in the error.
func CheckText(field, text string, required bool) *Error {
	if n := utf8.RuneCountInString(text); n > MaxTextChars {
		return fail(CodeTooLarge, fmt.Sprintf("the text has %d characters, the limit is %d", n, MaxTextChars))
	}
	if (required || text != "") && strings.TrimSpace(text) == "" {
		return fail(CodeBadRequest, field+" is empty")
	}
	return nil
}

func checkRev(rev int64) *Error {
	if rev < 0 {
		return fail(CodeBadRequest, "rev must not be negative")
	}
	return nil
}

func checkTake(p any) *Error { return checkRev(p.(*Take).Rev) }

func checkReopen(p any) *Error { return checkRev(p.(*Reopen).Rev) }

func checkTransfer(p any) *Error {
	t := p.(*Transfer)
	if (t.Agent == "") == (t.Group == "") {
		return fail(CodeBadRequest, "transfer needs either agent or group")
	}
	if len(t.Agent) > maxIDBytes || len(t.Group) > maxIDBytes {
		return fail(CodeBadRequest, fmt.Sprintf("agent or group is over %d bytes", maxIDBytes))
	}
	if err := checkRev(t.Rev); err != nil {
		return err
	}
	return CheckText("note", t.Note, false)
}

func checkReturn(p any) *Error {
	r := p.(*Return)
	if err := checkRev(r.Rev); err != nil {
		return err
	}
	return CheckText("note", r.Note, false)
}

func checkClose(p any) *Error {
	if utf8.RuneCountInString(p.(*Close).Reason) > maxReasonChars {
		return fail(CodeBadRequest, fmt.Sprintf("reason is over %d characters", maxReasonChars))
	}
	return nil
}

func checkSync(p any) *Error {
	s := p.(*Sync)
	if s.Limit == 0 {
		s.Limit = defaultSync
	}
	if s.Limit < 0 || s.Limit > MaxSyncEvents {
		return fail(CodeBadRequest, fmt.Sprintf("limit must be 1 to %d", MaxSyncEvents))
	}
	return nil
}

// jsonText describes a decoding error without repeating the sender's bytes.
func jsonText(err error) string {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("not valid JSON at byte %d", e.Offset)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return "the value must be " + jsonKind(e.Type)
		}
		return fmt.Sprintf("field %.60q must be %s", e.Field, jsonKind(e.Type))
	}
	return "not valid JSON"
}

// jsonKind returns JSON's name for the values of a Go type.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number from 0"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return "of another type"
}
