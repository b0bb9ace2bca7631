// Package load is the load generator of "eddy bench". It opens connections over package net, keeps a fixed number of
// requests in flight on each, or sends at a constant rate. It checks every answer and measures how long the answer took.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// dialTimeout bounds the connect and handshakes of one connection.
const dialTimeout = 5 * time.Second

// Run makes the load until its duration is over or ctx ends, whichever is first, and reports what it measured until
// then. An error means that nothing could be measured, because the server cannot be reached or does not speak the
// protocol. progress, if not nil, is called once a second.
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
	window := time.Now().Add(o.Warmup)
	t := schedule{from: window.Add(-o.Warmup), window: window, end: window.Add(o.Duration), o: g.Options}
	var workers sync.WaitGroup
	for i, c := range conns {
		if c != nil {
			workers.Go(func() { g.drive(c, g.shards[i%len(g.shards)], t.of(i)) })
		}
	}
	stop, paced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(paced)
		if o.Rate > 0 {
			pace(t, g.ticks, stop)
		}
	}()
	release := context.AfterFunc(ctx, func() { closeAll(conns) })
	done := make(chan struct{})
	go func() { workers.Wait(); close(done) }()
	g.report(done, window, progress)
	release()
	close(stop)
	<-paced
	closeAll(conns)
	return g.result(min(max(time.Since(window), 0), o.Duration)), nil
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
	shards []*shard
	faults faults
	ticks  []chan struct{} // with a Rate: by connection, has an element when a request is due
}

const shards = 8

func newGenerator(o Options) *generator {
	g := &generator{Options: o}
	for range min(shards, o.Conns) {
		g.shards = append(g.shards, newShard())
	}
	if o.Rate > 0 {
		for range o.Conns {
			g.ticks = append(g.ticks, make(chan struct{}, 1))
		}
	}
	return g
}

// conn is a connection that has shaken hands.
type conn struct {
	net.Conn
	protocol
	raw net.Conn // below TLS; else the same
}

// Close ends the connection without a farewell of TLS, which could wait for room.
func (c *conn) Close() error { return c.raw.Close() }

// reset makes Close end the connection at once, so that it leaves no port in TIME_WAIT.
func (c *conn) reset() {
	if tcp, ok := c.raw.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it is closed the slow way
	}
}

// dial opens one connection and shakes hands.
func (g *generator) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", g.Addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, protocol: newProtocol(g.Options), raw: raw}
	err = c.SetDeadline(time.Now().Add(dialTimeout))
	if err == nil && g.TLS {
		err = c.secure(ctx, g.Addr)
	}
	if err == nil {
		err = c.handshake(c.Conn)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// secure puts TLS on the connection. The certificate is not verified, because servers under test have self-signed ones.
// Nothing secret is sent, and every answer is compared.
func (c *conn) secure(ctx context.Context, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	secure := tls.Client(c.raw, &tls.Config{ServerName: host, InsecureSkipVerify: true}) //nolint:gosec // see above
	c.Conn = secure
	if err := secure.HandshakeContext(ctx); err != nil {
		if kind := kindOf(err); kind != KindOther {
			return &fault{kind, err}
		}
		return &fault{KindTLS, err}
	}
	return nil
}

// dialAll opens the other connections, some at a time. A connection that fails is counted and left out.
func (g *generator) dialAll(ctx context.Context, first *conn) []*conn {
	const atOnce = 64
	conns := make([]*conn, g.Conns)
	conns[0] = first
	places := make(chan struct{}, atOnce)
	var dials sync.WaitGroup
	for i := 1; i < g.Conns && ctx.Err() == nil; i++ {
		places <- struct{}{}
		dials.Go(func() {
			defer func() { <-places }()
			c, err := g.dial(ctx)
			if err != nil && ctx.Err() == nil {
				g.faults.add(err)
			}
			if err == nil {
				conns[i] = c
			}
		})
	}
	dials.Wait()
	return conns
}

// drive keeps the requests of one connection in flight, or its rate, until the end.
func (g *generator) drive(c *conn, s *shard, t schedule) {
	defer c.Close()
	err := c.SetDeadline(t.end)
	if err == nil && g.Rate > 0 {
		err = g.constant(c, s, t)
	} else if err == nil {
		err = g.exchange(c, s, t)
	}
	if !over(err, t.end) {
		g.faults.add(err)
	}
}

// over reports that err only means the end of the run: the deadline, or our own close.
func over(err error, end time.Time) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) || !time.Now().Before(end)
}

// exchange sends requests and takes answers until the connection ends. It returns the reason of the end.
func (g *generator) exchange(c *conn, s *shard, t schedule) error {
	f := newFlight(c.protocol, g.InFlight)
	for n := g.InFlight; ; {
		now := time.Now()
		out := c.requests(n)
		f.sent(n, func(int) time.Time { return now })
		if _, err := c.Write(out); err != nil {
			return err
		}
		var err error
		n, err = c.receive(c.Conn)
		now = time.Now()
		s.mu.Lock()
		extra := f.answered(n, func(from time.Time, refused bool) {
			if !now.Before(t.window) {
				s.answer(now.Sub(from), refused)
			}
		})
		s.mu.Unlock()
		if err := errors.Join(extra, err); err != nil {
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
