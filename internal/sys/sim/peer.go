package sim

import (
	"errors"
	"net/netip"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// ErrRefused says that there is no listener, or that the listener's queue is full.
var ErrRefused error = syscall.ECONNREFUSED

// Peer is the other end of a connection, moved by a scenario.
type Peer struct{ e *end }

// Dial connects to a listener, from an address of its own.
func (w *World) Dial(to netip.AddrPort) (*Peer, error) {
	w.peers++
	n := w.peers
	return w.DialFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}), 40000), to)
}

// DialFrom connects from the given address.
func (w *World) DialFrom(from, to netip.AddrPort) (*Peer, error) {
	mine, theirs := w.pair(from, to)
	if err := w.enqueue(theirs); err != nil {
		return nil, err
	}
	return &Peer{mine}, nil
}

// enqueue puts the far end of a new connection in the queue of a listener. If several listeners share the address, it
// takes a random one.
func (w *World) enqueue(e *end) error {
	start := w.rng.IntN(len(w.listeners) + 1)
	for i := range w.listeners {
		l := w.listeners[(start+i)%len(w.listeners)]
		if !l.closed && l.serves(e.local) && len(l.queue) < l.backlog {
			l.queue = append(l.queue, e)
			w.changed()
			return nil
		}
	}
	return ErrRefused
}

// Serve listens with scripted peers. It calls accept with each one that an engine connects to.
func (w *World) Serve(addr netip.AddrPort, accept func(*Peer)) {
	l := &listener{w: w, addr: addr, backlog: 1 << 10}
	w.listeners = append(w.listeners, l)
	w.Act("accept at "+addr.String(), func() Next {
		if len(l.queue) == 0 {
			return Blocked
		}
		e := l.queue[0]
		l.queue = l.queue[1:]
		accept(&Peer{e})
		return 0
	})
}

// Write sends as much as the other side has room for. ErrAgain says that it has none.
func (p *Peer) Write(b []byte) (int, error) { return p.e.write(b) }

// Read takes what has arrived. 0 without an error is the end of the stream.
func (p *Peer) Read(b []byte) (int, error) { return p.e.read(b) }

// CloseWrite ends the peer's direction.
func (p *Peer) CloseWrite() { _ = p.e.shutdown() }

// Close ends the connection, with a reset if bytes are unread.
func (p *Peer) Close() { p.e.close() }

// Reset ends the connection with a reset.
func (p *Peer) Reset() {
	if !p.e.closed && !p.e.dead {
		p.e.peer.reset(syscall.ECONNRESET)
	}
	p.e.closed, p.e.in = true, nil
	p.e.w.changed()
}

// SetWindow changes how much the peer takes before it reads; 0 closes the window.
func (p *Peer) SetWindow(n int) {
	p.e.window = n
	p.e.w.changed()
}

// SetRoom changes how much the other side's kernel takes before its program reads.
func (p *Peer) SetRoom(n int) {
	p.e.peer.window = n
	p.e.w.changed()
}

// Ended reports whether the end of the peer's stream was sent, behind all its bytes.
func (p *Peer) Ended() bool { return p.e.sent }

// Harmed reports whether a fault of the network broke the connection.
func (p *Peer) Harmed() bool { return p.e.harmed }

// Silence returns how long ago the other side has read or written a byte, or since the world's beginning if it never
// has.
func (p *Peer) Silence() time.Duration {
	return time.Duration(p.e.w.now - max(p.e.peer.moved, startTime))
}

// Taken returns how many bytes of the other side the kernel has taken.
func (p *Peer) Taken() int { return p.e.peer.written }

// Addr returns the peer's address.
func (p *Peer) Addr() netip.AddrPort { return p.e.local }

// IsAgain reports whether err says to try later.
func IsAgain(err error) bool { return errors.Is(err, sys.ErrAgain) }
