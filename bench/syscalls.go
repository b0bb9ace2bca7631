package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// waitsOf counts the calls of epoll_pwait for each call of a single caller, by strace, on both sides.
func waitsOf(ctx context.Context, b *binaries, s settings, contenders []contender) (*grid, error) {
	g := &grid{
		Title: "Calls of epoll_pwait for each call of one caller, counted by strace over the whole life of both processes:",
		First: "server", Columns: []column{{"of the server", "%.2f"}, {"of the client", "%.2f"}},
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		g.Title = "Calls of epoll_pwait: not measured, because strace is not installed."
		return g, nil
	}
	if err := b.build(ctx, contenders); err != nil {
		return nil, err
	}
	for _, c := range contenders {
		progress("calls of epoll_pwait: %s", c.Name)
		server, client, err := waits(ctx, b, s, c.on(s, s.procs[0]), strace)
		if err != nil {
			return nil, fmt.Errorf("%s under strace: %w", c.Name, err)
		}
		g.add(c.Name, server, client)
	}
	return g, nil
}

// waits runs one round of one caller with both sides under strace.
func waits(ctx context.Context, b *binaries, s settings, c contender, strace string) (server, client float64, err error) {
	counts := [2]string{filepath.Join(b.dir, "strace-server"), filepath.Join(b.dir, "strace-client")}
	under := func(file string) []string {
		return []string{strace, "-f", "-c", "-e", "trace=epoll_wait,epoll_pwait,epoll_pwait2", "-o", file}
	}
	c.under = under(counts[0])
	srv, err := start(b, c)
	if err != nil {
		return 0, 0, err
	}
	calls := &callers{path: b.path(c), srv: srv, callers: 1, s: s, under: under(counts[1])}
	res, err := calls.round(ctx, func() error { return nil })
	if err := errors.Join(err, srv.stop()); err != nil {
		return 0, 0, err
	}
	var each [2]float64
	for i, name := range counts {
		text, err := os.ReadFile(name)
		if err != nil {
			return 0, 0, err
		}
		n, err := straceTotal(string(text))
		if err != nil {
			return 0, 0, err
		}
		each[i] = float64(n) / float64(max(res.requests+res.warmup, 1))
	}
	return each[0], each[1], nil
}

// straceTotal reads the number of calls in the last line of strace -c. Without a call there is no line.
func straceTotal(text string) (int64, error) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 3 && words[len(words)-1] == "total" {
			return strconv.ParseInt(words[3], 10, 64)
		}
	}
	if strings.TrimSpace(text) == "" {
		return 0, nil
	}
	return 0, fmt.Errorf("strace has not told its total: %q", text)
}
