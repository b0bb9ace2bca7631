package http2

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
)

const clientName = "http2.client"

// mostStreams bounds the requests on one connection, whatever the server allows.
const mostStreams = 1000

// clientConn is one connection of a Transport, and the only handler of its pipeline behind those of TLS. Its loop owns it,
// except slots, which the pool's lock guards, and what mu guards.
type clientConn struct {
	t       *Transport
	host    *host
	conn    *eddy.Conn
	ctx     *eddy.Context
	tls     *tls.ConnectionState
	slots   slots
	attempt *attempt // that makes this connection, nil afterwards
	joined  bool     // the pool knows the connection
	greeted bool
	state   connState
	timer   *eddy.Timer

	streams map[uint32]*clientStream
	nextID  uint32
	lastID  uint32 // of GOAWAY: the streams behind it were not processed
	away    error  // the GOAWAY, nil before it
	final   bool   // no request follows
	past    pastStreams

	headers    headerReader
	head       responseHead // that is looked at
	recvWindow int
	peer       peerSettings
	out        sender // its lists are not used
	queue      sendQueue
	flood      bucket
	watch      clientWatch

	wake     eddy.Signal // runs collect
	mu       sync.Mutex
	dead     bool // nothing is collected any more
	incoming []*call
	posted   []*clientStream // with news from other goroutines
	began    []*call         // collect's: memory for incoming
}

// peerSettings are the settings of the server that concern requests.
type peerSettings struct {
	streams  int // at once
	header   int // size of a header section
	protocol bool
	acked    bool // the server has acknowledged ours
}

// init builds the pipeline of a new connection.
func (cc *clientConn) init(p *eddy.Pipeline) error {
	cc.conn, cc.state = p.Conn(), stateSettings
	cc.nextID, cc.lastID, cc.recvWindow = 1, math.MaxUint32, connWindow
	cc.peer = peerSettings{streams: mostStreams, header: math.MaxInt32} // no limit that a request could reach
	cc.streams = make(map[uint32]*clientStream)
	cc.headers.init(&cc.t.run.limits)
	cc.out.init()
	cc.out.sections = new(sections)
	cc.wake.Init(cc.conn, cc.collect)
	return p.Add(clientName, cc)
}

// HandleOpen implements eddy.OpenHandler and is called again when TLS was put in front.
func (cc *clientConn) HandleOpen(ctx *eddy.Context) error {
	cc.ctx = ctx
	cc.flood.init(&cc.t.run.limits, ctx.Now())
	cc.conn.ReadOn() // answers and window updates must be heard while the queue is full; the windows bound what they bring
	return nil
}

// HandleEvent implements eddy.EventHandler.
func (cc *clientConn) HandleEvent(ctx *eddy.Context, ev any) error {
	if e, ok := ev.(interface{ ConnectionState() tls.ConnectionState }); ok { // the handshake event of package tlsx
		state := e.ConnectionState()
		cc.tls = &state
	}
	ctx.FireEvent(ev)
	return nil
}

// HandleWritability implements eddy.WritabilityHandler.
func (cc *clientConn) HandleWritability(_ *eddy.Context, writable bool) error {
	if writable {
		cc.pump()
	}
	return nil
}

// Decode implements eddy.Decoder and takes one frame.
func (cc *clientConn) Decode(ctx *eddy.Context, view []byte) (int, error) {
	if cc.state == stateOver {
		return len(view), nil
	}
	cc.watch.heard = ctx.Now()
	if len(view) < frameHeaderLen {
		return 0, nil
	}
	f := parseFrame(view)
	switch {
	case cc.state == stateSettings && strings.HasPrefix(string(view[:frameHeaderLen]), "HTTP/1."):
		return 0, cc.fault(connError(CodeProtocol, "the server answers in HTTP/1"))
	case f.length > maxFrame:
		return 0, cc.fault(connError(CodeFrameSize, "a frame of %d bytes, limit %d", f.length, maxFrame))
	case len(view) < frameHeaderLen+f.length:
		return 0, nil
	}
	if err := cc.handle(f, view[frameHeaderLen:frameHeaderLen+f.length]); err != nil {
		return 0, cc.fault(err)
	}
	return frameHeaderLen + f.length, nil
}

