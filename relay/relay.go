// Package relay carries bytes between connections that a server accepts and connections that it dials for them, both ways: as a
// TCP proxy does, and as CONNECT and SOCKS servers do after their handshakes.
//
// Each side is read as fast as the other takes it, and no faster: a piece that is over the high watermark pauses the reads of
// the side that it came from until the other side's queue has come down. The end of one side's stream becomes the end of the
// other's, behind the last byte, while the opposite direction goes on. An end in any other way resets the other side: a stream
// that was cut must not look whole.
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
	// Dialer makes the other sides. Its Init, which may be nil, adds what stands in front of the relay there, TLS for instance.
	// If its Group is the server's, both sides of a pair are on one loop.
	Dialer *eddy.Dialer

	// Target says where the other side of an accepted connection is: a *net.TCPAddr or *net.UnixAddr. It runs on the
	// connection's loop and must not block. An error ends the connection. Only Init asks it.
	Target func(c *eddy.Conn) (net.Addr, error)

	// Idle ends a pair on which nothing has moved for so long, to a quarter; 0 = never. The deadlines of server and dialer for
	// reads, writes and backpressure hold beside it; their IdleTimeout does not, since a pair is a request in flight.
	Idle time.Duration

	// Done, if it is set, is told of each pair when both its sides have ended. It runs on a loop and must not block.
	Done func(Report)

	Logger *slog.Logger // of pairs that did not come about, five lines a second; nil = slog.Default()
}

// Report says what became of a pair.
type Report struct {
	Client, Target string // addresses; Target is "" if there was none
	In, Out        int64  // bytes from the client, and to it
	Took           time.Duration
	Reason         eddy.CloseReason // of the side that ended first
	Err            error            // its cause; of a pair that did not come about, why
}

// Stats are the numbers of a Relay since it was made.
type Stats struct {
	Active  int64  // pairs, those being connected included
	Pairs   uint64 // begun
	Failed  uint64 // that did not come about
	In, Out uint64 // bytes of ended pairs, from clients and to them
}

// Relay makes the handlers. New makes one; all methods may be called from any goroutine.
type Relay struct {
	o       Options
	active  atomic.Int64
	pairs   atomic.Uint64
	failed  atomic.Uint64
	in, out atomic.Uint64
	lines   sample.Lines
}

// New checks the options.
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

// Init is an eddy.Server's: it adds the handler of a connection that is relayed to its Target from the first byte. Handlers
// that stand in front of it, such as TLS, are added before.
func (r *Relay) Init(p *eddy.Pipeline) error {
	if r.o.Target == nil {
		return errors.New("relay: Options.Target is nil: it says where to")
	}
	return p.Add("relay", r.Handler(nil, nil))
}

// Handler makes the handler of one connection, for protocols that are told where to: they put it in their place with
// Pipeline.Replace. target nil asks Options.Target. connected, if it is not nil, is called once, on the connection's loop, when
// the other side stands and before a byte moves, or with the error; what it writes is the answer. After an error the connection
// ends as soon as that is sent. Without connected it is reset then.
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
