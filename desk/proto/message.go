package proto

import "encoding/json"

// Party is a participant as the other side sees it.
type Party struct {
	Kind string `json:"kind"` // "customer", "agent", "bot" or "system"
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Head is the state of one conversation as one side sees it. Times are Unix milliseconds.
type Head struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Rev       int64  `json:"rev"`
	Epoch     int64  `json:"epoch"`
	Owner     *Party `json:"owner,omitempty"`
	Last      uint64 `json:"last"`
	Opened    int64  `json:"opened"`
	Queued    int64  `json:"queued,omitempty"`
	Closed    int64  `json:"closed,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Group     string `json:"group,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	ReplyTo   string `json:"reply_to,omitempty"` // the customer's own: where answers to a left message go
	Mine      Seen   `json:"mine"`               // how far the reader's own side has got
	Peer      Seen   `json:"peer"`               // how far the other side has got
}

// RowContact is the customer part of an inbox row.
type RowContact struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Online bool   `json:"online"`
}

// Row is one line of an agent's inbox.
type Row struct {
	ID          string     `json:"id"`
	State       string     `json:"state"`
	Rev         int64      `json:"rev"`
	Epoch       int64      `json:"epoch"`
	Owner       *Party     `json:"owner,omitempty"`
	Last        uint64     `json:"last"`
	Opened      int64      `json:"opened"`
	Queued      int64      `json:"queued,omitempty"`
	Contact     RowContact `json:"contact"`
	Preview     string     `json:"preview"`
	PreviewFrom string     `json:"preview_from"`
	At          int64      `json:"at"`
	Tags        []string   `json:"tags,omitempty"`
	Unread      int        `json:"unread,omitempty"` // messages of the customer that the owner has not read
	Group       string     `json:"group,omitempty"`
	Waiting     int64      `json:"waiting,omitempty"` // milliseconds since the customer's first unanswered text
	Site        string     `json:"site"`              // its key
	Locale      string     `json:"locale,omitempty"`
	ReplyTo     string     `json:"reply_to,omitempty"` // address that the customer has left for answers
	Priority    string     `json:"priority,omitempty"` // urgent, high or low; absent = normal
	Skills      []string   `json:"skills,omitempty"`   // that its agent must have; absent once it has waited too long for them
	Snoozed     int64      `json:"snoozed,omitempty"`  // its agent has put it aside until then, Unix milliseconds
	Score       int        `json:"score,omitempty"`    // 1 to 5, what the customer thought of it
	Comment     string     `json:"comment,omitempty"`
}

// Inbox is shown to an agent on every connect.
type Inbox struct {
	Rows   []Row `json:"rows"`
	Queued int   `json:"queued"` // conversations waiting in all
	More   bool  `json:"more"`   // the queue is longer than the rows
	Left   int   `json:"left"`   // left messages in all
}

// WelcomeLimits tells the client what it may send.
type WelcomeLimits struct {
	Text  int `json:"text"`  // characters of a message
	Bytes int `json:"bytes"` // bytes of one protocol message

	File int64 `json:"file,omitempty"` // bytes of one file
}

// Welcome answers hello.
type Welcome struct {
	Session  string        `json:"session"`
	Store    string        `json:"store"`
	Time     int64         `json:"time"`
	PingMS   int64         `json:"ping_ms"`
	DeadMS   int64         `json:"dead_ms"`
	Limits   WelcomeLimits `json:"limits"`
	Me       Me            `json:"me"`
	Status   *AgentStatus  `json:"status,omitempty"` // of an agent
	Features []string      `json:"features"`
	Heads    []Head        `json:"heads"`
	Inbox    *Inbox        `json:"inbox,omitempty"`
	Bot      *Greeter      `json:"bot,omitempty"`  // that a customer's next conversation begins with
	Away     *Away         `json:"away,omitempty"` // of a customer, while nobody is there
}

// Greeter is a bot and what it says first, which the page shows before there is a conversation.
type Greeter struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Greeting []Greeting `json:"greeting"` // empty for a bot that has to be asked
}

