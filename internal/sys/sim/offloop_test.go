package sim_test

import (
	"errors"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/sys/sim"
)

// crowd stands for goroutines of the server's process that use connections from outside.
type crowd struct {
	t      *trial
	srv    *eddy.Server
	mild   bool // no closes
	posted int
	ran    int
	push   func(*life) // writes to a connection, nil if that would disturb
	paused []*eddy.Conn
}

// disturb adds goroutines that pause, post, close and write. The fields of crowd say what they may not do.
func (t *trial) disturb(k *crowd) {
	k.t = t
	t.crowds = append(t.crowds, k)
	if !k.mild {
		t.w.Often(sim.OffLoopClose)
	}
	for range 1 + t.n(3) {
		t.w.OffLoop("off-loop", k.act)
	}
}

func (k *crowd) act() sim.Next {
	t, w := k.t, k.t.w
	if w.IsCalm() {
		for _, c := range k.paused {
			c.ResumeRead()
		}
		k.paused = nil
		return sim.Done
	}
	l := k.someone()
	nap := sim.Next(t.n(int(2 * time.Millisecond)))
	if l == nil {
		return nap
	}
	switch {
	case k.push != nil && w.Hit(sim.OffLoopWrite):
		l.ask()
		k.push(l)
		l.ask()
	case w.Hit(sim.OffLoopPause):
		if t.once(2) {
			l.conn.PauseRead()
			k.paused = append(k.paused, l.conn)
		} else {
			l.conn.ResumeRead()
		}
	case !k.mild && w.Hit(sim.OffLoopClose):
		k.close(l)
	case w.Hit(sim.TaskStorm):
		for range 1 + t.n(800) {
			k.post(l)
		}
	case w.Hit(sim.DeadHandle):
		k.writeDead()
	default:
		k.post(l)
	}
	return nap
}

// someone returns a connection, open or ended.
func (k *crowd) someone() *life {
	if n := len(k.t.lives); n > 0 {
		return k.t.lives[k.t.n(n)]
	}
	return nil
}

// post runs something on a loop. It runs exactly once if it was taken, also when the connection ends first.
func (k *crowd) post(l *life) {
	ran := false
	err := l.conn.Post(func() {
		if ran {
			k.t.w.Failf("a task of connection %v ran twice", l.conn.ID())
		}
		ran = true
		k.ran++
		k.t.w.Progress()
	})
	switch {
	case err == nil:
		k.posted++
	case !errors.Is(err, eddy.ErrSaturated) && !errors.Is(err, eddy.ErrClosed):
		k.t.w.Failf("post: %v", err)
	}
}

func (k *crowd) close(l *life) {
	if c := k.t.peers[l.conn.RemoteAddr()]; c != nil {
		c.closedFor = append(c.closedFor, eddy.CloseNormal, eddy.CloseProtocolError, eddy.CloseWriteTimeout)
	}
	if k.t.once(2) {
		l.conn.Close(eddy.CloseProtocolError)
	} else {
		l.conn.CloseAfterFlush(eddy.CloseNormal)
	}
}

// writeDead writes to handles of connections that have ended: bytes that no peer expects.
func (k *crowd) writeDead() {
	for _, l := range k.t.lives {
		if l.closed > 0 && !l.dialed && k.t.once(2) {
			if err := k.srv.WriteTo(l.id, []byte("\x00\xff to nobody")); err != nil && !errors.Is(err, eddy.ErrSaturated) && !errors.Is(err, eddy.ErrClosed) {
				k.t.w.Failf("write to a dead handle: %v", err)
			}
			return
		}
	}
}

// check compares what was posted with what ran.
func (k *crowd) check() {
	if k.posted != k.ran {
		k.t.w.Failf("%d tasks were taken, %d ran", k.posted, k.ran)
	}
}
