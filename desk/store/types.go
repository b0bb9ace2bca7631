package store

import (
	"time"

	"github.com/go-eddy/eddy/desk/hours"
	"github.com/go-eddy/eddy/desk/perm"
)

// ActorKind says what an actor is.
type ActorKind string

// Kinds of actors. System is the server itself.
const (
	Customer ActorKind = "customer"
	Agent    ActorKind = "agent"
	Bot      ActorKind = "bot"
	System   ActorKind = "system"
)

// Actor is a person, bot or server that acts in a conversation or owns it. The zero value is nobody.
type Actor struct {
	Kind ActorKind
	ID   string
	Name string
}

// IsZero reports whether the actor is nobody.
func (a Actor) IsZero() bool { return a.Kind == "" }

// Is reports whether both are the same participant. Names do not count.
func (a Actor) Is(b Actor) bool { return a.Kind == b.Kind && a.ID == b.ID }

// Conversation is one row: its state and the heads of its two sequences. Times are Unix milliseconds, 0 = never.
type Conversation struct {
	ID          string
	Site        string
	Contact     string
	ContactName string
	State       State
	Owner       Actor
	Group       string   // the group whose queue it belongs to, "" = everybody's
	Priority    Priority // places it in the queue
	Epoch       int64    // increases whenever the owner changes
	Rev         int64    // increases with every state change
	LastSeq     uint64   // staff stream: every durable event
	LastPSeq    uint64   // customer stream: what the customer may see
	OpenedAt    int64
	QueuedAt    int64 // when it entered the queue; a conversation that comes back keeps this time
	AssignedAt  int64
	ClosedAt    int64
	CloseReason string
	Abandoned   bool   // it was closed while it waited in the queue
	Preview     string // beginning of the last text
	PreviewFrom ActorKind
	At          int64 // time of the last event
	ActedAt     int64 // the customer's first action; until then reports and history leave the conversation out
	AnsweredAt  int64 // an agent's first text since it was opened or queued last, see Unanswered

	WaitingSince int64  // the customer's first unanswered text
	RepliedAt    int64  // the present agent's first text as the owner
	Excluded     string // the agent that the next automatic assignment passes over
	LastAgent    string // the agent that had this conversation last, or the previous one
	LastAgentAt  int64  // when LastAgent became its owner
	WarnedAt     int64  // when the customer was warned of the close, if nothing has happened since
	LeftAt       int64  // when the customer went away while the conversation was queued
	SnoozedUntil int64  // its agent has put it aside until then, see Snooze
	Told         Told   // what programs were told of its wait for a first answer
	Locale       string // language of the customer when it was opened, "" = unknown
	Prev         string // the contact's conversation before this one

	// ReplyTo is the e-mail address to which this customer wants answers, because it has left a message while nobody was
	// there. "" means that it waits for no mail. Every text of an agent in a conversation with an address is an answer
	// to be sent there, whatever the state, unless the customer has read it in the chat meanwhile
	// (Marks.Customer.Read is in the customer's numbers, as Event.PSeq). The address stays until the conversation is
	// deleted; a message that is left later replaces it.
	ReplyTo string

	Marks   Marks
	Across  Marks  // the marks in the numbers of the other side's stream; the hub fills in Across and Unread
	Unread  int    // messages of the customer that staff have not read
	Tags    string // in order, separated by commas; see TagList
	Score   int    // 1 to 5, 0 = not rated
	Comment string // on the score
	Blocked bool   // the contact is blocked

	Skills  string // what an agent must have to get it from the router, separated by commas, in order; see List
	Relaxed bool   // it has waited too long for an agent with its skills and language: any agent of the group gets it
}

// OlderThan reports whether c is an earlier state of a conversation than d, by what has numbers.
func (c *Conversation) OlderThan(d *Conversation) bool {
	return c.Rev < d.Rev || c.Rev == d.Rev && c.LastSeq < d.LastSeq
}

// Kinds of events.
const (
	KindText   = "text"   // a message of a participant
	KindFile   = "file"   // the same with files
	KindNote   = "note"   // a message of staff for staff, not in the customer's stream
	KindEvent  = "event"  // a state change
	KindNotice = "notice" // a message of the server to both sides
)

// Button is one choice a bot message offers.
type Button struct {
	Label string `json:"label"`
	Value string `json:"value"`
}

