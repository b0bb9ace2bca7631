package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cLoop and the others are contenders that several comparisons have in common.
var (
	cLoop       = contender{Name: "C epoll loop", binary: "c"}
	cTuned      = contender{Name: "C epoll loop, tuned", binary: "c-tuned"}
	netEcho     = contender{Name: "net, goroutine per connection", binary: "net"}
	netpollEcho = contender{Name: "cloudwego/netpoll, one poller", binary: "netpoll"}
	gnetEcho    = contender{Name: "gnet v2, one loop", binary: "gnet"}
	nbioEcho    = contender{Name: "nbio, one poller", binary: "nbio"}
)

// echo compares the C loop, package net, the engine and its Go peers.
func echo(ctx context.Context, b *binaries, s settings) (*report, error) {
	return compare(ctx, b, s, "requests", echoLoad, []contender{
		cLoop, cTuned, netEcho, {Name: oneLoop, binary: "eddy"}, netpollEcho, gnetEcho, nbioEcho,
	})
}

// hop compares the engine with itself: handler on the loop, handler on a pool, in both wait modes.
func hop(ctx context.Context, b *binaries, s settings) (*report, error) {
	const workers = "8"
	return compare(ctx, b, s, "requests", echoLoad, []contender{
		{Name: "eddy direct, parked", binary: "eddy"},
		{Name: "eddy hop, parked", binary: "eddy", args: []string{"-workers", workers}},
		{Name: "eddy direct, pinned", binary: "eddy", args: []string{"-pinned"}},
		{Name: "eddy hop, pinned", binary: "eddy", args: []string{"-pinned", "-workers", workers}},
	})
}

const (
	eddySingle   = "eddy, single reactor"
	eddyBoss     = "eddy, boss and 2 workers"
	eddyTwoLoops = "eddy, 2 loops"
	gnetTwoLoops = "gnet v2, 2 loops"
)

// loops compares servers of two loops on two processors, one of which the load generator shares.
func loops(ctx context.Context, b *binaries, s settings) (*report, error) {
	two := []string{"-loops", "2"}
	return compare(ctx, b, s, "requests", echoLoad, []contender{
		netEcho, {Name: eddyTwoLoops, binary: "eddy", args: two}, {Name: gnetTwoLoops, binary: "gnet", args: two},
	})
}

// topologies compares the three topologies under connections that live for one exchange and end by a reset.
func topologies(ctx context.Context, b *binaries, s settings) (*report, error) {
	return visits(ctx, b, s, false)
}

// farewells compares the same servers under connections that end by FIN on both sides.
func farewells(ctx context.Context, b *binaries, s settings) (*report, error) {
	return visits(ctx, b, s, true)
}

func visits(ctx context.Context, b *binaries, s settings, fin bool) (*report, error) {
	load := func(srv *server, s settings, c testCase) rounder {
		return &churn{addr: srv.addr, visitors: c.conns, size: s.size, fin: fin, warmup: s.warmup, duration: s.duration, cpus: s.clientCPU}
	}
	return compare(ctx, b, s, "connections", load, []contender{
		cLoop, netEcho,
		{Name: eddySingle, binary: "eddy", args: []string{"-topology", "single"}},
		{Name: eddyBoss, binary: "eddy", args: []string{"-topology", "boss", "-loops", "2"}},
		{Name: "eddy, 2 loops with a listener each", binary: "eddy", args: []string{"-topology", "listeners", "-loops", "2"}},
		gnetEcho,
	})
}

// rounder puts load on a server for one round and calls mark at both ends of the measured window.
type rounder interface {
	round(ctx context.Context, mark func() error) (*result, error)
}

func echoLoad(srv *server, s settings, c testCase) rounder {
	return &load{
		addr: srv.addr, conns: c.conns, size: s.size, pipeline: c.pipeline,
		warmup: s.warmup, duration: s.duration, cpus: s.clientCPU,
	}
}

