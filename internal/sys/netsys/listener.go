package netsys

import (
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

const (
	// acceptAhead is how many connections may wait for Accept outside the kernel's queue.
	acceptAhead = 16
	// acceptPatience is how long the Accept that follows a failed one waits; see listener.retry.
	acceptPatience = 2 * time.Millisecond
)

// listener is a listening socket. Its goroutine takes connections from the kernel while there is room for them here. It
// ends with an error, which Accept returns once.
type listener struct {
	node
	sys       *System
	ln        net.Listener
	file      *socketFile // of a unix listener
	run       func()      // accept, as a value that costs nothing to start
	queue     []*conn     // not yet given to Accept
	err       error       // not yet returned by Accept
	accepting bool
	failed    bool          // the last attempt brought an error, which Accept has returned
	single    bool          // the goroutine makes one attempt
	recalled  bool          // the goroutine was called back and will not run again
	attempted chan struct{} // gets a token when an attempt has ended
}

func (s *System) newListener(ln net.Listener, file *socketFile) (*listener, error) {
	l := &listener{sys: s, ln: ln, file: file, attempted: make(chan struct{}, 1)}
	l.what, l.run = l, l.accept
	if err := s.table.insert(&l.node); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *listener) ready(in sys.Interest) sys.Ready {
	if in&sys.Read != 0 && (len(l.queue) > 0 || l.err != nil) {
		return sys.Readable
	}
	return 0
}

// watch starts the goroutine if a poller wants to know what it finds.
func (l *listener) watch(in sys.Interest) {
	if in&sys.Read != 0 && l.err == nil && len(l.queue) < acceptAhead && !l.closed && !l.recalled {
		l.failed = false
		l.start()
	}
}

func (l *listener) start() {
	l.single = false
	if !l.accepting {
		l.accepting = true
		go l.run()
	}
}

// take is Sockets.Accept.
func (l *listener) take() (*conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed && len(l.queue) == 0 && l.err == nil && !l.closed {
		l.retry()
	}
	switch {
	case l.closed:
		return nil, syscall.EBADF
	case len(l.queue) > 0:
		c := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		if !l.failed {
			l.watch(sys.Read)
		}
		return c, nil
	case l.err != nil:
		err := l.err
		l.err, l.failed = nil, true
		return nil, err
	}
	l.watch(sys.Read)
	return nil, sys.ErrAgain
}

// retry makes one attempt and waits briefly for its outcome. Its caller was told that descriptors have run out and has
// given up the one that it kept for this. It takes one again as soon as Accept returns, so an outcome after that comes
// too late. Under mu, which retry gives up meanwhile.
func (l *listener) retry() {
	select {
	case <-l.attempted:
	default:
	}
	if !l.accepting {
		l.accepting, l.single = true, true
		go l.run()
	}
	l.mu.Unlock()
	l.awaitAttempt()
	l.mu.Lock()
	if l.accepting { // the goroutine waits for the next connection, and goes on with those that follow
		l.failed = false
	}
}

// takeLast is Sockets.AcceptLast. While the system has a connection, the goroutine is about to bring it. Afterwards
// takeLast recalls the goroutine, with a connection that it may have in hand.
func (l *listener) takeLast() (*conn, error) {
	for {
		c, err := l.take()
		if err != sys.ErrAgain { //nolint:errorlint // the very value
			return c, err
		}
		l.mu.Lock()
		recalled, over := l.recalled, !l.accepting && len(l.queue) == 0
		l.mu.Unlock()
		switch {
		case recalled && over:
			return nil, sys.ErrAgain
		case !recalled && !l.pending():
			l.recall()
		default:
			l.awaitAttempt()
		}
	}
}

// recall makes the goroutine end. That of a listener without deadlines ends with the listener only, and what it brings
// until then comes too late.
func (l *listener) recall() {
	ln, ok := l.ln.(interface{ SetDeadline(time.Time) error })
	l.mu.Lock()
	l.recalled = true
	l.accepting = l.accepting && ok
	l.mu.Unlock()
	if ok {
		_ = ln.SetDeadline(time.Unix(1, 0)) // an error means that it is closed
	}
}

// awaitAttempt waits briefly for the goroutine, because a peer that has gone meanwhile may have left that waiting.
func (l *listener) awaitAttempt() {
	timer := time.NewTimer(acceptPatience)
	defer timer.Stop()
	select {
	case <-l.attempted:
	case <-timer.C:
	}
}

// brings reports whether the goroutine has brought something, or is about to.
func (l *listener) brings() bool {
	select {
	case <-l.attempted: // of an attempt whose outcome take has found
	default:
	}
	if !l.brought() {
		l.awaitAttempt()
	}
	return l.brought()
}

func (l *listener) brought() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0 || l.err != nil
}

// accept is the listener's goroutine.
func (l *listener) accept() {
	for more := true; more; {
		c, err := l.next()
		l.mu.Lock()
		switch {
		case l.closed:
			if c != nil {
				defer c.discard()
			}
		case err != nil:
			if !l.recalled {
				l.err = err
			}
		default:
			l.queue = append(l.queue, c)
		}
		more = err == nil && !l.closed && !l.single && len(l.queue) < acceptAhead
		l.accepting = more
		select {
		case l.attempted <- struct{}{}:
		default:
		}
		l.update()
		l.mu.Unlock()
	}
}

// next waits for a connection.
func (l *listener) next() (*conn, error) {
	nc, err := l.ln.Accept()
	if err != nil {
		return nil, errno(err)
	}
	c, err := l.sys.newConn(streamOf(nc))
	if err != nil {
		_ = nc.Close() // no place in the table: the error says so
		return nil, err
	}
	return c, nil
}

// discard resets a connection that Accept has not returned.
func (c *conn) discard() {
	if _, err := c.sys.table.remove(c.fd); err == nil {
		c.mu.Lock()
		c.closed, c.lossy = true, true
		c.mu.Unlock()
		c.finish()
	}
}

// close ends listening. It waits until the goroutine has left package net, which takes no longer than the scheduler
// needs to run that, so the address is free afterwards. Connections that Accept has not returned are reset, as the
// kernel does.
func (l *listener) close() error {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	l.file.remove()
	err := errno(l.ln.Close())
	for _, c := range queue {
		c.discard()
	}
	return err
}

// socketFile is the file of a unix listener.
type socketFile struct {
	path string
	info os.FileInfo
}

// remove removes the file, unless another server has replaced it.
func (f *socketFile) remove() {
	if f == nil {
		return
	}
	if now, err := os.Lstat(f.path); err == nil && os.SameFile(f.info, now) {
		_ = os.Remove(f.path) // a file that stays is found stale by the next server
	}
}

// reserve is a descriptor whose only purpose is to be closed.
type reserve struct {
	node
	file *os.File
}

func (r *reserve) ready(sys.Interest) sys.Ready { return 0 }
func (r *reserve) watch(sys.Interest)           {}
func (r *reserve) close() error                 { return errno(r.file.Close()) }
