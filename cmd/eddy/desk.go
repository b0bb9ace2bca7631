package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/spf13/cobra"
)

const (
	defaultDeskAddr = "127.0.0.1:8080"
	defaultDataDir  = "desk-data"

	defaultConnsPerIP = 256
)

// deskFlags are the flags of "eddy desk".
type deskFlags struct {
	listenFlags
	settings settings
	data     string
	https    bool
	routing  string

	proxies    []string
	connsPerIP int
	keepIP     string
	uploads    uploadFlags
}

func (f *deskFlags) check() error {
	if err := f.listenFlags.check(); err != nil {
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
	if err := f.uploads.check(); err != nil {
		return err
	}
	return f.checkData()
}

// keepIPs are the values of --keep-ip.
func keepIPs() map[string]desk.KeepIP {
	return map[string]desk.KeepIP{"none": desk.KeepNoIP, "short": desk.KeepShortIP, "full": desk.KeepFullIP}
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
	return nil
}

func (f *deskFlags) options() desk.Options {
	trusted, _ := f.trusted() // checked
	perIP := f.connsPerIP
	if perIP == 0 {
		perIP = -1
	}
	return desk.Options{
		DataDir: f.data, Addr: f.addr, KeepCloses: f.admin.kept(), Loops: f.loops, Poller: f.poller, MaxConns: f.maxConns, MemoryBudget: int(f.memory),
		HTTPS: f.https || f.secure(), Dumper: f.dump.dumper(), Routing: store.GroupSettings{Strategy: f.routing},
		TrustedProxies: trusted, ConnsPerIP: perIP, KeepIP: keepIPs()[f.keepIP], Uploads: f.uploads.options(),
	}
}

func newDesk(t *terminal) *cobra.Command {
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
			return t.desk(cmd.Context(), &f)
		},
	}
	f.listenFlags.register(cmd, defaultDeskAddr)
	f.tls.register(cmd)
	cmd.PersistentFlags().StringVar(&f.data, "data", defaultDataDir, "directory of the database and the files; created if missing")
	cmd.Flags().StringVar(&f.routing, "routing", store.LeastBusy, "who gets a waiting customer of a site without a group: "+strings.Join(store.Strategies(), ", "))
	cmd.Flags().BoolVar(&f.https, "https", false, "browsers come over https, through a proxy that ends TLS")
	cmd.Flags().StringSliceVar(&f.proxies, "trusted-proxies", nil, "addresses or networks, separated by commas, whose X-Forwarded-For is believed")
	cmd.Flags().IntVar(&f.connsPerIP, "conns-per-ip", defaultConnsPerIP, "open connections of one address, but this machine's; 0 = no limit")
	cmd.Flags().StringVar(&f.keepIP, "keep-ip", "none", "what is stored of clients' addresses: none, short (a network of them) or full")
	f.uploads.register(cmd)
	f.settings.register(cmd, "EDDY_DESK_")
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return f.settings.apply(cmd) }
	cmd.AddCommand(newDeskBackup(t, &f), newDeskRestore(t, &f), newDeskMigrate(t, &f), newDeskVersion(t, &f), newDeskUser(t, &f))
	return cmd
}

// desk runs the chat server until it is told to stop.
func (t *terminal) desk(ctx context.Context, f *deskFlags) error {
	o := f.options()
	op, err := t.operator(&f.listenFlags, "eddy desk")
	if err != nil {
		return err
	}
	if err := probe(o.Addr); err != nil {
		return explainListen(o.Addr, err)
	}
	end := func() {}
	if f.secure() {
		if o.Layers, end, err = t.secured(&f.listenFlags, func(*eddy.Pipeline) error { return nil }); err != nil {
			return err
		}
	}
	defer end()
	var migrated func()
	o.Migrating, migrated = t.migration()
	d, err := desk.Open(ctx, o)
	migrated()
	if err != nil {
		return err
	}
	login, password, first := d.FirstLogin()
	if err := d.Start(ctx); err != nil {
		if first { // the account exists now, and its password is stored nowhere
			t.say("eddy: created the agent account: login %s, password %s", login, password)
		}
		return errors.Join(explainListen(o.Addr, err), d.Close())
	}
	scheme := "http://"
	if f.secure() {
		scheme = "https://"
	}
	base := scheme + reachable(d.Addr().String())
	t.say("eddy: desk is running, data in %s; stop with Ctrl+C", o.DataDir)
	t.say("  customer page  %s/chat/demo", base)
	t.say("  agent console  %s/console", base)
	if first {
		t.say("  login          %s", login)
		t.say("  password       %s", password)
		t.say("  (the password is shown only this once)")
	}
	if err := op.desk(d, &f.listenFlags); err != nil {
		return errors.Join(err, d.Close())
	}
	defer op.end()
	t.alive = answers(d.Addr().String(), f.secure())
	return t.untilSignal(func(ctx context.Context) (string, error) {
		op.drain()
		if err := d.Shutdown(ctx); err != nil {
			return "not everything had ended in order and was cut off; what was acknowledged is stored", err
		}
		return "all connections drained, database closed", nil
	})
}

// migration returns begins, which says that a database of an older program is brought up to date. begins is called for
// each version, and how long that takes is said too. done is called when the database is open.
func (t *terminal) migration() (begins func(from, to int), done func()) {
	last := func() {}
	begins = func(from, to int) {
		last()
		t.note("bringing the database from version %d to %d", from, to)
		last = t.meanwhile(fmt.Sprintf("version %d", to))
	}
	return begins, func() { last() }
}

// probe checks that the address can be listened on, before anything is written to the disk.
func probe(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// reachable returns an address a browser on this machine can open.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Sprintf("localhost:%s", port)
	}
	return addr
}
