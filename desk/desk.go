package desk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/bus"
	"github.com/go-eddy/eddy/desk/datadir"
	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/hooks"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/lease"
	"github.com/go-eddy/eddy/desk/mail"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/sso"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/http1"
)

// Desk is one chat server. Any goroutine may call its methods.
type Desk struct {
	o      Options
	lock   *datadir.Held
	store  store.Store
	hub    *hub.Hub
	server *eddy.Server
	native *eddy.Server   // port of native clients, nil = none
	pool   *executor.Pool // HTTP handlers
	http   *http1.Factory
	front  *front.Front
	hasher *auth.Hasher
	files  *files.Store
	keeper *files.Keeper
	limits *limits       // nil = this server is alone
	bus    *bus.Bus      // nil = none
	since  int64         // when it was opened, Unix milliseconds
	sso    *sso.Provider // nil = none
	hooks  *hooks.Hooks
	links  *files.Links
	post   *mail.Post // nil = no mail
	push   *push.Push // nil = nobody is called

	firstLogin, firstPassword string

	ending   sync.Once
	drainErr error // what was cut off
	closeErr error // what could not be closed properly
}

// startWithin is how long a start waits for a database that is busy. A command waits two seconds only.
const startWithin = 5 * time.Minute

// Open creates or opens the data directory. If the last run did not end in order, it checks the database. On the first start it makes the demo site and an
// agent account; see FirstLogin. Errors are one line that names the thing and the remedy.
func Open(ctx context.Context, o Options) (*Desk, error) {
	o.fill()
	if err := o.check(); err != nil {
		return nil, err
	}
	d := &Desk{o: o}
	if err := d.open(ctx); err != nil {
		return nil, errors.Join(err, d.closeData())
	}
	return d, nil
}

func (d *Desk) open(ctx context.Context) (err error) {
	if d.hasher, err = auth.NewHasher(d.o.Passwords, 0, 0); err != nil {
		return err
	}
	if d.lock, err = datadir.Lock(ctx, d.o.DataDir); err != nil {
		return err
	}
	if err := datadir.Whole(d.o.DataDir); err != nil {
		return err
	}
	path := ""
	if d.o.Store == "" {
		path = datadir.Database(d.o.DataDir)
	}
	db, err := sqlstore.Open(ctx, sqlstore.Options{
		Path: path, URL: d.o.Store, Alone: path != "", Several: path == "", InOrder: d.lock.InOrder, Mail: d.o.Mail.On(), Now: d.o.Now, Logger: d.o.Logger, Checking: d.o.Checking, Migrating: d.o.Migrating,
	})
	if err != nil {
		return err
	}
	d.store = db
	if d.o.Now == nil {
		d.o.Now = db.Now
	}
	d.since = d.o.Now().UnixMilli()
	if d.o.WrapStore != nil {
		d.store = d.o.WrapStore(db)
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin) // checking and migrating take what they take
	defer cancel()
	if err := d.seed(ctx); err != nil {
		return fmt.Errorf("desk: creating the demo accounts: %w", err)
	}
	if err := d.openFiles(ctx); err != nil {
		return err
	}
	if err := d.openPush(ctx); err != nil {
		return err
	}
	if err := d.openLimits(ctx); err != nil {
		return err
	}
	if err := d.openBus(ctx); err != nil {
		return err
	}
	secret, err := d.store.Secret(ctx, "tickets")
	if err != nil {
		return err
	}
	tickets, err := auth.NewTickets(secret, d.o.Now)
	if err != nil {
		return err
	}
	d.hub, err = hub.New(hub.Options{Store: d.store, Bus: d.hubBus(), Self: d.self, Erased: d.keeper.Erase, Links: d.links, MaxFile: d.o.Uploads.MaxSize, Tickets: tickets, Shared: d.limits.counting(), Bot: d.o.Bot, Limits: d.o.Limits, Dumper: d.o.Dumper, Logger: d.o.Logger, Now: d.o.Now, Routing: d.o.Routing, Barred: d.o.SecondFactor.Bars, Calls: d.push, Hold: d.hold("router"), Trace: d.o.Trace, HooksChanged: func() { d.hooks.Changed() }})
	if err != nil {
		return err
	}
	if err := d.openSSO(); err != nil {
		return err
	}
	var rules front.SSORules
	if d.o.SSO != nil {
		rules = d.o.SSO.Rules
	}
	d.post, err = mail.New(mail.Options{Store: d.store, Settings: d.o.Mail, PublicURL: d.o.PublicURL, Chats: d.hub, Hold: d.hold("mail"), Logger: d.o.Logger, Now: d.o.Now})
	if err != nil {
		return err
	}
	d.front, err = front.New(ctx, front.Options{
		Store: d.store, Hub: d.hub, Hasher: d.hasher, Tickets: tickets, Shared: d.limits.counting(), Files: d.files, Keeper: d.keeper, Links: d.links,
		HTTPS: d.o.HTTPS, HSTS: d.o.HSTS, PublicURL: d.o.PublicURL, Languages: d.o.Languages, NewVisitors: d.o.NewVisitors, NewVisitorsPerIP: d.o.NewVisitorsPerIP, VisitorLife: d.o.VisitorLife,
		LoginLife: d.o.LoginLife, LoginIdle: d.o.LoginIdle, Uploads: d.o.Uploads, TrustedProxies: d.o.TrustedProxies,
		Others: d.others, ConnsPerIP: d.o.ConnsPerIP, MaxConns: d.o.MaxConns, KeepIP: d.o.KeepIP, Places: d.o.Places, SecondFactor: d.o.SecondFactor, Passwords: d.o.PasswordLogin, SSO: d.sso, SSORules: rules, Mail: d.post, Push: d.push, Trace: d.o.Trace, TrustTrace: d.o.TrustTrace, Logger: d.o.Logger, Now: d.o.Now, Patience: d.o.patience,
	})
	if err != nil {
		return err
	}
	api := d.front.API()
	d.hooks, err = hooks.New(hooks.Options{Store: d.store, Tell: api.Tell, Turn: api.Turn, Keep: d.o.KeepEvents, Hold: d.hold("hooks"), Trace: d.o.Trace, Logger: d.o.Logger, Now: d.o.Now})
	return err
}

