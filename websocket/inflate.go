package websocket

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-eddy/eddy"
)

// inflate decompresses a message. One of more than inflateStep bytes is done in
// steps, with turns of the loop's other connections in between and reads paused
// meanwhile, so that it delays them by no more than a step.
func (c *Conn) inflate(ev event) {
	if c.closing.Load() {
		return // nobody will read it, nor what would refer to it
	}
	d := c.deflate
	d.op, d.packed = ev.op, len(ev.data)
	d.work = d.getInflater(ev.data, d.history())
	if !c.inflateOn() {
		c.pause(&c.pauses.work, true)
	}
}

// history returns what the peer may refer to.
func (d *deflateState) history() []byte {
	if !d.inTakeover {
		return nil
	}
	return d.received.b
}

// inflateLater continues in a later iteration.
func (c *Conn) inflateLater() bool {
	_, err := c.ctx.After(0, func() {
		if c.deflate.work != nil && c.inflateOn() {
			c.pause(&c.pauses.work, false)
		}
	})
	return err == nil // else the connection has ended
}

// inflateOn makes a step and reports whether it was the last.
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

// drop ends the message in work, or the one that waits.
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
