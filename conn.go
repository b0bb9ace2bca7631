package eddy

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/transport"
	"github.com/go-eddy/eddy/internal/wheel"
)

// ConnID names a connection by loop, slot and generation. An id stays valid as a value after the connection has ended and
// never names another connection. Sending to an ended connection is a counted no-op. IDs are comparable.
type ConnID struct {
	loop, slot, gen uint32
}

// String returns the id as loop.slot.generation.
func (id ConnID) String() string { return fmt.Sprintf("%d.%d.%d", id.loop, id.slot, id.gen) }

// pauseBits says which parts of the engine hold back a connection's reads. The application's own pause is separate.
type pauseBits uint8

const (
	pauseOutbound pauseBits = 1 << iota // the outbound queue is above its high watermark
	pauseHop                            // the strand of a handler holds enough messages
	pauseBudget                         // the server is above its memory budget
	pauseEnd                            // the connection ends as soon as writes have left their pools
	pauseInner                          // a decoder further down has frames in hand, which come first; see readPaused
	pauseHold                           // a handler holds reads
	pausePark                           // messages wait for room in a pool
	pauseSplice                         // bytes of this connection are in a pipe
)

// Conn is one connection. Any goroutine may call its methods at any time, except those marked "Loop only". The methods
// submit work to the loop that owns the connection and do not touch the connection's state. After the close they return an
// error that is ErrClosed and carries the reason.
//
// Kept small: every idle connection pays for each byte here. Rarely used state lives in connExt.
type Conn struct {
	loop *loop
	set  *settings

	// Owned by the loop, except the atomic fields.
	slot, gen  uint32
	fd         int
	phase      Phase
	interest   sys.Interest
	paused     pauseBits
	frames     int8 // frame budget left in this turn; what is left of lingerPieces while the connection lingers
	bits       connBits
	held       heldBytes
	timer      wheelHandle // fires at the earliest deadline or before; see timeouts.go for the times that follow
	shared     atomic.Uint32
	counts     connCounts
	peer       peerAddr
	local      *netip.AddrPort
	queued     atomic.Int64    // outbound bytes, from submission to the kernel
	lastActive int64           // monotonic ns
	clock      transport.Clock // see timeouts.go
	in         transport.Leftover
	out        transport.Queue
	head, tail *Context
	ended      atomic.Pointer[CloseError] // written by the loop; set while the phase is Closing or Closed
	ext        atomic.Pointer[connExt]
}

// heldBytes are what the memory budget counts for a connection.
type heldBytes struct {
	out uint32 // queued
	in  uint32 // left over
}

// connCounts are what of a connection is under way.
type connCounts struct {
	inflight atomic.Int32 // requests that have not ended: Begin, and messages on their way through a pool
	encoding atomic.Int32 // writes on their way through a pool, until the loop has them back
	transit  atomic.Int32 // other events on their way through a pool
}

// ID returns the connection's handle, for queues and maps that must not keep the connection itself alive.
func (c *Conn) ID() ConnID { return ConnID{c.loop.index, c.slot, c.gen} }

// Write submits msg to the outbound pipeline, from the tail, and never blocks. A []byte must not be changed afterwards; a
// Releaser is given away, whatever the result.
// Errors: ErrClosed, ErrBackpressure (Watermarks.Max), ErrSaturated (the loop's task queue).
func (c *Conn) Write(msg any) error { return given(msg, c.submitWrite(nil, msg)) }

// WriteContext waits until the queue is below its high watermark, for as long as ctx allows, and then writes msg as Write
// does. Because WriteContext blocks its goroutine, it returns ErrOnLoop on a loop of any group.
func (c *Conn) WriteContext(ctx context.Context, msg any) error {
	return given(msg, c.writeContext(ctx, msg))
}

func (c *Conn) writeContext(ctx context.Context, msg any) error {
	if reactor.OnLoop() { // even with room in the queue: a call that works today must not fail under load
		return ErrOnLoop
	}
	if c.roomy() {
		err := c.submitWrite(nil, msg)
		if err != ErrSaturated { //nolint:errorlint // our own sentinel, returned bare
			return err
		}
	}
	return c.writeWhenWritable(ctx, msg)
}

