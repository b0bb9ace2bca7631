// Command bench compares the engine with a C epoll loop, with package net and with its Go peers. The contenders take
// turns in one run on one machine. The figures are requests per processor second of the server process, latency and
// memory. Linux only.
//
//	go run . echo         # C loop, tuned C loop, net, eddy, netpoll, gnet, nbio: 64 B at 1, 100 and 1000 connections, 16 in flight on each of 100, 16 KiB
//	go run . part-load    # the same at 20, 50 and 80 % of the capacity, on the loop and on a pool, alone and beside a busy process
//	go run . loops        # two loops on two processors: net, gnet and eddy
//	go run . files        # files of 4 KiB, 1 MiB and 100 MiB from net/http, fasthttp, nginx and eddy
//	go run . files-tls    # the same over TLS, from net/http and eddy
//	go run . http         # net/http, fasthttp, eddy on the loop and on a pool: a small answer, 1 and 16 in flight on each of 64
//	go run . http-idle    # resident memory of idle keep-alive connections
//	go run . hop          # eddy with its handler on the loop and on a pool, both wait modes, 1 and 2 processors
//	go run . topologies   # connections that live for one exchange and end by a reset, against the three topologies
//	go run . farewells    # the same, which end by FIN
//	go run . writes       # messages from goroutines that own no connection
//	go run . paused       # 1000 clients that keep sending to a server that does not read
//	go run . idle         # resident memory and wakeups of idle connections
//	go run . tls          # echo over TLS: crypto/tls on goroutines and on a loop
//	go run . handshakes   # connections that live for one exchange, over TLS
//	go run . ws           # WebSocket echo of eddy, gws, gorilla, coder and uWebSockets: 128 B on 100 and 2000 connections, 16 KiB
//	go run . ws-broadcast # one message of 256 B to 1000, 5000 and 15,000 connections
//	go run . ws-idle      # resident memory of idle WebSockets
//	go run . floods       # what others notice of clients of HTTP/2 that flood: net/http and eddy
//	go run . grpc         # servers of unary calls by gRPC, called by grpc-go: grpc-go and eddy
//	go run . grpc-stream  # servers of streams by gRPC, called by grpc-go: 100 messages a stream, 1 and 64 at once
//	go run . grpc-idle    # resident memory of idle connections of gRPC
//	go run . rpc          # unary calls of grpc-go, net/rpc and eddy: 128 B and 16 KiB, 1, 64 and 1024 callers on one connection
//	go run . flow         # large answers and requests, over fast and slow networks: net/rpc, net/http, eddy
//	go run . rpc-models   # consumers of 100 services, shared and isolated pools, twice the capacity
//	go run . timers       # 1 k, 100 k and 1 M armed deadlines
//	go run . rings        # rings and lanes beside buffered channels, and producers that wait for room
//	go run . lanes        # light requests beside heavy ones, with lanes and with one queue
//	go run . claims       # array and set, pool and garbage, view and copy, hand-off with garbage and without
//	go run . crowd        # 100 connections that speak, alone and beside 10,000 idle ones
//	go run . threads      # 1000 connections: a thread each, a goroutine each, one loop
//	go run . scale        # what a connection and a message cost with 10 to 19,000 connections and one loop or more, a model, a plan for 1 M
//	go run . results      # all of them, for RESULTS.md: see results -h
//	go run . pools        # strands and keys, a pool for each of 1000 services, spilling to disk
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
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
	cases     []testCase
	size      int
	serverCPU []int // nil: as many as procs says, from the first
	clientCPU []int
	procs     []int
	idleConns int
	wrk       string // program, empty for none
	json      bool
	streams   bool   // messages may be longer than a read buffer
	before    string // another checkout of this repository, empty for none
	floods    string // kinds of floods, empty for all
}

// testCase is a number of connections with a number of requests in flight on each. size is that of its requests, 0 for
// the -size of all.
type testCase struct {
	conns, pipeline, size int

	rate, share int  // of partLoad: requests a second, and which percentage of the capacity that is
	hog         bool // with a neighbour that wants the server's processor
}

// String returns the heading of a table.
func (c testCase) String() string {
	text := fmt.Sprintf("Connections: %d, in flight on each: %d", c.conns, c.pipeline)
	if c.size > 0 {
		text += fmt.Sprintf(", of %d B", c.size)
	}
	return text + c.title()
}

