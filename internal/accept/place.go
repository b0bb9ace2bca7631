package accept

import (
	"net/netip"
	"time"

	"github.com/go-eddy/eddy/internal/list"
	"github.com/go-eddy/eddy/internal/reactor"
	"github.com/go-eddy/eddy/internal/sys"
)

// Socket is an admitted socket on its way to a loop.
type Socket struct {
	FD     int
	Peer   netip.AddrPort
	Local  *netip.AddrPort
	Tenant string
}

// Placing bounds what Host.Place may wait for.
type Placing struct {
	Bytes   int           // that it is shown, at most
	Timeout time.Duration // from the accept to the answer
	Waiting int           // sockets that wait, at most
}

// The answers of Host.Place that name no loop.
const (
	PlaceMore = -1 - iota // more bytes are needed
	PlaceAny              // the loop is chosen as without Host.Place
)

// The times between two looks at a socket whose first bytes were not enough. They double, so that a peer that sends byte by
// byte costs little.
const (
	firstPause   = time.Millisecond
	longestPause = 128 * time.Millisecond
)

// waiting are the sockets of an acceptor that wait for their first bytes, oldest first.
type waiting struct {
	list  list.List[newcomer]
	count int
	first []byte // what a look has found
}

// newcomer is a socket that waits. The poller watches it for its first byte. From then on the loop looks at it in growing
// intervals, because the poller would report unread bytes again and again.
type newcomer struct {
	Socket
	token    uint64
	seen     int // bytes at the last look
	pause    time.Duration
	deadline int64
	timer    *reactor.Timer // of the next look
	place    list.Place[newcomer]
}

// await hands a new socket over by its first bytes, when they have come.
func (a *Acceptor[T]) await(s Socket) {
	n := &newcomer{Socket: s, pause: firstPause, deadline: a.Loop.Now + int64(a.Set.Placing.Timeout)}
	loop, err := a.look(n)
	switch {
	case err != nil:
		a.lose(s, err)
	case loop != PlaceMore:
		a.assign(s, loop)
	case a.last > 0 || a.Loop.Stopping || !a.watch(n):
		a.assign(s, PlaceAny)
	}
}

// look asks where a socket belongs by what has arrived. The error is the socket's.
func (a *Acceptor[T]) look(n *newcomer) (loop int, err error) {
	got, err := a.Sock.Peek(n.FD, a.waiting.first)
	switch {
	case err == sys.ErrAgain: //nolint:errorlint // pre-allocated sentinel
		return PlaceMore, nil
	case err != nil:
		return PlaceAny, err
	case got == 0: // the peer has ended its side
		return PlaceAny, nil
	case got <= n.seen:
		return PlaceMore, nil
	}
	n.seen = got
	if loop = a.Host.Place(n.Peer, a.waiting.first[:got]); loop == PlaceMore && got == len(a.waiting.first) {
		loop = PlaceAny
	}
	return loop, nil
}

// watch makes a socket wait. Beyond the bound, the one that has waited longest makes room.
func (a *Acceptor[T]) watch(n *newcomer) bool {
	if a.waiting.count >= a.Set.Placing.Waiting {
		a.lastLook(a.waiting.list.First())
	}
	in := sys.Read
	if n.seen > 0 {
		in = sys.None
	}
	var err error
	n.token, err = a.Loop.Watch(&reactor.Descriptor{FD: n.FD, In: in, Ready: func(sys.Ready) { a.again(n) }, Lost: func(err error) { a.unwatched(n, err) }})
	if err != nil {
		a.Loop.Log.Error("eddy: a connection cannot wait for its first bytes", "peer", n.Peer, "err", err)
		return false
	}
	a.waiting.list.Push(&n.place, n)
	a.waiting.count++
	a.Set.Tally.Placing.Add(1)
	a.arm(n)
	return true
}

// arm sets the time of the next look that no event brings.
func (a *Acceptor[T]) arm(n *newcomer) {
	d := time.Duration(max(n.deadline-a.Loop.Now, 0))
	if n.seen > 0 {
		d = min(d, n.pause)
		n.pause = min(2*n.pause, longestPause)
	}
	n.timer, _ = a.Loop.After(nil, d, func() { a.again(n) }) // no error for a delay that is not negative
}

// again looks at a socket that waits, and hands it over when its place is known or its time is up.
func (a *Acceptor[T]) again(n *newcomer) {
	loop, err := a.look(n)
	switch {
	case err != nil:
		a.forget(n)
		a.lose(n.Socket, err)
	case loop != PlaceMore:
		a.forget(n)
		a.assign(n.Socket, loop)
	case a.Loop.Now >= n.deadline || n.seen > 0 && !a.silence(n):
		a.forget(n)
		a.assign(n.Socket, PlaceAny)
	case n.seen > 0:
		n.timer.Stop()
		a.arm(n)
	}
}

// silence keeps the poller from reporting the bytes that were not enough.
func (a *Acceptor[T]) silence(n *newcomer) bool {
	if n.pause > firstPause { // it does not any more
		return true
	}
	err := a.Loop.Rewatch(n.token, sys.None)
	if err != nil {
		a.Loop.Log.Error("eddy: a connection cannot wait for more of its first bytes", "peer", n.Peer, "err", err)
	}
	return err == nil
}

// lastLook ends the wait of a socket.
func (a *Acceptor[T]) lastLook(n *newcomer) {
	n.deadline = a.Loop.Now
	a.again(n)
}

// unwatched follows the end of the loop, which ends the socket, or a new poller that does not take it.
func (a *Acceptor[T]) unwatched(n *newcomer, err error) {
	if err == reactor.ErrClosed { //nolint:errorlint // the very value
		a.forget(n)
		a.lose(n.Socket, nil)
		return
	}
	n.deadline = a.Loop.Now
	n.timer.Stop()
	a.arm(n)
}

// forget takes a socket off the list and out of the poller.
func (a *Acceptor[T]) forget(n *newcomer) {
	a.waiting.list.Remove(&n.place)
	a.waiting.count--
	a.Set.Tally.Placing.Add(-1)
	n.timer.Stop()
	if err := a.Loop.Unwatch(n.token); err != nil {
		a.Loop.Log.Error("eddy: deregistering a connection that waited for its first bytes failed", "err", err)
	}
}

// assign hands a socket over to a loop, or as without Host.Place.
func (a *Acceptor[T]) assign(s Socket, loop int) {
	switch {
	case !a.give(s, loop):
	case loop == PlaceAny:
		a.Set.Tally.Unplaced.Add(1)
	default:
		a.Set.Tally.Placed.Add(1)
	}
}

// lose closes a socket that no loop will serve. err is the socket's, nil if the server or the loop ends.
func (a *Acceptor[T]) lose(s Socket, err error) {
	a.discard(s.FD)
	a.Set.Tally.Lost.Add(1)
	a.Host.Lost(s, err)
	a.Set.Gate.Leave(s.Peer, s.Tenant)
	a.Set.Tally.Release()
}

// placeRest ends the wait of as many sockets as an iteration may, for a server that drains. It reports whether there were some.
func (a *Acceptor[T]) placeRest() (some bool) {
	for range a.Set.Batch {
		n := a.waiting.list.First()
		if n == nil {
			break
		}
		some = true
		a.lastLook(n)
	}
	return some
}

// loseRest closes the sockets that wait.
func (a *Acceptor[T]) loseRest() {
	for n := range a.waiting.list.All() {
		a.forget(n)
		a.lose(n.Socket, nil)
	}
}
