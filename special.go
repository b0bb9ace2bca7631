package eddy

import (
	"errors"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// readyFunc handles the readiness of a descriptor that is no connection: a listener, a connect attempt, a refused socket,
// or a user's descriptor.
type readyFunc func(sys.Ready)

// special is a descriptor in the loop's poller that is no connection.
type special struct {
	fd         int
	in         sys.Interest
	ready      readyFunc
	lost       func(error) // called when a rebuild cannot keep the descriptor; nil = the loop tries again
	registered bool
}

// addSpecial registers a descriptor that is no connection.
func (l *loop) addSpecial(fd int, in sys.Interest, f readyFunc) (token uint64, err error) {
	return l.watch(&special{fd: fd, in: in, ready: f})
}

func (l *loop) watch(s *special) (token uint64, err error) {
	if n := len(l.unused); n > 0 {
		token = uint64(l.unused[n-1])
		l.unused = l.unused[:n-1]
		l.special[token] = s
	} else {
		token = uint64(len(l.special))
		l.special = append(l.special, s)
	}
	if err := l.poller.Add(s.fd, s.in, token); err != nil {
		l.special[token] = nil
		l.unused = append(l.unused, uint32(token))
		return 0, err
	}
	s.registered = true
	return token, nil
}

// modifySpecial changes the interest in a special descriptor.
func (l *loop) modifySpecial(token uint64, in sys.Interest) error {
	s := l.special[token]
	s.in = in
	if !s.registered {
		return nil // registered later, with the new interest
	}
	return l.poller.Modify(s.fd, in, token)
}

// removeSpecial undoes addSpecial. The token is reused in the next iteration at the earliest, because this one may still
// hold events for it.
func (l *loop) removeSpecial(fd int, token uint64) error {
	s := l.special[token]
	l.special[token] = nil
	l.retired = append(l.retired, uint32(token))
	if !s.registered {
		return nil
	}
	l.cancelled++
	return l.poller.Remove(fd)
}

func (l *loop) reuseSpecials() {
	l.unused = append(l.unused, l.retired...)
	l.retired = l.retired[:0]
}

func (l *loop) readySpecial(ev sys.Event) {
	if s := l.special[uint32(ev.Token)]; s != nil {
		l.serving.Store(nil)
		s.ready(ev.Ready)
	}
}

// readopt is how long the loop waits before it offers the poller again a descriptor that the poller has refused.
const readopt = 100 * time.Millisecond

// loseSpecial follows a new poller's refusal of a descriptor. If s has a lost function, it is called. Otherwise s is the
// engine's own and is offered again, because a server without its listener would look alive and be dead.
func (l *loop) loseSpecial(token uint64, err error) {
	s := l.special[token]
	if s.lost != nil {
		s.lost(err)
		return
	}
	l.log.Error("eddy: a descriptor is out of the poller", "loop", l.name, "fd", s.fd, "err", err)
	_, _ = l.after(nil, readopt, func() { l.adoptSpecial(token, s) }) // no error for a delay that is not negative
}

func (l *loop) adoptSpecial(token uint64, s *special) {
	if l.special[token] != s || s.registered || l.stopping {
		return
	}
	if err := l.poller.Add(s.fd, s.in, token); err != nil {
		l.loseSpecial(token, err)
		return
	}
	s.registered = true
}

// logDeregister logs the error of taking a descriptor out of the poller. A descriptor that is not registered is harmless,
// because it was closed behind the loop's back and the kernel has forgotten it.
func (l *loop) logDeregister(what string, err error) {
	if err == nil {
		return
	}
	if sys.IsUnregistered(err) {
		l.log.Debug("eddy: deregistering what is not registered", "loop", l.name, "what", what, "err", err)
		return
	}
	l.log.Error("eddy: deregistering failed", "loop", l.name, "what", what, "err", err)
}

func isPollerClosed(err error) bool { return errors.Is(err, sys.ErrPollerClosed) }
