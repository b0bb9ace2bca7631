//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package poll

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// glance is the time between two checks of the descriptors under sys.None.
const glance = 250 * time.Millisecond

// quiet holds the descriptors under sys.None of a poller over select(2) or
// kqueue. These report nothing about such descriptors, not even that the peer
// has gone. poll(2) does, so quiet asks it now and then. Otherwise a connection
// that is paused when its peer dies would stay forever.
type quiet struct {
	fds   []unix.PollFd // dense
	index map[int]int   // descriptor → place in fds
	next  time.Time     // when to check again
}

// watch follows a change of interest. A descriptor that look has reported comes
// back with its next change.
func (q *quiet) watch(fd int, in sys.Interest) {
	_, known := q.index[fd]
	switch {
	case in == sys.None && !known:
		if q.index == nil {
			q.index = make(map[int]int)
		}
		q.index[fd] = len(q.fds)
		q.fds = append(q.fds, unix.PollFd{Fd: int32(fd)})
	case in != sys.None && known:
		q.drop(fd)
	}
}

func (q *quiet) drop(fd int) {
	i, ok := q.index[fd]
	if !ok {
		return
	}
	last := len(q.fds) - 1
	q.fds[i] = q.fds[last]
	q.index[int(q.fds[i].Fd)] = i
	delete(q.index, fd)
	q.fds = q.fds[:last]
}

// wait is a Wait made of shorter ones, with checks between them. once waits and
// also reports whether it was woken; token returns the token of a descriptor.
func (q *quiet) wait(events []sys.Event, timeout time.Duration,
	once func([]sys.Event, time.Duration) (int, bool, error), token func(fd int) uint64,
) (int, error) {
	if len(q.fds) == 0 {
		n, _, err := once(events, timeout)
		return n, err
	}
	start := time.Now()
	for {
		now := time.Now()
		part := max(0, q.next.Sub(now))
		if timeout >= 0 {
			part = min(part, max(0, timeout-now.Sub(start)))
		}
		n, woken, err := once(events, part)
		if err != nil {
			return 0, err
		}
		now = time.Now()
		if !now.Before(q.next) {
			q.next = now.Add(glance)
			n += q.look(events[n:], token)
		}
		if n > 0 || woken || timeout >= 0 && now.Sub(start) >= timeout {
			return n, nil
		}
	}
}

// look reports each descriptor that has failed once.
func (q *quiet) look(events []sys.Event, token func(fd int) uint64) int {
	if found, err := unix.Poll(q.fds, 0); found == 0 || err != nil {
		return 0 // the next check makes up for an interrupted one
	}
	n := 0
	for i := len(q.fds) - 1; i >= 0 && n < len(events); i-- { // backwards, because drop moves the last
		f := q.fds[i]
		if f.Revents == 0 {
			continue
		}
		events[n] = sys.Event{Token: token(int(f.Fd)), Ready: pollReady(f.Revents)}
		n++
		q.drop(int(f.Fd))
	}
	return n
}
