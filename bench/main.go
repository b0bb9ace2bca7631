// Command bench compares the engine with a C epoll loop and with package net, interleaved in one run on one machine, by requests per
// processor second of the server process, latency and memory. Linux only.
//
//	go run . echo      # C loop, net, eddy: 64 B × 100 connections, one at a time and pipelined × 16
//	go run . hop       # eddy with its handler on the loop and on a pool, both wait modes
//	go run . idle      # resident memory and wakeups of idle connections
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings are the flags all comparisons share.
type settings struct {
	rounds    int
	duration  time.Duration
	warmup    time.Duration
	conns     int
	size      int
	pipelines []int
	serverCPU []int
	clientCPU []int
	procs     int
	idleConns int
	json      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	comparisons := map[string]func(context.Context, *binaries, settings) (*report, error){
		"echo": echo, "hop": hop, "idle": idle,
	}
	if len(args) == 0 || comparisons[args[0]] == nil {
		return fmt.Errorf("name one comparison: echo, hop or idle (flags follow, -h lists them)")
	}
	s, err := parse(args[0], args[1:])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "eddy-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	progress("building the servers")
	b, err := build(ctx, dir)
	if err != nil {
		return err
	}
	rep, err := comparisons[args[0]](ctx, b, s)
	if err != nil {
		return err
	}
	rep.Command = "go run . " + strings.Join(args, " ")
	rep.Machine = machine()
	if s.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(rep)
	}
	_, err = io.WriteString(out, rep.markdown())
	return err
}

func parse(name string, args []string) (settings, error) {
	var s settings
	last := runtime.NumCPU() - 1
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.IntVar(&s.rounds, "rounds", 5, "rounds; in each every server runs once, in turn")
	fs.DurationVar(&s.duration, "duration", 3*time.Second, "measured window of one server in one round")
	fs.DurationVar(&s.warmup, "warmup", 500*time.Millisecond, "load before the window")
	fs.IntVar(&s.conns, "conns", 100, "connections")
	fs.IntVar(&s.size, "size", 64, "bytes per request")
	pipelines := fs.String("pipeline", "1,16", "requests in flight per connection, one comparison each")
	serverCPU := fs.String("server-cpus", "0", "processors of the server")
	clientCPU := fs.String("client-cpus", strconv.Itoa(last), "processors of the load generator")
	fs.IntVar(&s.procs, "procs", 1, "GOMAXPROCS of the Go servers")
	fs.IntVar(&s.idleConns, "idle-conns", 15000, "connections of the idle comparison")
	fs.BoolVar(&s.json, "json", false, "print JSON instead of a table")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	var err error
	if s.pipelines, err = numbers("pipeline", *pipelines, 1); err != nil {
		return s, err
	}
	if s.serverCPU, err = numbers("server-cpus", *serverCPU, 0); err != nil {
		return s, err
	}
	if s.clientCPU, err = numbers("client-cpus", *clientCPU, 0); err != nil {
		return s, err
	}
	return s, s.check(fs.Args())
}

func (s settings) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case s.rounds < 1, s.conns < 1, s.size < 1, s.procs < 1, s.idleConns < 1, s.duration <= 0, s.warmup < 0:
		return fmt.Errorf("rounds, conns, size, procs, idle-conns and duration must be positive")
	}
	for _, p := range s.pipelines {
		if p*s.size > 64<<10 {
			return fmt.Errorf("pipeline %d of %d bytes is more than the client's read buffer of 64 KiB", p, s.size)
		}
	}
	return nil
}

// numbers parses a comma-separated list whose values are at least least.
func numbers(name, list string, least int) ([]int, error) {
	var out []int
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < least {
			return nil, fmt.Errorf("-%s: %q is not a number of at least %d", name, field, least)
		}
		out = append(out, n)
	}
	return out, nil
}

// progress tells the person at the terminal what is going on.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
