package eddy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

// defaultConnectTimeout is the ConnectTimeout of the zero Dialer.
const defaultConnectTimeout = 30 * time.Second

// Dialer makes connections to servers and serves them on its loops as a Server does: with the same pipeline, bounds,
// deadlines and closes. Fill the fields before the first use; only Init is required, here or in DialOptions.
type Dialer struct {
	// Init builds the pipeline of each connection. It runs on the connection's loop and must not block. It may be nil if
	// each connection is dialed with a DialOptions.Init.
	Init func(p *Pipeline) error

	Group          *Group         // loops shared with servers and other dialers; nil = one loop of its own
	ConnectTimeout time.Duration  // for one address; 0 = 30 s
	LocalAddr      netip.AddrPort // to connect from; the zero value and port 0 leave it to the system

	MaxConns      int        // open connections and attempts; 0 = no limit
	Watermarks    Watermarks // as the Server's; so are all fields below
	Overflow      OverflowPolicy
	FlushTimeout  time.Duration
	LingerTimeout time.Duration
	CloseOnEOF    bool
	Logger        *slog.Logger
	BaseContext   context.Context
	ConnContext   func(ctx context.Context, c *Conn) context.Context

	KeepAlive              time.Duration // 0 = 15 s, negative = never
	RecvBuffer, SendBuffer int
	Unsent                 int

	IdleTimeout         time.Duration
	ReadTimeout         time.Duration
	BodyTimeout         time.Duration
	HandlerTimeout      time.Duration
	WriteTimeout        time.Duration
	BackpressureTimeout time.Duration
	MinWriteRate        int
	HandshakeTimeout    time.Duration

	mu       sync.Mutex
	eng      *dialing // nil until the first use
	closed   bool
	endpoint endpoint
	failed   atomic.Uint64
	platform *kernel // nil = the real one
}

// dialing is the running part of a Dialer.
type dialing struct {
	set      *settings
	dial     *dialSettings
	group    *Group
	ownGroup bool
	crew     *crew
	unfollow func() bool // stops waiting for the end of BaseContext
	endOnce  sync.Once
	stopped  chan struct{}
}

// Dial connects to an address and returns the connection once its handlers have been told HandleOpen. network is
// "tcp", "tcp4", "tcp6" or "unix". Host names are resolved; their addresses are tried in turn, each for ConnectTimeout,
// until ctx ends. Errors of an attempt are *net.OpError. Because Dial blocks its goroutine, it returns ErrOnLoop on a loop
// of any group; use DialFuture or DialAddr there.
func (d *Dialer) Dial(ctx context.Context, network, address string) (*Conn, error) {
	if _, err := d.start(); err != nil {
		return nil, err
	}
	if reactor.OnLoop() {
		return nil, ErrOnLoop
	}
	addrs, err := resolve(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("eddy: dial %s %s: %w", network, address, err)
	}
	var first error
	for _, a := range addrs {
		c, err := d.dialOne(ctx, a)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil || errors.Is(err, ErrDialerClosed) {
			break
		}
	}
	return nil, first
}

// resolve turns an address into those a socket can be connected to.
func resolve(ctx context.Context, network, address string) ([]net.Addr, error) {
	family := "ip"
	switch network {
	case "unix":
		return []net.Addr{&net.UnixAddr{Name: address, Net: "unix"}}, nil
	case "tcp":
	case "tcp4", "tcp6":
		family = "ip" + network[3:]
	default:
		return nil, net.UnknownNetworkError(network)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "localhost"
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, family, host)
	if err != nil {
		return nil, err
	}
	addrs := make([]net.Addr, len(ips))
	for i, ip := range ips {
		addrs[i] = net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip.Unmap(), uint16(port)))
	}
	return addrs, nil
}

// dialOne waits for one attempt.
func (d *Dialer) dialOne(ctx context.Context, remote net.Addr) (*Conn, error) {
	type outcome struct {
		c   *Conn
		err error
	}
	result := make(chan outcome, 1)
	cancel, err := d.DialAddr(remote, DialOptions{}, func(c *Conn, err error) { result <- outcome{c, err} })
	if err != nil {
		return nil, err
	}
	select {
	case r := <-result:
		return r.c, r.err
	case <-ctx.Done():
	}
	cancel(ctx.Err())
	r := <-result
	if r.c != nil {
		r.c.Close(CloseNormal)
		return nil, &net.OpError{Op: "dial", Net: remote.Network(), Addr: remote, Err: ctx.Err()}
	}
	return nil, r.err
}

