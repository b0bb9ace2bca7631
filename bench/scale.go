package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scaleLoops returns the default numbers of loops that scale compares: one, and one for each processor.
func scaleLoops() string {
	if n := runtime.NumCPU(); n > 1 {
		return "1," + strconv.Itoa(n)
	}
	return "1"
}

// curve is a number of loops with its points, one for each number of connections, in the order of the cases.
type curve struct {
	contender
	points []point
	sparse []*row // one for each of scalePaces, at the last point
}

// pace is how often a connection of the plan speaks.
type pace struct {
	name  string
	every time.Duration
}

var scalePaces = []pace{{"a message a minute", time.Minute}, {"a message a second", time.Second}}

// leastRate is the least rate of an open loop, so that a window has messages even in a trial with few connections.
const leastRate = 50

// seldomWindows is how many times as long a window of few messages is. One garbage collection would else be half of it.
const seldomWindows = 3

// rate returns the messages a second of that many connections.
func (p pace) rate(conns int) int { return int(float64(conns) / p.every.Seconds()) }

// point is what was measured with a number of connections.
type point struct {
	conns            int
	before, resident float64 // bytes of the server without connections, and with all of them
	slab             float64 // bytes of the kernel's slabs for one end of a connection
	busy             *row    // all connections speak, one message in flight on each
}

// scaling is a run of scale.
type scaling struct {
	settings
	b      *binaries
	curves []*curve
}

// scale measures what a connection and a message cost as the number of connections and of loops grows. It fits a model
// to the points and plans 1,000,000 connections with it.
func scale(ctx context.Context, b *binaries, s settings) (*report, error) {
	var skipped []string
	s.cases, skipped = within(s.cases, openFiles())
	slices.SortStableFunc(s.cases, func(a, b testCase) int { return a.conns - b.conns })
	var conns []int
	for _, c := range s.cases {
		conns = append(conns, c.conns)
	}
	if len(distinct(conns)) < len(memoryTerms) {
		return nil, fmt.Errorf("a model needs at least %d numbers of connections, -cases leave %v; %s", len(memoryTerms), conns, strings.Join(skipped, "; "))
	}
	x := &scaling{settings: s, b: b}
	for _, loops := range distinct(s.procs) {
		name := oneLoop
		if loops > 1 {
			name = fmt.Sprintf("eddy, %d loops", loops)
		}
		c := contender{Name: name, binary: "eddy", args: []string{"-topology", "boss", "-loops", strconv.Itoa(loops)}}
		x.curves = append(x.curves, &curve{contender: c.on(s, loops)})
	}
	if err := b.build(ctx, []contender{x.curves[0].contender}); err != nil { // the others are the same program
		return nil, err
	}
	for i, c := range s.cases {
		if err := x.point(ctx, c, i == len(s.cases)-1); err != nil {
			return nil, fmt.Errorf("%d connections: %w", c.conns, err)
		}
	}
	return x.report(skipped)
}

// spareFiles are the descriptors that a process needs beside those of its connections.
const spareFiles = 200

// openFiles returns how many connections the limit of open files leaves to this process.
func openFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<40)) - spareFiles
}

// within returns the cases with at most that many connections, and a sentence about each of the others.
func within(cases []testCase, most int) (fit []testCase, skipped []string) {
	for _, c := range cases {
		if c.conns <= most {
			fit = append(fit, c)
		} else {
			skipped = append(skipped, fmt.Sprintf("%d connections were skipped: the limit of open files leaves %d", c.conns, most))
		}
	}
	return fit, skipped
}

// point adds a point to every curve. Each has a server of its own for it, whose memory no earlier point has used.
func (x *scaling) point(ctx context.Context, c testCase, last bool) (err error) {
	var servers []*server
	defer func() {
		for _, srv := range servers {
			err = errors.Join(err, srv.stop())
		}
	}()
	for _, cv := range x.curves {
		srv, err := start(x.b, cv.contender)
		if err != nil {
			return err
		}
		servers = append(servers, srv)
		progress("%s, open: %s", c, srv.Name)
		p, err := x.held(ctx, srv, c)
		if err != nil {
			return fmt.Errorf("%s: %w", srv.Name, err)
		}
		cv.points = append(cv.points, p)
	}
	busy, err := x.rows(ctx, x.settings, servers, c, echoLoad)
	if err != nil {
		return err
	}
	for i, cv := range x.curves {
		cv.points[len(cv.points)-1].busy = busy[i]
	}
	if !last {
		return nil
	}
	seldom := x.settings
	seldom.duration *= seldomWindows
	for _, p := range scalePaces {
		c.rate = max(p.rate(c.conns), leastRate)
		rows, err := x.rows(ctx, seldom, servers, c, steadyLoad)
		if err != nil {
			return err
		}
		for i, r := range rows {
			x.curves[i].sparse = append(x.curves[i].sparse, r)
		}
	}
	return nil
}

// held opens the connections, exchanges one message on each, and reads what they hold after a pause of one window.
func (x *scaling) held(ctx context.Context, srv *server, c testCase) (p point, err error) {
	before, slabBefore, err := holds(srv)
	if err != nil {
		return p, err
	}
	all, err := gather(srv.addr, c.conns, x.size)
	defer func() {
		all.close()
		err = errors.Join(err, srv.drained(ctx))
	}()
	if err != nil {
		return p, err
	}
	if err := wait(ctx, x.duration); err != nil {
		return p, err
	}
	resident, slab, err := holds(srv)
	return point{conns: c.conns, before: before, resident: resident, slab: (slab - slabBefore) / float64(2*c.conns)}, err
}

// holds returns the resident bytes of the server and the bytes that the kernel has in slabs.
func holds(srv *server) (resident, slab float64, err error) {
	now, _, err := srv.memory()
	if err != nil {
		return 0, 0, err
	}
	slab, err = slabs()
	return float64(now), slab, err
}

// slabs returns the bytes that the kernel has in slabs, for the whole machine. Sockets are there.
func slabs() (float64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Slab:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("no Slab in /proc/meminfo")
}

// drained waits until the server has closed the connections that left it, so that the next ones find descriptors.
func (s *server) drained(ctx context.Context) error {
	for from := time.Now(); ; {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
		switch {
		case err != nil || len(list) <= spareFiles:
			return err
		case time.Since(from) > startTimeout:
			return fmt.Errorf("%s: still has %d descriptors %v after its connections were closed", s.Name, len(list), startTimeout)
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// rows measures all servers in turn, as compareOn does, and drains each after its round.
func (x *scaling) rows(ctx context.Context, s settings, servers []*server, c testCase, load func(*server, settings, testCase) rounder) ([]*row, error) {
	var contenders []contender
	for _, cv := range x.curves {
		contenders = append(contenders, cv.contender)
	}
	t := newTable(c, 0, contenders)
	for round := range s.rounds {
		for turn := range servers {
			i := (round + turn) % len(servers)
			progress("%s, round %d of %d: %s", c, round+1, s.rounds, servers[i].Name)
			if err := t.Rows[i].measure(ctx, servers[i], load(servers[i], s.of(c), c)); err != nil {
				return nil, fmt.Errorf("%s: %w", servers[i].Name, err)
			}
			if err := servers[i].drained(ctx); err != nil {
				return nil, err
			}
		}
	}
	t.finish()
	return t.Rows, nil
}

// perMessage returns the processor time of the server for one message, in µs.
func (r *row) perMessage() float64 { return 1e6 / r.Median }