// Greeting is one message of a Greeter.
type Greeting struct {
	Body    string   `json:"body"`
	Buttons []Button `json:"buttons,omitempty"`
}

// Ack answers msg.send and note.send after the commit.
type Ack struct {
	ID   string `json:"id"`
	S    uint64 `json:"s"`
	Time int64  `json:"time"`
	Dup  bool   `json:"dup"`
}

// Opened answers conv.open.
type Opened struct {
	Head     Head `json:"head"`
	Existing bool `json:"existing"`
}

// Changed answers take, transfer, return, reopen and conv.close.
type Changed struct {
	Head Head `json:"head"`
}

// Synced answers sync.
type Synced struct {
	Head      Head              `json:"head"`
	Events    []json.RawMessage `json:"events"`
	More      bool              `json:"more"`
	Truncated bool              `json:"truncated"`
}

// Pong answers ping.
type Pong struct {
	Time   int64 `json:"time"`
	Client int64 `json:"client"`
}

// Button is one choice the bot offers.
type Button struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// Msg is the payload of ev.msg.
type Msg struct {
	ID       string   `json:"id"`
	Kind     string   `json:"kind"`
	From     Party    `json:"from"`
	Body     string   `json:"body"`
	ClientID string   `json:"client_id,omitempty"`
	Payload  string   `json:"payload,omitempty"`
	Buttons  []Button `json:"buttons,omitempty"`
	Files    []File   `json:"files,omitempty"`
	Time     int64    `json:"time"`
}

// StateChange is the payload of ev.state.
type StateChange struct {
	ID        string `json:"id"`
	Event     string `json:"event"`
	From      string `json:"from"`
	State     string `json:"state"`
	Rev       int64  `json:"rev"`
	Epoch     int64  `json:"epoch"`
	Owner     *Party `json:"owner,omitempty"`
	Was       *Party `json:"was,omitempty"` // the owner before
	By        Party  `json:"by"`
	Reason    string `json:"reason,omitempty"`
	Group     string `json:"group,omitempty"`
	Abandoned bool   `json:"abandoned,omitempty"` // closed while the customer waited in the queue
	Time      int64  `json:"time"`
}

// TypingNow is the payload of ev.typing.
type TypingNow struct {
	From Party `json:"from"`
	On   bool  `json:"on"`
}

// Partial is the payload of ev.partial: a piece of the text that a bot is writing.
type Partial struct {
	From Party  `json:"from"`
	Turn string `json:"turn"`
	N    int    `json:"n"` // counts the pieces from 0, which begins anew
	Text string `json:"text"`
}

// Presence is the payload of ev.presence.
type Presence struct {
	Kind   string `json:"kind"`
	Online bool   `json:"online"`
}

// QueuePosition is the payload of ev.queue.
type QueuePosition struct {
	Position   int   `json:"position"`
	EstimateMS int64 `json:"estimate_ms,omitempty"` // absent if too little is known
}

// Bye announces a close by the server.
type Bye struct {
	RetryMS int64  `json:"retry_ms"`
	Reason  string `json:"reason"`
}

type frame struct {
	T  string `json:"t"`
	RE string `json:"re,omitempty"`
	C  string `json:"c,omitempty"`
	S  uint64 `json:"s,omitempty"`
	D  any    `json:"d,omitempty"`
}

// Reply encodes an answer to the command with request id re.
func Reply(t, re, conv string, d any) []byte { return encode(frame{T: t, RE: re, C: conv, D: d}) }

// Event encodes a server event; s is 0 for ephemeral ones.
func Event(t, conv string, s uint64, d any) []byte { return encode(frame{T: t, C: conv, S: s, D: d}) }

// encode cannot fail, because every payload above is made of strings, numbers, booleans and slices of them.
func encode(f frame) []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return []byte(`{"t":"err","d":{"code":"internal","text":"encoding failed"}}`)
	}
	return b
}