// Post runs f on the connection's loop. If it returns nil, f runs exactly once, even when the connection ends first.
// Errors: ErrClosed, ErrSaturated.
func (c *Conn) Post(f func()) error {
	return c.loop.Tasks.Push(task{kind: taskFunc, conn: c, msg: f})
}

// Close ends the connection now, for the given reason; what is queued is lost.
func (c *Conn) Close(reason CloseReason) { c.requestClose(closeRequest{reason: reason}) }

// CloseWith is Close with a cause, which CloseHandlers are given.
func (c *Conn) CloseWith(reason CloseReason, err error) {
	c.requestClose(closeRequest{reason: reason, err: err})
}

// CloseAfterFlush stops reading, sends what was written before, then ends the connection in order: FIN, then a short
// wait for the peer's own end, so that a reset cannot overtake the last bytes.
func (c *Conn) CloseAfterFlush(reason CloseReason) {
	c.requestClose(closeRequest{reason: reason, flush: true})
}

// PauseRead stops delivery of inbound messages after the current one. This pause is the application's own, independent
// of the engine's backpressure.
func (c *Conn) PauseRead() { c.mark(appPaused) }

// ResumeRead undoes PauseRead. Bytes already received are delivered without waiting for new ones.
func (c *Conn) ResumeRead() {
	if c.unmark(appPaused) {
		c.postReadState()
	}
}

// ReadOn lets reads go on while the outbound queue is full; without ReadOn a full queue pauses them. Use it for an end that
// must not wait for its own writes, such as a relay's. Otherwise a peer that reads nothing would not be heard. The caller must
// bound by other means what reads bring about. ReadOn cannot be undone. Loop only.
func (c *Conn) ReadOn() {
	c.raise(readsOn)
	if c.paused&pauseOutbound != 0 {
		c.paused &^= pauseOutbound
		c.postReadState()
	}
}

// Writable reports whether the outbound queue is below its high watermark. After a false, Writable stays false until the
// queue is down to its low watermark. Then HandleWritability is told true, unless the connection ends first. That call may
// come before the caller has acted on the false; OnWritable cannot be missed. Any goroutine.
func (c *Conn) Writable() bool {
	if c.shows(unwritable | toldFull) {
		return false
	}
	if c.queued.Load() < c.high() {
		return true
	}
	c.mark(toldFull)
	if c.queued.Load() <= c.low() { // the loop may have looked before
		c.postReadState()
	}
	return false
}

// roomy is Writable for callers that do not wait for HandleWritability.
func (c *Conn) roomy() bool { return !c.shows(unwritable) && c.queued.Load() < c.high() }

// OnWritable calls f once, on the connection's loop, when the connection is writable: at once, or as soon as the queue is
// below its watermarks. If the connection ends first, or has ended, f is told its CloseError. f must not block. To feed
// one connection from another, pause the source and let f resume it:
//
//	src.PauseRead()
//	dst.OnWritable(func(error) { src.ResumeRead() })
//
// Any goroutine.
func (c *Conn) OnWritable(f func(err error)) {
	c.awaitWritable().OnDone(func(*Future) { f(c.closedError()) })
	if c.roomy() {
		c.postReadState()
	}
}

// Buffers returns the pool of counted buffers of the connection's group, for messages that go to several connections.
func (c *Conn) Buffers() *buf.SharedPool { return c.loop.crew.shared }

// Watermarks returns the bounds of the outbound queue, without a 0 for a default. Any goroutine.
func (c *Conn) Watermarks() Watermarks { return c.set.marks }

// Overflow returns what happens to a message that would pass Watermarks.Max and has no class. Any goroutine.
func (c *Conn) Overflow() OverflowPolicy { return c.set.overflow }

// QueuedBytes returns how many outbound bytes have been submitted and not yet taken by the kernel.
func (c *Conn) QueuedBytes() int64 { return c.queued.Load() }