// Change is the record of a state change.
type Change struct {
	Event  string `json:"event"`
	From   State  `json:"from"`
	State  State  `json:"state"`
	Rev    int64  `json:"rev"`
	Epoch  int64  `json:"epoch"`
	Owner  Actor  `json:"owner"`
	Was    Actor  `json:"was"` // the owner before
	Group  string `json:"group,omitempty"`
	Reason string `json:"reason,omitempty"`

	Abandoned bool `json:"abandoned,omitempty"`
}

// Event is one durable entry of a conversation: a message or a state change.
type Event struct {
	Conv     string
	Seq      uint64 // staff stream
	PSeq     uint64 // customer stream, 0 = not visible to the customer
	ID       string
	Kind     string
	From     Actor
	ClientID string
	Body     string
	Payload  string
	Buttons  []Button
	Files    []Attachment // in the order of the sender
	Memo     string       // what a bot has to remember until its next turn; shown to nobody
	Change   *Change      // of KindEvent
	Time     int64        // Unix milliseconds
}

// Side selects one of the two streams of a conversation.
type Side int

// The customer sees PSeq, staff see Seq.
const (
	CustomerSide Side = iota
	StaffSide
)

// S returns the event's number in the stream of that side; 0 means that it is not in it.
func (e *Event) S(side Side) uint64 {
	if side == CustomerSide {
		return e.PSeq
	}
	return e.Seq
}

// Last returns the last number in the stream of that side.
func (c *Conversation) Last(side Side) uint64 {
	if side == CustomerSide {
		return c.LastPSeq
	}
	return c.LastSeq
}

// Site is one widget channel.
type Site struct {
	ID      string
	Key     string
	Name    string
	BotName string // shown instead of the bot's own name; "" and no Bot = the site has no bot
	Group   string // of its conversations, "" = none

	ReopenWindow time.Duration // how long a closed conversation may be reopened; 0 = DefaultReopenWindow, negative = never
	ReopenToBot  bool          // a customer who writes within ReopenWindow gets the bot first, if the site has one
	Bot          string        // id of the bot, "" = the built-in one, if BotName is set
	Logo         Logo
	Settings     SiteSettings
}

// DefaultReopenWindow is a site's reopen window unless it is set.
const DefaultReopenWindow = 24 * time.Hour

// SiteSettings are kept as one JSON object. Zero fields mean their defaults; times are milliseconds.
type SiteSettings struct {
	Origins []string `json:"origins,omitempty"` // origins that may embed the widget, besides the server's own
	Secrets []string `json:"secrets,omitempty"` // at most two, for signed identities by HS256; two for rotation
	Keys    []string `json:"keys,omitempty"`    // at most two Ed25519 public keys in base64, for signed identities by EdDSA
	Enforce bool     `json:"enforce,omitempty"` // visitors without a signed identity are refused

	Color    string  `json:"color,omitempty"`    // accent of the widget, #rrggbb
	Greeting string  `json:"greeting,omitempty"` // shown before the first message
	Consent  string  `json:"consent,omitempty"`  // text to agree to, "" = none
	PreChat  []Field `json:"prechat,omitempty"`  // asked before the first message

	IdleBot   int64  `json:"idle_bot,omitempty"`   // T1: silence with the bot until the warning
	IdleWait  int64  `json:"idle_wait,omitempty"`  // T2: how long the customer may be away from the queue
	IdleChat  int64  `json:"idle_chat,omitempty"`  // T3: silence with an agent until the warning
	WarnFor   int64  `json:"warn_for,omitempty"`   // from the warning to the close
	RateChat  bool   `json:"rate_chat,omitempty"`  // ask for a score after the close
	Visits    string `json:"visits,omitempty"`     // what is kept of them: KeepBasic, which "" is, KeepNothing or KeepFull
	MailChats bool   `json:"mail_chats,omitempty"` // visitors may have a closed chat sent to them
	KeepDays  int    `json:"keep_days,omitempty"`  // closed conversations are deleted after so many days, 0 = never
	Chats     int    `json:"chats,omitempty"`      // new ones of one address in an hour; 0 = as the server allows

	Look      SiteLook    `json:"look,omitzero"`
	Hours     hours.Hours `json:"hours,omitzero"`       // when people answer; unset = always
	AwayAfter int64       `json:"away_after,omitempty"` // nobody takes chats for so long: messages are left

	Rules []RouteRule `json:"rules,omitempty"` // which conversations go where; the first that fits counts
}

