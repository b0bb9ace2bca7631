package eddy

import (
	"fmt"
	"sync/atomic"

	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/internal/transport"
)

// MessageClass says what happens when a peer reads too slowly for messages that lose their worth with time, such as
// positions, prices or typing marks. Only a whole message of which no byte was sent is dropped; other messages keep their
// order and their bytes. Connections share a class, and its bounds hold for each connection:
//
//	var ticks = &eddy.MessageClass{Name: "ticks", Policy: eddy.OverflowKeepLatest, MaxMessages: 1}
//	conn.Write(ticks.Wrap(data))
//
// Do not change a class after its first use.
type MessageClass struct {
	Name        string
	Policy      OverflowPolicy // what happens beyond a bound; Watermarks.Max is one of them
	MaxMessages int            // of the class that wait on a connection; 0 = up to 4096 of all classes
	MaxBytes    int            // of the class that wait on a connection; 0 = no bound of its own

	dropped, rejected atomic.Uint64
}

// ClassStats are the numbers of a class over all connections.
type ClassStats struct {
	Dropped  uint64 // taken and later dropped, or dropped at once
	Rejected uint64 // refused with ErrBackpressure
}

// Stats returns the numbers so far. Any goroutine.
func (k *MessageClass) Stats() ClassStats { return ClassStats{k.dropped.Load(), k.rejected.Load()} }

// Wrap makes a message of the class, for any Write. Handlers of the pipeline see msg itself; everything they make of it
// belongs to the message. Wrap takes ownership of msg, as Write does.
func (k *MessageClass) Wrap(msg any) any { return &classed{k, msg} }

// classed is a message with its class.
type classed struct {
	class *MessageClass
	msg   any
}

// Release implements Releaser.
func (m *classed) Release() { release(m.msg) }

// Detach implements Detacher.
func (m *classed) Detach() any {
	if d, ok := m.msg.(Detacher); ok {
		return &classed{m.class, d.Detach()}
	}
	return m
}

// ClassError reports a message that the policy of its class did not let through: a write was refused, or the message of a
// WriteFuture was dropped. To errors.Is it is an ErrBackpressure.
type ClassError struct {
	Class   *MessageClass
	Dropped bool  // false = refused
	Err     error // the bound that was met
}

// Error names the class and the bound.
func (e *ClassError) Error() string {
	fate := "refused"
	if e.Dropped {
		fate = "dropped"
	}
	return fmt.Sprintf("eddy: message of class %q was %s: %v", e.Class.Name, fate, e.Err)
}

// Unwrap returns the bound that was met.
func (e *ClassError) Unwrap() error { return e.Err }

// check names the first field of the class that makes no sense.
func (k *MessageClass) check() error {
	switch {
	case k.Policy >= overflowPolicies:
		return fmt.Errorf("eddy: MessageClass.Policy of %q is %d: it must be an Overflow constant", k.Name, k.Policy)
	case k.MaxMessages < 0 || k.MaxMessages > transport.MaxUnits:
		return fmt.Errorf("eddy: MessageClass.MaxMessages of %q is %d: it must be 0 to %d", k.Name, k.MaxMessages, transport.MaxUnits)
	case k.MaxBytes < 0:
		return fmt.Errorf("eddy: MessageClass.MaxBytes of %q is %d: it must not be negative", k.Name, k.MaxBytes)
	}
	return nil
}

// overflowOf returns the policy that msg is under.
func (c *Conn) overflowOf(msg any) OverflowPolicy {
	if m, ok := classOf(msg); ok {
		return m.class.Policy
	}
	return c.set.overflow
}

// refuseSubmitted decides about a message that another goroutine submits beyond Watermarks.Max. Classes that drop decide on
// the loop, which knows the queue, so up to twice Max their messages are let through.
func (c *Conn) refuseSubmitted(msg any, size int, err error) error {
	m, ok := classOf(msg)
	switch policy := c.overflowOf(msg); {
	case policy == OverflowClose:
		c.CloseWith(CloseBackpressureLimit, err)
	case ok && policy >= OverflowDropNewest && c.queued.Load()+int64(size) <= 2*int64(c.set.marks.Max):
		return nil
	}
	if ok {
		m.class.rejected.Add(1)
		return &ClassError{Class: m.class, Err: err}
	}
	return err
}

// collector gathers what one message of a class becomes on its way to the head of the pipeline.
type collector struct {
	conn  *Conn // nil when nothing is gathered
	class *MessageClass
	queue transport.Queue
	size  int

	futures []*writeFuture // of parts of the message; each counts it as one of theirs
}

// writeClassed passes a message on with pass and then queues everything that the message became, or nothing.
func (c *Conn) writeClassed(m *classed, pass func(msg any) error) error {
	k := &c.loop.out.collect
	if k.conn == c { // part of another message
		return pass(m.msg)
	}
	if c.streams() {
		return c.writeStreamed(m, pass)
	}
	if err := m.class.check(); err != nil {
		m.Release()
		return err
	}
	outer := *k // of another connection, whose handler writes to this one
	*k = collector{conn: c, class: m.class}
	done := false
	defer func() {
		if !done { // a handler panicked
			c.giveBackAll(k.queue)
		}
		*k = outer
	}()
	err := pass(m.msg)
	done = true
	made := *k
	*k = outer
	if err == nil && made.size > 0 {
		err = c.admitClassed(m.class, (*connQueue)(c), made.size)
		if err == nil {
			c.queueClassed(&made)
			return nil
		}
	}
	c.giveBackAll(made.queue)
	for _, w := range made.futures {
		w.partEnded(err, c.loop)
	}
	if err != nil {
		c.refused(err)
	}
	return unlessDropped(err)
}

