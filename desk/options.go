package desk

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/bot"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/geo"
	"github.com/go-eddy/eddy/desk/hooks"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/mail"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/sso"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/trace"
)

// Options configure a Desk. The zero value works.
type Options struct {
	DataDir string // default "desk-data"; created when missing
	Store   string // postgres://user@host/database: a PostgreSQL database instead of a file in DataDir; several Desks may have the same
	Files   string // where the uploaded files are, which Desks with the same Store share: a directory, or a bucket as objects.Parse has it; default a directory in DataDir
	Bus     string // nats://host:4222: what Desks with the same Store tell each other besides, see bus.CheckURL; default nothing
	Addr    string // host:port to listen on, default "127.0.0.1:8080"
	Frames  string // host:port of native clients that speak the frame protocol, see package frames; default none

	Loops    int    // worker loops of the engine, 0 = GOMAXPROCS
	Poller   string // see eddy.Server
	MaxConns int    // connections at once, 0 = unlimited

	KeepCloses   int // see eddy.Server
	MemoryBudget int // see eddy.Server

	// HTTPS says that browsers reach this server over https, through a proxy that ends TLS or by Layers. Cookies are
	// then Secure and have the __Host- prefix, and only https origins are accepted.
	HTTPS bool

	// HSTS is for how long browsers, once they were here, come to this host over https only (Strict-Transport-Security). Set
	// it where this server speaks TLS itself, because it counts for every port of the host. 0 = they are not told.
	HSTS time.Duration

	// PublicURL is the address by which customers reach this server, such as https://desk.example. The administration
	// shows the line with it that embeds the chat. Default none: the line has the address of the administrator's request.
	PublicURL string

	// Languages is a folder with more languages of the customer page, see web.Language. Default none: those that come with
	// the program.
	Languages string

	// Layers adds layers that come before HTTP, such as TLS, to each connection's pipeline. Default none.
	Layers func(*eddy.Pipeline) error

	// WrapStore may put something between the server and its database, such as faults. Default none.
	WrapStore func(store.Store) store.Store

	// Checking is called before the whole database is read because the last run did not end in order, as after a kill.
	Checking func()

	// Migrating is called before the database of an older program is brought from one version of its schema to another.
	Migrating func(from, to int)

	Limits      hub.Limits          // see there
	NewVisitors hub.Rate            // new visitors of one site; default 50 a second, burst 500; a burst below 0 = no limit
	Passwords   auth.Params         // cost of argon2id, see there
	VisitorLife time.Duration       // of an unused visitor token, default 90 days
	LoginLife   time.Duration       // of an agent's login, default 7 days
	LoginIdle   time.Duration       // of an unused login, default 24 h
	Routing     store.GroupSettings // of conversations whose site has no group; zero is the least busy agent
	Uploads     front.Uploads       // of files, see there
	Bot         bot.Bot             // of sites that have chosen none; default bot.Default()
	Mail        mail.Settings       // how mails leave, default not at all; needs PublicURL, because mails have links

	// TrustedProxies may name the client's address in X-Forwarded-For. From all other peers that header is not believed.
	// Limits per address never count this machine itself.
	TrustedProxies   []netip.Prefix
	ConnsPerIP       int          // connections at once, WebSockets and others; default 256, negative = no limit
	NewVisitorsPerIP hub.Rate     // default 1 a second, burst 120
	KeepIP           front.KeepIP // how much of clients' addresses is stored, default nothing
	Places           *geo.File    // where addresses are, for the customer card; default none

	SecondFactor  front.FactorPolicy   // which accounts need a second factor, default none
	PasswordLogin front.PasswordPolicy // whose passwords log in, default everybody's
	SSO           *SSO                 // single sign-on, default none; needs PublicURL

	// NoPush says that no agent is called through the push service of a browser. Default: whoever wants to be, is.
	NoPush bool

	KeepEvents time.Duration // how long programs can fetch what has happened, default hooks.DefaultKeep

	// Trace records the commands of clients and the calls of programs that it samples. What they cause belongs to their trace,
	// such as webhooks and turns of bots. Default none.
	Trace *trace.Recorder

	// TrustTrace lets a client say by its handshake, or a program by its call, which trace it continues. Set it only if no
	// stranger can set these header fields.
	TrustTrace bool

	// Dumper writes the stacks of all goroutines when one of the pools is exhausted. nil writes none.
	Dumper *executor.Dumper

	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // clock of tokens, rates and shown times, default that of the database

	push     func(*push.Options) // tests change how agents are called
	patience time.Duration       // least time limit of a request or connection; tests set it so that a busy machine ends nothing
}

// SSO configures single sign-on. Redirect, Logger and Now of the provider are filled in.
type SSO struct {
	Provider sso.Options
	Rules    front.SSORules
}

const (
	httpQueue    = 1024 // requests that wait for a worker
	demoCapacity = 5
)

// check returns what is wrong with the options that clients are told.
func (o *Options) check() error {
	if o.HSTS != 0 && o.HSTS < time.Second {
		return fmt.Errorf("desk: HSTS is %v: give 0 or a second and more", o.HSTS)
	}
	if o.KeepEvents < hooks.GiveUp {
		return fmt.Errorf("desk: KeepEvents is %v, it must be at least %v, for which webhooks are tried", o.KeepEvents, hooks.GiveUp)
	}
	if err := front.CheckPublicURL(o.PublicURL, o.HTTPS); err != nil {
		return fmt.Errorf("desk: PublicURL %w", err)
	}
	if err := o.Mail.Check(); err != nil {
		return fmt.Errorf("desk: Mail: %w", err)
	}
	if o.Mail.On() && o.PublicURL == "" {
		return errors.New("desk: Mail needs PublicURL, because mails have links")
	}
	if o.Files != "" && o.Store == "" {
		return errors.New("desk: Files needs a Store, because the files of a database file are in DataDir")
	}
	return CheckSSO(o.SSO, o.PublicURL, o.PasswordLogin)
}

func (o *Options) fill() {
	if o.DataDir == "" {
		o.DataDir = "desk-data"
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:8080"
	}
	if o.NewVisitors == (hub.Rate{}) {
		o.NewVisitors = hub.Rate{PerSecond: 50, Burst: 500}
	}
	if o.NewVisitorsPerIP == (hub.Rate{}) {
		o.NewVisitorsPerIP = hub.Rate{PerSecond: 1, Burst: 120} // as many as may begin a chat at once
	}
	if o.ConnsPerIP == 0 {
		o.ConnsPerIP = 256
	}
	o.ConnsPerIP = max(o.ConnsPerIP, 0)
	if o.VisitorLife == 0 {
		o.VisitorLife = 90 * 24 * time.Hour
	}
	if o.LoginLife == 0 {
		o.LoginLife = 7 * 24 * time.Hour
	}
	if o.LoginIdle == 0 {
		o.LoginIdle = 24 * time.Hour
	}
	if o.KeepEvents == 0 {
		o.KeepEvents = hooks.DefaultKeep
	}
	o.Uploads.Fill()
	o.Mail.Fill()
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}
