package eddy

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

const (
	// reliefScan bounds the connections that a loop looks at for one call.
	reliefScan = 4096
	// leastIdle is how long a connection must be idle for EndIdle. A client between two requests is not idle.
	leastIdle = time.Second
)

// The kinds of connections that can be ended.
const (
	reliefIdle = iota
	reliefKeepAlive
	reliefKinds
)

// relief is what an endpoint knows of the calls of EndIdle and EndKeepAlive.
type relief struct {
	queued []([reliefKinds]atomic.Bool) // by index of the loop: a task for a call is on its way
	ended  [reliefKinds]atomic.Uint64   // connections
}

// relieve ends up to n of the owner's connections of a kind.
func (l *loop) relieve(owner *endpoint, n, kind int) {
	if owner.phase.Load() != int32(serverRunning) {
		return // the drain tells all of them
	}
	var chosen []*Conn
	from := 0
	if n := l.table.Len(); n > reliefScan {
		from = rand.IntN(n) // so that each has its turn
	}
	part, _ := l.table.Part(from, reliefScan)
	chosen = owner.choose(chosen, part, n, kind)
	part, _ = l.table.Part(0, min(from, reliefScan-len(part)))
	for _, c := range owner.choose(chosen, part, n, kind) {
		c.raise(relieved)
		l.drainConn(c)
		owner.relief.ended[kind].Add(1)
	}
}

// choose returns the n connections of those chosen and the others in part that are to end first.
func (e *endpoint) choose(chosen, part []*Conn, n, kind int) []*Conn {
	for _, c := range part {
		if c == nil || c.set.owner != e || c.ending() || c.has(draining) || c.rests() != (kind == reliefIdle) {
			continue
		}
		at, _ := slices.BinarySearchFunc(chosen, c.lastActive, func(o *Conn, t int64) int { return cmp.Compare(o.lastActive, t) })
		if at == n {
			continue
		}
		chosen = slices.Insert(chosen[:min(len(chosen), n-1)], at, c)
	}
	return chosen
}

// rests reports whether the connection is idle and has been so for a while.
func (c *Conn) rests() bool {
	return c.idle() && c.loop.Now-c.lastActive >= int64(leastIdle)
}
