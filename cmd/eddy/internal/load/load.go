// Package load is the load generator of "eddy bench": it opens connections over package net, keeps a fixed number of requests
// in flight on each, or sends at a constant rate, checks every answer and measures how long it took.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Options say what load to make. All fields must be set; Check names the first one that makes no sense.
type Options struct {
	Protocol string // "echo", "line", "frame", "rpc" or "ws"
	Addr     string // host:port
	Conns    int
	Size     int // bytes of payload per request
	Pipeline int // requests in flight per connection
	Duration time.Duration

	// Rate is how many requests are sent per second, on all connections together, however fast the answers come. 0 keeps
	// Pipeline requests in flight instead. For "frame" and "rpc".
	Rate int

	Service, Method string // of "rpc": the key and the name of a method that returns its raw body
}

// Limits of Options.
const (
	MaxConns    = 20_000
	MaxSize     = 1 << 20
	MaxRate     = 10_000_000
	MaxInFlight = 1 << 20 // bytes in flight per connection, Size × Pipeline: more could wait for itself in full socket buffers
)

// maxPrefix bounds the names in a request: the protocol takes 16 KiB with everything around them.
const maxPrefix = 16 << 10 / 2

// dialTimeout bounds the connect and handshake of one connection.
const dialTimeout = 5 * time.Second

// Check reports the first option that is out of range, naming it as the flag it comes from.
func (o Options) Check() error {
	if newProtocol(o) == nil {
		return fmt.Errorf("unknown protocol %q: use echo, line, frame, rpc or ws", o.Protocol)
	}
	if _, _, err := net.SplitHostPort(o.Addr); err != nil {
		return fmt.Errorf("--addr %q is not host:port, such as 127.0.0.1:7000", o.Addr)
	}
	for _, f := range []struct {
		name       string
		value, max int
	}{{"conns", o.Conns, MaxConns}, {"size", o.Size, MaxSize}, {"pipeline", o.Pipeline, MaxInFlight}} {
		if f.value < 1 || f.value > f.max {
			return fmt.Errorf("--%s %d is out of range: use 1 to %d", f.name, f.value, f.max)
		}
	}
	if o.Size*o.Pipeline > MaxInFlight {
		return fmt.Errorf("--size %d × --pipeline %d is more than %d bytes in flight per connection: lower one of them", o.Size, o.Pipeline, MaxInFlight)
	}
	if o.Rate < 0 || o.Rate > MaxRate {
		return fmt.Errorf("--rate %d is out of range: use 1 to %d requests per second, or 0 for no constant rate", o.Rate, MaxRate)
	}
	if len(o.Service)+len(o.Method) > maxPrefix {
		return fmt.Errorf("--service and --method have %d bytes together, limit %d", len(o.Service)+len(o.Method), maxPrefix)
	}
	if o.Duration <= 0 {
		return fmt.Errorf("--duration %v must be positive, such as 10s", o.Duration)
	}
	return nil
}

// A Result is what a run measured. Requests are those whose answer came and was right.
type Result struct {
	Requests   int64
	Errors     int64 // connections that were refused, closed by the server or answered wrongly; each one ends with its error
	FirstError error
	Elapsed    time.Duration
	Latencies  *hdrhistogram.Histogram // nanoseconds, from when the request was sent or, with a Rate, should have been

	Refused    int64                   // answers that there was no room
	Refusals   *hdrhistogram.Histogram // latencies of those
	Unanswered int64                   // with a Rate: requests of its time without an answer at the end, with their age among Latencies
}

// PerSecond is the number of answers per second.
func (r *Result) PerSecond() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Requests) / r.Elapsed.Seconds()
}

// Run makes the load until its duration is over or ctx ends, whichever is first, and reports what it measured until then. An error means that
// nothing could be measured: the server cannot be reached or does not speak the protocol. progress, if not nil, is called once a second.
func Run(ctx context.Context, o Options, progress func(*Result)) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	g := newGenerator(o)
	first, err := g.dial(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conns := g.dialAll(ctx, first)
	from := time.Now()
	end := from.Add(o.Duration)
	var workers sync.WaitGroup
	for i, c := range conns {
		if c != nil {
			workers.Go(func() { g.drive(c, g.shards[i%len(g.shards)], schedule{from, end, i, g.Options}) })
		}
	}
	release := context.AfterFunc(ctx, func() { closeAll(conns) })
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	g.report(done, from, progress)
	release()
	closeAll(conns)
	return g.result(min(time.Since(from), o.Duration)), nil
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
}

// generator is one run.
type generator struct {
	Options
	shards   []*shard
	errors   atomic.Int64
	firstErr atomic.Pointer[error]
}

