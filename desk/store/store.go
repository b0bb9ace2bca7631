package store

import (
	"context"
	"errors"
	"time"
)

// Errors of commands and reads. A command that fails with one of them has changed nothing, except with ErrUnavailable. Its
// outcome may be unknown until the same command, with the same client id, is sent again.
var (
	ErrNotFound    = errors.New("store: not found")
	ErrConflict    = errors.New("store: the conversation's state or revision does not allow this")
	ErrClosed      = errors.New("store: the conversation is closed")
	ErrForbidden   = errors.New("store: not allowed for this actor")
	ErrCapacity    = errors.New("store: the agent has no capacity left")
	ErrBusy        = errors.New("store: the write queue is full")
	ErrUnavailable = errors.New("store: not answered before the deadline")
	ErrStopped     = errors.New("store: closed")
	ErrExpired     = errors.New("store: token expired")
	ErrExists      = errors.New("store: already exists")
	ErrFile        = errors.New("store: a file is unknown, refused, of somebody else or sent already")
	ErrQuota       = errors.New("store: the files are over the quota")
	ErrQueueFull   = errors.New("store: as many customers as the group allows are waiting")
	ErrLeased      = errors.New("store: another server holds the lease")
)

// Command is a change of one conversation: Open, LeftMessage, Append, Move, BotTurn, Tag, Rate, Warn, Leave, Arrange, Relax, Snooze, TellTarget, MakeOffer, AcceptOffer or EndOffer. Or it is a
// line of the audit log, Audit, or a Visited. Leased makes one of them the work of a lease, Traced a part of a trace.
type Command interface{ command() }

// Open starts a conversation for a contact, or returns the one that is open (Outcome.Existing). Reports count it from the
// customer's first action on: Human, accepted answers or consent, a message, or a Handoff.
type Open struct {
	Contact Contact
	Human   bool     // straight to the queue
	Without []string // ids of bots that cannot answer now: the conversation goes to the queue instead
	Page    string
	Fields  map[string]string // answers to the questions of the site; a *FieldError if they are not accepted
	Consent bool              // the customer agreed to the text of the site

	Away Unserved // refuses the queue

	Greeter  string // id of the bot that has said Greeting to the customer before
	Greeting []Say  // recorded in place of Greeter's first turn

	Priority Priority // in the queue, whatever the rules of the site say; 0 = PriorityNormal, or by the rules

	By       Actor  // System for a program, which is asked no questions of the site; zero = the contact
	ClientID string // of By, unique for ever per contact; "" = none. What it opened is a duplicate (Outcome.Dup), even if closed
}

// Append adds a message of a customer or of the owning agent; it is the last of the outcome's events. The text of an
// agent takes a conversation over from the bot. The text of a customer reopens a closed conversation while the site
// allows it. A text of System, which may stand for a program, is a notice: it changes neither owner nor state.
type Append struct {
	Conv     string
	From     Actor
	ClientID string // unique for ever per conversation and sender
	Body     string
	Payload  string
	Note     bool     // for staff only: any agent, in any state
	Away     Unserved // refuses the queue to a customer whose text would reopen the conversation

	Attachments []string // ids of files that the sender has uploaded to this conversation and not sent yet, else ErrFile
}

// Move changes the state of a conversation by a trigger.
type Move struct {
	Conv    string
	Trigger Trigger
	By      Actor
	To      string   // agent of Assign and TransferAgent, else ErrNotFound
	Group   string   // of TransferGroup, else ErrNotFound
	Rev     int64    // expected revision, 0 = any
	Seq     uint64   // expected Conversation.LastSeq, 0 = any
	Reason  string   // seen by the customer, too
	Note    string   // added as a note of the actor, an agent, "" = none
	Force   bool     // the actor, an agent, may override owner, group and capacity: the caller has checked the permission
	Away    Unserved // refuses the queue to customers and bots
}

// Warn tells both sides that the conversation will be closed unless somebody writes. It is a notice from the server that
// sets Conversation.WarnedAt. The error is ErrConflict if something has happened since Seq.
type Warn struct {
	Conv    string
	Seq     uint64 // expected Conversation.LastSeq
	Body    string
	Payload string
}

