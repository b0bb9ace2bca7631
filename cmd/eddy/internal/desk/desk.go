// Package desk is "eddy desk": the chat server, its data and its accounts.
package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/health"
	"github.com/go-eddy/eddy/cmd/eddy/internal/serving"
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/bus"
	"github.com/go-eddy/eddy/desk/files/objects"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/desk/hooks"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
	"github.com/go-eddy/eddy/metrics"
)

const (
	defaultDataDir    = "desk-data"
	defaultConnsPerIP = 256

	defaultHSTS         = 30 * 24 * time.Hour
	defaultSiteVisitors = 50
	visitorsSaved       = 10 // seconds' worth of new visitors that may come at once
)

// deskFlags are the flags of "eddy desk".
type deskFlags struct {
	serving.Flags
	settings  cli.Settings
	data      string
	store     string
	files     string
	bus       string
	frames    string
	https     bool
	hsts      time.Duration
	public    string
	routing   string
	languages string

	proxies      []string
	connsPerIP   int
	chatsPerIP   int
	awayAfter    time.Duration
	siteVisitors int
	keepIP       string
	logins       loginFlags
	keepEvents   time.Duration
	push         bool
	uploads      uploadFlags
	mail         mailFlags
	places       places
	traces       traceFlags
}

func (f *deskFlags) check() error {
	if err := f.Flags.Check(); err != nil {
		return err
	}
	if !slices.Contains(store.Strategies(), f.routing) {
		return fmt.Errorf("--routing is %q: give one of %s", f.routing, strings.Join(store.Strategies(), ", "))
	}
	if _, err := f.trusted(); err != nil {
		return err
	}
	if _, ok := keepIPs()[f.keepIP]; !ok {
		return fmt.Errorf("--keep-ip is %q: give none, short or full", f.keepIP)
	}
	if f.connsPerIP < 0 {
		return fmt.Errorf("--conns-per-ip %d is negative: use 0 for no limit", f.connsPerIP)
	}
	if f.keepEvents < hooks.GiveUp {
		return fmt.Errorf("--keep-events is %v: give %v or more, because webhooks are tried for so long", f.keepEvents, hooks.GiveUp)
	}
	if f.hsts != 0 && f.hsts < time.Second {
		return fmt.Errorf("--hsts is %v: give 1s or more, such as 720h, or 0 to tell browsers nothing", f.hsts)
	}
	if err := front.CheckPublicURL(f.publicURL(), f.overHTTPS()); err != nil {
		return fmt.Errorf("--public-url %w", err)
	}
	if _, err := front.CheckLanguages(f.languages); err != nil {
		return fmt.Errorf("--languages %s: %w", f.languages, err)
	}
	if f.siteVisitors < 0 {
		return fmt.Errorf("--site-visitors %d is negative: use 0 for no limit", f.siteVisitors)
	}
	if f.chatsPerIP < 0 || f.chatsPerIP > store.MaxChats {
		return fmt.Errorf("--chats-per-ip is %d: give 1 to %d, or 0 for no limit", f.chatsPerIP, store.MaxChats)
	}
	if f.awayAfter != 0 && f.awayAfter < 2*time.Minute {
		return fmt.Errorf("--away-after is %v: give 2m or more, because consoles tell once a minute that somebody is there, or 0 for never", f.awayAfter)
	}
	if err := errors.Join(f.uploads.check(), f.traces.check()); err != nil {
		return err
	}
	if err := f.logins.check(f.publicURL()); err != nil {
		return err
	}
	if _, err := f.mail.settings(); err != nil {
		return err
	}
	if f.mail.server != "" && f.public == "" {
		return errors.New("--public-url is empty: mails have links, so --mail-server needs the address by which customers reach Desk")
	}
	return f.checkData()
}

// publicURL returns --public-url as an origin.
func (f *deskFlags) publicURL() string { return strings.TrimSuffix(f.public, "/") }

// overHTTPS reports whether browsers come over https.
func (f *deskFlags) overHTTPS() bool { return f.https || f.Secure() }

// keepIPs are the values of --keep-ip.
func keepIPs() map[string]front.KeepIP {
	return map[string]front.KeepIP{"none": front.KeepNoIP, "short": front.KeepShortIP, "full": front.KeepFullIP}
}

// trusted returns the proxies whose X-Forwarded-For is believed.
func (f *deskFlags) trusted() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range f.proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, addrErr := netip.ParseAddr(text)
			if addrErr != nil {
				return nil, fmt.Errorf("--trusted-proxies %q is no address and no network: write 10.0.0.5 or 10.0.0.0/8", text)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		all = append(all, p)
	}
	return all, nil
}

func (f *deskFlags) checkData() error {
	if f.data == "" {
		return errors.New("--data is empty: name a directory this user can write to")
	}
	if f.files != "" && f.store == "" {
		return errors.New("--files needs --store, because the files of a database file are in --data")
	}
	if err := bus.CheckURL(f.bus); err != nil {
		return fmt.Errorf("--bus: %w", err)
	}
	if f.bus != "" && f.store == "" {
		return errors.New("--bus needs --store: a server with a database file is alone")
	}
	if objects.IsURL(f.files) {
		if _, err := objects.Parse(f.files); err != nil {
			return fmt.Errorf("--files %w", err)
		}
	}
	return sqlstore.CheckURL(f.store)
}