// hold returns what runs work that one of several servers does, by the name of its lease.
func (d *Desk) hold(name string) lease.Hold {
	return lease.Options{Store: d.store, Logger: d.o.Logger}.Hold(name)
}

// openPush prepares the calls of agents, unless they are switched off.
func (d *Desk) openPush(ctx context.Context) (err error) {
	if d.o.NoPush {
		return nil
	}
	o := push.Options{
		Store: d.store, Connected: func(agent string) bool { return d.hub.Connected(agent) }, Idle: d.o.LoginIdle, Barred: d.o.SecondFactor.Bars,
		Logger: d.o.Logger, Now: d.o.Now,
	}
	if strings.HasPrefix(d.o.PublicURL, "https:") {
		o.Contact = d.o.PublicURL
	}
	if d.o.push != nil {
		d.o.push(&o)
	}
	d.push, err = push.New(ctx, o)
	return err
}

// openFiles opens the place of the files.
func (d *Desk) openFiles(ctx context.Context) error {
	key, err := d.store.Secret(ctx, "files")
	if err != nil {
		return err
	}
	o := &d.o.Uploads
	d.links = files.NewLinks(key, d.o.Now)
	place, err := d.openPlace(ctx)
	if err != nil {
		return err
	}
	if d.files, err = files.Open(files.Options{Place: place, MaxSize: o.MaxSize, MinFree: o.MinFree, Types: o.Types}); err != nil {
		place.Close()
		return err
	}
	if d.o.Store != "" {
		if err := d.files.Belongs(ctx, d.store.FilesAt); err != nil {
			return err
		}
	}
	d.keeper, err = files.NewKeeper(files.KeeperOptions{
		Store: d.store, Files: d.files, Scanner: o.Scanner, Hold: d.hold("files"),
		Loose: o.Loose, Grace: time.Hour + 2*o.MaxTime, Logger: d.o.Logger, Now: d.o.Now, // an object in parts is as old as its first byte
	})
	return err
}

// seed makes the demo site and the first account in a new data directory.
func (d *Desk) seed(ctx context.Context) error {
	const site, login = "demo", "agent"
	if _, err := d.store.Cold().SiteByKey(ctx, site); errors.Is(err, store.ErrNotFound) {
		_, err := d.store.CreateSite(ctx, store.Site{Key: site, Name: "Demo site", BotName: "Eddy", Settings: store.SiteSettings{RateChat: true}})
		if err != nil && !errors.Is(err, store.ErrExists) { // another server that starts, too
			return err
		}
	} else if err != nil {
		return err
	}
	if all, err := d.store.Cold().Agents(ctx); err != nil || len(all) > 0 {
		return err
	}
	password := auth.NewPassword()
	hash, err := d.hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	_, err = d.store.CreateAgent(ctx, store.AgentAccount{Login: login, Name: "Agent", Password: hash, Capacity: demoCapacity, Role: perm.Admin})
	switch {
	case errors.Is(err, store.ErrExists):
		return nil
	case err != nil:
		return err
	}
	d.firstLogin, d.firstPassword = login, password
	return nil
}

// FirstLogin returns the account that Open has just created, to be shown once. ok is false on later starts. Of the
// password only a hash is stored.
func (d *Desk) FirstLogin() (login, password string, ok bool) {
	return d.firstLogin, d.firstPassword, d.firstLogin != ""
}

