package http2

import (
	"crypto/tls"
	"errors"
	"io"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-eddy/eddy"
)

// decoder is the handler of every connection, and all connections share it. The state of one connection is in its context,
// as a *serverConn.
type decoder struct{ f *Factory }

// connState says what the next bytes are.
type connState uint8

const (
	statePreface  connState = iota // the client's connection preface
	stateSettings                  // the client's first frame, which must be SETTINGS
	stateFrames
	stateOver // ignored
)

// connWindow is the window of a connection for request bodies. It is opened again as soon as half of it is used, so it
// bounds what is under way and not what handlers have left unread.
const connWindow = 1 << 20

// serverConn is one connection's state. Its loop owns it, except what mu guards.
type serverConn struct {
	f      *Factory
	ctx    *eddy.Context
	conn   *eddy.Conn
	state  connState
	remote string
	client any                  // the client's network, nil until owner has asked and behind a Unix socket
	tls    *tls.ConnectionState // state of the TLS in front, else nil

	streams  map[uint32]*stream // that are open
	running  int                // handlers that have not returned, those of closed streams included
	lastID   uint32             // of the client's streams
	finalID  uint32             // the last that is taken
	past     pastStreams
	draining bool
	leaving  bool // the connection ends when its streams have

	headers    headerReader
	recvWindow int // what the client may send on all streams together
	out        sender
	flood      bucket
	watch      watch

	wake   eddy.Signal
	mu     sync.Mutex
	posted []*stream // with news from their handlers
	spare  []*stream // emptied list, reused
}

// HandleOpen implements eddy.OpenHandler.
func (d *decoder) HandleOpen(ctx *eddy.Context) error {
	sc := &serverConn{f: d.f, ctx: ctx, conn: ctx.Conn(), finalID: math.MaxUint32, recvWindow: connWindow}
	ctx.SetState(sc)
	sc.wake.Init(sc.conn, sc.collect)
	sc.headers.init(&d.f.opts)
	sc.out.init()
	sc.flood.init(&d.f.opts, ctx.Now())
	base := sc.conn.Deadlines()
	sc.watch.init(base.Handler, &d.f.opts)
	sc.conn.ReadOn() // window updates and resets must be heard while the queue is full; streams and the flood bound what they bring
	if err := sc.conn.SetDeadlines(d.f.limitsOver(base)); err != nil {
		return err
	}
	sc.control(d.f.hello)
	sc.limitAge()
	if sc.conn.Draining() { // the event has passed before this handler came
		sc.drain()
	}
	return nil
}

// Decode implements eddy.Decoder.
func (d *decoder) Decode(ctx *eddy.Context, view []byte) (int, error) {
	sc := ctx.State().(*serverConn)
	n, err := sc.decode(view)
	if err != nil {
		return 0, sc.fail(err)
	}
	return n, nil
}

// decode takes one frame.
func (sc *serverConn) decode(view []byte) (int, *ConnError) {
	switch sc.state {
	case stateOver:
		return len(view), nil
	case statePreface:
		n := min(len(view), len(Preface))
		if string(view[:n]) != Preface[:n] {
			return 0, connError(CodeProtocol, "the connection preface is not that of HTTP/2")
		}
		if n < len(Preface) {
			return 0, nil
		}
		sc.state = stateSettings
		return n, nil
	}
	if len(view) < frameHeaderLen {
		return 0, nil
	}
	f := parseFrame(view)
	if f.length > maxFrame {
		return 0, connError(CodeFrameSize, "a frame of %d bytes, limit %d", f.length, maxFrame)
	}
	if len(view) < frameHeaderLen+f.length {
		if f.typ == frameData {
			sc.conn.SetPhase(eddy.PhaseReadingBody) // BodyTimeout holds for the rest of it
		}
		return 0, nil
	}
	if f.typ == frameData {
		sc.conn.SetPhase(eddy.PhaseReadingHeader)
	}
	return frameHeaderLen + f.length, sc.handle(f, view[frameHeaderLen:frameHeaderLen+f.length])
}

// handle takes a whole frame with its payload.
func (sc *serverConn) handle(f frame, p []byte) *ConnError {
	switch {
	case sc.headers.open && (f.typ != frameContinuation || f.stream != sc.headers.stream):
		return connError(CodeProtocol, "a frame of type %d inside the header section of stream %d", f.typ, sc.headers.stream)
	case sc.state == stateSettings && (f.typ != frameSettings || f.has(flagAck)):
		return connError(CodeProtocol, "the first frame is of type %d and not SETTINGS", f.typ)
	}
	sc.state = stateFrames
	switch f.typ {
	case frameData:
		return sc.onData(f, p)
	case frameHeaders:
		return sc.onHeaders(f, p)
	case frameContinuation:
		return sc.onContinuation(f, p)
	case framePriority:
		return sc.onPriority(f, p)
	case framePriorityUpdate:
		return sc.onPriorityUpdate(f, p)
	case frameReset:
		return sc.onReset(f, p)
	case frameSettings:
		return sc.onSettings(f, p)
	case framePing:
		return sc.onPing(f, p)
	case frameWindowUpdate:
		return sc.onWindowUpdate(f, p)
	case frameGoAway:
		return sc.onGoAway(f, p)
	case framePushPromise:
		return connError(CodeProtocol, "a PUSH_PROMISE of a client")
	}
	return sc.charge("frames of unknown types") // ignored (RFC 9113 section 4.1)
}

