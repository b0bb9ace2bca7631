package websocket

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-eddy/eddy"
)

// inflate decompresses a message. A message of more than inflateStep bytes is
// inflated in steps, with reads of its connection paused. Between the steps the
// loop serves its other connections, so they wait for one step at most.
func (c *Conn) inflate(ev event) {
	if c.closing.Load() {
		return // neither this message nor later ones that refer to it are delivered
	}
	d := c.deflate
	d.op, d.packed = ev.op, len(ev.data)
	d.work = d.getInflater(ev.data, d.history())
	if !c.inflateOn() {
		c.pause(&c.pauses.work, true)
	}
}

// history returns the bytes that the peer's messages may refer to.
func (d *deflateState) history() []byte {
	if !d.inTakeover {
		return nil
	}
	return d.received.b
}

// inflateLater schedules the next step for a later iteration. It reports false
// when the connection has ended.
func (c *Conn) inflateLater() bool {
	_, err := c.ctx.After(0, func() {
		if c.deflate.work != nil && c.inflateOn() {
			c.pause(&c.pauses.work, false)
		}
	})
	return err == nil
}

// inflateOn does one step and reports whether the message is finished with.
func (c *Conn) inflateOn() bool {
	d := c.deflate
	if c.over {
		d.drop()
		return true
	}
	done, err := d.work.step(c.cfg.MaxMessage, d.history())
	switch {
	case errors.Is(err, errBomb):
		c.violated(&violation{CloseMessageTooBig, fmt.Sprintf("message over the limit of %d bytes", c.cfg.MaxMessage)})
	case err != nil:
		c.violated(errInflate)
	case !done && !d.admitted && !d.large.take(c):
		d.park()
		return false
	case !done:
		d.admitted = true
		return !c.inflateLater()
	default:
		c.inflated()
	}
	d.drop()
	return true
}

// inflated delivers the message in work.
func (c *Conn) inflated() {
	d := c.deflate
	data := d.work.out
	if d.op == Text && !utf8.Valid(data) {
		c.violated(errNotUTF8)
		return
	}
	if d.inTakeover {
		d.received.slide(data)
	}
	d.in.add(len(data), d.packed)
	c.deliver(d.op, data)
}

// drop forgets the message in work, or the parked one, and leaves its place.
func (d *deflateState) drop() {
	if d.work != nil {
		d.putInflater(d.work)
		d.work = nil
	}
	d.parked = nil
	if d.admitted {
		d.admitted = false
		d.large.leave()
	}
}

// releaseDeflate gives back what compression holds for the connection.
func (c *Conn) releaseDeflate() {
	d := c.deflate
	if d == nil {
		return
	}
	d.drop()
	c.mu.Lock()
	d.sent.b = nil
	c.mu.Unlock()
	d.received.b = nil
	d.giveBack(d.window())
}

var _ eddy.Decoder = endpoint{}