// Begin counts a request as in flight until its End; a draining server waits for the End. Hops to executors are counted
// without Begin.
func (c *Conn) Begin() {
	c.counts.inflight.Add(1)
	if c.limits().Handler > 0 {
		c.extend().begin(c.loop.Clock.Now())
		c.watchRequest()
	}
}

// End undoes one Begin. Call it after the response was written.
func (c *Conn) End() {
	if x := c.ext.Load(); x != nil && x.begun.count.Load() > 0 {
		x.end(c.loop.Clock.Now())
	}
	c.finished(&c.counts.inflight)
}

// Phase returns the phase of the connection. Loop only.
func (c *Conn) Phase() Phase { return c.phase }

// SetPhase lets a decoder tell PhaseReadingHeader from PhaseReadingBody. PhaseReadingBody starts the body deadline, which
// runs until the decoder sets PhaseReadingHeader again; meanwhile the decoder may consume parts of the body. While an
// earlier request is being handled or answered, the connection's phase stays that of the earlier request. Loop only.
func (c *Conn) SetPhase(p Phase) {
	if p >= PhaseDispatching || c.phase >= PhaseClosing {
		return
	}
	if p == PhaseReadingBody {
		c.bodyBegins()
	} else {
		c.bodyEnds()
	}
	if c.phase < PhaseDispatching {
		c.setPhase(p)
	}
}

// Draining reports whether the server is shutting down, or has asked this connection to end, see Server.EndIdle. A protocol that can refuse a new request should then do so, and
// mark the request as not executed. Any goroutine.
func (c *Conn) Draining() bool { return c.shows(drainTold) }

// CloseError returns why the connection ended or is ending, nil while it is open.
func (c *Conn) CloseError() *CloseError { return c.ended.Load() }

// token identifies the connection to the poller and the wheel.
func (c *Conn) token() uint64 { return transport.Token(c.slot, c.gen) }

// closedError returns the reason as an error, for calls on a connection that ended or was told to.
func (c *Conn) closedError() error {
	if e := c.ended.Load(); e != nil {
		return e
	}
	if r := c.closeRequested(); r != nil {
		return &CloseError{Reason: r.reason, Err: r.err}
	}
	return nil
}

// readPaused reports whether reads are held back. Frames in hand (pauseInner) do not hold them back: they are continued.
func (c *Conn) readPaused() bool { return c.paused&^pauseInner != 0 || c.shows(appPaused) }

// postReadState makes the loop look at the pause bits; at most one such task is queued.
func (c *Conn) postReadState() {
	if c.mark(readTask) {
		_ = c.loop.Tasks.PushControl(task{kind: taskReadState, conn: c}) // a stopped loop has no reads to resume
	}
}

// readStateChanged continues a connection that is no longer paused, whichever part paused it, the outbound queue included.
// A pause itself needs no action: the next readiness drops the read interest, so that short pauses cost no system call.
func (c *Conn) readStateChanged() {
	c.unmark(readTask)
	if c.phase == PhaseClosed { // the handlers have been told
		return
	}
	if c.paused&pauseHop != 0 && c.awaitedStrand() == nil {
		c.paused &^= pauseHop
		c.pauseForNextHop()
	}
	if c.paused&pausePark != 0 {
		c.retryParked()
	}
	c.writeSettled()
	if c.phase < PhaseClosing && !c.readPaused() {
		c.offerShort()
		c.markReady()
	}
}

// markReady puts the connection on the list of those that continue in this or the next iteration.
func (c *Conn) markReady() {
	if !c.has(listedReady) {
		c.raise(listedReady)
		c.loop.lists.ready = append(c.loop.lists.ready, c)
	}
}

// setInterest tells the poller what to report, when that changed.
func (c *Conn) setInterest(in sys.Interest) {
	if c.interest == in || c.has(listedClose) {
		return
	}
	was := c.interest
	if err := c.loop.Poller.Modify(c.fd, in, c.token()); err != nil {
		c.beginClose(CloseInternalError, fmt.Errorf("eddy: changing poll interest: %w", err))
		return
	}
	c.interest = in
	if was&sys.Write != in&sys.Write {
		c.loop.writeInterest += int64(in>>1&1) - int64(was>>1&1)
	}
}