// Leave stores when the customer of a waiting conversation went away, 0 = the customer is back. It adds no event. A
// conversation that does not wait is left alone.
type Leave struct {
	Conv string
	At   int64 // Unix milliseconds
}

// Say is one message of a bot.
type Say struct {
	Body    string
	Buttons []Button
	Memo    string // see Event
	Payload string // PayloadGenerated, or ""
}

// BotTurn ends a turn (see Turn). It adds the bot's answers, and hands the conversation over if asked, all or nothing.
// That happens only while the bot has had the conversation since the turn began. Later the result is Outcome.Discarded,
// and staff find what the bot would have said in a note. A turn that was answered before is a duplicate, an unknown one
// ErrNotFound.
type BotTurn struct {
	Conv       string
	Turn       string
	Say        []Say // at most MaxBotMessages
	Handoff    bool
	Failed     bool              // this is not the bot's answer but done because there is none
	Reason     string            // of the hand-off
	Note       string            // for staff, behind the hand-off
	Attributes map[string]string // added to the contact; those beyond MaxAttributes are left out
	Away       Unserved          // refuses the hand-off
}

// AcceptTurn notes that a bot will answer a turn later. The error is ErrConflict when the turn has ended, ErrNotFound if
// there is none.
type AcceptTurn struct {
	Turn  string
	Until int64 // Unix milliseconds
}

// MaxBotMessages is the largest number of messages of a bot in one turn.
const MaxBotMessages = 5

func (Open) command()       {}
func (Append) command()     {}
func (Move) command()       {}
func (BotTurn) command()    {}
func (Warn) command()       {}
func (Leave) command()      {}
func (AcceptTurn) command() {}

// Outcome is the result of a command.
type Outcome struct {
	Conv      Conversation // the head after the command, also with ErrConflict, ErrClosed, ErrForbidden and ErrCapacity
	Events    []Event      // newly committed; with Dup the first, earlier one
	Dup       bool         // the command was committed before; nothing is new
	Existing  bool         // of Open: the conversation was there
	Turn      string       // of Open and Append: the bot's turn that began with the last of the events, "" = none
	Discarded bool         // of BotTurn: the answer came too late; the only event, if any, is a note
	Touched   bool         // the conversation changed without an event
	Err       error
	Fed       int64 // number of its last row in the outbox, see Feed; 0 = it has none
	Late      bool  // in a second call: the command was answered ErrUnavailable but is committed after all
}

// Token is the SHA-256 of a bearer token; the token itself is never stored.
type Token [32]byte

// Store is everything that Desk keeps. Any goroutine may call all methods.
type Store interface {
	// Do queues a command for the writer and never blocks. done is called once with the outcome after the commit, or
	// with ErrUnavailable at the deadline. If such a command is committed after all, done is called a second time with
	// Late set. Outcomes of committed commands arrive in commit order, one at a time. done must not block. It may run
	// before Do returns when the command is refused (ErrBusy, ErrStopped).
	Do(cmd Command, deadline time.Time, done func(Outcome))

	// Hot reads for customers and Cold for staff. They share no connection, so that neither can starve the other.
	Hot() Reader
	Cold() Reader
	// Background reads for reports, on connections of its own. However long a report runs, neither messages nor other
	// reads wait for it.
	Background() Reports

	Accounts
	Files
	Management
	StaffWrites
	KeyWrites
	FilterWrites
	FactorWrites
	InvitationWrites
	IdentityWrites
	People
	OwnFieldWrites
	ReportWrites
	MailWrites
	ResetWrites
	PushWrites
	OutboxWrites
	HookWrites
	Feed
	Leases
	Nodes
	SharedLimits

	// ID identifies the data; it changes when a backup is restored.
	ID() string
	// Stats returns the numbers of the store without asking the database.
	Stats() Stats
	// Ready returns nil while commands are being committed and the last read has not failed.
	Ready() error
	// Close finishes what is queued and closes the database. Later commands get ErrStopped.
	Close() error
}