// handle takes a whole frame with its payload.
func (cc *clientConn) handle(f frame, p []byte) *ConnError {
	switch {
	case cc.headers.open && (f.typ != frameContinuation || f.stream != cc.headers.stream):
		return connError(CodeProtocol, "a frame of type %d inside the header section of stream %d", f.typ, cc.headers.stream)
	case cc.state == stateSettings && (f.typ != frameSettings || f.has(flagAck)):
		return connError(CodeProtocol, "the first frame is of type %d and not SETTINGS", f.typ)
	}
	switch f.typ {
	case frameData:
		return cc.onData(f, p)
	case frameHeaders:
		return cc.onHeaders(f, p)
	case frameContinuation:
		return cc.onContinuation(f, p)
	case frameReset:
		return cc.onReset(f, p)
	case frameSettings:
		return cc.onSettings(f, p)
	case framePing:
		return cc.onPing(f, p)
	case frameWindowUpdate:
		return cc.onWindowUpdate(f, p)
	case frameGoAway:
		return cc.onGoAway(f, p)
	case framePushPromise:
		return connError(CodeProtocol, "a PUSH_PROMISE, although SETTINGS_ENABLE_PUSH is 0")
	}
	return cc.charge("frames that ask nothing") // ignored (RFC 9113 section 4.1)
}

// charge counts something that costs the client more than the server, and returns the error of too much of it.
func (cc *clientConn) charge(what string) *ConnError {
	if cc.flood.spend(cc.ctx.Now()) {
		return nil
	}
	o := &cc.t.run.limits
	return connError(CodeEnhanceYourCalm, "too many %s: limit %d at once and %d a second", what, o.ControlBurst, o.ControlRate)
}

// fault returns the error that ends the connection because of the server, after a GOAWAY that says why.
func (cc *clientConn) fault(err *ConnError) error {
	if cc.state != stateOver {
		cc.state = stateOver
		if err.Code == CodeEnhanceYourCalm {
			cc.t.conns.mu.Lock()
			cc.t.conns.stats.Floods++
			cc.t.conns.mu.Unlock()
		}
		cc.control(appendGoAway(nil, 0, err.Code, err.Text))
	}
	return eddy.WithReason(err.reason(), err)
}

// control queues a frame of the connection itself, which no window and no bound holds back. The error of a write means that
// the connection is ending; HandleClose follows.
func (cc *clientConn) control(b []byte) { _ = cc.ctx.WriteAdmitted(b) }

// take gives the connection a request, for which the pool has counted a stream. Any goroutine.
func (cc *clientConn) take(c *call) {
	cc.mu.Lock()
	dead := cc.dead
	if !dead {
		cc.incoming = append(cc.incoming, c)
	}
	cc.mu.Unlock()
	if dead {
		cc.t.release(cc)
		c.lost(cc, ErrStale, surely)
		return
	}
	_ = cc.wake.Raise() // fails only when the loop has ended, which has closed the connection
}

// post tells the loop to look at st. Any goroutine.
func (cc *clientConn) post(st *clientStream) {
	cc.mu.Lock()
	if st.posted || cc.dead {
		cc.mu.Unlock()
		return
	}
	st.posted = true
	cc.posted = append(cc.posted, st)
	cc.mu.Unlock()
	_ = cc.wake.Raise() // as in take
}

// collect begins new requests and looks at the streams that have news.
func (cc *clientConn) collect() {
	if len(cc.streams) > 1 {
		runtime.Gosched() // as for a server
	}
	cc.mu.Lock()
	calls, list := cc.incoming, cc.posted
	cc.incoming, cc.posted, cc.began = cc.began[:0], nil, calls
	for _, st := range list {
		st.posted = false
	}
	cc.mu.Unlock()
	for i, c := range calls {
		calls[i] = nil
		cc.begin(c)
	}
	for _, st := range list {
		if !st.gone {
			cc.look(st)
		}
	}
	cc.pump()
}

// look acts on the news of a stream.
func (cc *clientConn) look(st *clientStream) {
	if err := st.call.stopCause(); err != nil {
		cc.abort(st, CodeCancel, err)
		return
	}
	if err := st.fault.Load(); err != nil {
		cc.abort(st, CodeCancel, *err)
		return
	}
	if st.unwanted.Load() {
		cc.abort(st, CodeCancel, errUnwanted)
		return
	}
	cc.grant(st)
	cc.offer(st)
}

// leave ends a connection that takes no more requests and has none.
func (cc *clientConn) leave() {
	if (cc.away != nil || cc.final) && len(cc.streams) == 0 && cc.state != stateOver {
		cc.state = stateOver
		cc.ctx.CloseAfterFlush(eddy.CloseNormal)
	}
}