// place names the data in messages.
func (f *deskFlags) place() string {
	if f.store != "" {
		return sqlstore.Place(f.store)
	}
	return f.data
}

func (f *deskFlags) options() desk.Options {
	trusted, _ := f.trusted()    // checked
	single, _ := f.logins.sso()  // checked
	post, _ := f.mail.settings() // checked
	perIP, chats := cmp.Or(f.connsPerIP, -1), cmp.Or(f.chatsPerIP, -1)
	hsts := f.hsts
	if !f.Certified() {
		hsts = 0 // a proxy tells browsers itself, and a certificate for trials is no promise
	}
	visitors := hub.Rate{PerSecond: float64(f.siteVisitors), Burst: visitorsSaved * f.siteVisitors}
	if f.siteVisitors == 0 {
		visitors.Burst = -1
	}
	return desk.Options{
		DataDir: f.data, Store: f.store, Files: f.files, Bus: f.bus, Addr: f.Addr, Frames: f.frames, KeepCloses: f.KeepCloses(), Loops: f.Loops, Poller: f.Poller, MaxConns: f.MaxConns, MemoryBudget: int(f.Memory),
		HTTPS: f.overHTTPS(), HSTS: hsts, PublicURL: f.publicURL(), Languages: f.languages, Dumper: f.Dumper, Routing: store.GroupSettings{Strategy: f.routing},
		TrustedProxies: trusted, ConnsPerIP: perIP, NewVisitors: visitors, Limits: hub.Limits{Chats: chats, IdleAway: cmp.Or(f.awayAfter, -1)}, KeepIP: keepIPs()[f.keepIP], Uploads: f.uploads.options(), Mail: post,
		SecondFactor: factorPolicies()[f.logins.factor], PasswordLogin: passwordPolicies()[f.logins.passwords], Passwords: f.logins.cost.params(), SSO: single,
		KeepEvents: f.keepEvents, NoPush: !f.push, Trace: f.traces.recorder(), TrustTrace: f.traces.trust,
	}
}

// Command builds the command and those below it.
func Command(t *cli.Terminal) *cobra.Command {
	var f deskFlags
	cmd := &cobra.Command{
		Use:   "desk",
		Short: "Run the Desk chat server: a page for customers, a console for agents",
		Long: "Run the Desk chat server. The first start creates the data directory with a demo site and an agent account,\n" +
			"and prints the account's password, once.",
		Example: "  eddy desk\n  eddy desk --addr 0.0.0.0:8443 --data /var/lib/eddy-desk --tls-cert desk.pem --tls-key desk-key.pem\n" +
			"  eddy desk --config desk.yaml\n  eddy desk backup --to /backup/desk-2026-11-22",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return run(cmd.Context(), t, &f)
		},
	}
	f.Flags.Register(cmd, cli.DeskAddr)
	cmd.PersistentFlags().StringVar(&f.data, "data", defaultDataDir, "directory of the database and the files; created if missing")
	cmd.PersistentFlags().StringVar(&f.store, "store", "", "address of a PostgreSQL database, such as postgres://desk@db.example/desk; empty = a file in --data")
	cmd.PersistentFlags().StringVar(&f.files, "files", "", "where the uploaded files are, which all servers with one --store share: a directory, or a bucket such as s3://desk?region=eu-central-1; empty = a directory in --data")
	cmd.Flags().StringVar(&f.bus, "bus", "", "address of NATS, such as nats://bus.example:4222, over which the servers with one --store tell each other what happens; empty = the database tells them")
	cmd.Flags().StringVar(&f.frames, "frames", "", "address of native clients, which speak the frame protocol, such as 0.0.0.0:7443; with TLS if --addr has it; empty = none")
	cmd.Flags().StringVar(&f.routing, "routing", store.LeastBusy, "who gets a waiting customer of a site without a group: "+strings.Join(store.Strategies(), ", "))
	cmd.Flags().BoolVar(&f.https, "https", false, "browsers come over https, through a proxy that ends TLS")
	cmd.Flags().DurationVar(&f.hsts, "hsts", defaultHSTS, "with --tls-cert, for how long browsers come to this host over https only; 0 = they are not told")
	cmd.Flags().StringVar(&f.public, "public-url", "", "address by which customers reach Desk, such as https://desk.example; empty = as the administrator's browser says")
	cmd.Flags().StringVar(&f.languages, "languages", "", "folder with more languages of the customers' page, such as fr.json; empty = only those that come with the program")
	cmd.Flags().StringSliceVar(&f.proxies, "trusted-proxies", []string{"127.0.0.0/8", "::1"}, "addresses or networks, separated by commas, whose X-Forwarded-For is believed; this machine unless given")
	cmd.Flags().IntVar(&f.connsPerIP, "conns-per-ip", defaultConnsPerIP, "open connections of one address, but this machine's; 0 = no limit")
	cmd.Flags().IntVar(&f.chatsPerIP, "chats-per-ip", hub.DefaultChats, "chats that customers of one address, but this machine's, may begin in an hour on a site, or at once; 0 = no limit")
	cmd.Flags().DurationVar(&f.awayAfter, "away-after", hub.DefaultIdleAway, "how long an agent who is online does nothing in the console before the agent is away; 0 = for ever")
	cmd.Flags().IntVar(&f.siteVisitors, "site-visitors", defaultSiteVisitors, "new visitors of one site a second, ten times as many at once; 0 = no limit")
	cmd.Flags().StringVar(&f.keepIP, "keep-ip", "none", "what is stored of clients' addresses: none, short (a network of them) or full")
	f.logins.register(cmd)
	cmd.Flags().DurationVar(&f.keepEvents, "keep-events", hooks.DefaultKeep, "how long programs can fetch what has happened, at least 24h")
	f.registerPush(cmd)
	f.uploads.register(cmd)
	f.mail.register(cmd)
	f.places.register(cmd)
	f.traces.register(cmd)
	f.settings.Register(cmd, "EDDY_DESK_")
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return f.settings.Apply(cmd) }
	cmd.AddCommand(newBackup(t, &f), newRestore(t, &f), newMigrate(t, &f), newRecount(t, &f), newPlan(t), newVersion(t, &f), newUser(t, &f))
	return cmd
}

