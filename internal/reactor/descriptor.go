package reactor

import (
	"slices"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Descriptor is what a loop watches beside the connections of its resident: a listener, an attempt to connect, a descriptor
// of the application.
type Descriptor struct {
	FD    int
	In    sys.Interest
	Ready func(sys.Ready) // called when it is
	Lost  func(error)     // told when a new poller does not take it, or the loop ends; nil = the loop tries again

	registered bool
}

// descriptors are those of a loop by token, which is below 1<<32. Tokens of the resident are above.
type descriptors struct {
	all     []*Descriptor
	unused  []uint32 // tokens that are free
	retired []uint32 // those that become free when the iteration is over
	removed int      // in this iteration
}

// Watch registers a descriptor with the poller. Loop only.
func (l *Loop[T]) Watch(d *Descriptor) (token uint64, err error) {
	s := &l.fds
	if n := len(s.unused); n > 0 {
		token = uint64(s.unused[n-1])
		s.unused = s.unused[:n-1]
		s.all[token] = d
	} else {
		token = uint64(len(s.all))
		s.all = append(s.all, d)
	}
	if err := l.Poller.Add(d.FD, d.In, token); err != nil {
		s.all[token] = nil
		s.unused = append(s.unused, uint32(token))
		return 0, err
	}
	d.registered = true
	return token, nil
}

// Rewatch changes the interest in a descriptor. Loop only.
func (l *Loop[T]) Rewatch(token uint64, in sys.Interest) error {
	d := l.fds.all[token]
	d.In = in
	if !d.registered {
		return nil // it will be registered with the new interest
	}
	return l.Poller.Modify(d.FD, in, token)
}

// Unwatch undoes Watch. The token is used again in the next iteration at the earliest, because this one may still hold
// events of it. Loop only.
func (l *Loop[T]) Unwatch(token uint64) error {
	s := &l.fds
	d := s.all[token]
	s.all[token] = nil
	s.retired = append(s.retired, uint32(token))
	if !d.registered {
		return nil
	}
	s.removed++
	return l.Poller.Remove(d.FD)
}

func (l *Loop[T]) reuseDescriptors() {
	s := &l.fds
	s.unused = append(s.unused, s.retired...)
	s.retired = s.retired[:0]
}

// Ready passes an event on to the descriptor it is of. It reports false when the event is one of the resident.
func (l *Loop[T]) Ready(ev sys.Event) bool {
	if ev.Token>>32 != 0 {
		return false
	}
	if d := l.fds.all[uint32(ev.Token)]; d != nil {
		d.Ready(ev.Ready)
	}
	return true
}

// readopt is how long the loop waits before it offers the poller a descriptor again that it has refused.
const readopt = 100 * time.Millisecond

// lose follows the refusal of a new poller to take a descriptor. The engine's own are offered to the poller again, because a
// server without its listener would look alive and be dead.
func (l *Loop[T]) lose(token uint64, err error) {
	d := l.fds.all[token]
	if d.Lost != nil {
		d.Lost(err)
		return
	}
	l.Log.Error("eddy: a descriptor is out of the poller", "loop", l.Name, "fd", d.FD, "err", err)
	_, _ = l.After(nil, readopt, func() { l.adopt(token, d) }) // no error for a delay that is not negative
}

func (l *Loop[T]) adopt(token uint64, d *Descriptor) {
	if l.fds.all[token] != d || d.registered || l.Stopping {
		return
	}
	if err := l.Poller.Add(d.FD, d.In, token); err != nil {
		l.lose(token, err)
		return
	}
	d.registered = true
}

// migrate registers the descriptors with a new poller, and reports those that cannot be as lost.
func (l *Loop[T]) migrate(old sys.Poller) (migrated, lost int) {
	for token, d := range slices.Clone(l.fds.all) { // whoever is told of a loss may register another one meanwhile
		if d == nil || !d.registered || l.fds.all[token] != d {
			continue
		}
		_ = old.Remove(d.FD) // the old poller may be unable to
		if err := l.Poller.Add(d.FD, d.In, uint64(token)); err != nil {
			d.registered = false
			l.lose(uint64(token), migrateError(err))
			lost++
			continue
		}
		migrated++
	}
	return migrated, lost
}

// loseDescriptors tells the owners of descriptors that the loop has ended.
func (l *Loop[T]) loseDescriptors() {
	for _, d := range l.fds.all {
		if d != nil && d.Lost != nil {
			d.Lost(ErrClosed)
		}
	}
}

// LogDeregister reports that a descriptor could not be taken out of the poller. That it is not there any more is harmless:
// it was closed behind the loop's back, and the kernel has forgotten it.
func (l *Loop[T]) LogDeregister(what string, err error) {
	switch {
	case err == nil:
	case sys.IsUnregistered(err):
		l.Log.Debug("eddy: deregistering what is not registered", "loop", l.Name, "what", what, "err", err)
	default:
		l.Log.Error("eddy: deregistering failed", "loop", l.Name, "what", what, "err", err)
	}
}