// A shard collects the measurements of some of the connections, so that they don't all meet at one lock.
type shard struct {
	mu        sync.Mutex
	requests  int64
	latencies *hdrhistogram.Histogram

	refused    int64
	refusals   *hdrhistogram.Histogram
	unanswered int64
}

// record notes an answer. s.mu is held.
func (s *shard) record(latency time.Duration, refused bool) {
	h := s.latencies
	if refused {
		h = s.refusals
		s.refused++
	} else {
		s.requests++
	}
	_ = h.RecordValue(int64(min(max(latency, 0), maxLatency))) // in range, so it cannot fail
}

const shards = 8

func newGenerator(o Options) *generator {
	g := &generator{Options: o}
	for range min(shards, o.Conns) {
		g.shards = append(g.shards, &shard{latencies: newHistogram(), refusals: newHistogram()})
	}
	return g
}

// maxLatency is the longest latency that is told apart; longer ones count as this.
const maxLatency = time.Minute

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1000, int64(maxLatency), 3)
}

// conn is a connection that has shaken hands.
type conn struct {
	net.Conn
	protocol
}

// dial opens one connection and shakes hands.
func (g *generator) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", g.Addr)
	if err != nil {
		return nil, err
	}
	p := newProtocol(g.Options)
	err = c.SetDeadline(time.Now().Add(dialTimeout))
	if err == nil {
		err = p.handshake(c)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &conn{Conn: c, protocol: p}, nil
}

// dialAll opens the other connections, some at a time; one that fails is counted and left out.
func (g *generator) dialAll(ctx context.Context, first *conn) []*conn {
	const atOnce = 64
	conns := make([]*conn, g.Conns)
	conns[0] = first
	places := make(chan struct{}, atOnce)
	var dials sync.WaitGroup
	for i := 1; i < g.Conns; i++ {
		places <- struct{}{}
		dials.Go(func() {
			defer func() { <-places }()
			c, err := g.dial(ctx)
			if err != nil {
				g.fail(err)
				return
			}
			conns[i] = c
		})
	}
	dials.Wait()
	return conns
}

func (g *generator) fail(err error) {
	g.errors.Add(1)
	g.firstErr.CompareAndSwap(nil, &err)
}

// drive keeps the pipeline of one connection full, or its rate, until the end.
func (g *generator) drive(c *conn, s *shard, t schedule) {
	defer c.Close()
	err := c.SetDeadline(t.end)
	if f, ok := c.protocol.(*frames); ok && err == nil && g.Rate > 0 {
		err = f.drive(c.Conn, s, t)
	} else if err == nil {
		err = g.exchange(c, s)
	}
	if !g.over(err, t.end) {
		g.fail(err)
	}
}

// over reports that err is only the end of the run: the deadline, or our own closing.
func (g *generator) over(err error, end time.Time) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) || !time.Now().Before(end)
}

// exchange sends requests and takes answers until the connection ends, and returns why it ended.
func (g *generator) exchange(c *conn, s *shard) error {
	ring := make([]time.Time, g.Pipeline) // send times of the requests in flight; oldest is the next to be answered
	oldest := 0
	now := time.Now()
	for i := range ring {
		ring[i] = now
	}
	if err := c.send(c.Conn, g.Pipeline); err != nil {
		return err
	}
	for {
		answers, err := c.receive(c.Conn)
		if err != nil {
			return err
		}
		now = time.Now()
		var refused []bool
		if u, ok := c.protocol.(refuser); ok {
			refused = u.refused()
		}
		s.mu.Lock()
		for i := range answers {
			place := (oldest + i) % len(ring)
			if u, ok := c.protocol.(unordered); ok {
				place = u.answered()[i]
			}
			s.record(now.Sub(ring[place]), refused != nil && refused[i])
			ring[place] = now
		}
		oldest = (oldest + answers) % len(ring)
		s.mu.Unlock()
		if err := c.send(c.Conn, answers); err != nil {
			return err
		}
	}
}

// report calls progress once a second until done.
func (g *generator) report(done <-chan struct{}, from time.Time, progress func(*Result)) {
	if progress == nil {
		<-done
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			progress(g.result(time.Since(from)))
		}
	}
}

// result adds up the shards.
func (g *generator) result(elapsed time.Duration) *Result {
	r := &Result{Errors: g.errors.Load(), Elapsed: elapsed, Latencies: newHistogram(), Refusals: newHistogram()}
	if err := g.firstErr.Load(); err != nil {
		r.FirstError = *err
	}
	for _, s := range g.shards {
		s.mu.Lock()
		r.Requests += s.requests
		r.Latencies.Merge(s.latencies)
		r.Refused += s.refused
		r.Refusals.Merge(s.refusals)
		r.Unanswered += s.unanswered
		s.mu.Unlock()
	}
	return r
}