// comparison is one of the commands, with the defaults of its flags.
type comparison struct {
	run      func(context.Context, *binaries, settings) (*report, error)
	cases    string
	procs    string
	rounds   int
	duration time.Duration
}

var comparisons = map[string]comparison{
	"echo":         {echo, "1x1,100x1,1000x1,100x16,100x1x16384", "1", 5, 2 * time.Second},
	"part-load":    {partLoad, "100x64", "1", 5, 2 * time.Second},
	"files":        {files, "64x1x4096,16x1x1048576,2x1x104857600", "1", 5, 2 * time.Second},
	"files-tls":    {filesTLS, "64x1x4096,16x1x1048576,2x1x104857600", "1", 5, 2 * time.Second},
	"loops":        {loops, "100x1,1000x1", "2", 5, 2 * time.Second},
	"hop":          {hop, "100x1", "1,2", 5, 3 * time.Second},
	"http":         {plaintext, "64x1,64x16", "1", 5, 2 * time.Second},
	"http-idle":    {httpIdle, "1x1", "1", 1, 3 * time.Second},
	"topologies":   {topologies, "16x1", "2", 5, 2 * time.Second},
	"farewells":    {farewells, "16x1", "2", 5, 2 * time.Second},
	"writes":       {writes, "1x1,1x8,100x1", "1", 5, 2 * time.Second},
	"paused":       {paused, "1000x1", "1", 1, 5 * time.Second},
	"idle":         {idle, "1x1", "1", 1, 3 * time.Second},
	"rings":        {rings, "1x1", "1,2", 5, 200 * time.Millisecond},
	"lanes":        {lanes, "1x1", "1", 5, 3 * time.Second},
	"pools":        {pools, "1x1", "1,2", 3, 200 * time.Millisecond},
	"tls":          {secureEcho, "1x1,100x1,100x16,100x1x16384", "1", 5, 2 * time.Second},
	"handshakes":   {handshakes, "16x1", "1", 5, 2 * time.Second},
	"rpc":          {rpc, "1x1,64x1,1024x1,1x1x16384,64x1x16384,1024x1x16384", "1", 5, 2 * time.Second},
	"floods":       {floods, "10x4", "1", 3, 2 * time.Second},
	"grpc":         {grpc, "1x1,64x1,1000x1", "1", 5, 2 * time.Second},
	"grpc-stream":  {grpcStreams, "1x100x1024,64x100x1024", "1", 5, 2 * time.Second},
	"grpc-idle":    {grpcIdle, "1x1", "1", 1, 3 * time.Second},
	"flow":         {largeMessages, "16x1x1024,16x1x65536,64x1x65536,64x1x1048576,16x1x7340032", "1", 3, time.Second},
	"rpc-models":   {rpcModels, "1x1", "2", 1, 3 * time.Second},
	"timers":       {timers, "1x1", "1", 3, 500 * time.Millisecond},
	"ws":           {ws, "100x1,2000x1,100x16,100x1x16384", "1", 5, 2 * time.Second},
	"ws-broadcast": {wsBroadcast, "1000x1,5000x1,15000x1", "1", 5, 2 * time.Second},
	"ws-idle":      {wsIdle, "1x1", "1", 1, 3 * time.Second},
	"limits":       {limits, "1x1", "2", 1, 9 * time.Second},
	"claims":       {claims, "1x1", "1", 5, 200 * time.Millisecond},
	"crowd":        {crowdOf, "100x1", "1", 5, time.Second},
	"threads":      {threads, "1000x1", "1", 1, time.Second},
	"scale":        {scale, "10x1,100x1,1000x1,5000x1,10000x1,19000x1", scaleLoops(), 5, time.Second},
}

// withBefore are the comparisons that can compare the engine with another checkout of itself.
var withBefore = []string{"echo", "hop", "http", "idle", "loops", "topologies", "farewells", "files", "files-tls", "tls", "handshakes", "rpc", "ws", "ws-broadcast"}

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
	if len(args) > 0 && args[0] == "results" {
		return results(ctx, args[1:], out)
	}
	var c comparison
	if len(args) > 0 {
		c = comparisons[args[0]]
	}
	if c.run == nil {
		return fmt.Errorf("name one comparison: %s (flags follow, -h lists them), or results, which is all of them", strings.Join(slices.Sorted(maps.Keys(comparisons)), ", "))
	}
	s, err := parse(args[0], c, args[1:])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "eddy-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rep, err := c.run(ctx, &binaries{dir: dir}, s)
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

