package hub

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"time"

	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/lease"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/safehttp"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/trace"
)

// Options configure a hub. Store and Tickets are required.
type Options struct {
	Store   store.Store
	Tickets *auth.Tickets
	Shared  *auth.Shared     // limits that several servers count together; default none
	Bot     bot.Bot          // of sites that have chosen none; default bot.Default()
	Links   Links            // makes the addresses of files; default none: file.links is refused
	MaxFile int64            // bytes of one file, which clients are told; 0 = they are not told
	Limits  Limits           // zero fields mean the defaults
	Dumper  *executor.Dumper // of the pools; default none
	Logger  *slog.Logger     // default slog.Default()
	Now     func() time.Time // clock of rates, tokens, routing and shown times; default time.Now

	// Barred may keep an account with a valid login from connecting, and ends its sessions when they are checked again.
	// Default none.
	Barred func(store.AgentAccount) bool

	// Calls is told what happens for agents who have no connection. Default nobody is told.
	Calls Calls

	// Erased is called when rows of an erased contact are to be removed (store.People); it must not block. Default: they
	// stay until somebody else removes them.
	Erased func()

	// HooksChanged is called when webhooks have changed, or have something to try again; it must not block. Default nobody
	// is told.
	HooksChanged func()

	// Bus carries what servers tell each other besides the database. Default none: they hear of each other through the database.
	Bus Bus

	// Self says what this server tells whoever operates it; the hub adds what it knows. Default nothing.
	Self func() store.About

	// Hold runs what one of several servers does: giving chats out, timers, and ending what dead servers have left. Default
	// lease.Alone. A server that is alone does that in any case.
	Hold lease.Hold

	// Routing is how the queue of conversations without a group works.
	Routing store.GroupSettings
	// After returns a channel that gets a value when Now has advanced by d, and a function that gives it up. Default is
	// a time.Timer.
	After func(d time.Duration) (<-chan time.Time, func() bool)

	// Trace records commands that it samples, and what they cause. Default none.
	Trace *trace.Recorder

	Resolver  safehttp.Resolver // of the addresses of webhook bots; default net.DefaultResolver
	ClientTLS *tls.Config       // of connections to them; default the roots of the system
}

// Rate is a token bucket: PerSecond tokens a second, at most Burst saved.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Limits bound what one client and all clients may use. A zero field means its default.
type Limits struct {
	CustomerMessages Rate // default 1 a second, burst 10
	AgentMessages    Rate // default 10 a second, burst 20
	CustomerCommands Rate // of every kind; default 20 a second, burst 100
	AgentCommands    Rate // default 100 a second, burst 200

	HelloTimeout  time.Duration // from the connect to hello, default 5 s
	CommandAge    time.Duration // a command is answered by then, default 2 s
	ReadTimeout   time.Duration // of reads for clients, default 10 s
	SearchTimeout time.Duration // of one search, default 3 s
	BotTimeout    time.Duration // default 8 s
	QueueEvery    time.Duration // shortest time between two queue positions of a customer, default 1 s

	AgentGrace     time.Duration // how long an agent without a connection keeps its conversations, default 60 s
	AgentSettle    time.Duration // how long an agent is connected before the router gives it conversations, default 3 s; negative = 0
	OfferLife      time.Duration // of an offered conversation, default 30 s
	IdleAway       time.Duration // how long an agent that is online does nothing before it is away, default DefaultIdleAway; negative = for ever
	ReconcileEvery time.Duration // how often the counters of agents are compared with their conversations, default 1 min

	LanePending     int // commands that wait in one lane, default 32
	LaneTotal       int // in all lanes, default 10,000
	LaneWorkers     int // default 4
	CustomerWorkers int // reads of customers at once, default 16
	AgentWorkers    int // operations of staff at once, default 64
	AgentRunning    int // of one agent, default 4
	AgentWaiting    int // of one agent, default 16

	CustomerSessions int // WebSocket connections of one contact, default 10
	AgentSessions    int // of one agent, default 20
	Chats            int // conversations that customers of one network begin in an hour on one site, default DefaultChats; negative = no limit

	CustomerOutbound int // bytes that may wait for a slow customer, default 256 KiB
	AgentOutbound    int // default 1 MiB
}

// DefaultChats is Limits.Chats unless it is set: an office or a school behind one address chats, and a script that writes
// to staff all day gets two chats a minute.
const DefaultChats = 120

