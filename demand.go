package eddy

import (
	"math"
	"sync/atomic"
)

// Demand is a handler that lets through as many messages as were asked for: the pull of a stream's consumer. It holds back
// the rest by pausing reads, so that the peer slows down in the end. The zero Demand asks for nothing; call Request. Add one
// Demand per connection, behind the decoder. Leave Conn.PauseRead and ResumeRead to the Demand, which uses that switch.
type Demand struct {
	left atomic.Int64
	conn atomic.Pointer[Conn]
}

// Request asks for n more messages; n below 1 asks for nothing. Any goroutine, at any time.
func (d *Demand) Request(n int) {
	for n > 0 {
		old := d.left.Load()
		sum := old + int64(n)
		if sum < old {
			sum = math.MaxInt64
		}
		if d.left.CompareAndSwap(old, sum) {
			break
		}
	}
	if c := d.conn.Load(); c != nil && d.left.Load() > 0 {
		c.ResumeRead()
	}
}

// HandleOpen implements OpenHandler.
func (d *Demand) HandleOpen(ctx *Context) error {
	d.conn.Store(ctx.Conn())
	d.settle(ctx.Conn())
	return nil
}

// HandleRead implements ReadHandler.
func (d *Demand) HandleRead(ctx *Context, msg any) error {
	d.left.Add(-1)
	d.settle(ctx.Conn())
	ctx.FireRead(msg)
	return nil
}

// settle pauses when nothing more is asked for.
func (d *Demand) settle(c *Conn) {
	if d.left.Load() <= 0 {
		d.pause(c)
	}
}

// pause pauses reads. A Request made meanwhile finds the pause, or is found here.
func (d *Demand) pause(c *Conn) {
	c.PauseRead()
	if d.left.Load() > 0 {
		c.ResumeRead()
	}
}
