// Package benchdesk is "eddy bench desk": a Desk that is started, loaded and measured.
package benchdesk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/deskload"
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/bus"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/desk/store/sqlstore"
)

// deskBench are the flags of "eddy bench desk".
type deskBench struct {
	customers, agents int
	rate, size        int
	duration          time.Duration
	idle, reconnect   int
	only              []string
	asJSON            bool
	data              string
	store             string
	nodes, rolling    int
	bus               string

	chats, texts, turns int
	readsData           string
	readsStore          string
}

// deskParts are what "eddy bench desk" measures, in order. The data of reads take minutes to make, so reads is measured only
// when it is named.
var deskParts = []string{"rate", "full", "isolation", "idle", "reconnect", partDeath, partRolling, partReads}

const (
	partReads   = "reads"
	partDeath   = "death"
	partRolling = "rolling"
)

// aloneParts measure one server, togetherParts several. The other parts measure both.
var (
	aloneParts    = []string{"isolation", "idle", "reconnect", partReads}
	togetherParts = []string{partDeath, partRolling}
)

// Command builds the command.
func Command(t *cli.Terminal) *cobra.Command {
	var b deskBench
	cmd := &cobra.Command{
		Use:   "desk",
		Short: "Measure a Desk of its own with customers and agents as WebSocket clients",
		Long: "Start a Desk with its data in a temporary directory and measure it with customers and agents as WebSocket clients:\n" +
			"  rate       messages at a constant rate: from when one was due to its acknowledgement, and until the other side has it\n" +
			"  full       durable messages per second with one message of every customer under way\n" +
			"  isolation  the rate again, in turns with and without an operation that hangs in every place of the agents' pool\n" +
			"  idle       memory of the server per connected visitor\n" +
			"  reconnect  the server is killed and started again under its clients: how long until all have resumed, what was lost or doubled\n" +
			"  death      one of --nodes servers is killed while messages flow: how long until its conversations go on, and until its clients are back\n" +
			"  rolling    each of --nodes servers is stopped in order and started again: how long until all clients have resumed, what was lost or doubled\n" +
			"  reads      times of lists, searches and reports over a year of old chats, only with --only reads: making the data takes minutes, once\n" +
			"The limits of single visitors are out of the way, because all of them come from one address.",
		Example: "  eddy bench desk\n  eddy bench desk --only rate --rate 1000 --duration 30s --json\n  eddy bench desk --only reads --reads-data /var/tmp/desk-reads",
		RunE: func(*cobra.Command, []string) error {
			if err := b.check(); err != nil {
				return err
			}
			return run(t, &b)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&b.customers, "customers", 500, "customers who write")
	fl.IntVar(&b.agents, "agents", 25, "agents who answer")
	fl.IntVar(&b.rate, "rate", 500, "messages per second of rate, isolation, death and rolling")
	fl.IntVar(&b.size, "size", 64, "characters per message")
	fl.DurationVar(&b.duration, "duration", 20*time.Second, "how long each of rate, full, death and either half of isolation takes")
	fl.IntVar(&b.idle, "idle", 5000, "visitors of idle")
	fl.IntVar(&b.reconnect, "reconnect", 10_000, "visitors of reconnect")
	fl.IntVar(&b.rolling, "rolling", 10_000, "visitors of rolling")
	fl.StringSliceVar(&b.only, "only", nil, "only these, separated by commas: "+strings.Join(deskParts, ", "))
	fl.BoolVar(&b.asJSON, "json", false, "print the results as JSON")
	fl.StringVar(&b.data, "data", "", "parent of the data directory, which decides what disk is measured; empty = the system's directory for temporary files")
	fl.StringVar(&b.store, "store", "", "address of an empty PostgreSQL database that is measured instead of a file; its data stay there")
	fl.IntVar(&b.nodes, "nodes", 1, "servers on the database of --store; each connection goes to any of them. More than one: only rate, full, death and rolling")
	fl.StringVar(&b.bus, "bus", "", "address of NATS, over which these servers tell each other what happens; empty = the database tells them")
	fl.IntVar(&b.chats, "chats", 10_000, "closed chats of reads")
	fl.IntVar(&b.texts, "texts", 100, "messages of each chat of reads")
	fl.IntVar(&b.turns, "turns", 200, "how often each list, search and report of reads is asked for")
	fl.StringVar(&b.readsData, "reads-data", "", "directory in which the data of reads are made once and used again; empty = they are made anew and removed")
	fl.StringVar(&b.readsStore, "reads-store", "", "address of an empty PostgreSQL database in which the data of reads are made once and used again, and stay; needs --reads-data, which then says what they are")
	return cmd
}

func (b *deskBench) check() error {
	for _, f := range []struct {
		name        string
		value, most int
	}{
		{"customers", b.customers, 20_000}, {"agents", b.agents, 1000}, {"rate", b.rate, 100_000}, {"size", b.size, 8000},
		{"idle", b.idle, 1_000_000}, {"reconnect", b.reconnect, 1_000_000}, {"rolling", b.rolling, 1_000_000}, {"chats", b.chats, 1_000_000}, {"texts", b.texts, 10_000}, {"turns", b.turns, 100_000},
		{"nodes", b.nodes, 16},
	} {
		if f.value < 1 || f.value > f.most {
			return fmt.Errorf("--%s %d is out of range: use 1 to %d", f.name, f.value, f.most)
		}
	}
	if most := b.agents * store.MaxCapacity; b.customers > most {
		return fmt.Errorf("--customers %d is out of range: --agents %d serve at most %d", b.customers, b.agents, most)
	} else if b.wants(partRolling) && b.rolling > most {
		return fmt.Errorf("--rolling %d is out of range: --agents %d serve at most %d", b.rolling, b.agents, most)
	}
	crowds := slices.ContainsFunc((&deskRun{deskBench: b}).parts(), func(part deskPart) bool { return part.crowd && b.wants(part.name) })
	if most := b.agents * store.MaxCapacity; crowds && b.wants(partRolling) && b.customers+b.rolling > most {
		return fmt.Errorf("--rolling %d is out of range: --agents %d serve at most %d, and they keep the chats of --customers %d", b.rolling, b.agents, most, b.customers)
	}
	if b.duration <= 0 || b.duration > time.Hour {
		return fmt.Errorf("--duration %s is out of range: use more than 0 and at most 1h", b.duration)
	}
	if err := b.checkNodes(); err != nil {
		return err
	}
	if b.readsStore != "" && b.readsData == "" {
		return errors.New("--reads-store needs --reads-data: name a directory")
	}
	if err := sqlstore.CheckURL(b.readsStore); err != nil {
		return fmt.Errorf("--reads-store: %w", err)
	}
	for _, part := range b.only {
		if !slices.Contains(deskParts, part) {
			return fmt.Errorf("--only %q is nothing that is measured: use %s", part, strings.Join(deskParts, ", "))
		}
	}
	return nil
}

func (b *deskBench) checkNodes() error {
	if err := bus.CheckURL(b.bus); err != nil {
		return fmt.Errorf("--bus: %w", err)
	}
	if (b.nodes > 1 || b.bus != "") && b.store == "" {
		return errors.New("--nodes and --bus need --store: a server with a database file is alone, use a PostgreSQL database")
	}
	for _, part := range b.only {
		if b.nodes > 1 && slices.Contains(aloneParts, part) {
			return fmt.Errorf("--only %s measures one server: with --nodes use rate, full, %s", part, strings.Join(togetherParts, ", "))
		}
		if b.nodes == 1 && slices.Contains(togetherParts, part) {
			return fmt.Errorf("--only %s measures several servers: use --nodes 2 or more", part)
		}
	}
	return nil
}

func (b *deskBench) wants(part string) bool {
	switch {
	case len(b.only) > 0:
		return slices.Contains(b.only, part)
	case b.nodes > 1:
		return !slices.Contains(aloneParts, part)
	default:
		return part != partReads && !slices.Contains(togetherParts, part)
	}
}

// benchPatience is the longest time that one part may take.
const benchPatience = 5 * time.Minute

// rollingPatience bounds the part that lets thousands of customers begin at several servers.
const rollingPatience = 15 * time.Minute

// deskRun is one run of the measurements.
type deskRun struct {
	*deskBench
	t        *cli.Terminal
	dir      string
	accounts []deskload.Account
	servers  []*deskProcess // on the same database
	fleet    *deskload.Fleet
	crowded  bool // the fleet has customers with an agent each
	report   deskReport
}

func run(t *cli.Terminal, b *deskBench) (err error) {
	dir, err := os.MkdirTemp(b.data, "eddy-bench-desk-")
	if err != nil {
		return fmt.Errorf("%w; name a directory this user can write to with --data", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &deskRun{deskBench: b, t: t, dir: filepath.Join(dir, "data"), report: deskReport{Customers: b.customers, Agents: b.agents}}
	defer func() { err = errors.Join(err, r.end()) }()
	err = t.WhileRunning(context.Background(), func(ctx context.Context) error {
		if err := r.prepare(ctx); err != nil {
			return err
		}
		return r.measure(ctx, r.parts())
	})
	if !r.report.measured() { // nothing to tell but the error
		return err
	}
	if b.asJSON {
		return errors.Join(json.NewEncoder(t.Out).Encode(r.report), err)
	}
	r.report.print(t)
	return err
}

// prepare makes the accounts of the agents and starts the servers.
func (r *deskRun) prepare(ctx context.Context) error {
	of := r.flags(0, "")
	d, err := desk.Open(ctx, of.options())
	if err != nil {
		return err
	}
	for i := range r.agents {
		a := deskload.Account{Login: fmt.Sprintf("agent%d", i), Password: "correct horse battery " + strconv.Itoa(i)}
		if err := d.AddAgent(ctx, a.Login, fmt.Sprintf("Agent %d", i), a.Password, store.MaxCapacity); err != nil {
			return errors.Join(err, d.Close())
		}
		r.accounts = append(r.accounts, a)
	}
	if err := d.Close(); err != nil {
		return err
	}
	return r.begin()
}

// flags returns where one of the servers has its data.
func (r *deskRun) flags(i int, addr string) serverFlags {
	f := serverFlags{data: r.dir, store: r.store, bus: r.bus, addr: addr}
	if r.nodes > 1 {
		f.data, f.files = filepath.Join(r.dir, strconv.Itoa(i)), filepath.Join(r.dir, "files")
	}
	return f
}

// begin starts the servers.
func (r *deskRun) begin() error {
	r.servers = nil
	for i := range max(r.nodes, 1) {
		p, err := startDeskServer(r.flags(i, "127.0.0.1:0"))
		if err != nil {
			return err
		}
		r.servers = append(r.servers, p)
	}
	return nil
}

// cpu returns the processor time that all servers have used.
func (r *deskRun) cpu() (sum time.Duration, err error) {
	for _, p := range r.servers {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

// end stops the clients and the servers.
func (r *deskRun) end() error {
	var errs []error
	if r.fleet != nil {
		errs = append(errs, r.fleet.Close())
	}
	for _, p := range r.servers {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// deskPart is one of the measurements.
type deskPart struct {
	name  string
	crowd bool // the part needs customers with an agent each
	run   func(context.Context) error
}

func (r *deskRun) parts() []deskPart {
	return []deskPart{{"rate", true, r.atRate}, {"full", true, r.full}, {"isolation", true, r.isolation}, {"idle", false, r.idleVisitors}, {"reconnect", false, r.reconnected},
		{partDeath, true, r.death}, {partRolling, false, r.rolledOver}, {partReads, false, r.reads}}
}

// measure runs parts one after the other. A part that fails leaves the results of the others as they are.
func (r *deskRun) measure(ctx context.Context, parts []deskPart) error {
	var errs []error
	for _, part := range parts {
		if !r.wants(part.name) || ctx.Err() != nil {
			continue
		}
		r.t.Note("bench desk: %s", part.name)
		err := r.measureOne(ctx, part)
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s: %w", part.name, err)
		r.report.Failures = append(r.report.Failures, cli.OneLine(err))
		errs = append(errs, err)
		r.t.Note("bench desk: %s", cli.OneLine(err))
		if err := r.restart(ctx); err != nil { // the next part begins anew
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}

func (r *deskRun) measureOne(ctx context.Context, part deskPart) error {
	patience := benchPatience
	switch part.name {
	case partReads:
		patience = readsPatience
	case partRolling:
		patience = rollingPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if part.crowd && !r.crowded {
		if err := r.crowd(ctx, r.customers); err != nil {
			return err
		}
	}
	defer r.t.Meanwhile("bench desk: " + part.name)()
	return part.run(ctx)
}

// restart kills the servers, whatever state a failed part has left them in, and starts them again on the same data.
func (r *deskRun) restart(ctx context.Context) error {
	r.crowded = false
	if ctx.Err() != nil {
		return nil
	}
	for _, p := range r.servers {
		if err := p.kill(); err != nil {
			return err
		}
	}
	return r.begin()
}

// crowd replaces the clients by new ones with a conversation each.
func (r *deskRun) crowd(ctx context.Context, customers int) error {
	if err := r.renew(); err != nil {
		return err
	}
	for _, step := range []struct {
		text string
		run  func() error
	}{
		{fmt.Sprintf("connecting %d agents", r.agents), func() error { return r.fleet.AddAgents(ctx, r.accounts) }},
		{"taking them from the router", func() error { return r.fleet.Rest(ctx) }},
		{fmt.Sprintf("connecting %d customers", customers), func() error { return r.fleet.AddCustomers(ctx, customers) }},
		{fmt.Sprintf("opening %d conversations", customers), func() error { return r.fleet.Open(ctx) }},
		{"giving each of them an agent", func() error { return r.fleet.Serve(ctx) }},
	} {
		r.t.Note("bench desk: %s", step.text)
		done := r.t.Meanwhile("bench desk: " + step.text)
		err := step.run()
		done()
		if err != nil {
			return err
		}
	}
	r.crowded = true
	return nil
}

func (r *deskRun) renew() error {
	if r.fleet != nil {
		if err := r.fleet.Close(); err != nil {
			return err
		}
	}
	var bases []string
	for _, p := range r.servers {
		bases = append(bases, p.base())
	}
	r.fleet, r.crowded = deskload.New("demo", bases...), false
	r.fleet.Progress = func(text string) { r.t.Note("bench desk: %s", text) }
	return nil
}