// charge counts something that costs the server more than the client, and returns the error of too much of it.
func (sc *serverConn) charge(what string) *ConnError {
	if sc.flood.spend(sc.ctx.Now()) {
		return nil
	}
	return connError(CodeEnhanceYourCalm, "too many %s: limit %d at once and %d a second", what, sc.f.opts.ControlBurst, sc.f.opts.ControlRate)
}

// fail ends the connection because of err, after a GOAWAY that says why.
func (sc *serverConn) fail(err *ConnError) error {
	if sc.state != stateOver {
		sc.state = stateOver
		if err.Code == CodeEnhanceYourCalm {
			sc.f.stats.floods.Add(1)
		} else {
			sc.f.stats.protocolErrors.Add(1)
		}
		sc.control(appendGoAway(nil, min(sc.lastID, sc.finalID), err.Code, err.Text))
	}
	return eddy.WithReason(err.reason(), err)
}

// control queues a frame of the connection itself, which no window and no bound holds back. The error of a write means that
// the connection is ending; HandleClose follows.
func (sc *serverConn) control(b []byte) { _ = sc.ctx.WriteAdmitted(b) }

// HandleWritability implements eddy.WritabilityHandler.
func (d *decoder) HandleWritability(ctx *eddy.Context, writable bool) error {
	if sc, ok := ctx.State().(*serverConn); ok && writable {
		sc.pump()
	}
	return nil
}

// HandleEvent implements eddy.EventHandler.
func (d *decoder) HandleEvent(ctx *eddy.Context, ev any) error {
	sc := ctx.State().(*serverConn)
	switch e := ev.(type) {
	case interface{ ConnectionState() tls.ConnectionState }: // the handshake event of package tlsx
		state := e.ConnectionState()
		sc.tls = &state
	case eddy.DrainEvent:
		sc.drain()
	case eddy.InputClosedEvent:
		sc.settle()
	}
	ctx.FireEvent(ev)
	return nil
}

// drainGrace is how long a draining connection still takes new requests, which may be on their way.
const drainGrace = 250 * time.Millisecond

// drain tells the client to send no more requests. The engine ends the connection when nothing is in flight.
func (sc *serverConn) drain() { sc.goAway(sc.takeNoMore) }

// takeNoMore refuses the requests that begin from now on. The last stream that is taken never grows (RFC 9113 section 6.8).
func (sc *serverConn) takeNoMore() {
	sc.finalID = min(sc.finalID, sc.lastID)
	sc.control(appendGoAway(nil, sc.finalID, CodeNo, ""))
}

// goAway tells the client to send no more requests, and after drainGrace calls refuse, which refuses those that begin from
// then on (RFC 9113 section 6.8).
func (sc *serverConn) goAway(refuse func()) {
	if sc.draining || sc.finalID < math.MaxUint32 || sc.state == stateOver {
		return
	}
	sc.draining = true
	sc.control(appendGoAway(nil, 1<<31-1, CodeNo, ""))
	for st := range sc.inOrder() {
		if st.tunnel != nil {
			st.tunnel.drain()
		}
	}
	sc.conn.Begin()
	_, err := sc.ctx.After(drainGrace, func() {
		refuse()
		sc.conn.End()
	})
	if err != nil { // the connection is ending
		sc.conn.End()
	}
}

// HandleClose implements eddy.CloseHandler. Handlers of requests in flight learn of the close through the request's context,
// its body and the next Write.
func (d *decoder) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) {
	sc, ok := ctx.State().(*serverConn)
	if !ok {
		return
	}
	sc.state = stateOver
	for st := range sc.inOrder() {
		sc.close(st, errors.Join(io.ErrUnexpectedEOF, ctx.Conn().CloseError()))
	}
}

// inOrder yields the open streams by their numbers. Streams that end meanwhile are left out.
func (sc *serverConn) inOrder() iter.Seq[*stream] {
	return func(yield func(*stream) bool) {
		for _, id := range slices.Sorted(maps.Keys(sc.streams)) {
			if st := sc.streams[id]; st != nil && !yield(st) {
				return
			}
		}
	}
}

// remoteAddr returns the peer's address as http.Request has it.
func (sc *serverConn) remoteAddr() string {
	if sc.remote == "" {
		sc.remote = sc.conn.RemoteAddr().String()
	}
	return sc.remote
}

// owner returns the client network that the connection's requests count for, nil behind a Unix socket.
func (sc *serverConn) owner() any {
	if sc.client == nil {
		if n := sc.conn.Network(); n.IsValid() {
			sc.client = n
		}
	}
	return sc.client
}

// Refuse returns the answer to a client whose connection is not taken: GOAWAY, before any request. Set it as
// eddy.Admission.Busy, with eddy.DecisionBusy, for a port that speaks HTTP/2 only and without TLS. Any goroutine.
func (f *Factory) Refuse(eddy.Refusal) []byte {
	f.stats.refused.Add(1)
	return appendGoAway(appendFrame(nil, 0, frameSettings, 0, 0), 0, CodeNo, http.StatusText(http.StatusServiceUnavailable))
}