func parse(name string, c comparison, args []string) (settings, error) {
	s := settings{streams: name == "flow" || strings.HasPrefix(name, "files") || name == "grpc-stream"}
	last := runtime.NumCPU() - 1
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.IntVar(&s.rounds, "rounds", c.rounds, "rounds; in each every server runs once, in turn")
	fs.DurationVar(&s.duration, "duration", c.duration, "measured window of one server in one round")
	fs.DurationVar(&s.warmup, "warmup", 500*time.Millisecond, "load before the window")
	cases := fs.String("cases", c.cases, "connections x requests in flight on each (writes: x writers), and x bytes per request if not those of -size; a table for each")
	size := 64
	if name == "ws-broadcast" {
		size = 256
	} else if strings.HasPrefix(name, "ws") || strings.HasPrefix(name, "rpc") || strings.HasPrefix(name, "grpc") {
		size = 128
	}
	fs.IntVar(&s.size, "size", size, "bytes per request")
	serverCPU := fs.String("server-cpus", "", "processors of the server; empty: as many as -procs, from the first")
	clientCPU := fs.String("client-cpus", strconv.Itoa(last), "processors of the load generator")
	procs := fs.String("procs", c.procs, "GOMAXPROCS of the Go servers, a table for each")
	crowd := 15000
	if name == "crowd" {
		crowd = 10000
	}
	fs.IntVar(&s.idleConns, "idle-conns", crowd, "connections of the idle comparisons; a fifth of them over TLS")
	found, _ := exec.LookPath("wrk") // empty when there is none
	fs.StringVar(&s.wrk, "wrk", found, "program that puts load on the servers of the http comparison; empty: the built-in load generator")
	if slices.Contains(withBefore, name) {
		fs.StringVar(&s.before, "before", "", "another checkout of this repository: compare each of the engine's servers with what that one makes of it, and nobody else")
	}
	if name == "floods" {
		fs.StringVar(&s.floods, "only", "", "these floods, separated by commas; "+noFlood+" is no flood; -cases are visitors x connections that flood")
	}
	fs.BoolVar(&s.json, "json", false, "print JSON instead of a table")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	var err error
	if s.cases, err = parseCases(*cases); err != nil {
		return s, err
	}
	if s.procs, err = numbers("procs", *procs, 1); err != nil {
		return s, err
	}
	if *serverCPU != "" {
		if s.serverCPU, err = numbers("server-cpus", *serverCPU, 0); err != nil {
			return s, err
		}
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
	case s.rounds < 1, s.size < 1, s.idleConns < 1, s.duration <= 0, s.warmup < 0:
		return fmt.Errorf("rounds, size, idle-conns and duration must be positive")
	}
	if s.before != "" {
		if _, err := os.Stat(filepath.Join(s.before, "bench", "go.mod")); err != nil {
			return fmt.Errorf("-before: %s is no checkout of this repository: %w", s.before, err)
		}
	}
	for _, c := range s.cases {
		if size := s.of(c).size; !s.streams && c.pipeline*size > 64<<10 {
			return fmt.Errorf("%d times %d bytes in flight are more than the client's read buffer of 64 KiB", c.pipeline, size)
		}
	}
	return nil
}

// of returns the settings of one case.
func (s settings) of(c testCase) settings {
	if c.size > 0 {
		s.size = c.size
	}
	return s
}

// parseCases parses a list such as 1x1,100x16,100x1x4096.
func parseCases(list string) ([]testCase, error) {
	var out []testCase
	for field := range strings.SplitSeq(list, ",") {
		n, err := numbers("cases", strings.ReplaceAll(field, "x", ","), 1)
		if err != nil || len(n) < 2 || len(n) > 3 {
			return nil, fmt.Errorf("-cases: %q is not of the form 100x16 or 100x16x4096", field)
		}
		n = append(n, 0)
		out = append(out, testCase{conns: n[0], pipeline: n[1], size: n[2]})
	}
	return out, nil
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