// unlessDropped hides from the writer that the policy of a class has dropped its message.
func unlessDropped(err error) error {
	if e, ok := err.(*ClassError); ok && e.Dropped { //nolint:errorlint // our own type, returned bare
		return nil
	}
	return err
}

// queueClassed takes a message of a class into the queue.
func (c *Conn) queueClassed(made *collector) {
	u := unit{Class: made.class, Waits: made.futures}
	if w := c.loop.out.tracking.of(c); w != nil {
		u.Waits = append(u.Waits, w)
	}
	c.pushUnit(made.queue, made.size, u)
	c.count(made.size)
	for _, w := range made.futures {
		c.placeMark(w, nil)
		w.partEnded(nil, c.loop)
	}
}

// admitClassed applies the class's policy to a message of n bytes that is about to enter q. A ClassError with Dropped says that
// the message goes no further.
func (c *Conn) admitClassed(k *MessageClass, q ClassQueue, n int) error {
	switch {
	case c.phase >= PhaseClosing:
		return c.ended.Load()
	case c.has(outputEnds | outputEnded):
		return c.admitLate(n)
	}
	err := k.Admit(q, n)
	if err == nil {
		return nil
	}
	if e, ok := err.(*ClassError); ok && e.Dropped { //nolint:errorlint // our own type, returned bare
		c.loop.Counters[meter.DroppedNewest]++
	} else if k.Policy == OverflowClose {
		c.beginClose(CloseBackpressureLimit, err)
	}
	return err
}

// ClassQueue is a queue of messages that a class bounds: that of a connection, or one that a protocol keeps, such as for each
// of its streams.
type ClassQueue interface {
	// Room returns the bound that n more bytes, as a message of the class, would pass, nil if there is none.
	Room(k *MessageClass, n int) error
	// DropOldest removes the oldest message of the class that has not begun to be sent, because of a bound. It returns false
	// when there is none.
	DropOldest(k *MessageClass, bound error) bool
}

// Admit applies the class's policy to a message of n bytes that is about to enter q, and counts what happens to it. The
// caller holds what guards q. Errors: a *ClassError, whose Dropped says that the message goes no further but its writer is told
// nothing; with OverflowClose the bound itself, after which the caller closes the connection; that of a class that makes no
// sense.
func (k *MessageClass) Admit(q ClassQueue, n int) error {
	if err := k.check(); err != nil {
		return err
	}
	err := q.Room(k, n)
	switch {
	case err == nil:
		return nil
	case k.Policy == OverflowClose:
		return err
	case k.Policy == OverflowReject:
		k.rejected.Add(1)
		return &ClassError{Class: k, Err: err}
	case k.Policy == OverflowDropOldest:
		for err != nil && q.DropOldest(k, err) {
			k.dropped.Add(1)
			err = q.Room(k, n)
		}
	case k.Policy == OverflowKeepLatest:
		for q.DropOldest(k, err) {
			k.dropped.Add(1)
		}
		err = q.Room(k, n)
	}
	if err != nil {
		k.dropped.Add(1)
		return &ClassError{Class: k, Dropped: true, Err: err}
	}
	return nil
}

// connQueue is the queue of a connection as a class sees it.
type connQueue Conn

// Room implements ClassQueue.
func (q *connQueue) Room(k *MessageClass, n int) error { return (*Conn)(q).roomFor(k, n) }

// DropOldest implements ClassQueue.
func (q *connQueue) DropOldest(k *MessageClass, bound error) bool {
	c := (*Conn)(q)
	if !c.dropOldest(k, bound) {
		return false
	}
	if k.Policy == OverflowKeepLatest {
		c.loop.Counters[meter.Superseded]++
	} else {
		c.loop.Counters[meter.DroppedOldest]++
	}
	return true
}

// dropOldest removes from the queue the oldest message of the class that has not begun to be sent, because of a bound. It
// returns false when there is none.
func (c *Conn) dropOldest(k *MessageClass, bound error) bool {
	if !c.has(marked) {
		return false
	}
	for _, u := range c.outMarks().Units() {
		if u.Class == k {
			var why error
			if u.Waits != nil {
				why = &ClassError{Class: k, Dropped: true, Err: bound}
			}
			c.takeOut(u.Span, why)
			return true
		}
	}
	return false
}

// roomFor returns an error that names the bound which another message of the class would pass, nil if there is none.
func (c *Conn) roomFor(k *MessageClass, n int) error {
	if err := c.admit(n); err != nil {
		return err
	}
	if !c.has(marked) {
		return nil
	}
	m := c.outMarks()
	t := m.Tally(k)
	switch {
	case k.MaxMessages > 0 && t.Messages >= k.MaxMessages:
		return fmt.Errorf("%w: %d messages wait, limit %d", ErrBackpressure, t.Messages, k.MaxMessages)
	case k.MaxBytes > 0 && t.Bytes > 0 && t.Bytes+n > k.MaxBytes:
		return fmt.Errorf("%w: %d bytes wait, %d more, limit %d", ErrBackpressure, t.Bytes, n, k.MaxBytes)
	case len(m.Units()) >= transport.MaxUnits:
		return fmt.Errorf("%w: %d messages and files wait, limit %d", ErrBackpressure, len(m.Units()), transport.MaxUnits)
	}
	return nil
}
