package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/admin"
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/internal/version"
	"github.com/go-eddy/eddy/metrics"
)

const (
	// keptCloses is how many ended connections the operator's table lists.
	keptCloses   = 1024
	maxTokenFile = 4096
)

// adminFlags are the flags of the operator's server, which every server command has.
type adminFlags struct {
	addr      string
	tokenFile string
	hosts     []string
	level     string
}

func (f *adminFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.addr, "admin", "", "address of the operator's page, numbers, probes and profiles, such as 127.0.0.1:7070; empty = none")
	cmd.Flags().StringVar(&f.tokenFile, "admin-token-file", "", "file with the token that --admin asks for; needed when its address is not loopback")
	cmd.Flags().StringSliceVar(&f.hosts, "admin-hosts", nil, "names, separated by commas, under which browsers may reach --admin, beside localhost and addresses")
	cmd.Flags().StringVar(&f.level, "log-level", "info", "least level of the log on stderr: debug, info, warn or error")
}

// check reports flags that make no sense. Errors of the files that they name are reported by operator.
func (f *adminFlags) check() error {
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
	if _, port, err := net.SplitHostPort(f.addr); err != nil || !validPort(port) {
		return fmt.Errorf("--admin %q is not host:port with a port from 0 to 65535; write it like 127.0.0.1:7070", f.addr)
	}
	return nil
}

// readToken returns the first line of the token's file.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := readAtMost(path, maxTokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("%s is empty: write a token of 16 or more characters into it, such as the output of \"openssl rand -hex 32\"", path)
	}
	return token, nil
}

// kept is how many ended connections a server remembers.
func (f *adminFlags) kept() int {
	if f.addr == "" {
		return 0
	}
	return keptCloses
}

// logTo gives the program a log whose level can change. Without --admin and --log-level the log stays as it was.
func (f *adminFlags) logTo(t *terminal) *slog.LevelVar {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(f.level)) // checked
	if f.addr != "" || level.Level() != slog.LevelInfo {
		slog.SetDefault(slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: level})))
	}
	return level
}

// operator is the operator's server of a command. Without --admin its Server is nil, and all its methods do nothing.
type operator struct {
	*admin.Server
	t       *terminal
	numbers *numbers
}

// operator makes the operator's server and sets up the log. Nothing listens yet.
func (t *terminal) operator(f *listenFlags, program string) (*operator, error) {
	a := &f.admin
	level := a.logTo(t)
	if a.addr == "" {
		return &operator{t: t}, nil
	}
	token, err := readToken(a.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("--admin-token-file: %w", err)
	}
	n, scrapes, err := newNumbers()
	if err != nil {
		return nil, fmt.Errorf("--admin: %w", err)
	}
	s, err := admin.New(admin.Options{
		Metrics: scrapes,
		Addr:    a.addr, Token: token, Hosts: a.hosts, Program: program, Version: version.Get().Version, Level: level,
	})
	if err != nil {
		return nil, fmt.Errorf("--admin: %w; the token comes from --admin-token-file", err)
	}
	return &operator{Server: s, t: t, numbers: n}, nil
}

// on reports whether there is an operator's server.
func (o *operator) on() bool { return o.Server != nil }

// watch adds a server and its pools.
func (o *operator) watch(name string, srv *eddy.Server, pools ...*executor.Pool) error {
	if !o.on() {
		return nil
	}
	return errors.Join(o.Watch(name, srv), o.WatchPools(pools...), o.numbers.server(name, srv, pools))
}

// port adds a server that is part of an rpc.Server.
func (o *operator) port(name string, srv *eddy.Server) error {
	if !o.on() {
		return nil
	}
	return o.Watch(name, srv)
}

// pools adds pools.
func (o *operator) pools(all []*executor.Pool) error {
	if !o.on() {
		return nil
	}
	return o.WatchPools(all...)
}

// lanes adds a set of lanes.
func (o *operator) lanes(name string, l admin.Lanes) error {
	if !o.on() {
		return nil
	}
	return o.WatchLanes(name, l)
}

// begin listens and prints where. Call it after the command has printed its own line.
func (o *operator) begin(f *listenFlags) error {
	if !o.on() {
		return nil
	}
	if err := o.numbers.add(f.measured...); err != nil {
		return err
	}
	if err := o.Listen(); err != nil {
		return errors.New(strings.ReplaceAll(explainListen(f.admin.addr, err).Error(), "--addr", "--admin"))
	}
	o.t.say("  operator       http://%s/", reachable(o.Addr().String()))
	return nil
}

// desk begins to watch a Desk.
func (o *operator) desk(d *desk.Desk, f *listenFlags) error {
	if !o.on() {
		return nil
	}
	f.measured = append(f.measured, metrics.HTTP("desk", d.HTTP()))
	return errors.Join(o.watch("desk", d.Engine(), d.Pools()...), o.numbers.watch(d), o.Check("database", 0, d.Ready), o.begin(f))
}

// drain tells probes that the program ends.
func (o *operator) drain() {
	if o.on() {
		o.Drain()
	}
}

// end stops the operator's server. Call it last of all.
func (o *operator) end() {
	if !o.on() {
		return
	}
	if err := o.Close(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		slog.Debug("admin: it did not end in order", "err", err)
	}
}