// Reader reads committed data. Methods block and honour ctx.
type Reader interface {
	Listing
	StaffReader
	KeyReader
	FilterReader
	FactorReader
	InvitationReader
	IdentityReader
	PeopleReader
	OwnFieldReader
	MailReader
	ResetReader
	PushReader
	OutboxReader
	HookReader
	FeedReader
	NodeReader
	SpentReader
	OfferReader

	// Conversations returns one page and the cursor of the next one, "" at the end. Conversations that begin meanwhile
	// do not move the pages. The error is ErrCursor for a cursor that no page has given.
	Conversations(ctx context.Context, q ConvQuery) ([]Conversation, string, error)
	// Conversation returns one head, or ErrNotFound.
	Conversation(ctx context.Context, id string) (Conversation, error)
	// Events returns the events after a sequence number of one side in order, at most limit and about maxBytes of text.
	// It also returns whether there are more.
	Events(ctx context.Context, conv string, side Side, after uint64, limit, maxBytes int) ([]Event, bool, error)
	// OfContact returns the open conversations of a contact, oldest first, after its latest closed one.
	OfContact(ctx context.Context, contact string) ([]Conversation, error)
	// OfAgent returns the conversations assigned to an agent, oldest first.
	OfAgent(ctx context.Context, agent string) ([]Conversation, error)
	// Queue returns the first conversations of the queue in order, and how many there are in all.
	Queue(ctx context.Context, limit int) ([]Conversation, int, error)
	// LeftMessages returns the Deferred conversations, those that wait longest first, and how many there are in all.
	LeftMessages(ctx context.Context, limit int) ([]Conversation, int, error)
	// OpenConversations returns every conversation that is not closed, in queue order where queued.
	OpenConversations(ctx context.Context) ([]Conversation, error)
	// Loads returns the number of conversations of every agent, by the counters that assignments use.
	Loads(ctx context.Context) ([]Load, error)
	// Staff returns every account that may log in with its state and groups, ordered by id. Passwords are left out.
	Staff(ctx context.Context) ([]StaffMember, error)
	// Assignments returns who had a conversation, oldest first.
	Assignments(ctx context.Context, conv string) ([]Assignment, error)
	// Closings counts the conversations closed since a time in Unix milliseconds.
	Closings(ctx context.Context, since int64) (Closings, error)
	// BotPending returns the turns that bots have still to answer and this server has to ask for, where the bot owns the conversation. The turns of
	// each conversation are in order.
	BotPending(ctx context.Context) ([]PendingTurn, error)
	// BotTurn returns a turn by its id, or ErrNotFound.
	BotTurn(ctx context.Context, id string) (Turn, error)
	// Bots returns all bots by name.
	Bots(ctx context.Context) ([]BotAccount, error)
	// Bot returns a bot, or ErrNotFound.
	Bot(ctx context.Context, id string) (BotAccount, error)
	// BotUsage returns what a bot has used on a day, written as 2006-01-02; zero if nothing.
	BotUsage(ctx context.Context, bot, day string) (BotUsage, error)
	// SiteByKey returns a site, or ErrNotFound.
	SiteByKey(ctx context.Context, key string) (Site, error)
	// Logo returns the logo with this hash of the site with this key, or ErrNotFound. There is none any more after it was
	// replaced or removed.
	Logo(ctx context.Context, site, hash string) (Logo, error)
	// Site returns a site by its id, or ErrNotFound.
	Site(ctx context.Context, id string) (Site, error)
	// Contact returns a contact, or ErrNotFound.
	Contact(ctx context.Context, id string) (Contact, error)
	// ContactByToken returns the contact of a visitor token, ErrNotFound or ErrExpired.
	ContactByToken(ctx context.Context, t Token, now time.Time) (Contact, error)
	// AgentByLogin returns an account, or ErrNotFound. Logins are compared without case.
	AgentByLogin(ctx context.Context, login string) (AgentAccount, error)
	// AgentByID returns an account, or ErrNotFound.
	AgentByID(ctx context.Context, id string) (AgentAccount, error)
	// AgentSession returns a login, ErrNotFound (also if the account is disabled) or ErrExpired.
	AgentSession(ctx context.Context, t Token, now time.Time) (AgentSession, error)
	// AgentSessions returns the logins of an agent that have not expired, the one last seen first.
	AgentSessions(ctx context.Context, agent string, now time.Time) ([]AgentSession, error)
	// Audit returns lines of the audit log, the newest first.
	Audit(ctx context.Context, q AuditQuery) ([]AuditRow, error)

	FileReader
}

