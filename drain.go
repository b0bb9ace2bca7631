package eddy

import (
	"context"
	"errors"
)

// DrainReport says what became of the connections that were open when Shutdown began, or were accepted just before.
type DrainReport struct {
	Drained int // ended in order
	Forced  int // cut at the deadline
	Dropped int // requests that were in flight on the forced ones
}

var errForced = errors.New("eddy: shutdown deadline passed")

// drainBatch is the number of slots that are told to drain in one iteration.
const drainBatch = 256

// startDrain begins to end the loop's connections in order.
func (l *loop) startDrain() {
	l.draining = true
	l.cursor = 0
}

// continueDrain tells the next connections, a bounded number per iteration.
func (l *loop) continueDrain() {
	if !l.draining || l.cursor >= len(l.slots) {
		return
	}
	end := min(l.cursor+drainBatch, len(l.slots))
	for ; l.cursor < end; l.cursor++ {
		if c := l.slots[l.cursor]; c != nil && c.end == nil {
			l.drainConn(c)
		}
	}
}

// drainConn tells a connection's handlers, takes what the peer has sent so far and ends the connection as soon as
// nothing is left to do. What arrives later meets an orderly end of stream.
func (l *loop) drainConn(c *Conn) {
	defer l.contain(c)
	c.draining = true
	c.drainFlag.Store(true)
	c.fireEventFromHead(DrainEvent{})
	if c.end == nil && !c.eof && !c.readPaused() && !c.framesInHand() {
		c.frames = frameBudget
		c.readLoop()
	}
	l.afterActivity(c)
}

// checkDrain ends a connection whose end was put off, or a draining or half-closed one that has become idle.
func (c *Conn) checkDrain() {
	switch {
	case c.late != nil:
		c.closeFlushed(c.late.Reason, c.late.Err)
	case c.end != nil || !c.draining && !c.eof || !c.idle():
	case c.draining:
		c.closeFlushed(CloseServerShutdown, nil)
	default:
		c.checkHalfClosed()
	}
}

// idle reports that no request is being read, handled or answered.
func (c *Conn) idle() bool {
	return c.inflight.Load() == 0 && c.encoding.Load() == 0 && c.transit.Load() == 0 && c.queued.Load() == 0 && c.in == nil
}

// checkDrainTask follows the end of the last request in flight. It runs after the tasks that request submitted.
func (c *Conn) checkDrainTask() {
	c.drainTask.Store(false)
	c.loop.afterActivity(c)
}

// Shutdown ends the server in order (DESIGN section 4): it stops accepting, tells the protocols, lets requests in
// flight finish and their responses go out, closes each connection when it is idle, and, when ctx ends, closes the rest
// at once. The error is ctx's if it came to that. Any goroutine but a loop, where it returns ErrOnLoop.
func (s *Server) Shutdown(ctx context.Context) (DrainReport, error) {
	e := s.running()
	if e != nil && e.onLoop() {
		return DrainReport{}, ErrOnLoop
	}
	if e == nil || !e.phase.CompareAndSwap(int32(serverRunning), int32(serverDraining)) {
		return DrainReport{}, ErrServerClosed
	}
	open := int(s.active.Load())
	e.stopAccepting()
	for _, l := range e.workers {
		e.do(l, l.startDrain)
	}
	err := s.waitIdle(ctx)
	e.phase.CompareAndSwap(int32(serverDraining), int32(serverClosing)) // unless Close came meanwhile
	if err != nil {
		e.force(errForced)
	}
	e.stop()
	forced, dropped := int(e.forced.Load()), int(e.dropped.Load())
	return DrainReport{Drained: max(0, open-forced), Forced: forced, Dropped: dropped}, err
}

// Close ends the server at once; every connection closes with CloseServerShutdown. It returns nil when the server has
// stopped, also when it had before. Any goroutine but a loop, where it returns ErrOnLoop.
func (s *Server) Close() error {
	e := s.running()
	if e == nil {
		return nil
	}
	if e.onLoop() {
		return ErrOnLoop
	}
	if e.phase.CompareAndSwap(int32(serverRunning), int32(serverClosing)) ||
		e.phase.CompareAndSwap(int32(serverDraining), int32(serverClosing)) {
		e.stopAccepting()
		e.force(nil)
		e.stop()
	}
	<-e.stopped
	return nil
}

// waitIdle returns nil when the last connection has ended, or ctx's error.
func (s *Server) waitIdle(ctx context.Context) error {
	for s.active.Load() > 0 {
		select {
		case <-s.released:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// force ends what is still open and counts it.
func (e *engine) force(cause error) {
	for _, l := range e.workers {
		e.do(l, func() {
			for _, c := range l.slots {
				if c != nil && !c.inClosing {
					e.forced.Add(1)
					e.dropped.Add(int64(c.inflight.Load()))
				}
			}
			l.closeAll(CloseServerShutdown, cause)
		})
	}
}

// do runs f on the loop and waits for it, or for the end of the loop.
func (e *engine) do(l *loop, f func()) {
	ran := make(chan struct{})
	err := l.tasks.push(task{kind: taskFunc, msg: func() {
		defer close(ran)
		f()
	}}, true)
	if err != nil {
		return
	}
	select {
	case <-ran:
	case <-l.done:
	}
}

// stop ends the loops, workers first, and waits for them.
func (e *engine) stop() {
	e.stopOnce.Do(func() {
		for _, l := range e.workers {
			e.do(l, func() { l.stopping = true })
		}
		for _, l := range e.workers {
			<-l.done
		}
		e.do(e.boss, func() { e.boss.stopping = true })
		<-e.boss.done
		e.acceptor.release()
		e.phase.Store(int32(serverStopped))
		close(e.stopped)
	})
	<-e.stopped
}
