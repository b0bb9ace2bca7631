package sim_test

import (
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// relief stands for an overload manager that goes by chance.
type relief struct {
	t        *trial
	srv      *eddy.Server
	refusing bool
	refused  bool  // at any time
	admitted int64 // connections, when refusing began
}

// relieve adds a goroutine that has the server end connections and refuse new ones, in half of the trials.
func (t *trial) relieve(srv *eddy.Server) {
	if t.once(2) {
		return
	}
	r := &relief{t: t, srv: srv}
	t.reliefs = append(t.reliefs, r)
	t.allow(eddy.CloseOverload)
	t.w.Always(sim.Relief)
	t.w.OffLoop("relief", r.act)
}

func (r *relief) act() sim.Next {
	t := r.t
	switch {
	case t.w.IsCalm():
		r.refuse(false)
		return sim.Done
	case !t.w.Hit(sim.Relief):
	case t.once(3):
		r.refuse(!r.refusing)
	case t.once(2):
		r.srv.EndIdle(1 + t.n(4))
	default:
		r.srv.EndKeepAlive(1 + t.n(4))
	}
	return sim.Next(t.n(int(20 * time.Millisecond)))
}

// refuse checks that nobody was admitted meanwhile, but those who were being admitted when it began.
func (r *relief) refuse(on bool) {
	if now := r.admissions(); r.refusing && now > r.admitted+3 {
		r.t.w.Failf("%d connections were admitted while all were to be refused", now-r.admitted)
	}
	r.srv.RefuseConns(on)
	r.refusing, r.refused, r.admitted = on, r.refused || on, r.admissions()
}

// admissions returns how many connections were not refused.
func (r *relief) admissions() int64 {
	st := r.srv.Stats()
	n := int64(st.Accepted)
	for _, times := range st.Refused {
		n -= int64(times)
	}
	return n
}

// check compares what the server counts with what happened. Only those that were told to end, ended with the reason.
func (r *relief) check() {
	st, overloaded := r.srv.Stats(), uint64(0)
	for _, l := range r.t.lives {
		if l.reason == eddy.CloseOverload {
			overloaded++
		}
	}
	if st.Closed[eddy.CloseOverload] != overloaded || st.EndedIdle+st.EndedKeepAlive < overloaded {
		r.t.w.Failf("%d connections ended by overload, %d are counted, %d and %d were told to", overloaded, st.Closed[eddy.CloseOverload], st.EndedIdle, st.EndedKeepAlive)
	}
	if n := st.Refused[eddy.RefuseOverload]; n > 0 && !r.refused {
		r.t.w.Failf("%d connections were refused by overload", n)
	}
}

// take notes that a handler has taken a request.
func (t *trial) take(conn *eddy.Conn, id int) {
	if l := t.lifeOf(t.peers[conn.RemoteAddr()]); l != nil {
		l.taken = append(l.taken, id)
	}
}
