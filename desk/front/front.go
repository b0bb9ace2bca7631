// Package front is the HTTP side of Desk: pages, JSON API, uploads, files and the upgrade to the WebSocket. It asks the
// hub and the store, and knows nothing of the server it runs on.
package front

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/desk/admin"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/geo"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/mail"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/sso"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/web"
	"github.com/go-eddy/eddy/http1"
	"github.com/go-eddy/eddy/trace"
)

// Options configure a Front. They have no defaults: desk.Options says what the settings mean and fills them in.
type Options struct {
	Store   store.Store
	Hub     *hub.Hub
	Hasher  *auth.Hasher
	Shared  *auth.Shared  // limits that several servers count together; default none
	Tickets *auth.Tickets // those of Hub
	Files   *files.Store
	Keeper  *files.Keeper // of Files
	Links   *files.Links  // those of Hub

	HTTPS            bool
	HSTS             time.Duration // 0 = browsers are not told
	PublicURL        string        // "" = not known
	Languages        string        // folder with more languages of the customer page; "" = none
	NewVisitors      hub.Rate
	NewVisitorsPerIP hub.Rate
	VisitorLife      time.Duration
	LoginLife        time.Duration
	LoginIdle        time.Duration
	Uploads          Uploads
	TrustedProxies   []netip.Prefix
	ConnsPerIP       int                             // WebSockets and poll sessions; 0 = no limit
	MaxConns         int                             // poll sessions in all; 0 = no limit
	Others           func() (hint string, err error) // what /readyz says about other servers, and why this one is not ready; default nothing
	KeepIP           KeepIP
	Places           *geo.File // where addresses are, nil = not known
	SecondFactor     FactorPolicy
	Passwords        PasswordPolicy
	SSO              *sso.Provider // nil = none
	SSORules         SSORules
	Mail             *mail.Post // nil = no mail is sent
	Push             *push.Push // nil = nobody is called

	Trace      *trace.Recorder // nil = no call of a program is recorded; that of Hub
	TrustTrace bool            // clients may say which trace they continue

	Logger   *slog.Logger
	Now      func() time.Time
	Patience time.Duration // least time limit of a request or body; for tests
}

// within returns a time limit of a request or body.
func (f *Front) within(limit time.Duration) time.Duration { return max(limit, f.o.Patience) }

const (
	agentRequests  = 16 // requests of staff at once
	botRequests    = 8  // answers of bots at once
	widgetRequests = 32 // new or refreshed visitors at once
	readyRequests  = 4  // pages about readiness that read at once
	requestTimeout = 5 * time.Second
	readyTimeout   = 2 * time.Second
	maxBody        = 16 << 10 // of JSON
	anyBody        = 64 << 10 // of a request that is no upload
	bodyTimeout    = 10 * time.Second
	touchEvery     = 10 * time.Minute     // how exact the idle time of a login is
	socketRetry    = 10 * time.Second     // for an address with too many connections
	auditTimeout   = 5 * time.Second      // for lines of the audit log that nobody waits for
	deniedBurst    = 20                   // lines about refusals of one agent at once; one a second after that
	maxLimited     = 20_000               // keys that one table of limits keeps
	devicePath     = "/api/v1/agent"      // where passwords are proved
	deviceLife     = 400 * 24 * time.Hour // longer is cut off by browsers
)

// Workers is the size of the pool to run the handler on. It is more than the places of all kinds of requests together,
// so that pages and upgrades always find a worker.
const Workers = 80 + ssoRequests + readyRequests + programRequests + programReports + programWaits + visitorUploads + staffUploads + visitorFetches + staffFetches + exportPlaces

// Front is the HTTP side of one Desk. Any goroutine may call its methods.
type Front struct {
	Counters Counters

	o         Options
	store     store.Store
	hub       *hub.Hub
	pages     map[string]page
	languages map[string]web.Language // besides those built in, by tag
	admin     *admin.Pages
	handler   http.Handler
	origins   origins    // of all sites
	numbers   dayNumbers // of the wall

	throttle    *auth.Throttle
	devices     *auth.Devices
	codes       *auth.Buckets // wrong codes of second factors
	sso         *signOn       // nil = none
	visitors    *auth.Buckets // new ones by site
	visitorsOf  *auth.Buckets // new ones by network
	denials     *auth.Buckets // lines in the audit log about refusals
	transcripts *auth.Buckets // mails that a visitor asks for
	resets      *auth.Buckets // questions about forgotten passwords by network
	entry       entry
	running     *auth.Held // uploads by uploader, and fetches by contact
	places      places
	programs    programs
	untrusted   sync.Once // the warning about a proxy has been given
	draining    atomic.Bool
}