// registerPush adds the flag about calls of agents.
func (f *deskFlags) registerPush(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.push, "push", true, "agents who want it are called through the push services of their browsers while their console is closed; --push=false asks no such service")
}

// run runs the chat server until it is told to stop.
func run(ctx context.Context, t *cli.Terminal, f *deskFlags) error {
	o := f.options()
	op, err := f.Operator(t, "eddy desk")
	if err != nil {
		return err
	}
	if err := probe(o.Addr); err != nil {
		return cli.ExplainListen("--addr", o.Addr, err)
	}
	if o.Frames != "" {
		if err := probe(o.Frames); err != nil {
			return cli.ExplainListen("--frames", o.Frames, err)
		}
	}
	end := func() {}
	if f.Secure() {
		if o.Layers, end, err = f.Secured(t, func(*eddy.Pipeline) error { return nil }); err != nil {
			return err
		}
	}
	defer end()
	forget, err := f.places.open(t)
	if err != nil {
		return err
	}
	defer forget()
	o.Places = f.places.file
	steps := opening{t: t}
	o.Checking, o.Migrating = steps.checking, steps.migrating
	d, err := desk.Open(ctx, o)
	steps.end()
	if err != nil {
		return err
	}
	login, password, first := d.FirstLogin()
	if err := d.Start(ctx); err != nil {
		if first { // the account exists now, and its password is stored nowhere
			t.Say("eddy: created the agent account: login %s, password %s", login, password)
		}
		return errors.Join(cli.ExplainListen("--addr", o.Addr, err), d.Close())
	}
	scheme := "http://"
	if f.Secure() {
		scheme = "https://"
	}
	base := scheme + cli.Reachable(d.Addr().String())
	t.Say("eddy: desk is running, data in %s; stop with Ctrl+C", f.place())
	t.Say("  customer page  %s/chat/demo", base)
	t.Say("  agent console  %s/console", base)
	if a := d.FramesAddr(); a != nil {
		t.Say("  native clients %s", cli.Reachable(a.String()))
	}
	if first {
		t.Say("  login          %s", login)
		t.Say("  password       %s", password)
		t.Say("  (the password is shown only this once)")
	}
	f.Measured = append(f.Measured, metrics.HTTP("desk", d.HTTP()))
	if err := errors.Join(op.Desk(d), op.Traces("desk", o.Trace), op.Begin(f.Measured...)); err != nil {
		return errors.Join(err, d.Close())
	}
	defer op.End()
	return serving.UntilSignal(t, health.Answers(d.Addr().String(), f.Secure()), func(ctx context.Context) (string, error) {
		op.Drain()
		if err := d.Shutdown(ctx); err != nil {
			return "not everything had ended in order and was cut off; what was acknowledged is stored", err
		}
		return "all connections drained, database closed", nil
	})
}

// opening says what opening a database takes, when that is more than a moment. Call end when the database is open.
type opening struct {
	t    *cli.Terminal
	done func() // ends the step before, nil before the first
}

// checking says that the whole database is read.
func (o *opening) checking() {
	o.end()
	o.t.Note("checking the database, which was not closed in order or has been changed since")
	o.done = o.t.Meanwhile("checking the database")
}

// migrating says that a database of an older program is brought up to date.
func (o *opening) migrating(from, to int) {
	o.end()
	o.t.Note("bringing the database from version %d to %d", from, to)
	o.done = o.t.Meanwhile(fmt.Sprintf("version %d", to))
}

// end ends the last step.
func (o *opening) end() {
	if o.done != nil {
		o.done()
	}
	o.done = nil
}

// probe checks that the address can be listened on, before anything is written to the disk.
func probe(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}
