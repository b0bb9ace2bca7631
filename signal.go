package eddy

import "sync/atomic"

// Signal runs a function on a connection's loop each time it is raised. Use it to tell the loop that work elsewhere has
// ended, which must not be lost and for which a worker must not wait. Store the data for the function before calling
// Raise.
//
// Raise is never refused for want of room, because signals bypass the bound of the loop's queue. So use a fixed number of
// signals per connection.
type Signal struct {
	conn   *Conn
	run    func()
	raised atomic.Bool
}

// Init makes s a signal of c that runs f. Call it once, before the first Raise.
func (s *Signal) Init(c *Conn, f func()) { s.conn, s.run = c, f }

// Raise runs the function on the loop, in order with tasks and writes from other goroutines. If s is already raised and
// its run has not begun, that run serves both. The function also runs when the connection has ended. Any goroutine; Raise
// never blocks. Errors: ErrClosed when the loop has ended; the function does not run then.
func (s *Signal) Raise() error {
	if s.raised.Swap(true) {
		return nil
	}
	err := s.conn.loop.Tasks.PushControl(task{kind: taskSignal, conn: s.conn, msg: s})
	if err != nil {
		s.raised.Store(false)
	}
	return err
}

// deliver runs the signal's task. A Raise from here on queues another one. Messages that were reserved elsewhere are
// counted here for the first time.
func (s *Signal) deliver() {
	s.raised.Store(false)
	s.run()
	if c := s.conn; c.phase < PhaseClosing {
		c.writeSettled()
	} else {
		c.account()
	}
}
