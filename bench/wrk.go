package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// wrkScript makes wrk send what the built-in load generator sends, as many requests at once as its argument says. It
// prints all that wrk has measured in lines for parseWrk.
var wrkScript = `
local all
function init(args) all = string.rep(` + strconv.Quote(httpRequest) + `, tonumber(args[1])) end
function request() return all end
function done(summary, latency)
  local e = summary.errors
  io.write(string.format("totals %d %d %d\n", summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout))
  for i = 1, #latency do io.write(string.format("latency %d %d\n", latency(i))) end
end
`

// wrkLoad puts load on servers with the program wrk. It writes wrk's script to dir.
func wrkLoad(dir, program string) (func(*server, settings, testCase) rounder, error) {
	script := filepath.Join(dir, "wrk.lua")
	if err := os.WriteFile(script, []byte(wrkScript), 0o600); err != nil {
		return nil, err
	}
	return func(srv *server, s settings, c testCase) rounder { return &wrkRound{program, script, srv.addr, s, c} }, nil
}

type wrkRound struct {
	program, script, addr string
	s                     settings
	c                     testCase
}

// round checks one answer itself, because wrk only looks at the status. The warm-up is a run of its own.
func (w *wrkRound) round(ctx context.Context, mark func() error) (*result, error) {
	if _, err := askOnce(w.addr, httpRequest); err != nil {
		return nil, err
	}
	before := int64(0)
	if w.s.warmup > 0 {
		warm, err := w.run(ctx, w.s.warmup)
		if err != nil {
			return nil, err
		}
		before = warm.requests
	}
	if err := mark(); err != nil {
		return nil, err
	}
	res, err := w.run(ctx, w.s.duration)
	if err != nil {
		return nil, err
	}
	res.warmup = before
	return res, mark()
}

// run runs wrk for d, rounded up to the seconds that it knows.
func (w *wrkRound) run(ctx context.Context, d time.Duration) (*result, error) {
	seconds := int((d + time.Second - 1) / time.Second)
	cmd := exec.CommandContext(ctx, w.program, "-t1", "-c"+strconv.Itoa(w.c.conns), fmt.Sprintf("-d%ds", seconds),
		"-s", w.script, "http://"+w.addr+"/plaintext", "--", strconv.Itoa(w.c.pipeline))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := startOn(cmd, w.s.clientCPU)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", w.program, err, &out)
	}
	return parseWrk(out.String())
}

// parseWrk reads what wrkScript has printed. Failed requests fail the comparison.
func parseWrk(out string) (*result, error) {
	res := &result{latencies: newHistogram()}
	complete := false
	for line := range strings.Lines(out) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "totals":
			var micros, failed int64
			if n, err := fmt.Sscan(rest, &res.requests, &micros, &failed); n != 3 {
				return nil, fmt.Errorf("wrk said %q: %w", line, err)
			}
			if failed > 0 {
				return nil, fmt.Errorf("wrk counted %d failures beside %d answers", failed, res.requests)
			}
			res.elapsed = time.Duration(micros) * time.Microsecond
			complete = true
		case "latency":
			var micros, count int64
			if n, err := fmt.Sscan(rest, &micros, &count); n != 2 {
				return nil, fmt.Errorf("wrk said %q: %w", line, err)
			}
			_ = res.latencies.RecordValues(min(micros*1000, int64(maxLatency)), count) // in range, so it cannot fail
		}
	}
	if !complete {
		return nil, errors.New("wrk has not told its totals")
	}
	return res, nil
}

// wrkVersion returns the first line that wrk prints about itself. wrk has no flag that prints only that.
func wrkVersion(program string) string {
	out, _ := exec.Command(program, "-v").Output() // wrk treats -v as a mistake
	line, _, _ := strings.Cut(string(out), "\n")
	version, _, _ := strings.Cut(line, "Copyright")
	return strings.TrimSpace(version)
}