// compare runs every contender once per round, in turn, for each case and number of processors. All servers of one
// number of processors stay up for all its cases. With -before the engine's are compared each with itself instead.
func compare(ctx context.Context, b *binaries, s settings, unit string, load func(*server, settings, testCase) rounder, contenders []contender) (*report, error) {
	rep := &report{Unit: unit, Size: s.size, Rounds: s.rounds, Duration: s.duration.String()}
	for _, group := range s.groups(contenders) {
		for _, procs := range s.procs {
			if err := rep.compareOn(ctx, b, s, procs, load, group); err != nil {
				return nil, err
			}
		}
	}
	return rep, nil
}

// groups returns who is compared with whom: all with all, or with -before each of the engine's contenders with what the other
// checkout makes of it.
func (s settings) groups(contenders []contender) (groups [][]contender) {
	if s.before == "" {
		return [][]contender{contenders}
	}
	for _, c := range contenders {
		if strings.HasPrefix(c.binary, "eddy") {
			was := c
			was.Name, was.checkout = c.Name+", before", s.before
			groups = append(groups, []contender{was, c})
		}
	}
	return groups
}

func (rep *report) compareOn(ctx context.Context, b *binaries, s settings, procs int, load func(*server, settings, testCase) rounder, contenders []contender) (err error) {
	servers, stop, err := startAll(ctx, b, s, procs, contenders)
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, stop())
		}
	}()
	if err != nil {
		return err
	}
	first := len(rep.Tables)
	for _, c := range s.cases {
		t := newTable(c, procs, contenders)
		rep.Tables = append(rep.Tables, t)
		for round := range s.rounds {
			for turn := range servers {
				i := (round + turn) % len(servers) // nobody always runs behind the same one
				srv := servers[i]
				progress("%s, %d processors, round %d of %d: %s", c, procs, round+1, s.rounds, srv.Name)
				if err := t.Rows[i].measure(ctx, srv, load(srv, s.of(c), c)); err != nil {
					return fmt.Errorf("%s: %w", srv.Name, err)
				}
			}
		}
		t.finish()
	}
	stopped = true
	if err := stop(); err != nil {
		return err
	}
	rep.allocations(servers, rep.Tables[first:])
	return nil
}

// allocations adds the allocations that the servers reported when they left, divided by all the requests they served.
func (rep *report) allocations(servers []*server, tables []*table) {
	g := &grid{
		Title: fmt.Sprintf("Objects allocated by the server, GOMAXPROCS=%d, over all rounds with warm-ups and connecting:", tables[0].Procs),
		First: "server", Columns: []column{{"per " + singular(rep.Unit), "%.3f"}},
	}
	both := false
	for i, srv := range servers {
		var total, window int64
		var client uint64
		for _, t := range tables {
			total += t.Rows[i].total
			window += t.Rows[i].requests
			client += t.Rows[i].clientMallocs
		}
		each := srv.mallocs / float64(max(total, 1))
		switch {
		case srv.mallocs == 0:
		case client > 0:
			g.add(srv.Name, each, float64(client)/float64(max(window, 1)))
			both = true
		default:
			g.add(srv.Name, each)
		}
	}
	if both {
		g.Columns = append(g.Columns, column{"of the client", "%.3f"})
	}
	rep.Grids = append(rep.Grids, g)
}

