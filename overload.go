package eddy

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
