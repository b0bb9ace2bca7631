package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/go-eddy/eddy/bench/internal/target"
)

// rpc compares unary calls by as many callers as a case says, on one connection. Each caller sends its requests one
// after the other. Client and server are processes of their own, and the processor time of both counts.
func rpc(ctx context.Context, b *binaries, s settings) (*report, error) {
	calls := func(srv *server, s settings, c testCase) rounder {
		return &callers{path: b.path(srv.contender), srv: srv, callers: c.conns, s: s}
	}
	contenders := []contender{
		{Name: "grpc-go, protobuf", binary: "grpcrpc"},
		{Name: "net/rpc, gob", binary: "netrpc"},
		{Name: "eddy, protobuf", binary: "eddyrpc", args: []string{"-codec", "protobuf"}},
		{Name: "eddy, raw", binary: "eddyrpc", args: []string{"-codec", "raw"}},
		{Name: "eddy, raw, dispatcher direct", binary: "eddyrpc", args: []string{"-codec", "raw", "-dispatcher", "direct"}},
		{Name: "eddy, gRPC, protobuf", binary: "eddyrpc", args: []string{"-codec", "grpc"}},
	}
	rep, err := compare(ctx, b, s, "calls", calls, contenders)
	if err != nil || s.before != "" {
		return rep, err
	}
	rep.Note = "\nThe column of connections is callers; all of them share one connection. Processor seconds are of client and server together."
	waits, err := waitsOf(ctx, b, s, contenders)
	rep.Grids = append(rep.Grids, waits)
	return rep, err
}

// grpc compares servers of unary calls by gRPC, all of them called by grpc-go's client. Only the processor time of the
// server counts.
func grpc(ctx context.Context, b *binaries, s settings) (*report, error) {
	client := contender{binary: "grpcrpc"}
	calls := func(srv *server, s settings, c testCase) rounder {
		return &callers{path: b.path(client), srv: srv, callers: c.conns, s: s, foreign: true}
	}
	rep, err := compare(ctx, b, s, "calls", calls, grpcServers)
	if err == nil {
		rep.Note = "\nThe column of connections is callers; all of them share one connection of grpc-go's client. Processor seconds are of the server alone."
	}
	return rep, err
}

var grpcServers = []contender{
	{Name: "grpc-go", binary: "grpcrpc"},
	{Name: "eddy", binary: "eddyrpc"},
	{Name: "eddy, dispatcher direct", binary: "eddyrpc", args: []string{"-dispatcher", "direct"}},
}

// grpcStreams compares servers of streams by gRPC, of as many messages as a case says, as grpc does for unary calls.
func grpcStreams(ctx context.Context, b *binaries, s settings) (*report, error) {
	client := contender{binary: "grpcrpc"}
	calls := func(srv *server, s settings, c testCase) rounder {
		return &callers{path: b.path(client), srv: srv, callers: c.conns, s: s, foreign: true, args: []string{"-messages", strconv.Itoa(c.pipeline)}}
	}
	rep, err := compare(ctx, b, s, "streams", calls, grpcServers)
	if err == nil {
		rep.Note = "\nThe column of connections is callers, which share one connection of grpc-go's client; what is in flight are the messages of a stream. Processor seconds are of the server alone."
	}
	return rep, err
}

// callers is a client process: of the server's own kind, or a foreign one whose processor time does not count.
type callers struct {
	path    string
	srv     *server
	callers int
	s       settings
	foreign bool
	args    []string
	under   []string // program that runs the client, with its arguments; nil = none
}

func (c *callers) round(ctx context.Context, mark func() error) (*result, error) {
	args := slices.Clone(c.args)
	if !c.foreign {
		args = append(args, c.srv.args...)
	}
	args = append(args, "-client", c.srv.addr, "-callers", strconv.Itoa(c.callers), "-size", strconv.Itoa(c.s.size),
		"-warmup", c.s.warmup.String(), "-duration", c.s.duration.String())
	ctx, cancel := context.WithTimeout(ctx, c.s.warmup+c.s.duration+time.Minute)
	defer cancel()
	line := slices.Concat(c.under, []string{c.path}, args)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(c.srv.procs))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startOn(cmd, c.s.clientCPU); err != nil {
		return nil, err
	}
	res, err := c.listen(in, out, mark)
	in.Close()
	if err != nil {
		cancel()
	}
	return res, errors.Join(err, cmd.Wait())
}

// listen follows what the client prints: begin, end, and what it measured in between.
func (c *callers) listen(in io.Writer, out io.Reader, mark func() error) (*result, error) {
	r := bufio.NewReaderSize(out, 1<<20)
	for _, word := range []string{"begin\n", "end\n"} {
		if line, err := r.ReadString('\n'); line != word {
			return nil, fmt.Errorf("the client says %q (%w), want %q", line, err, word)
		}
		if err := mark(); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(in, "go on\n"); err != nil {
			return nil, err
		}
	}
	var done target.CallsDone
	if err := json.NewDecoder(r).Decode(&done); err != nil {
		return nil, fmt.Errorf("what the client did: %w", err)
	}
	if c.foreign {
		done.Used, done.Mallocs = 0, 0
	}
	return &result{
		requests: done.Calls, warmup: done.All - done.Calls, elapsed: done.Elapsed, used: done.Used,
		mallocs: done.Mallocs, latencies: hdrhistogram.Import(done.Latencies),
	}, nil
}