// singular returns the singular of a unit.
func singular(unit string) string {
	if stem, ok := strings.CutSuffix(unit, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(unit, "s")
}

// startAll builds the contenders and starts them on the server's processors. stop ends those that were started and must
// be called in any case.
func startAll(ctx context.Context, b *binaries, s settings, procs int, contenders []contender) (servers []*server, stop func() error, err error) {
	stop = func() error {
		var errs []error
		for _, srv := range servers {
			errs = append(errs, srv.stop())
		}
		return errors.Join(errs...)
	}
	if err := b.build(ctx, contenders); err != nil {
		return nil, stop, err
	}
	for _, c := range contenders {
		srv, err := start(b, c.on(s, procs))
		if err != nil {
			return servers, stop, err
		}
		servers = append(servers, srv)
	}
	return servers, stop, nil
}

// on returns the contender with its share of the machine.
func (c contender) on(s settings, procs int) contender {
	c.procs, c.cpus = procs, s.serverCPU
	if c.cpus == nil {
		for cpu := range procs {
			c.cpus = append(c.cpus, cpu)
		}
	}
	return c
}

// measure runs one round against srv and adds it to the row.
func (r *row) measure(ctx context.Context, srv *server, load rounder) error {
	var marks []time.Duration
	res, err := load.round(ctx, func() error {
		used, err := srv.cpuTime()
		marks = append(marks, used)
		return err
	})
	if err != nil {
		return err
	}
	if res.requests == 0 {
		return errors.New("no request was answered in the window")
	}
	_, peak, err := srv.memory()
	if err != nil {
		return err
	}
	r.add(res, marks[1]-marks[0]+res.used, peak)
	return nil
}

// idle measures what an idle connection costs: resident memory, and wakeups of the whole server while nothing happens.
func idle(ctx context.Context, b *binaries, s settings) (*report, error) {
	g := &grid{First: "server", Columns: []column{{"resident bytes per connection", "%.0f"}, {"wakeups / s of the whole server", "%.1f"}, {"resident, before the collection", "%.0f"}}}
	contenders := []contender{
		cLoop, netEcho,
		{Name: "eddy, 3 handlers, idle deadline", binary: "eddy", args: []string{"-handlers", "3", "-idle", "10m"}},
		{Name: "eddy, a handler object for each", binary: "eddy", args: []string{"-objects"}},
		netpollEcho, gnetEcho, nbioEcho,
		netTLS, {Name: "eddy, 3 handlers and tlsx, idle deadline", binary: "eddy", args: []string{"-handlers", "3", "-idle", "10m", "-tls"}, tls: true},
	}
	contenders = slices.Concat(s.groups(contenders)...)
	if err := b.build(ctx, contenders); err != nil {
		return nil, err
	}
	for _, c := range contenders {
		progress("%s idle connections: %s", strconv.Itoa(s.idleConns), c.Name)
		bytes, wakeups, before, err := idleRow(ctx, b, s, c.on(s, s.procs[0]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		g.add(c.Name, bytes, wakeups, before)
	}
	return &report{Size: s.size, Grids: []*grid{g}, Note: fmt.Sprintf(
		"%d connections (%d over TLS 1.3, measured after a garbage collection and, in the last column, before it), each after one exchange of %d B; wakeups counted over %s.", s.idleConns, s.idleConns/5, s.size, s.duration)}, nil
}

// idleRow opens the connections and exchanges one message on each, so that its buffers have been used. It then leaves
// them alone.
func idleRow(ctx context.Context, b *binaries, s settings, c contender) (bytes, wakeups, unsettled float64, err error) {
	fail := func(err error) (float64, float64, float64, error) { return 0, 0, 0, err }
	srv, err := start(b, c)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	n, open := s.idleConns, gather
	settle := func() error { return nil }
	if c.tls { // a handshake leaves 20 times as much garbage as memory in use
		n, open, settle = n/5, gatherTLS, srv.settle
	}
	if err := settle(); err != nil {
		return fail(err)
	}
	before, _, err := srv.memory()
	if err != nil {
		return fail(err)
	}
	per := func() (float64, error) {
		now, _, err := srv.memory()
		return float64(now-before) / float64(n), err
	}
	crowd, err := open(srv.addr, n, s.size)
	defer crowd.close()
	if err != nil {
		return fail(err)
	}
	if err := wait(ctx, s.duration); err != nil { // lets garbage collection and timers settle
		return fail(err)
	}
	woken, err := srv.wakeups()
	if err != nil {
		return fail(err)
	}
	if err := wait(ctx, s.duration); err != nil {
		return fail(err)
	}
	after, err := srv.wakeups()
	if err != nil {
		return fail(err)
	}
	if unsettled, err = per(); err != nil {
		return fail(err)
	}
	if err := settle(); err != nil {
		return fail(err)
	}
	bytes, err = per()
	return bytes, float64(after-woken) / s.duration.Seconds(), unsettled, err
}

// wait passes d unless ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