// HandleClose implements eddy.CloseHandler.
func (cc *clientConn) HandleClose(_ *eddy.Context, reason eddy.CloseReason, err error) {
	cc.state = stateOver
	again := never
	switch reason {
	case eddy.CloseServerShutdown:
		err = ErrTransportClosed
	case eddy.ClosePeerClosed, eddy.CloseIncompleteRequest, eddy.CloseIOError:
		again = perhaps
		err = errors.Join(fmt.Errorf("%w: %w", ErrStale, io.ErrUnexpectedEOF), cc.away, err)
	}
	if err == nil {
		err = errors.Join(&eddy.CloseError{Reason: reason}, cc.away)
	}
	cc.shut(err, again)
}

// ended is HandleClose for a connection whose handler is not in the pipeline.
func (cc *clientConn) ended(err error) {
	cc.state = stateOver
	cc.shut(err, never)
}

// shut tells the pool and the calls that the connection has ended, once.
func (cc *clientConn) shut(err error, again chance) {
	cc.mu.Lock()
	was := cc.dead
	cc.dead = true
	calls := cc.incoming
	cc.incoming, cc.posted = nil, nil
	cc.mu.Unlock()
	if was {
		return
	}
	cc.stopTimer()
	if a := cc.attempt; a != nil {
		cc.attempt = nil
		cc.t.unmade(a, err)
	}
	if cc.joined {
		cc.t.gone(cc)
	}
	for _, c := range calls {
		cc.t.release(cc)
		c.lost(cc, err, surely)
	}
	for _, id := range slices.Sorted(maps.Keys(cc.streams)) {
		st := cc.streams[id]
		switch {
		case !st.begun:
			cc.end(st, err, surely)
		case id == 1:
			cc.end(st, err, never) // the connection was not a kept one
		default:
			cc.end(st, err, again)
		}
	}
}

// clientWatch looks at the times of a connection's streams, as long as there are streams and something to look at.
type clientWatch struct {
	armed bool
	heard time.Duration // when the server has sent something
	asked time.Duration // when the PING that is under way was sent; 0 = none
}

// every returns the time between two looks, 0 when there is nothing to look at.
func (t *Transport) every() (every time.Duration) {
	for _, d := range []time.Duration{t.ResponseHeaderTimeout, t.WriteTimeout, t.PingInterval} {
		if d > 0 && (every == 0 || d/4 < every) {
			every = max(d/4, leastLook)
		}
	}
	if t.PingInterval > 0 {
		every = min(every, max(t.PingTimeout/4, leastLook))
	}
	return every
}

// arm makes the loop look again, unless it will already.
func (cc *clientConn) arm() {
	if every := cc.t.every(); every > 0 && !cc.watch.armed {
		cc.watch.armed = true
		_, _ = cc.ctx.After(every, cc.lookAtAll) // an error means that the connection is ending
	}
}

// lookAtAll ends what has taken too long.
func (cc *clientConn) lookAtAll() {
	cc.watch.armed = false
	if cc.state == stateOver || len(cc.streams) == 0 {
		cc.watch.asked = 0
		return
	}
	now := cc.ctx.Now()
	for _, st := range cc.streams {
		limit := cc.t.ResponseHeaderTimeout
		if limit > 0 && st.sentAt != 0 && !st.answered && now-st.sentAt >= limit {
			cc.abort(st, CodeCancel, &timeoutError{"the header of the response did not arrive", limit})
			continue
		}
		limit = cc.t.WriteTimeout
		if limit > 0 && st.stuck != 0 && now-st.stuck >= limit {
			cc.abort(st, CodeCancel, &timeoutError{"the server's windows let nothing of the request through", limit})
		}
	}
	cc.keepAlive(now)
	cc.leave()
	cc.arm()
}

// pingData is what a PING of the client carries.
const pingData = "eddyping"

// keepAlive asks a silent server whether it is there, and ends the connection when no answer comes.
func (cc *clientConn) keepAlive(now time.Duration) {
	w, limit := &cc.watch, cc.t.PingTimeout
	switch {
	case cc.t.PingInterval <= 0 || cc.state == stateOver:
	case w.asked != 0 && now-w.asked >= limit:
		cc.state = stateOver
		cc.conn.CloseWith(eddy.CloseIdleTimeout, &timeoutError{"the server did not answer a PING", limit})
	case w.asked == 0 && now-w.heard >= cc.t.PingInterval:
		w.asked = now
		cc.control(append(appendFrame(nil, len(pingData), framePing, 0, 0), pingData...))
	}
}
