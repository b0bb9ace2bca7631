package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// shares are the parts of the capacity that partLoad asks for, in percent.
var shares = []int{20, 50, 80}

// partLoad compares servers that are not at their limit. All get the same requests at the same times: a share of what the
// engine answers in a closed loop, alone and with a process beside it that wants the server's processor all the time. With
// such a neighbour a share is one of half the capacity.
func partLoad(ctx context.Context, b *binaries, s settings) (*report, error) {
	const workers = "8"
	contenders := []contender{
		cLoop, netEcho, {Name: oneLoop, binary: "eddy"}, gnetEcho,
		{Name: "eddy, hop to a pool", binary: "eddy", args: []string{"-workers", workers}},
		{Name: "gnet v2, hop to a pool", binary: "gnet", args: []string{"-workers", workers}},
	}
	first := s.cases[0]
	capacity, err := capacityOf(ctx, b, s, contenders[2], first)
	if err != nil {
		return nil, err
	}
	s.cases = nil
	for _, hog := range []bool{false, true} {
		for _, share := range shares {
			c := first
			c.share, c.hog = share, hog
			c.rate = capacity * share / 100
			if hog {
				c.rate /= 2
			}
			s.cases = append(s.cases, c)
		}
	}
	rep, err := compare(ctx, b, s, "requests", steadyLoad, contenders)
	if err != nil {
		return nil, err
	}
	rep.Note = fmt.Sprintf("Capacity: %d requests a second, of \"%s\" in a closed loop. Open loop: each request is due at a fixed time and measured from then on; one without an answer at the end counts with its age. All servers get the same rate, so the ratio is that of the processor time used, turned round.", capacity, oneLoop)
	return rep, nil
}

// capacityOf returns the requests a second that a server answers in a closed loop.
func capacityOf(ctx context.Context, b *binaries, s settings, c contender, of testCase) (perSecond int, err error) {
	servers, stop, err := startAll(ctx, b, s, s.procs[0], []contender{c})
	defer func() {
		if e := stop(); err == nil {
			err = e
		}
	}()
	if err != nil {
		return 0, err
	}
	of.pipeline = 1
	var rates []float64
	for range 3 {
		progress("capacity of %s", c.Name)
		res, err := echoLoad(servers[0], s, of).round(ctx, func() error { return nil })
		if err != nil {
			return 0, err
		}
		rates = append(rates, float64(res.requests)/res.elapsed.Seconds())
	}
	return max(int(median(rates)), 1000), nil
}

// steadyLoad is echoLoad at the rate of the case, with a neighbour on the server's processors if the case has one.
func steadyLoad(srv *server, s settings, c testCase) rounder {
	l := echoLoad(srv, s, c).(*load)
	l.rate = float64(c.rate)
	if c.hog {
		return &besideHog{l, srv.cpus}
	}
	return l
}

// besideHog runs a load while a process wants the processors cpus for itself.
type besideHog struct {
	*load
	cpus []int
}

func (h *besideHog) round(ctx context.Context, mark func() error) (*result, error) {
	for range h.cpus {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := startOn(hog, h.cpus); err != nil {
			return nil, fmt.Errorf("process that keeps the processor busy: %w", err)
		}
		defer func() {
			hog.Process.Kill()
			hog.Wait()
		}()
	}
	return h.load.round(ctx, mark)
}

// sendDue sends what is due. A connection has pipeline places for requests without an answer. When the next connection
// has none free the request waits, and those behind it, with the time at which they were due.
func (r *runner) sendDue(now int64) error {
	gap := float64(time.Second) / r.rate
	for due := r.due + int64(float64(r.sent)*gap); due <= now; due = r.due + int64(float64(r.sent)*gap) {
		i := r.sent % len(r.clients)
		c := r.clients[i]
		if c.waiting == r.pipeline {
			return nil
		}
		c.sent[(c.oldest+c.waiting)%r.pipeline] = due
		c.waiting++
		r.sent++
		owed := c.owed
		if c.owed += r.each; owed > 0 {
			continue // it goes out when the socket takes more
		}
		if err := r.flush(i); err != nil {
			return err
		}
	}
	return nil
}

// unanswered adds the ages of the requests without an answer, sent or not, to the latencies.
func (r *runner) unanswered(now int64) {
	gap := float64(time.Second) / r.rate
	age := func(due int64) {
		_ = r.res.latencies.RecordValue(min(max(now-due, 0), int64(maxLatency))) // in range, so it cannot fail
	}
	for _, c := range r.clients {
		for k := range c.waiting {
			age(c.sent[(c.oldest+k)%r.pipeline])
		}
	}
	for sent := r.sent; ; sent++ {
		due := r.due + int64(float64(sent)*gap)
		if due > now {
			return
		}
		age(due)
	}
}

// waitMillis returns how long the runner may wait for readiness, in milliseconds. At a rate it does not wait, because the
// clock of the wait is too coarse for the next request.
func (r *runner) waitMillis(left int64) int {
	if r.rate > 0 {
		return 0
	}
	const most = 50
	return int(min(left/int64(time.Millisecond)+1, most))
}

// title is the part of a table's heading about a share of the capacity.
func (c testCase) title() string {
	if c.rate == 0 {
		return ""
	}
	var w strings.Builder
	fmt.Fprintf(&w, ", %d requests a second", c.rate)
	if c.share > 0 && c.hog {
		fmt.Fprintf(&w, " (%d %% of half the capacity), a busy process on the server's processor", c.share)
	} else if c.share > 0 {
		fmt.Fprintf(&w, " (%d %% of the capacity)", c.share)
	}
	return w.String()
}
