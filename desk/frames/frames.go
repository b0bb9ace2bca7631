// Package frames carries sessions of im.v1 over TCP by the frame protocol, for native clients. A command is the payload of a
// ONEWAY request; what the server says is the payload of a response with status OK and id 0.
package frames

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/trace"
)

const (
	frameTimeout = 10 * time.Second // from the first byte of a frame to its last
	writeTimeout = time.Minute      // in which a client must take something of what waits for it
)

// Options configure the connections. All fields are required, except Layers.
type Options struct {
	Connect func(hub.Conn, hub.Peer) Session // such as Hub.Connect
	// Enter takes a new connection's place among those of its address; leave gives that back. It must not block.
	Enter  func(*eddy.Conn) (peer hub.Peer, leave func(), ok bool)
	Layers func(*eddy.Pipeline) error // such as TLS
}

// Session is what a connection gives its commands to, such as a hub.Session.
type Session interface {
	Receive(data []byte)
	Close(code int, reason string)
	Closed()
}

// Configure makes srv serve im.v1. Call it before srv listens.
func Configure(srv *eddy.Server, o Options) {
	decoder, sessions := frame.Decoder(frame.MaxPayload(proto.MaxAgentBytes)), &handler{o}
	srv.ReadTimeout, srv.WriteTimeout, srv.BackpressureTimeout = frameTimeout, writeTimeout, frame.DefaultBackpressureTimeout
	srv.Init = func(p *eddy.Pipeline) error {
		if o.Layers != nil {
			if err := o.Layers(p); err != nil {
				return err
			}
		}
		return errors.Join(p.Add("frames", decoder), p.Add("sessions", sessions))
	}
}

// handler gives the frames of each connection to its session. All methods run on the connection's loop.
type handler struct{ o Options }

// state is one connection's.
type state struct {
	ctx     *eddy.Context
	session Session
	leave   func()
	heard   bool // since the last look
	quiet   bool // one look has heard nothing
}

// HandleOpen implements eddy.OpenHandler.
func (h *handler) HandleOpen(ctx *eddy.Context) error {
	t := &transport{conn: ctx.Conn()}
	peer, leave, ok := h.o.Enter(ctx.Conn())
	if !ok {
		t.end(frame.StatusBusy, proto.CloseRateLimited, "too many connections from your address", eddy.CloseAdmissionRejected)
		return nil
	}
	s := &state{ctx: ctx, leave: leave, session: h.o.Connect(t, peer)}
	ctx.SetState(s)
	return s.lookIn(hub.PingInterval)
}

// lookIn looks after some time whether the client is alive, like a WebSocket's heartbeat, except that the client pings.
func (s *state) lookIn(d time.Duration) error {
	_, err := s.ctx.After(d, func() {
		next := hub.PingInterval
		switch {
		case !s.ctx.Conn().Writable(), s.heard: // of one that takes nothing nothing is read
			s.quiet = false
		case s.quiet:
			s.ctx.Conn().CloseWith(eddy.CloseIdleTimeout, errSilent)
			return
		default:
			s.quiet, next = true, hub.PongTimeout
		}
		s.heard = false
		_ = s.lookIn(next) // an error means that the connection is ending
	})
	return err
}

var errSilent = errors.New("frames: the client is silent")

// HandleRead implements eddy.ReadHandler.
func (h *handler) HandleRead(ctx *eddy.Context, msg any) error {
	f, ok := msg.(*frame.Frame)
	if !ok {
		ctx.FireRead(msg)
		return nil
	}
	defer f.Release()
	s, ok := ctx.State().(*state)
	if !ok {
		return nil // it was refused
	}
	s.heard = true
	switch op := f.Op(); op {
	case frame.Ping:
		return ctx.Write(frame.AppendResponse(nil, f.ID, f.Payload))
	case frame.Cancel: // nothing is in flight
	case frame.OneWay:
		if !utf8.Valid(f.Payload) {
			s.session.Close(closeInvalidText, "the command is not UTF-8")
			return nil
		}
		s.session.Receive(f.Payload)
	default:
		return ctx.Write(frame.AppendError(nil, f.ID, &frame.StatusError{Status: frame.StatusNotFound, Message: fmt.Sprintf("operation %v is not served: send commands as ONEWAY", op)}))
	}
	return nil
}

const closeInvalidText = 1007 // as WebSockets have it

// HandleClose implements eddy.CloseHandler.
func (h *handler) HandleClose(ctx *eddy.Context, _ eddy.CloseReason, _ error) {
	if s, ok := ctx.State().(*state); ok {
		s.leave()
		s.session.Closed()
	}
}

// transport is a connection as the hub sees it.
type transport struct {
	conn   *eddy.Conn
	closed atomic.Bool
}

var _ hub.Timed = (*transport)(nil)

// Send implements hub.Conn.
func (t *transport) Send(event []byte) error {
	err := t.conn.Write(frame.AppendResponse(make([]byte, 0, frame.HeaderSize+len(event)), 0, event))
	if errors.Is(err, eddy.ErrBackpressure) || errors.Is(err, eddy.ErrSaturated) {
		return hub.ErrSlow
	}
	return err
}

// Behind implements hub.Timed.
func (t *transport) Behind() time.Duration { return t.conn.Loop().Behind() }

// Sent implements hub.Timed.
func (t *transport) Sent(r *trace.Request) { r.Done(t.conn) }

// Queued implements hub.Conn.
func (t *transport) Queued() int { return int(t.conn.QueuedBytes()) }

// Close implements hub.Conn. The client is told code and reason behind what is queued.
func (t *transport) Close(code int, reason string) {
	status, why := frame.StatusOK, eddy.CloseNormal
	switch code {
	case proto.CloseDraining:
		status, why = frame.StatusGoAway, eddy.CloseServerShutdown
	case proto.CloseSlow:
		why = eddy.CloseBackpressureLimit
	case proto.CloseProtocolError, proto.CloseTooLarge, closeInvalidText:
		why = eddy.CloseProtocolError
	}
	t.end(status, code, reason, why)
}

// end says why the connection ends, in words of im.v1 and then with a status of the frame protocol if that has one.
func (t *transport) end(status frame.Status, code int, reason string, why eddy.CloseReason) {
	if t.closed.Swap(true) {
		return
	}
	event, _ := json.Marshal(map[string]any{"t": "close", "d": map[string]any{"code": code, "reason": reason}}) // always possible
	b := frame.AppendResponse(nil, 0, event)
	if status != frame.StatusOK {
		b = frame.AppendError(b, 0, &frame.StatusError{Status: status, Message: reason})
	}
	_ = t.conn.Write(b) // what cannot be queued any more is not told
	t.conn.CloseAfterFlush(why)
}