// DialOptions are the settings of a single connection. The zero value leaves them to the Dialer.
type DialOptions struct {
	// Init builds the connection's pipeline; nil = Dialer.Init. It runs on the connection's loop and must not block.
	Init func(p *Pipeline) error

	// Loop serves the connection, for instance the loop of another connection on whose behalf this one is made. nil = the
	// group's Chooser decides. It must be a loop of the Dialer's Group.
	Loop *Loop
}

// DialAddr begins to connect to a *net.TCPAddr or *net.UnixAddr and returns at once. done is called exactly once, on the
// loop, with the connection after its handlers have been told HandleOpen, or with the error. cancel abandons the attempt
// with the given error; after the outcome cancel does nothing. Any goroutine, a loop as well. Errors: ErrDialerClosed,
// ErrSaturated, MaxConns, a DialOptions.Loop that is not one of the group's.
func (d *Dialer) DialAddr(remote net.Addr, o DialOptions, done func(*Conn, error)) (cancel func(error), err error) {
	a, err := d.attempt(remote, o, done)
	if err != nil {
		return nil, err
	}
	return a.cancel, nil
}

// attempt begins to connect.
func (d *Dialer) attempt(remote net.Addr, o DialOptions, done func(*Conn, error)) (*attempt, error) {
	e, err := d.start()
	if err != nil {
		return nil, err
	}
	set, loops, err := e.with(o)
	if err != nil {
		return nil, err
	}
	if d.endpoint.phase.Load() != int32(serverRunning) {
		return nil, ErrDialerClosed
	}
	if !d.endpoint.tally.Admit(e.dial.maxConns) {
		return nil, fmt.Errorf("eddy: Dialer.MaxConns is %d: no more connections", e.dial.maxConns)
	}
	a := &attempt{set: set, dial: e.dial, remote: remote, done: done, fd: -1}
	if t, ok := remote.(*net.TCPAddr); ok {
		a.peer = t.AddrPort()
	}
	if !a.begin(e.crew, loops) {
		d.endpoint.tally.Release()
		return nil, errGroupBusy
	}
	return a, nil
}

// with returns the settings and the loops of an attempt with the options o.
func (e *dialing) with(o DialOptions) (*settings, []*loop, error) {
	set, loops := e.set, e.crew.loops
	if o.Init != nil {
		own := *set
		own.init, set = o.Init, &own
	}
	if o.Loop != nil {
		i := slices.Index(loops, o.Loop.l)
		if i < 0 {
			return nil, nil, fmt.Errorf("eddy: DialOptions.Loop is %q, which is not of the Dialer's Group", o.Loop.Name())
		}
		loops = loops[i : i+1]
	}
	if set.init == nil {
		return nil, nil, errors.New("eddy: Dialer.Init is nil, and so is DialOptions.Init: one must build the pipeline")
	}
	return set, loops, nil
}

// DialFuture is DialAddr with a Future instead of functions. The Future's Conn is the connection, whose handlers have been
// told HandleOpen; its Err is a *net.OpError. Listeners run on the loop that the connection is on or was to be on. Cancel
// abandons the attempt and closes what the attempt has opened. Any goroutine, a loop as well. Errors: as DialAddr's; then
// there is no Future.
func (d *Dialer) DialFuture(remote net.Addr, o DialOptions) (*Future, error) {
	f := new(Future)
	a, err := d.attempt(remote, o, f.dialed)
	if err != nil {
		return nil, err
	}
	f.loop = a.loop // listeners come later, and nobody else needs it
	f.abort = func() { a.cancel(ErrCanceled) }
	return f, nil
}

// dialed completes the Future of an attempt to connect. On the loop.
func (f *Future) dialed(c *Conn, err error) {
	if err != nil {
		f.settle(futureFailed, err, nil)
		return
	}
	f.mu.Lock()
	f.conn = c
	f.mu.Unlock()
	if !f.settle(futureSucceeded, nil, nil) { // cancelled, too late for the attempt
		c.beginClose(CloseNormal, nil)
	}
}

