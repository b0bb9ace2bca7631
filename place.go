package eddy

import (
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/go-eddy/eddy/internal/accept"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
)

// Placement makes a Server look at the first bytes of each connection before it chooses the connection's loop, so that an id or
// a tenant in the first message decides (docs/loops.md). The bytes are looked at, not taken: the handlers read them as if
// nothing had happened. Until then the socket waits on the loop that accepted it. It is no Conn yet, but counts for every limit
// of Admission. With one loop there is no choice, and nothing waits.
//
// The zero value places nothing, and costs nothing.
type Placement struct {
	// Choose names the loop; PlaceByKey makes one for an id or a tenant. nil = no placement.
	Choose Placer

	Bytes int // that Choose is shown, at most 16384; 0 = 4096. When so many are not enough, the Chooser decides

	// Timeout is how long a connection waits for its first bytes, and for more when Choose asks for more; 0 = 5 s, at most an
	// hour. Then the Chooser decides. The connection's own deadlines begin afterwards. If clients wait for the server to speak
	// first, they wait this long.
	Timeout time.Duration

	// MaxWaiting bounds the connections of a listener that wait; 0 = 4096. Beyond it the Chooser decides for the one that has
	// waited longest.
	MaxWaiting int
}

// Placer says which loop of a group serves a connection, by its place in loops, PlaceMore or PlaceDefault. first is what the
// peer has sent so far, at least one byte; with TLS that is the ClientHello. first is valid until the Placer returns and must not
// be changed. Each call has all bytes from the first one on.
//
// A Placer is called by the loops that accept, several at a time; it must not block or change loops. After a panic, and for any
// other result, which is logged, the Chooser decides. If the loop does not take the connection, because its task queue is
// full, the next loops are tried.
type Placer func(peer netip.AddrPort, first []byte, loops []*Loop) int

const (
	// PlaceMore is a Placer's answer when more bytes must come first. The Placer is asked again when there are more, up to
	// Placement.Bytes. The loop looks for them after 1 ms, then after 2 ms, and so on up to every 128 ms.
	PlaceMore = accept.PlaceMore
	// PlaceDefault is a Placer's answer when the first bytes do not matter: the Group's Chooser decides. With ListenerPerLoop
	// the connection stays on the loop that accepted it.
	PlaceDefault = accept.PlaceAny
)

// PlaceByKey returns a Placer that gives connections with the same key to the same loop, for one key per tenant, device or
// session. key finds the key in the first bytes, and returns false while more bytes are needed. No key at all (with true) is
// PlaceDefault. The loop of a key differs from process to process and changes with the number of loops.
func PlaceByKey(key func(first []byte) (key []byte, ok bool)) Placer {
	seed := maphash.MakeSeed()
	return func(_ netip.AddrPort, first []byte, loops []*Loop) int {
		k, ok := key(first)
		switch {
		case !ok:
			return PlaceMore
		case len(k) == 0:
			return PlaceDefault
		}
		return int(maphash.Bytes(seed, k) % uint64(len(loops)))
	}
}

// Defaults and bounds of a Placement.
const (
	defaultPlaceBytes   = 4 << 10
	maxPlaceBytes       = 16 << 10 // what sys.Sockets.Peek promises
	defaultPlaceTimeout = 5 * time.Second
	maxPlaceTimeout     = time.Hour
	defaultPlaceWaiting = 4096
)

// bounds validates the fields and fills in the defaults.
func (p *Placement) bounds() (accept.Placing, error) {
	err := notNegative("Server", []field{
		{"Placement.Bytes", int64(p.Bytes)}, {"Placement.Timeout", int64(p.Timeout)}, {"Placement.MaxWaiting", int64(p.MaxWaiting)},
	})
	switch {
	case err != nil:
	case p.Choose == nil && (p.Bytes != 0 || p.Timeout != 0 || p.MaxWaiting != 0):
		err = errors.New("eddy: Server.Placement.Choose is nil: the other fields of Placement need it")
	case p.Bytes > maxPlaceBytes:
		err = fmt.Errorf("eddy: Server.Placement.Bytes is %d, limit %d", p.Bytes, maxPlaceBytes)
	case p.Timeout > maxPlaceTimeout:
		err = fmt.Errorf("eddy: Server.Placement.Timeout is %v, limit %v", p.Timeout, maxPlaceTimeout)
	}
	return accept.Placing{
		Bytes: orInt(p.Bytes, defaultPlaceBytes), Timeout: orDuration(p.Timeout, defaultPlaceTimeout), Waiting: orInt(p.MaxWaiting, defaultPlaceWaiting),
	}, err
}

// placer returns what an acceptor on l asks for the place of a socket among the loops of w, nil if it asks nobody.
func (l *loop) placer(choose Placer, w *crew) func(netip.AddrPort, []byte) int {
	if choose == nil || len(w.loops) < 2 {
		return nil
	}
	return func(peer netip.AddrPort, first []byte) int {
		at := PlaceDefault
		l.ask("Placement.Choose", func() { at = choose(peer, first, w.handles) })
		if at >= PlaceDefault && at < len(w.loops) {
			return at
		}
		if ok, held := l.logs.places.Allow(l.Now); ok {
			l.Log.Error("eddy: Placement.Choose named a loop that does not exist; the Chooser decides", "peer", peer, "loop", at, "loops", len(w.loops), "held_back", held)
		}
		return PlaceDefault
	}
}

// loseSocket counts and logs the end of a socket that waited for its first bytes. err is nil when the server or the loop ends.
func (l *loop) loseSocket(owner *endpoint, s accept.Socket, err error) {
	reason := CloseIOError
	switch {
	case err == nil:
		reason = CloseServerShutdown
		owner.forced.Add(1)
	case sys.IsReset(err):
		l.Counters[meter.Resets]++
		if ok, held := l.logs.resets.Allow(l.Now); ok {
			l.Log.Info("eddy: connection reset before its first bytes", "peer", s.Peer, "err", err, "held_back", held)
		}
	default:
		l.warn(&l.logs.failed, "eddy: a connection failed before its first bytes", "peer", s.Peer, "err", err)
	}
	owner.countClose(reason, s.Peer, s.Tenant)
	owner.ended.Add(1)
}
