package zookeeper

import (
	"sync"

	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// link has a session with the servers of its options, which it begins when it is first used. Any goroutine may call its methods.
type link struct {
	o    Options
	keep *keep.Keeper

	mu      sync.Mutex
	session *session       // nil before the first use
	ending  sync.WaitGroup // sessions that another one has replaced
}

// connected returns the session. Only registrations and watches of the keeper call it.
func (l *link) connected() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil && l.session.isOver() {
		l.ending.Go(l.session.close)
		l.session = nil
	}
	if l.session == nil {
		l.session = newSession(l.o, l.keep.Log())
	}
	return l.session
}

// close ends the session and waits for those before it, after the keeper was closed. A further call does nothing.
func (l *link) close() {
	l.mu.Lock()
	s := l.session
	l.session = nil
	l.mu.Unlock()
	if s != nil {
		s.close()
	}
	l.ending.Wait()
}
