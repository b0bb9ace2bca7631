package eddy

import (
	"slices"

	"github.com/go-eddy/eddy/buf"
)

// outMarks are the marked parts of an outbound queue: files, messages that may still be dropped, and the bytes that
// futures wait for. connExt holds them, in use while the bit marked is set.
type outMarks struct {
	list    []outMark // in the order of the queue
	tallies []classTally
	waits   markList // of futures
}

// outMark is one file or droppable message. A file has one segment without bytes, which holds its place.
type outMark struct {
	first, last *buf.Segment
	before      *buf.Segment // in the queue in front of first, nil when first is its head
	size        int          // bytes of a droppable message

	class *MessageClass // of a droppable message, else nil
	file  *File         // else nil
	left  int64         // bytes of the file left to send

	futures []*writeFuture // fail when the message is dropped
}

// queued returns the bytes that m counts for in the queue.
func (m *outMark) queued() int {
	if m.file != nil {
		return window(m.left)
	}
	return m.size
}

// maxMarks bounds the files and droppable messages of one connection's queue.
const maxMarks = 4096

// outMarks returns the connection's marks.
func (c *Conn) outMarks() *outMarks { return &c.extend().marks }

// pushMarked appends q as one unit, described by m.
func (c *Conn) pushMarked(q outQueue, m outMark) {
	m.first, m.last, m.before = q.head, q.tail, c.out.tail
	if c.out.tail == nil {
		c.out.head = q.head
	} else {
		c.out.tail.Next = q.head
	}
	c.out.tail = q.tail
	c.loop.out.tracking.units++
	x := c.outMarks()
	x.list = append(x.list, m)
	if m.class != nil {
		x.tally(m.class).add(1, m.size)
	}
	c.raise(marked)
}

// sealed reports whether the queue's last segment takes no more bytes because it belongs to a file or droppable message.
func (c *Conn) sealed() bool {
	if !c.has(marked) {
		return false
	}
	list := c.outMarks().list
	return len(list) > 0 && list[len(list)-1].last == c.out.tail
}

// fileAtHead returns the mark of the file at the head of the queue, nil if bytes are there.
func (c *Conn) fileAtHead() *outMark {
	if m := c.firstMark(); m != nil && m.file != nil && m.first == c.out.head {
		return m
	}
	return nil
}

// begun follows the sending of the first bytes of the queue's head: from then on the message is not droppable.
func (c *Conn) begun() {
	if m := c.firstMark(); m != nil && m.class != nil && m.first == c.out.head {
		c.unmarkFirst()
	}
}

// popSent takes the head off the queue.
func (c *Conn) popSent() *buf.Segment {
	s := c.out.pop()
	if m := c.firstMark(); m != nil && m.before == s {
		m.before = nil
	}
	c.reached(s, -1)
	return s
}

// firstMark returns the first mark of a file or message, nil if there is none.
func (c *Conn) firstMark() *outMark {
	if c.has(marked) {
		if list := c.outMarks().list; len(list) > 0 {
			return &list[0]
		}
	}
	return nil
}

// unmarkFirst forgets the first mark.
func (c *Conn) unmarkFirst() { c.unmarkAt(0) }

func (c *Conn) unmarkAt(i int) {
	x := c.outMarks()
	if m := &x.list[i]; m.class != nil {
		x.tally(m.class).add(-1, -m.size)
	}
	if i == 0 {
		x.list[0] = outMark{}
		x.list = x.list[1:]
	} else {
		x.list = slices.Delete(x.list, i, i+1)
	}
	if len(x.list) == 0 {
		x.list, x.tallies = nil, nil
	}
	x.settleMarked(c)
}

// dropOldest removes from the queue the oldest message of the class that has not begun to be sent, because of a bound. It
// returns false when there is none.
func (c *Conn) dropOldest(k *MessageClass, bound error) bool {
	if !c.has(marked) {
		return false
	}
	list := c.outMarks().list
	for i := range list {
		if list[i].class == k {
			var why error
			if list[i].futures != nil {
				why = &DroppedError{k, bound}
			}
			c.dropAt(i, why)
			return true
		}
	}
	return false
}

// dropAt removes a marked unit, of which nothing was sent, from the queue. Its futures fail with why.
func (c *Conn) dropAt(i int, why error) {
	x := c.outMarks()
	list, m := x.list, x.list[i]
	c.loop.out.tracking.mixed = true
	for _, w := range m.futures {
		if w.mark.to.seg == m.last {
			x.waits.remove(w)
			w.mark = futureMark{}
		}
		w.settle(FutureFailed, why, c.loop)
	}
	behind := m.last.Next
	if m.before == nil {
		c.out.head = behind
	} else {
		m.before.Next = behind
	}
	if behind == nil {
		c.out.tail = m.before
	}
	if i+1 < len(list) && list[i+1].before == m.last {
		list[i+1].before = m.before
	}
	m.last.Next = nil
	c.unmarkAt(i)
	c.queued.Add(-int64(m.queued()))
	if m.file != nil {
		m.file.Release()
	}
	c.giveBackAll(outQueue{m.first, m.last})
}

// giveBackAll gives back the segments of q.
func (c *Conn) giveBackAll(q outQueue) {
	for q.head != nil {
		c.giveBack(q.pop())
	}
}