// start validates the fields and starts the group at the first use.
func (d *Dialer) start() (*dialing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrDialerClosed
	}
	if d.eng != nil {
		return d.eng, nil
	}
	set, err := d.settings()
	if err != nil {
		return nil, err
	}
	e := &dialing{set: set, group: d.Group, stopped: make(chan struct{})}
	e.dial = &dialSettings{
		failed:   &d.failed,
		maxConns: d.MaxConns,
		timeout:  orDuration(d.ConnectTimeout, defaultConnectTimeout),
		socket:   sys.ConnectOptions{Local: d.LocalAddr, KeepAlive: orDuration(d.KeepAlive, defaultKeepAlive), RecvBuffer: d.RecvBuffer, SendBuffer: d.SendBuffer, Unsent: max(orInt(d.Unsent, defaultUnsent), 0)},
	}
	if e.group == nil {
		e.group, e.ownGroup = &Group{Name: "dialer", Loops: 1, Logger: d.Logger, platform: d.platform}, true
	}
	if e.crew, err = e.group.start(); err != nil {
		return nil, err
	}
	d.endpoint.join(e.crew.loops, 0)
	e.unfollow = d.endpoint.follow(set.base, e.crew.loops)
	d.eng = e
	return e, nil
}

// DialerStats are the numbers of a Dialer.
type DialerStats struct {
	Active int64  // open connections and attempts
	Dialed uint64 // connections made
	Failed uint64 // attempts that failed, were cancelled or timed out
	Closed map[CloseReason]uint64

	Loops       []LoopStats // the loops that serve the connections, none before the first use
	SharedLoops bool        // the Loops are those of Dialer.Group
}

// Stats returns the numbers so far. After the end they stay as they were. Any goroutine.
func (d *Dialer) Stats() DialerStats {
	n := &d.endpoint
	st := DialerStats{Active: n.tally.Active.Load(), Dialed: n.tally.Accepted.Load(), Failed: d.failed.Load(), Closed: closes(&n.closed)}
	d.mu.Lock()
	e := d.eng
	d.mu.Unlock()
	if e != nil {
		st.Loops, st.SharedLoops = e.crew.stats(), !e.ownGroup
	}
	return st
}

// Shutdown ends the dialer in order: attempts are abandoned with ErrDialerClosed, and connections end as in
// Server.Shutdown. Any goroutine but a loop, where Shutdown returns ErrOnLoop.
func (d *Dialer) Shutdown(ctx context.Context) (DrainReport, error) {
	e, err := d.finish(serverDraining, serverRunning)
	if e == nil {
		return DrainReport{}, err
	}
	before := d.endpoint.ended.Load()
	err = d.endpoint.drain(ctx, e.crew.loops)
	d.end(e)
	return d.endpoint.report(before), err
}

// Close ends the dialer at once; every connection closes with CloseServerShutdown. Close returns nil when the dialer has
// ended, now or before. Any goroutine but a loop, where Close returns ErrOnLoop.
func (d *Dialer) Close() error {
	e, err := d.finish(serverClosing, serverRunning, serverDraining)
	if err == ErrOnLoop { //nolint:errorlint // our own sentinel, returned bare
		return err
	}
	if e != nil {
		d.endpoint.force(e.crew.loops, nil)
		d.end(e)
	}
	d.mu.Lock()
	eng := d.eng
	d.mu.Unlock()
	if eng != nil {
		eng.crew.kernel.wait(eng.stopped, nil)
	}
	return nil
}

// finish refuses new attempts and enters the next phase. It returns nil when there is nothing to end.
func (d *Dialer) finish(next serverPhase, from ...serverPhase) (*dialing, error) {
	d.mu.Lock()
	e := d.eng
	if e != nil && reactor.OnLoop() {
		d.mu.Unlock()
		return nil, ErrOnLoop
	}
	d.closed = true
	d.mu.Unlock()
	if e == nil || !d.endpoint.enter(next, from...) {
		return nil, ErrDialerClosed
	}
	return e, nil
}

// end waits for the loops to let go of the dialer.
func (d *Dialer) end(e *dialing) {
	e.endOnce.Do(func() {
		e.unfollow()
		if e.ownGroup {
			_ = e.group.Close() // not called on a loop, the only error
		} else {
			d.endpoint.leave(e.crew.loops)
		}
		d.endpoint.phase.Store(int32(serverStopped))
		close(e.stopped)
	})
}
