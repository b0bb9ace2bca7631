package rpc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/executor"
)

// Listener is told of events on the connections of a server's port or of a client. A Listener implements at least one of
// ConnectedListener, DisconnectedListener, SentListener, ReceivedListener, LateListener, CaughtListener and
// BacklogListener. One value serves all connections.
//
// The Dispatcher says where a method runs. The methods of one connection are called in order, one at a time, wherever
// they run: Connected once and first, Disconnected once and last. Only Sent, always called on the loop, has no part in
// that order: Sent may come while Connected still waits, but not after Disconnected. The methods of services have no part
// in the order either. A panic in a method is logged and counted; the connection goes on. In Dubbo the events of one
// connection may overtake each other.
//
// An event for which there is no room is counted (EventStats.Rejected) and logged at most every ten seconds. Connected
// and Disconnected then wait beyond the bound of the pool, two per connection at most; under DispatchConnection the
// connection is refused instead, see ErrConnectQueue. Received is not called, and the peer is answered BUSY, once. Caught
// and Late are not called; the error of Caught is in the log. When the pool was stopped, Connected and Disconnected are
// called by the goroutine that stopped it, or by the loop.
type Listener any

// ConnectedListener is told that a connection is open.
type ConnectedListener interface {
	Connected(l *Link)
}

// DisconnectedListener is told that a connection has ended, unless it was refused because there was no room for its
// connect. err is what led to the end, or nil.
type DisconnectedListener interface {
	Disconnected(l *Link, reason eddy.CloseReason, err error)
}

// SentListener is told of each frame that was given to a connection's outbound queue. Sent runs on the loop with every
// dispatcher, and must not block.
type SentListener interface {
	Sent(l *Link, f SentFrame)
}

// ReceivedListener is given messages that are no part of RPC. On a server these are the application's own operations, 16
// to 255. On a client they are the OK frames without a request id that a server's application sends on its own. f and its
// payload are valid until Received returns.
//
// On a server the response is payload, which may be f's, or an error: a *frame.StatusError names the status, any other
// err becomes APP_ERROR with its text. Without a ReceivedListener these operations are answered NOT_FOUND. Their
// responses keep their own order, whatever the port's Ordering says. On a client payload and err are ignored.
type ReceivedListener interface {
	Received(l *Link, f *frame.Frame) (payload []byte, err error)
}

// LateListener is told, on a client, of each response that came when nobody waited for it any more.
type LateListener interface {
	Late(l *Link, id uint64, status frame.Status)
}

// CaughtListener is told of an error that no handler has dealt with, before the connection ends because of it.
type CaughtListener interface {
	Caught(l *Link, err error)
}

// BacklogListener is told, under DispatchConnection, that more connects and disconnects wait than ConnectWarning says, or
// that a connection was refused for want of room. ConnectBacklog is called at most once in ten seconds, on the loop or on
// a worker that hands a disconnect over, and must not block.
type BacklogListener interface {
	ConnectBacklog(name string, waiting int)
}

// SentFrame describes a frame that was given to the outbound queue.
type SentFrame struct {
	ID   uint64 // of the request
	Code uint8  // frame.Status on a server, frame.Op on a client
	Size int    // in bytes, with the header
}

// Link is one connection as a Listener sees it. All methods may be called by any goroutine.
type Link struct {
	n      *notifier
	conn   *eddy.Conn
	opened time.Time
	since  time.Duration // opened, by the loop's clock

	read, written atomic.Int64 // by the loop's clock, 0 = never

	mu    sync.Mutex
	queue []happening             // oldest first, the one that runs included
	busy  bool                    // the first of them runs, or is on its way
	ended bool                    // what waits is the last that is told
	turns *executor.Strand[*Link] // on the shared pool, nil until it is needed
}

// Conn returns the connection.
func (l *Link) Conn() *eddy.Conn { return l.conn }

// Side returns which end of the connection this is.
func (l *Link) Side() Side { return l.n.o.side }

// Name returns the name of the port or client that the connection belongs to.
func (l *Link) Name() string { return l.n.o.name }

// LastRead returns when the last frame was received, or when the connection was opened if none was. Once the connection
// has ended, the result is the zero time. The loop notes the time once per turn.
func (l *Link) LastRead() time.Time { return l.at(l.read.Load()) }

// LastWrite returns the same for the last frame that was given to the outbound queue.
func (l *Link) LastWrite() time.Time { return l.at(l.written.Load()) }

func (l *Link) at(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	t := l.opened.Add(time.Duration(ns) - l.since)
	if now := time.Now(); t.After(now) { // opened is a little later than its turn of the loop
		return now
	}
	return t
}

// open sets the stamps, close clears them. Loop only.
func (l *Link) open(now time.Duration) {
	l.opened, l.since = time.Now(), now
	l.read.Store(int64(now))
	l.written.Store(int64(now))
}

func (l *Link) close() {
	l.read.Store(0)
	l.written.Store(0)
}

// EventStats counts what the connections of a port or client told their Listener.
type EventStats struct {
	Connected    uint64
	Disconnected uint64
	Sent         uint64
	Received     uint64
	Caught       uint64
	Late         uint64
	Rejected     uint64 // events for which a pool had no room; they were told late or answered, see Listener
	Refused      uint64 // connections refused because the connect queue was full
	Alarms       uint64 // connects and disconnects that found more waiting than ConnectWarning
	Waiting      int    // in the connect queue now
	Panics       uint64 // of the Listener
}
