package front

import (
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/auth"
	"github.com/go-eddy/eddy/desk/geo"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/poll"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/trace"
	"github.com/go-eddy/eddy/websocket"
)

// entry is where sessions of im.v1 come in: by WebSocket and by long poll.
type entry struct {
	conns *auth.Held // by network
	polls *poll.Table
}

var noLogin store.Token

// connects checks who opens a session of im.v1, and takes its place among those of its address. leave gives that back. A page
// of a site's own origin may only be a customer of that site. The hub checks that once it knows who connects. false means that
// the answer has been given.
func (f *Front) connects(w http.ResponseWriter, r *http.Request) (peer hub.Peer, leave func(), ok bool) {
	origin := ""
	if !f.sameOrigin(r) {
		if origin, ok = f.siteOrigin(r); !ok {
			f.wrongOrigin(w)
			return peer, nil, false
		}
	}
	peer, leave, ok = f.seat(f.address(r))
	if !ok {
		problem(w, http.StatusTooManyRequests, proto.Later(proto.CodeRateLimited, "Too many connections from your address.", socketRetry))
		return peer, nil, false
	}
	if rec := f.o.Trace; rec != nil {
		peer.Trace = rec.Receive(f.o.TrustTrace, trace.FieldsOf(r.Header))
	}
	peer.Browser, peer.Login, peer.Origin, peer.Agent = r.Header.Get("Origin") != "", f.cookieToken(r), origin, browserOf(r.UserAgent())
	return peer, leave, true
}

// seat takes the place of a session among those of its address, and returns what is known of the address.
func (f *Front) seat(ip string) (peer hub.Peer, leave func(), ok bool) {
	leave, ok = f.entry.conns.Enter(network(ip), f.o.ConnsPerIP, f.o.Now())
	if !ok {
		f.Counters.SocketsRefused.Add(1)
		return peer, nil, false
	}
	return hub.Peer{Network: network(ip), IP: f.o.KeepIP.keep(ip), Place: f.placeOf(ip)}, leave, true
}

// EnterFrames is seat for a client without HTTP. It does not block.
func (f *Front) EnterFrames(c *eddy.Conn) (peer hub.Peer, leave func(), ok bool) {
	return f.seat(c.RemoteAddr().Addr().Unmap().WithZone("").String())
}

// socket upgrades to the WebSocket of both roles.
func (f *Front) socket(w http.ResponseWriter, r *http.Request) {
	peer, leave, ok := f.connects(w, r)
	if !ok {
		return
	}
	_, err := websocket.Upgrade(w, r, &endpoint{hub: f.hub, peer: peer, leave: leave}, websocket.Options{
		MaxMessage:         proto.MaxAgentBytes,
		Subprotocols:       []string{proto.Subprotocol},
		RequireSubprotocol: true,
		CheckOrigin:        func(*http.Request) bool { return true }, // checked above, and counted
		PingInterval:       hub.PingInterval,
		PongTimeout:        hub.PongTimeout,
	})
	if err != nil {
		leave()
		f.o.Logger.Debug("desk: upgrade failed", "err", err) // the client has been told
	}
}

// placeOf returns where an address is, as far as the file of places says.
func (f *Front) placeOf(ip string) geo.Place {
	if f.o.Places == nil {
		return geo.Place{}
	}
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return geo.Place{}
	}
	return f.o.Places.Of(a)
}

// endpoint connects one WebSocket to its session. All its methods run on the connection's loop.
type endpoint struct {
	hub     *hub.Hub
	peer    hub.Peer
	session *hub.Session
	leave   func() // gives back the connection's place among those of its address
}

func (e *endpoint) HandleOpen(c *websocket.Conn) error {
	e.session = e.hub.Connect(transport{c}, e.peer)
	return nil
}

func (e *endpoint) HandleMessage(_ *websocket.Conn, op websocket.Opcode, data []byte) error {
	if op != websocket.Text {
		e.session.Close(proto.CloseUnsupportedData, "binary messages are not accepted")
		return nil
	}
	e.session.Receive(data)
	return nil
}

func (e *endpoint) HandleClose(*websocket.Conn, int, string) {
	e.leave()
	e.session.Closed()
}

// transport is a WebSocket as the hub sees it.
type transport struct{ c *websocket.Conn }

var _ hub.Timed = transport{}

func (t transport) Send(frame []byte) error {
	err := t.c.Write(websocket.Text, frame)
	if errors.Is(err, eddy.ErrBackpressure) || errors.Is(err, eddy.ErrSaturated) {
		return hub.ErrSlow
	}
	return err
}

// Behind implements hub.Timed.
func (t transport) Behind() time.Duration { return t.c.Eddy().Loop().Behind() }

// Sent implements hub.Timed.
func (t transport) Sent(r *trace.Request) { r.Done(t.c.Eddy()) }

func (t transport) Queued() int { return int(t.c.QueuedBytes()) }

func (t transport) Close(code int, reason string) {
	if err := t.c.Close(code, reason); err != nil && !errors.Is(err, eddy.ErrClosed) {
		t.c.Abort(eddy.CloseInternalError, err)
	}
}
