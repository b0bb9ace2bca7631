package eddy

import (
	"github.com/go-eddy/eddy/buf"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/transport"
)

// This file gives what is queued to the kernel.

// flush writes what is queued, at most writeCallBudget calls; what the kernel does not take waits for writability.
func (c *Conn) flush() {
	if c.has(listedClose) {
		return
	}
	for calls := writeCallBudget; calls > 0; calls-- {
		if c.out.Head == nil {
			c.flushed()
			return
		}
		if c.has(marked) {
			if c.offer(); c.out.Head == nil {
				continue
			}
		}
		var n, offered int
		var err error
		if u := c.fileAtHead(); u != nil {
			calls -= fileCalls - 1
			if n, offered, err = u.File.(source).send(c, u.Left); n > 0 {
				c.fileSent(u, n)
			}
		} else if n, offered, err = c.writeSome(); n > 0 {
			c.sent(n)
		}
		c.wrote(n)
		if !c.tookAll(n, offered, err) {
			return
		}
	}
	if c.out.Head == nil {
		c.flushed()
		return
	}
	c.writeStuck()                        // still writable, or full to the byte: nobody knows
	c.setInterest(c.interest | sys.Write) // others first, the poller brings it back
	c.noteWatermarks()                    // last: the handlers that it tells may write, and end the connection
}

// wrote counts a write.
func (c *Conn) wrote(n int) {
	l := c.loop
	l.Counters[meter.Writes]++
	if n > 0 {
		l.Counters[meter.BytesOut] += uint64(n)
		c.lastActive = l.Now
		if r := c.rare(); r != nil {
			r.progress.Took(n, l.Now, c.set.minRate)
		}
	}
}

// tookAll reports whether the kernel took all that a write has offered. It ends the connection after an error, and waits
// for writability when there is no room.
func (c *Conn) tookAll(n, offered int, err error) bool {
	if err != nil && err != sys.ErrAgain { //nolint:errorlint // pre-allocated sentinel of the hot path
		c.writeFailed(err)
		return false
	}
	if n < offered {
		c.writeStuck()
		c.setInterest(c.interest | sys.Write)
		c.noteWatermarks() // last, see flush
		return false
	}
	return true
}

// writeSome makes one system call with as many segments as it takes.
func (c *Conn) writeSome() (n, offered int, err error) {
	l := c.loop
	first := c.out.Head
	if first.Next == nil {
		n, err = l.sock.Write(c.fd, first.Bytes())
		return n, first.Len(), err
	}
	bufs, offered := c.out.Gather(l.mem.gather[:0])
	n, err = l.sock.Writev(c.fd, bufs)
	clear(bufs)
	return n, offered, err
}

// sent takes n written bytes off the queue.
func (c *Conn) sent(n int) {
	c.queued.Add(-int64(n))
	for left := n; left > 0; {
		s := c.out.Head
		k := s.Len()
		if k > left {
			s.Consume(left)
			break
		}
		left -= k
		c.giveBack(c.out.Pop())
	}
	if c.has(marked) {
		c.passed(n)
	}
}

// writeFailed ends a connection that could not be written to, or whose file could not be read.
func (c *Conn) writeFailed(err error) {
	if fe, ok := err.(*fileError); ok { //nolint:errorlint // our own type, returned bare
		c.beginClose(CloseInternalError, fe)
		return
	}
	c.ioFailed("write", err)
}

// giveBack ends a segment of the queue. In a build with the tag eddydebug it finds slices that were changed after Write.
func (c *Conn) giveBack(s *buf.Segment) {
	if err := s.Verify(); err != nil {
		c.loop.Log.Error("eddy: outbound bytes were changed after they were written", "conn", c.ID(), "err", err)
		c.beginClose(CloseInternalError, err)
	}
	c.loop.mem.segments.Put(s)
}

// giveBackAll ends the segments of q.
func (c *Conn) giveBackAll(q transport.Queue) {
	for q.Head != nil {
		c.giveBack(q.Pop())
	}
}

// flushed runs when the last queued byte was written.
func (c *Conn) flushed() {
	if c.has(marked) {
		c.endMarks()
	}
	c.writeFree()
	c.setInterest(c.interest &^ sys.Write)
	c.noteWatermarks() // before what follows, which looks at what the handlers have done
	if c.phase == PhaseWriting {
		if c.counts.inflight.Load() > 0 {
			c.setPhase(PhaseWaitingForResponse)
		} else {
			c.setPhase(PhaseReadingHeader)
		}
	}
	switch {
	case c.out.Head != nil:
	case c.has(finishing):
		c.startLinger()
	default:
		c.checkHalfClosed()
	}
}

// What follows is about how far a slow peer takes what is queued for it, see transport.Progress.

// writeStuck notes that more waits than the kernel could take.
func (c *Conn) writeStuck() {
	if c.progress().Stuck != 0 {
		return
	}
	c.rarely().progress.Stuck = c.loop.Now
	c.watchProgress()
	c.armDeadline()
}

// writeFree undoes writeStuck: nothing waits any more.
func (c *Conn) writeFree() {
	if r := c.rare(); r != nil {
		r.progress.Free()
	}
}

// watchProgress asks the system for the first time, if any limit depends on the peer's progress.
func (c *Conn) watchProgress() {
	r, d := c.rare(), c.limits()
	if r == nil || r.progress.Stuck == 0 || r.progress.Asked() || d.Write|d.Backpressure|d.Idle == 0 {
		return
	}
	if n, err := c.loop.sock.Unacked(c.fd); err == nil {
		r.progress.Ask(c.loop.Now, n)
	}
}

// askProgress asks the system how much the peer has acknowledged since the last time, and extends the deadlines
// accordingly.
func (c *Conn) askProgress() {
	r := c.rare()
	if r == nil || !r.progress.Asked() {
		return
	}
	unacked, err := c.loop.sock.Unacked(c.fd)
	if r.progress.Answer(unacked, err, c.loop.Now, c.set.minRate) {
		c.lastActive = c.loop.Now
	}
}

// progress returns how the peer of a connection stands that is slow; the zero value for others.
func (c *Conn) progress() (p transport.Progress) {
	if r := c.rare(); r != nil {
		p = r.progress
	}
	return p
}

// breachBegins and breachEnds time how long the outbound queue stays above its high watermark.
func (c *Conn) breachBegins() {
	c.rarely().progress.High = c.loop.Now
	if c.limits().Backpressure > 0 {
		c.armDeadline()
	}
}

func (c *Conn) breachEnds() {
	if r := c.rare(); r != nil {
		r.progress.High = 0
	}
}
