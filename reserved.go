package eddy

import "math"

// Reserved is a message that counts as queued on a connection before it is written. Use it for an answer that exists and has
// to wait for its turn, or that a pool has made and the loop will write. Embed it in the protocol's own type for a request.
// The zero value holds no message.
//
// No bound refuses a Reserved, because its memory is in use already. Bound the requests instead. One goroutine at a time may
// use it.
type Reserved struct {
	conn *Conn
	msg  any
	n    int
}

// Init counts the bytes of msg as queued on c until Write or Release; the length of a message that the pipeline has to
// encode is an estimate. Init takes ownership of msg, as Write does. If the queue passes the high watermark, the
// connection becomes unwritable and its reads pause. Any goroutine, also after the close.
func (m *Reserved) Init(c *Conn, msg any) {
	n := sizeOf(msg)
	*m = Reserved{c, msg, n}
	if c.set.owner.budget.limit > 0 {
		c.cell().pending.Add(int64(n))
	}
	c.extend().reserved.Add(int64(n))
	if q := c.queued.Add(int64(n)); q >= c.high() && !c.shows(unwritable) {
		c.postReadState()
	}
}

// Len returns the number of bytes that count, 0 without a message.
func (m *Reserved) Len() int { return m.n }

// Write passes the message towards the head, from ctx, whatever else is queued meanwhile. The bounds for outbound bytes are
// not applied again. Afterwards m holds no message. Loop only. Errors: ErrClosed.
func (m *Reserved) Write(ctx *Context) error {
	c, msg := m.conn, m.msg
	if c == nil {
		return nil
	}
	m.uncount()
	l := c.loop
	was := l.inHand.granted
	l.inHand.granted = math.MaxInt
	err := ctx.writeOnLoop(msg)
	l.inHand.granted = was
	if c.phase < PhaseClosing { // a handler may have kept or dropped the message
		if c.shows(unwritable | toldFull | writersWait) {
			c.noteWatermarks()
		}
		if l.batch != c && !c.has(listedDirty) {
			c.account()
		}
	}
	return err
}

// Release drops the message, because nobody will get it. Afterwards m holds no message. Any goroutine, also after the close.
func (m *Reserved) Release() {
	c, msg := m.conn, m.msg
	if c == nil {
		return
	}
	if m.uncount() > 0 {
		c.postReadState() // the loop may have seen the queue with these bytes in it
	}
	release(msg)
}

// uncount makes m the zero value and returns how many bytes have counted.
func (m *Reserved) uncount() int {
	c, n := m.conn, m.n
	*m = Reserved{}
	if n > 0 {
		c.queued.Add(-int64(n))
		c.ext.Load().reserved.Add(-int64(n))
		c.submitted(n)
	}
	return n
}