// places hold one element for each request of a kind that runs.
type places struct {
	widget, staff, bots, wall, reports, uploads, staffUploads, fetches, staffFetches, exports, ready chan struct{}
}

// Counters count what the handler has done.
type Counters struct {
	OriginRefused, CrossSite, Logins, LoginsFailed, LoginsThrottled, Visitors, VisitorsRefused, SocketsRefused, IdentitiesBad, RequestsBusy, RequestsDenied, AuditLost atomic.Uint64

	Uploads, UploadsRefused, FilesSent, LinksRefused atomic.Uint64
}

// New returns a Front. It reads the origins of all sites; ctx bounds that.
func New(ctx context.Context, o Options) (*Front, error) {
	if o.Others == nil {
		o.Others = func() (string, error) { return "", nil }
	}
	f := &Front{
		o: o, store: o.Store, hub: o.Hub,
		throttle:    auth.NewThrottle(o.Now, o.Shared),
		codes:       o.Shared.Count("codes", auth.NewBuckets(1/codeEvery.Seconds(), codeBurst, maxLimited)),
		running:     auth.NewHeld(),
		visitors:    o.Shared.Count("visitors of a site", auth.NewBuckets(o.NewVisitors.PerSecond, o.NewVisitors.Burst, maxLimited)),
		visitorsOf:  o.Shared.Count("visitors of an address", auth.NewBuckets(o.NewVisitorsPerIP.PerSecond, o.NewVisitorsPerIP.Burst, maxLimited)),
		denials:     auth.NewBuckets(1, deniedBurst, maxLimited),
		transcripts: o.Shared.Count("transcripts", auth.NewBuckets(1/transcriptEvery.Seconds(), transcriptBurst, maxLimited)),
		resets:      o.Shared.Count("resets", auth.NewBuckets(1/resetEvery.Seconds(), resetBurst, maxLimited)),
		numbers:     dayNumbers{turn: make(chan struct{}, 1)},
		places: places{
			widget: make(chan struct{}, widgetRequests), staff: make(chan struct{}, agentRequests), bots: make(chan struct{}, botRequests),
			wall: make(chan struct{}, wallPlaces), reports: make(chan struct{}, reportPlaces),
			uploads: make(chan struct{}, visitorUploads), staffUploads: make(chan struct{}, staffUploads),
			fetches: make(chan struct{}, visitorFetches), staffFetches: make(chan struct{}, staffFetches),
			exports: make(chan struct{}, exportPlaces), ready: make(chan struct{}, readyRequests),
		},
	}
	key, err := o.Store.Secret(ctx, "devices")
	if err != nil {
		return nil, err
	}
	f.devices = auth.NewDevices(key)
	if f.languages, err = loadLanguages(o.Languages); err != nil {
		return nil, err
	}
	if f.sso, err = f.newSignOn(ctx); err != nil {
		return nil, err
	}
	if f.pages, err = pagesWith(o.Languages, f.languages); err != nil {
		return nil, err
	}
	if f.admin, err = f.newAdmin(); err != nil {
		return nil, err
	}
	f.readOrigins(ctx)
	f.programs = f.newPrograms()
	f.entry = entry{o.Shared.Hold("connections of an address", auth.NewHeld()), f.newPolls()}
	f.handler = f.routes()
	return f, nil
}

// Handler returns the handler of all requests. Upgrades work only on the engine's http1 server.
func (f *Front) Handler() http.Handler { return f.handler }

// HTTP returns the options of the server that runs the handler.
func (f *Front) HTTP() http1.Options {
	return http1.Options{
		Route:   f.route,
		MaxBody: math.MaxInt64, BodyTimeout: f.o.Uploads.MaxTime + f.within(requestTimeout), // the routes bound their bodies and the time they take
	}
}

// Drain makes the page /readyz say from now on that the server is ending, and ends calls that wait for events.
func (f *Front) Drain() {
	if !f.draining.Swap(true) {
		close(f.programs.drain)
	}
}

// Farewell waits until clients by long poll have been told the end of their sessions. Call it when the hub has ended them.
func (f *Front) Farewell(ctx context.Context) { f.entry.polls.Drain(ctx) }

// Close ends what Drain has left. Call it when no requests come any more.
func (f *Front) Close() { f.entry.polls.Close() }
