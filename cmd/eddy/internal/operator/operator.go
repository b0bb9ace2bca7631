// Package operator adds the operator's server of --admin to the server commands: its flags, its numbers and its life.
package operator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/admin"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/version"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/overload"
	"github.com/go-eddy/eddy/trace"
)

// keptCloses is how many ended connections the operator's table lists.
const keptCloses = 1024

// Flags are the flags of the operator's server, which every server command has.
type Flags struct {
	addr      string
	tokenFile string
	hosts     []string
	level     string
}

// Register adds the flags to a command.
func (f *Flags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.addr, "admin", "", "address of the operator's page, numbers, probes and profiles, such as 127.0.0.1:7070; empty = none")
	cmd.Flags().StringVar(&f.tokenFile, "admin-token-file", "", "file with the token that --admin asks for; needed when its address is not loopback")
	cmd.Flags().StringSliceVar(&f.hosts, "admin-hosts", nil, "names, separated by commas, under which browsers may reach --admin, beside localhost and addresses")
	cmd.Flags().StringVar(&f.level, "log-level", "info", "least level of the log on stderr: debug, info, warn or error")
}

// Check reports flags that make no sense. Errors of the files that they name are reported by New.
func (f *Flags) Check() error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(f.level)); err != nil {
		return fmt.Errorf("--log-level is %q: use debug, info, warn or error", f.level)
	}
	if f.addr == "" {
		if f.tokenFile != "" || len(f.hosts) > 0 {
			return errors.New("--admin-token-file and --admin-hosts need --admin: give it an address such as 127.0.0.1:7070")
		}
		return nil
	}
	if _, port, err := net.SplitHostPort(f.addr); err != nil || !cli.ValidPort(port) {
		return fmt.Errorf("--admin %q is not host:port with a port from 0 to 65535; write it like 127.0.0.1:7070", f.addr)
	}
	return nil
}

// KeepCloses is how many ended connections a server remembers.
func (f *Flags) KeepCloses() int {
	if f.addr == "" {
		return 0
	}
	return keptCloses
}

// logTo gives the program a log whose level can change. Without --admin and --log-level the log stays as it was.
func (f *Flags) logTo(t *cli.Terminal) *slog.LevelVar {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(f.level)) // checked
	if f.addr != "" || level.Level() != slog.LevelInfo {
		slog.SetDefault(slog.New(slog.NewTextHandler(t.Err, &slog.HandlerOptions{Level: level})))
	}
	return level
}

// Operator is the operator's server of a command. Without --admin all its methods do nothing.
type Operator struct {
	server  *admin.Server // nil without --admin
	addr    string
	t       *cli.Terminal
	numbers *numbers
}

// New makes the operator's server and sets up the log. Nothing listens yet.
func New(t *cli.Terminal, f *Flags, program string) (*Operator, error) {
	level := f.logTo(t)
	if f.addr == "" {
		return new(Operator), nil
	}
	token, err := cli.ReadToken(f.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("--admin-token-file: %w", err)
	}
	n, scrapes, err := newNumbers()
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	s, err := admin.New(admin.Options{
		Metrics: scrapes,
		Addr:    f.addr, Token: token, Hosts: f.hosts, Program: program, Version: version.Get().Version, Level: level,
	})
	if err != nil {
		return nil, fmt.Errorf("--admin: %w; the token comes from --admin-token-file", err)
	}
	return &Operator{server: s, addr: f.addr, t: t, numbers: n}, nil
}

// on reports whether there is an operator's server.
func (o *Operator) on() bool { return o.server != nil }

// Watch adds a server and its pools.
func (o *Operator) Watch(name string, srv *eddy.Server, pools ...*executor.Pool) error {
	if !o.on() {
		return nil
	}
	return errors.Join(o.server.Watch(name, srv), o.server.WatchPools(pools...), o.numbers.server(name, srv, pools))
}

// Port adds a server that is part of an rpc.Server.
func (o *Operator) Port(name string, srv *eddy.Server) error {
	if !o.on() {
		return nil
	}
	return o.server.Watch(name, srv)
}

// Pools adds pools.
func (o *Operator) Pools(all []*executor.Pool) error {
	if !o.on() {
		return nil
	}
	return o.server.WatchPools(all...)
}

// Lanes adds a set of lanes.
func (o *Operator) Lanes(name string, l admin.Lanes) error {
	if !o.on() {
		return nil
	}
	return o.server.WatchLanes(name, l)
}

// Overload adds an overload manager; nil is none.
func (o *Operator) Overload(name string, m *overload.Manager) error {
	if !o.on() || m == nil {
		return nil
	}
	return errors.Join(o.server.WatchOverload(name, m), o.numbers.add(metrics.Overload(name, m)))
}

// Desk adds a Desk.
func (o *Operator) Desk(d *desk.Desk) error {
	if !o.on() {
		return nil
	}
	return errors.Join(o.Watch("desk", d.Engine(), d.Pools()...), o.numbers.watch(d), o.server.Check("database", 0, d.Ready))
}

// Traces adds a Recorder; nil is none.
func (o *Operator) Traces(name string, rec *trace.Recorder) error {
	if !o.on() || rec == nil {
		return nil
	}
	return errors.Join(o.server.WatchTraces(name, rec), o.numbers.add(metrics.Traces(name, rec)))
}

// Begin listens and prints where; /metrics then reports measured, too. Call it after the command has printed its own line.
func (o *Operator) Begin(measured ...metrics.Source) error {
	if !o.on() {
		return nil
	}
	if err := o.numbers.add(measured...); err != nil {
		return err
	}
	if err := o.server.Listen(); err != nil {
		return cli.ExplainListen("--admin", o.addr, err)
	}
	o.t.Say("  operator       http://%s/", cli.Reachable(o.server.Addr().String()))
	return nil
}

// Drain tells probes that the program ends.
func (o *Operator) Drain() {
	if o.on() {
		o.server.Drain()
	}
}

// End stops the operator's server. Call it last of all.
func (o *Operator) End() {
	if !o.on() {
		return
	}
	if err := o.server.Close(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		slog.Debug("admin: it did not end in order", "err", err)
	}
}