// Field is one question before a chat.
type Field struct {
	Name     string `json:"name"` // of the contact's attribute
	Label    string `json:"label"`
	Type     string `json:"type"` // text, email or tel
	Required bool   `json:"required,omitempty"`
}

// Group is a team of agents with a queue.
type Group struct {
	ID       string
	Name     string
	Settings GroupSettings
}

// GroupSettings are kept as one JSON object. Zero fields mean their defaults; times are milliseconds.
type GroupSettings struct {
	Strategy   string `json:"strategy,omitempty"`    // least_busy (default), round_robin, sticky or manual
	MaxQueue   int    `json:"max_queue,omitempty"`   // 0 = no limit
	Accept     int64  `json:"accept,omitempty"`      // time for an assigned agent's first answer; 0 = any time
	StickyDays int    `json:"sticky_days,omitempty"` // how long the last agent counts
	StickyWait int64  `json:"sticky_wait,omitempty"` // how long to wait for the last agent at most

	Hours hours.Hours `json:"hours,omitzero"`  // instead of those of the site; unset = as the site
	Away  int64       `json:"away,omitempty"`  // how long a customer waits for an agent that is away before the chat returns
	Relax int64       `json:"relax,omitempty"` // how long to wait for an agent with the skills and the language at most

	Target      int64 `json:"target,omitempty"`       // in which an agent's first answer is wanted; 0 = none
	TargetShare int   `json:"target_share,omitempty"` // of how many customers, in percent; 0 = DefaultTargetShare
}

// Load is how many conversations an agent has.
type Load struct {
	Agent        string
	Active       int
	Capacity     int   // 0 = none
	LastAssigned int64 // Unix milliseconds, 0 = never
}

// Assignment is one stretch of a conversation with one agent. Times are Unix milliseconds.
type Assignment struct {
	Conv  string
	Agent string
	Epoch int64
	From  int64
	To    int64  // 0 = still
	Event string // what it began with
}

// Closings counts closed conversations.
type Closings struct {
	Served    int
	Abandoned int // closed while they waited for an agent
}

// MaxAttributeChars is the length of one attribute of a contact, in characters.
const MaxAttributeChars = 500

// Contact is a customer.
type Contact struct {
	ID         string
	Site       string
	Name       string
	External   string // id in the site's own user base, from a signed identity; "" = anonymous
	Verified   bool
	Blocked    bool
	Locale     string
	Attributes map[string]string
	Created    int64 // Unix milliseconds
}

// Kinds of bots.
const (
	BotRules   = "rules"
	BotWebhook = "webhook"

	// BotAssistant is a bot whose text a language model writes.
	BotAssistant = "assistant"
)

// BuiltInBot is the id of the bot of a site that has a name for its bot and has not chosen one.
const BuiltInBot = "rules"

// BotAccount is a bot that sites may choose.
type BotAccount struct {
	ID      string
	Name    string // shown to customers unless the site has a name of its own for it
	Kind    string // BotRules, BotWebhook or BotAssistant
	Config  string // JSON, see package bot
	Created int64  // Unix milliseconds
}

// AgentAccount is a member of staff.
type AgentAccount struct {
	ID       string
	Login    string
	Name     string
	Password string // argon2id in PHC form
	Capacity int    // conversations at once, 0 = none
	NoChats  bool   // the router gives it no conversations; it may still take them
	Role     perm.Role
	Locale   string // "" = that of the browser
	Disabled bool   // may not log in
	Factor   bool   // has a second factor; set by FactorWrites alone
	Linked   bool   // has an identity of single sign-on; set by IdentityWrites alone

	Skills    string // separated by commas, in order; see Skills
	Languages string // that the agent speaks, likewise; "" = any
	Email     string // for mail about a forgotten password, "" = none
}

// Actor returns the agent as an actor.
func (a AgentAccount) Actor() Actor { return Actor{Kind: Agent, ID: a.ID, Name: a.Name} }

// Actor returns the contact as an actor.
func (c Contact) Actor() Actor { return Actor{Kind: Customer, ID: c.ID, Name: c.Name} }

// AgentSession is a login. Only the hash of its token is known.
type AgentSession struct {
	Token   Token
	Agent   AgentAccount
	Created time.Time
	Seen    time.Time
	Expires time.Time

	IP        string // as much of the client's address as is stored
	UserAgent string
	Push      bool // it has a PushSubscription
}