// DefaultIdleAway is Limits.IdleAway unless it is set.
const DefaultIdleAway = 15 * time.Minute

// PingInterval and PongTimeout are the heartbeat that the transport keeps up.
const (
	PingInterval = 25 * time.Second // of silence before the client is pinged
	PongTimeout  = 10 * time.Second // for the client's answer; after that the client counts as gone
)

const (
	deadAfter        = 45 * time.Second // a client treats silence as death
	maxStrikes       = 10               // bad requests before the connection is closed
	maxRefusals      = 50               // commands over the rate before the connection is closed
	resumeEvents     = 200              // per conversation
	pageBytes        = 128 << 10        // of text, per conversation and per sync page
	inboxRows        = 200
	maxByeSpread     = 30 * time.Second
	perSessionByes   = 2 * time.Millisecond
	botWorkers       = 4
	botPending       = 64 // turns waiting in one conversation
	botTotal         = 10_000
	botRetryDelay    = 250 * time.Millisecond
	botRetryMax      = 8 * time.Second
	botHistory       = 100 // most events that a bot is told
	botHistoryBytes  = 256 << 10
	customerPending  = 8 // reads waiting of one session
	customerTotal    = 10_000
	agentPoolQueue   = 1024
	maxChatKeys      = 20_000 // most networks whose new conversations are counted, of each limit
	busyRetry        = time.Second / 2
	unavailableRetry = time.Second
	queueFullRetry   = 30 * time.Second
	agentEvery       = time.Second            // shortest time between two ev.agent of one agent
	routeBatch       = 64                     // assignments, and timers, in a row before the router does everything else again
	routePause       = 250 * time.Millisecond // before the first new attempt after the store has failed; doubles
	routePauseMax    = 5 * time.Second
	actionRetry      = 5 * time.Second // time until a failed action of a timer is tried again
	nominalCapacity  = 20              // a larger capacity does not make an agent less busy
	maxWatched       = 50              // conversations of one session
	watchEvents      = 100             // events that come with the answer to watch
	maxFormer        = 8               // agents that watch a conversation because they passed it on
)

func (o *Options) fill() error {
	if o.Store == nil || o.Tickets == nil {
		return errors.New("hub: Options.Store and Options.Tickets are required")
	}
	if o.Bot == nil {
		o.Bot = bot.Default()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Calls == nil {
		o.Calls = (*push.Push)(nil)
	}
	if o.Erased == nil {
		o.Erased = func() {}
	}
	if o.HooksChanged == nil {
		o.HooksChanged = func() {}
	}
	if o.Self == nil {
		o.Self = func() store.About { return store.About{} }
	}
	if o.Bus == nil {
		o.Bus = noBus{}
	}
	if o.Hold == nil {
		o.Hold = lease.Alone
	}
	if o.After == nil {
		o.After = func(d time.Duration) (<-chan time.Time, func() bool) {
			t := time.NewTimer(d)
			return t.C, t.Stop
		}
	}
	l := &o.Limits
	or(&l.CustomerMessages, Rate{1, 10})
	or(&l.AgentMessages, Rate{10, 20})
	or(&l.CustomerCommands, Rate{20, 100})
	or(&l.AgentCommands, Rate{100, 200})
	or(&l.HelloTimeout, 5*time.Second)
	or(&l.CommandAge, 2*time.Second)
	or(&l.ReadTimeout, 10*time.Second)
	or(&l.SearchTimeout, 3*time.Second)
	or(&l.BotTimeout, 8*time.Second)
	or(&l.QueueEvery, time.Second)
	or(&l.AgentGrace, time.Minute)
	or(&l.AgentSettle, 3*time.Second)
	or(&l.OfferLife, 30*time.Second)
	or(&l.IdleAway, DefaultIdleAway)
	or(&l.ReconcileEvery, time.Minute)
	or(&l.LanePending, 32)
	or(&l.LaneTotal, 10_000)
	or(&l.LaneWorkers, 4)
	or(&l.CustomerWorkers, 16)
	or(&l.AgentWorkers, 64)
	or(&l.AgentRunning, 4)
	or(&l.AgentWaiting, 16)
	or(&l.CustomerSessions, 10)
	or(&l.AgentSessions, 20)
	or(&l.Chats, DefaultChats)
	or(&l.CustomerOutbound, 256<<10)
	or(&l.AgentOutbound, 1<<20)
	return nil
}

// or gives a field its default if it is zero.
func or[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