// Accounts are the writes outside conversations. They go through the same writer, block until committed and honour ctx.
type Accounts interface {
	CreateSite(ctx context.Context, s Site) (Site, error)
	CreateAgent(ctx context.Context, a AgentAccount) (AgentAccount, error)
	CreateGroup(ctx context.Context, g Group) (Group, error)
	// AddMember puts an agent into a group, also if the agent is in it already.
	AddMember(ctx context.Context, group, agent string) error
	// CreateBot adds a bot and makes its id. The error is ErrExists if there is one of that name. The caller has checked
	// the config (bot.Check).
	CreateBot(ctx context.Context, b BotAccount) (BotAccount, error)
	// UpdateBot changes name, kind and config of a bot, which count from the next turn on. Errors: ErrNotFound,
	// ErrExists.
	UpdateBot(ctx context.Context, b BotAccount) error
	// DeleteBot removes a bot. The error is ErrInUse while a site has it. The next turn of each conversation that the
	// bot owns hands the conversation over.
	DeleteBot(ctx context.Context, id string) error
	// AddBotUsage adds to what a bot has used on a day. Error: ErrNotFound.
	AddBotUsage(ctx context.Context, bot, day string, u BotUsage) error
	// SetStatus stores the status that an agent has chosen and whether it takes chats, and forgets those it has missed.
	// Error: ErrNotFound.
	SetStatus(ctx context.Context, agent string, s Status, accepting bool) error
	// SetGone stores when the last connection of an agent to this server ended, in Unix milliseconds. 0 means that the agent has one,
	// and Offline then becomes Online. While there is one to another server, the agent is not gone. Error: ErrNotFound.
	SetGone(ctx context.Context, agent string, at int64) error
	// Reconcile sets the counters of agents that differ from their conversations, and returns how many did.
	Reconcile(ctx context.Context) (int, error)
	CreateVisitor(ctx context.Context, site Site, t Token, expires time.Time) (Contact, error)
	ExtendVisitor(ctx context.Context, t Token, expires time.Time) error
	// IdentifyContact returns the verified contact of a profile, new or brought up to date, and makes the token stand
	// for it. An anonymous contact never becomes that contact. The error is ErrBlocked if the contact is blocked,
	// ErrNotFound if the token stands for another one.
	IdentifyContact(ctx context.Context, site Site, p Profile, t Token, expires time.Time) (Contact, error)
	// SaveContact is IdentifyContact without a token. It reports whether the contact is new. The error is a *FieldError
	// for a value of an own field.
	SaveContact(ctx context.Context, site Site, p Profile) (Contact, bool, error)
	// DropVisitor revokes a visitor token.
	DropVisitor(ctx context.Context, t Token) error
	SetLocale(ctx context.Context, contact, locale string) error
	CreateAgentSession(ctx context.Context, t Token, agent string, expires time.Time) error
	TouchAgentSession(ctx context.Context, t Token) error
	DeleteAgentSession(ctx context.Context, t Token) error
	// SpendTicket notes that a ticket was used, until it expires. The error is ErrExists if it was used before, at whatever
	// server. Where there is one server alone, nothing is noted: it knows that itself.
	SpendTicket(ctx context.Context, ticket Token, expires time.Time) error
	// DescribeAgentSession stores where a login came from.
	DescribeAgentSession(ctx context.Context, t Token, ip, userAgent string) error
	// DeleteAgentSessions ends the logins of an agent, except the one with the token except if that is not zero.
	DeleteAgentSessions(ctx context.Context, agent string, except Token) error
	// ChangePassword replaces the hash before by after and ends the agent's logins except keep. The error is ErrNotFound
	// if the hash has changed meanwhile.
	ChangePassword(ctx context.Context, agent, before, after string, keep Token) error
}