// register makes the loop the owner of c: slot, pipeline, poller, open callbacks.
func (l *loop) register(c *Conn) {
	if l.Stopping || l.drains(c.set.owner) {
		l.refuse(c)
		return
	}
	c.slot, c.gen = l.table.Adopt(c)
	if c.set.growing {
		c.shared.Or(windowHalved * windowDrains << windowShift)
	}
	l.serving.Store(c)
	l.Counters[meter.Opened]++
	c.lastActive = l.Now
	if err := c.makeBase(); err != nil {
		l.Log.Error("eddy: ConnContext failed", "conn", c.ID(), "err", err)
		c.beginClose(CloseInternalError, err)
		return
	}
	handlers, err := l.builder.build(c)
	if err != nil {
		l.Log.Error("eddy: Server.Init failed", "conn", c.ID(), "err", err)
		c.beginClose(CloseInternalError, err)
		return
	}
	if err := l.Poller.Add(c.fd, sys.Read, c.token()); err != nil {
		l.logFailed(c, "register", err)
		c.beginClose(CloseInternalError, fmt.Errorf("eddy: registering with the poller: %w", err))
		return
	}
	c.raise(registered)
	c.interest = sys.Read
	c.startDeadlines()
	c.addAll(handlers)
	c.fireOpen(handlers)
	l.afterActivity(c)
}

// timeout returns the monotonic time d from now.
func (l *loop) timeout(d time.Duration) int64 { return wheel.After(l.Now, d) }

// peerAddr is a remote address in 20 bytes instead of a netip.AddrPort's 32. The zero value is the zero AddrPort.
type peerAddr struct {
	ip   [16]byte
	port uint16
	kind addrKind
}

type addrKind uint8

const (
	addrNone   addrKind = iota
	addr4               // ip holds the address as mapped into IPv6
	addr6               // also an IPv4 address that the peer's socket has mapped
	addrScoped          // connRare.zone names the link
)

// RemoteAddr returns the peer's address, the zero AddrPort for Unix sockets. Any goroutine.
func (c *Conn) RemoteAddr() netip.AddrPort {
	ip := netip.AddrFrom16(c.peer.ip)
	switch c.peer.kind {
	case addrNone:
		return netip.AddrPort{}
	case addr4:
		ip = ip.Unmap()
	case addrScoped:
		ip = ip.WithZone(c.ext.Load().rare.zone)
	}
	return netip.AddrPortFrom(ip, c.peer.port)
}

// Network returns the client network of the peer, as Admission.MaxPerIP counts: an IPv4 address or a /64 of IPv6, unless
// IPv4Prefix or IPv6Prefix say otherwise. For Unix sockets it is the zero Prefix. Any goroutine.
func (c *Conn) Network() netip.Prefix {
	if g := c.set.accept.Gate; g != nil {
		return g.Network(c.RemoteAddr())
	}
	return accept.Network(c.RemoteAddr().Addr(), defaultIPv4Prefix, defaultIPv6Prefix)
}

// LocalAddr returns this side's address, the zero AddrPort for Unix sockets. Any goroutine.
func (c *Conn) LocalAddr() netip.AddrPort {
	if c.local == nil {
		return netip.AddrPort{}
	}
	return *c.local
}

// setAddrs notes the addresses of a new connection. Connections share local where they can.
func (c *Conn) setAddrs(remote netip.AddrPort, local *netip.AddrPort) {
	c.local = local
	ip := remote.Addr()
	if !ip.IsValid() {
		return
	}
	c.peer = peerAddr{ip: ip.As16(), port: remote.Port(), kind: addr6}
	switch {
	case ip.Is4():
		c.peer.kind = addr4
	case ip.Zone() != "":
		c.peer.kind = addrScoped
		c.rarely().zone = ip.Zone()
	}
}
