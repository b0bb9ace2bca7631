// Package relay carries bytes both ways between connections that a server accepts and connections that it dials for
// them. TCP proxies do so, and CONNECT and SOCKS servers after their handshakes.
//
// [New] makes a [Relay]. Give [Relay.Init] to an eddy.Server, or put a [Relay.Handler] into the pipeline of a
// connection that has said where it wants to go.
//
// Each side is read only as fast as the other takes it. When the queue of one side is over its high watermark, the
// other side is not read until that queue has come down. The end of one side's stream ends the other's behind the last
// byte, while the opposite direction goes on. An end in any other way resets the other side, so that a stream that was
// cut never looks whole. docs/relay.md is the guide.
package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sample"
)

// Options say what a Relay does.
type Options struct {
	// Dialer makes the connections to the targets. Its Init, which may be nil, adds handlers that stand in front of the
	// relay there, such as TLS. If its Group is the server's, both sides of a pair are on one loop.
	Dialer *eddy.Dialer

	// Target returns the address to connect an accepted connection to, a *net.TCPAddr or *net.UnixAddr. It runs on the
	// connection's loop and must not block. An error ends the connection. It is used by Init, and by Handler without a
	// target.
	Target func(c *eddy.Conn) (net.Addr, error)

	// Idle ends a pair when nothing has moved for that long, at most a quarter later; 0 = never. The deadlines of
	// server and dialer for reads, writes and backpressure apply as well. Their IdleTimeout does not, because a pair is
	// a request in flight.
	Idle time.Duration

	// Done, if it is set, is called for each pair when both its sides have ended. It runs on a loop and must not block.
	Done func(Report)

	Logger *slog.Logger // for pairs that could not be connected, five lines a second; nil = slog.Default()
}

// Report describes a pair that has ended.
type Report struct {
	Client, Target string // addresses; Target is "" if there was none
	In, Out        int64  // bytes from the client, and to it
	Took           time.Duration
	Reason         eddy.CloseReason // of the side that ended first
	Err            error            // its cause, or why the pair could not be connected
}

// Stats are the numbers of a Relay since it was made.
type Stats struct {
	Active  int64  // pairs now, including those being connected
	Pairs   uint64 // pairs begun
	Failed  uint64 // pairs that could not be connected
	In, Out uint64 // bytes of ended pairs, from clients and to them
}

// Relay makes the handlers of relayed connections. Make it with New. Any goroutine may call its methods.
type Relay struct {
	o       Options
	active  atomic.Int64
	pairs   atomic.Uint64
	failed  atomic.Uint64
	in, out atomic.Uint64
	lines   sample.Lines
}

// New returns a Relay, or an error that names the wrong option.
func New(o Options) (*Relay, error) {
	switch {
	case o.Dialer == nil:
		return nil, errors.New("relay: Options.Dialer is nil: it makes the other sides")
	case o.Idle < 0:
		return nil, fmt.Errorf("relay: Options.Idle is %v: it must not be negative", o.Idle)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Relay{o: o}, nil
}

// Init is for eddy.Server.Init. It adds the handler of a connection that is relayed to its Target from the first byte.
// Add handlers that stand in front of it, such as TLS, before.
func (r *Relay) Init(p *eddy.Pipeline) error {
	if r.o.Target == nil {
		return errors.New("relay: Options.Target is nil: it says where to")
	}
	return p.Add("relay", r.Handler(nil, nil))
}

// Handler makes the handler of one connection, for protocols that learn the target from the client. They replace their
// own handler by it with Pipeline.Replace. A nil target asks Options.Target.
//
// connected, if it is not nil, is called once, on the connection's loop: with nil when the other side is connected and
// before a byte moves, else with the error. It may write the answer to the client. After an error the connection ends
// as soon as the answer is sent. Without connected the connection is reset after an error.
func (r *Relay) Handler(target net.Addr, connected func(ctx *eddy.Context, err error)) any {
	p := &pair{relay: r, target: target, connected: connected}
	p.client.pair, p.server.pair = p, p
	p.client.other, p.server.other = &p.server, &p.client
	return &p.client
}

// Stats returns the numbers.
func (r *Relay) Stats() Stats {
	return Stats{Active: r.active.Load(), Pairs: r.pairs.Load(), Failed: r.failed.Load(), In: r.in.Load(), Out: r.out.Load()}
}
