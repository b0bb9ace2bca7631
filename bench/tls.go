package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var (
	netTLS  = contender{Name: "net + crypto/tls, goroutine per connection", binary: "net", args: []string{"-tls"}, tls: true}
	eddyTLS = contender{Name: "eddy, one loop, tlsx", binary: "eddy", args: []string{"-tls"}, tls: true}
)

// secureEcho compares TLS on a loop with crypto/tls on goroutines. The clients are goroutines of this process, on any
// processor, because only the processor time of the server counts.
func secureEcho(ctx context.Context, b *binaries, s settings) (*report, error) {
	return compare(ctx, b, s, "requests", func(srv *server, s settings, c testCase) rounder {
		return &tlsLoad{addr: srv.addr, conns: c.conns, size: s.size, pipeline: c.pipeline, warmup: s.warmup, duration: s.duration}
	}, []contender{netTLS, eddyTLS})
}

// handshakes compares whole visits: connect, shake hands (no resumption), exchange one message, leave.
func handshakes(ctx context.Context, b *binaries, s settings) (*report, error) {
	return compare(ctx, b, s, "connections", func(srv *server, s settings, c testCase) rounder {
		return &tlsLoad{addr: srv.addr, conns: c.conns, size: s.size, pipeline: 1, warmup: s.warmup, duration: s.duration, visits: true}
	}, []contender{netTLS, eddyTLS})
}

// anyServer trusts every server, because the servers make their certificates when they start.
var anyServer = &tls.Config{InsecureSkipVerify: true}

// tlsLoad is a closed-loop client of goroutines.
type tlsLoad struct {
	addr                  string
	conns, size, pipeline int
	warmup, duration      time.Duration
	visits                bool // each exchange on a connection of its own

	// For HTTP, one at a time, instead of an echo:
	request string
	want    *httpAnswer
}

func (l *tlsLoad) round(ctx context.Context, mark func() error) (*result, error) {
	w := &tlsWindow{base: time.Now()}
	w.last.Store(int64(maxLatency))
	parts := make([]*result, l.conns)
	errs := make(chan error, l.conns)
	var all sync.WaitGroup
	for i := range parts {
		parts[i] = &result{latencies: newHistogram()}
		all.Go(func() {
			if err := l.client(w, parts[i]); err != nil {
				errs <- err
			}
		})
	}
	res := &result{latencies: newHistogram()}
	err := w.measure(ctx, l, mark, res, errs)
	w.over.Store(true)
	all.Wait()
	for _, p := range parts {
		res.requests += p.requests
		res.warmup += p.warmup
		res.latencies.Merge(p.latencies)
	}
	return res, err
}

// tlsWindow is the measured part of a round.
type tlsWindow struct {
	base        time.Time
	over        atomic.Bool
	first, last atomic.Int64
}

func (w *tlsWindow) measure(ctx context.Context, l *tlsLoad, mark func() error, res *result, errs chan error) error {
	pause := func(d time.Duration) error {
		select {
		case err := <-errs:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	if err := pause(l.warmup); err != nil {
		return err
	}
	if err := mark(); err != nil {
		return err
	}
	from := int64(time.Since(w.base))
	w.first.Store(from)
	if err := pause(l.duration); err != nil {
		return err
	}
	w.last.Store(int64(time.Since(w.base)))
	res.elapsed = time.Duration(w.last.Load() - from)
	return mark()
}

// client exchanges messages, pipeline of them at a time, until the round is over.
func (l *tlsLoad) client(w *tlsWindow, part *result) error {
	exchange := l.exchange()
	var conn *tls.Conn
	for !w.over.Load() {
		from := int64(time.Since(w.base))
		if conn == nil {
			var err error
			if conn, err = dialTLS(l.addr); err != nil {
				return err
			}
		}
		if err := exchange(conn); err != nil {
			return err
		}
		for range l.pipeline {
			part.note(from, int64(time.Since(w.base)), w.first.Load(), w.last.Load())
		}
		if l.visits {
			abort(conn)
			conn = nil
		}
	}
	if conn != nil {
		abort(conn)
	}
	return nil
}

// exchange returns what a client does on its connection, again and again.
func (l *tlsLoad) exchange() func(io.ReadWriter) error {
	if l.want != nil {
		scratch := make([]byte, 64<<10)
		return func(c io.ReadWriter) error { return l.want.fetch(c, l.request, scratch) }
	}
	message := pattern(l.size, l.pipeline-1)
	answer := make([]byte, len(message))
	return func(c io.ReadWriter) error { return exchange(c, message, answer) }
}

func dialTLS(addr string) (*tls.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := tls.Client(conn, anyServer)
	if err := c.SetDeadline(time.Now().Add(time.Hour)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := c.Handshake(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func exchange(c io.ReadWriter, message, answer []byte) error {
	if _, err := c.Write(message); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, answer); err != nil {
		return err
	}
	if string(answer) != string(message) {
		return errors.New("the answer differs from what it should be")
	}
	return nil
}

// abort ends a connection without TIME_WAIT.
func abort(c *tls.Conn) {
	_ = c.NetConn().(*net.TCPConn).SetLinger(0)
	_ = c.NetConn().Close()
}

// gatherTLS is gather over TLS.
func gatherTLS(addr string, n, size int) (crowd, error) {
	var c crowd
	msg, answer := pattern(size, 0), make([]byte, size)
	for i := range n {
		conn, err := dialTLS(addr)
		if err != nil {
			return c, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		c = append(c, conn.NetConn())
		if err := exchange(conn, msg, answer); err != nil {
			return c, fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	return c, nil
}
