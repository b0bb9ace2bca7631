package eddy

import (
	"errors"
	"time"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/transport"
)

const (
	// maxPipes bounds the pipes of a loop that hold bytes, and maxIdlePipes those that it keeps for the next time.
	maxPipes     = 64
	maxIdlePipes = 4
	// spliceFrom is how many bytes at once make it pay to splice the next ones (BenchmarkEcho of package relay).
	spliceFrom = 16 << 10
	// pipeRetry is how long a loop that was refused a pipe does not ask for one.
	pipeRetry = time.Second
)

// SpliceTo lets the kernel move what this connection's peer sends in bulk into the outbound queue of the connection of to.
// The bytes then enter neither the process nor a handler. moved is told how many they are, on the loop, and must not
// block. All other bytes come to HandleRead as before. So call it in a relay whose HandleRead writes everything to to:
//
//	ctx.SpliceTo(peer, func(n int) { total += n })
//
// Moved bytes take their place between what is written to to, and count as queued there. This connection is not read until
// they have left the queue. The end of the stream and errors come as without SpliceTo.
//
// Nothing is moved between two loops, or on systems without splice. Nor is it while a handler that reads or writes stands in
// front of ctx or to, or to's connection is unwritable or has ended its stream. That is looked at each time, so
// pipelines may change. A nil to ends it. Loop only; after the close it does nothing.
func (ctx *Context) SpliceTo(to *Context, moved func(n int)) {
	r := ctx.conn.rarely()
	if r.door = nil; to != nil && to.conn.loop == ctx.conn.loop {
		r.door = &door{from: ctx, to: to, moved: moved}
	}
}

// door is a way for bytes past the handlers, see Context.SpliceTo.
type door struct {
	from, to *Context
	moved    func(n int)
}

// open reports whether bytes that arrive now may go through.
func (d *door) open() bool {
	c, to := d.from.conn, d.to.conn
	switch {
	case c.paused != 0 || c.in.Held() || c.innerBytes() > 0:
		return false
	case to.phase >= PhaseClosing || to.has(outputEnds|outputEnded) || !to.roomy():
		return false
	case to.has(marked) && len(to.outMarks().Units()) >= transport.MaxUnits:
		return false
	}
	return d.from.bare() && d.to.bare()
}

// bare reports whether ctx reads what the peer has sent, and writes what it is sent.
func (ctx *Context) bare() bool {
	for at := ctx.conn.head; at != nil && at.node.pool == nil; at = at.next.Load() {
		if at == ctx {
			return true
		}
		if at.node.ops&(opRead|opWrite) != 0 {
			return false
		}
	}
	return false
}

// spliced moves what has arrived into the queue that it is for. It returns false if there is no way; then it must be read.
func (c *Conn) spliced() bool {
	r := c.rare()
	if r == nil || r.door == nil || !r.door.open() {
		return false
	}
	l, d := c.loop, r.door
	p := l.lendPipe()
	if p == nil {
		return false
	}
	to := d.to.conn
	room := max(int(to.high()-to.queued.Load()), scratchSize) // as a read may bring
	n, err := l.sock.SpliceIn(c.fd, p.Pipe, min(room, p.Size, fileWindow, readByteBudget))
	c.noteBulk(n)
	if n <= 0 || err != nil {
		p.Release()
		if errors.Is(err, errors.ErrUnsupported) {
			r.door = nil
			return false
		}
		c.readEnded(err)
		return true
	}
	c.received(n)
	l.Counters[meter.Spliced] += uint64(n)
	c.paused |= pauseSplice
	p.from, p.left = c, n
	to.enqueuePipe(p)
	d.tell(n)
	return true
}

// tell calls the handler's function.
func (d *door) tell(n int) {
	if d.moved == nil {
		return
	}
	l := d.from.conn.loop
	prev := l.inHand.ctx
	l.inHand.ctx = d.from
	d.moved(n)
	l.inHand.ctx = prev
}

// enqueuePipe queues the bytes of a pipe.
func (c *Conn) enqueuePipe(p *pipe) {
	place := c.loop.mem.segments.Adopt(nil)
	c.pushUnit(transport.Queue{Head: place, Tail: place}, 1, unit{File: p, Left: int64(p.left)})
	c.count(p.left)
}

// pipe holds bytes on their way from one connection to another, in whose queue it stands. It is never filled up: a pipe
// that takes nothing more is not told from a peer that has sent nothing more.
type pipe struct {
	sys.Pipe
	loop *loop
	from *Conn // whose reads wait for the end of the pipe
	left int   // bytes in it
}

// send implements source.
func (p *pipe) send(c *Conn, _ int64) (n, offered int, err error) {
	offered = p.left
	n, err = c.loop.sock.SpliceOut(c.fd, p.Pipe, offered)
	p.left -= max(n, 0)
	return n, offered, err
}

// Release implements source. An empty pipe is used again. One that is not is closed, with the bytes that the end of their
// connection has lost. In both cases the connection that they came from is read again.
func (p *pipe) Release() {
	l, from := p.loop, p.from
	l.mem.pipes.takeBack(l, p)
	if from == nil {
		return
	}
	from.paused &^= pauseSplice
	if from.phase < PhaseClosing && !from.readPaused() {
		from.markReady()
	}
}

// pipes are those of a loop.
type pipes struct {
	idle  []*pipe // empty
	lent  int
	later int64 // when to ask for one again, after a refusal
}

// lendPipe returns an empty pipe, or nil if there is none to be had.
func (l *loop) lendPipe() *pipe {
	ps := &l.mem.pipes
	n := len(ps.idle)
	switch {
	case ps.lent >= maxPipes || n == 0 && l.Now < ps.later:
		return nil
	case n == 0:
		p, err := l.sock.OpenPipe(fileWindow)
		if err != nil {
			ps.later = l.timeout(pipeRetry)
			return nil
		}
		ps.idle = append(ps.idle, &pipe{Pipe: p, loop: l})
		n = 1
	}
	p := ps.idle[n-1]
	ps.idle = ps.idle[:n-1]
	ps.lent++
	return p
}

func (ps *pipes) takeBack(l *loop, p *pipe) {
	ps.lent--
	if p.left == 0 && len(ps.idle) < maxIdlePipes {
		p.from = nil
		ps.idle = append(ps.idle, p)
		return
	}
	l.closePipe(p)
}

func (l *loop) closePipe(p *pipe) {
	if err := l.sock.ClosePipe(p.Pipe); err != nil {
		l.Log.Error("eddy: closing a pipe failed", "loop", l.Name, "err", err)
	}
}

// closePipes closes the pipes that a loop keeps, because it ends.
func (l *loop) closePipes() {
	for _, p := range l.mem.pipes.idle {
		l.closePipe(p)
	}
	l.mem.pipes.idle = nil
}
