package eddy

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// What follows gives a server that has too much to do relief. Package overload decides when.

// RefuseConns makes every new connection meet Admission.OnLimit, as at MaxConns, until RefuseConns(false). Stats.Refused
// counts the refusals as RefuseOverload. Connections that are open notice nothing. Any goroutine; before Listen, too.
func (s *Server) RefuseConns(on bool) { s.endpoint.tally.SetOverloaded(on) }

// EndIdle ends up to n connections in order, those that have been idle longest first. Only those count that have nothing in
// flight and have read and written nothing for a second. Their handlers hear a DrainEvent, as at Shutdown; what a peer has
// sent by then is answered. The connections end with CloseOverload, and Stats.EndedIdle counts them.
//
// Each loop ends its share at its next iteration, and looks at 4096 connections at most. A loop that has not done so since
// the last call is left out. Any goroutine; a server that ends does nothing.
func (s *Server) EndIdle(n int) { s.relieve(n, reliefIdle) }

// EndKeepAlive ends up to n connections as EndIdle does, but others: those that work. Each is asked to end after what is in
// flight, in the words of its protocol: Connection: close, or GOAWAY. Stats.EndedKeepAlive counts them.
func (s *Server) EndKeepAlive(n int) { s.relieve(n, reliefKeepAlive) }

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

// relieve makes each loop end its share of n connections of a kind.
func (s *Server) relieve(n, kind int) {
	e := s.running()
	if e == nil || n <= 0 || s.Draining() {
		return
	}
	share := (n + len(e.workers) - 1) / len(e.workers)
	for i, l := range e.workers {
		queued := &s.endpoint.relief.queued[i][kind]
		if !queued.CompareAndSwap(false, true) {
			continue
		}
		err := l.Tasks.Push(task{kind: taskFunc, msg: func() {
			queued.Store(false)
			l.relieve(&s.endpoint, share, kind)
		}})
		if err != nil {
			queued.Store(false)
		}
	}
}

// relieve ends up to n of the owner's connections of a kind.
func (l *loop) relieve(owner *endpoint, n, kind int) {
	if owner.phase.Load() != int32(serverRunning) {
		return // the drain tells all of them
	}
	var chosen []*Conn
	from := rand.IntN(max(l.table.Len(), 1)) // so that each has its turn
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
