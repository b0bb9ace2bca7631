package accept

import "sync/atomic"

// Tally counts the connections of one server or dialer, and what its acceptors have done. Any goroutine.
type Tally struct {
	Active  atomic.Int64  // connections admitted and not yet closed
	parting atomic.Int64  // refused sockets that wait for their peer's end
	Idle    chan struct{} // holds one element; gets one when either of the two falls to 0

	Accepted atomic.Uint64
	refused  [causes]atomic.Uint64
	Pauses   atomic.Uint64 // times accepting stopped for want of room or of descriptors
	Errors   atomic.Uint64
	Shed     atomic.Uint64 // accepted and closed at once because descriptors had run out

	Placing  atomic.Int64  // of Active, sockets that wait for their first bytes
	Placed   atomic.Uint64 // handed over to the loop that Host.Place has named, or to one behind it
	Unplaced atomic.Uint64 // handed over as without Host.Place
	Lost     atomic.Uint64 // ended while they waited

	Overloaded atomic.Bool // nobody is admitted, see SetOverloaded

	Wake    []func()    // Acceptor.Wake of each; fixed before the first connection
	waiting atomic.Bool // acceptors want to know of room
}

// Refused returns how many connections were refused for which cause.
func (n *Tally) Refused() map[Cause]uint64 {
	counts := make(map[Cause]uint64)
	for c := range n.refused {
		if times := n.refused[c].Load(); times > 0 {
			counts[Cause(c)] = times
		}
	}
	return counts
}

// Empty reports whether no connection is open and no refused socket waits.
func (n *Tally) Empty() bool { return n.Active.Load()+n.parting.Load() == 0 }

// Admit counts a connection before it exists and undoes that when the limit is passed, so that a burst of accepts cannot
// overshoot. limit 0 means no limit.
func (n *Tally) Admit(limit int) bool {
	if active := n.Active.Add(1); limit > 0 && active > int64(limit) {
		n.unadmit()
		return false
	}
	return true
}

// unadmit undoes one Admit.
func (n *Tally) unadmit() { n.less(&n.Active) }

// less takes one from a count and tells those that wait for the end of all.
func (n *Tally) less(count *atomic.Int64) {
	if count.Add(-1) != 0 {
		return
	}
	select {
	case n.Idle <- struct{}{}:
	default:
	}
}

// Release undoes one Admit, and tells the acceptors that wait for room.
func (n *Tally) Release() {
	n.unadmit()
	n.RoomAgain()
}

// SetOverloaded makes new connections meet Gate.OnLimit, as at a limit, or ends that.
func (n *Tally) SetOverloaded(on bool) {
	if n.Overloaded.Swap(on) && !on {
		n.RoomAgain()
	}
}

// RoomAgain makes the acceptors that wait for room look again.
func (n *Tally) RoomAgain() {
	if !n.waiting.Load() || !n.waiting.CompareAndSwap(true, false) {
		return
	}
	for _, wake := range n.Wake {
		wake()
	}
}