// AddAgent creates another agent account. Logins are unique without regard to case. capacity is the number of
// conversations at once, at most store.MaxCapacity; 0 = none.
func (d *Desk) AddAgent(ctx context.Context, login, name, password string, capacity int) error {
	hash, err := d.hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	_, err = d.store.CreateAgent(ctx, store.AgentAccount{Login: login, Name: name, Password: hash, Capacity: capacity})
	return err
}

// Start listens, and returns once the server serves. Call it once. If it fails, Close the Desk.
func (d *Desk) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	var err error
	d.pool, err = executor.NewFixed(executor.Options{Name: "http", Workers: front.Workers, Queue: httpQueue, Dumper: d.o.Dumper, Logger: d.o.Logger})
	if err != nil {
		return err
	}
	if err := d.hub.Start(ctx); err != nil {
		return err
	}
	if err := d.keeper.Start(ctx); err != nil {
		return fmt.Errorf("desk: adding up the files: %w", err)
	}
	d.limits.start()
	d.post.Start()
	if err := d.push.Start(); err != nil {
		return err
	}
	if err := d.hooks.Start(); err != nil {
		return err
	}
	d.http = http1.NewHandler(d.Handler(), d.pool, d.front.HTTP())
	server := &eddy.Server{
		Init:         d.layered(d.http.Init),
		Loops:        d.o.Loops,
		Poller:       d.o.Poller,
		MaxConns:     d.o.MaxConns,
		Admission:    d.admission(),
		KeepCloses:   d.o.KeepCloses,
		MemoryBudget: d.o.MemoryBudget,
		Logger:       d.o.Logger,

		FlushTimeout: d.o.patience, LingerTimeout: d.o.patience,
	}
	if err := server.Listen("tcp", d.o.Addr); err != nil {
		return err
	}
	d.server = server
	return d.startNative()
}

// layered puts Options.Layers in front of HTTP.
func (d *Desk) layered(http func(*eddy.Pipeline) error) func(*eddy.Pipeline) error {
	if d.o.Layers == nil {
		return http
	}
	return func(p *eddy.Pipeline) error {
		if err := d.o.Layers(p); err != nil {
			return err
		}
		return http(p)
	}
}

// admission makes the engine count connections by tenant and refuse those beyond the limit before they say a word. The
// refusal is a 503, unless Layers stand in front of HTTP.
func (d *Desk) admission() eddy.Admission {
	a := eddy.Admission{Tenant: d.front.Tenant, MaxPerTenant: d.o.ConnsPerIP}
	if d.o.Layers == nil {
		a.OnLimit, a.Busy = eddy.DecisionBusy, d.http.Refuse
	}
	return a
}

// Addr returns the address Start listens on.
func (d *Desk) Addr() net.Addr { return d.server.Addr() }

// Wait blocks until the server has stopped and returns eddy.ErrServerClosed then.
func (d *Desk) Wait() error { return d.server.Wait() }

// Shutdown ends in order: clients are told when to come back, running commands are committed and acknowledged,
// connections are drained, then the database is closed. What is not done when ctx ends is cut off, except the
// database, which is always closed properly. A second call returns the result of the first.
func (d *Desk) Shutdown(ctx context.Context) error {
	d.front.Drain()
	d.ending.Do(func() { d.end(ctx) })
	return errors.Join(d.drainErr, d.closeErr)
}

// Close is Shutdown without any time. What was acknowledged is stored.
func (d *Desk) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = d.Shutdown(ctx) // cutting off is what Close is for
	return d.closeErr
}

func (d *Desk) end(ctx context.Context) {
	drain := []error{d.hub.Shutdown(ctx)}
	d.front.Farewell(ctx)
	drained, closed := d.endNative(ctx)
	drain = append(drain, drained)
	if d.server != nil {
		if ctx.Err() == nil {
			_, err := d.server.Shutdown(ctx)
			drain = append(drain, err)
		}
		closed = errors.Join(closed, d.server.Close())
	}
	if d.pool != nil {
		d.pool.Close()
		_, err := d.pool.Shutdown(ctx)
		drain = append(drain, err)
	}
	d.drainErr = errors.Join(drain...)
	d.front.Close()
	d.keeper.Stop()
	d.limits.stop()
	d.post.Stop()
	d.closeErr = errors.Join(closed, d.hooks.Stop(), d.push.Stop(), d.closeData())
}

// closeData closes the database, as far as it is open, and gives the directory back.
func (d *Desk) closeData() error {
	if d.sso != nil {
		d.sso.Close()
	}
	if d.bus != nil {
		d.bus.Close()
	}
	if d.files != nil {
		d.files.Close()
	}
	switch {
	case d.lock == nil:
		return nil
	case d.store == nil:
		return d.lock.Close()
	}
	if err := d.store.Close(); err != nil {
		return errors.Join(err, d.lock.Close())
	}
	return d.lock.CloseInOrder()
}

// Handler returns the HTTP side of the Desk, for the engine's http1 server. Upgrades work only there.
func (d *Desk) Handler() http.Handler { return d.front.Handler() }
