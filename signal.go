package eddy

import "sync/atomic"

// Signal runs a function on a connection's loop whenever it is raised, and is never refused for want of room: it has a
// place in the loop's queue that is its own. It is how the end of work that was done elsewhere reaches the loop, which must
// not be lost and for which a worker must not wait. What the function is to do lies where it finds it, put there before
// Raise. A bounded number for each connection, please: the bound of the queue does not hold for them.
type Signal struct {
	conn   *Conn
	run    func()
	raised atomic.Bool
}

// Init makes s a signal of c that runs f. Before the first Raise, once.
func (s *Signal) Init(c *Conn, f func()) { s.conn, s.run = c, f }

// Raise has the function run on the loop, in its order among what is posted and written from other goroutines. When it is
// raised already, and has not begun to run, that run serves both. It runs also when the connection has ended. Any goroutine;
// it never blocks. Errors: ErrClosed when the loop has ended, and then the function does not run.
func (s *Signal) Raise() error {
	if s.raised.Swap(true) {
		return nil
	}
	err := s.conn.loop.tasks.push(task{kind: taskSignal, conn: s.conn, msg: s}, true)
	if err != nil {
		s.raised.Store(false)
	}
	return err
}

// deliver is the task. What is raised from here on asks for another.
func (s *Signal) deliver() {
	s.raised.Store(false)
	s.run()
}
