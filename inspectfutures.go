package eddy

import (
	"fmt"

	"github.com/go-eddy/eddy/buf"
)

// futures checks that waiting futures mark bytes that are in the queue, in its order, and that no unfinished write is
// lost.
func (k *inspection) futures(c *Conn) {
	x := c.ext.Load()
	if x == nil {
		return
	}
	if err := x.marks.waits.check(c); err != nil {
		k.connFail(c, "%w", err)
	}
	if some := len(x.marks.list) > 0 || x.marks.waits.first != nil; some != c.has(marked) {
		k.connFail(c, "has marks: %v, and says %v", some, c.has(marked))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for w := x.futures.first; w != nil; w = w.next {
		n++
	}
	if n != x.futures.n || n > maxFutures {
		k.connFail(c, "has %d futures, %d counted, limit %d", n, x.futures.n, maxFutures)
	}
}

// check compares the marks of futures with their outbound queue.
func (q *markList) check(c *Conn) error {
	var last *buf.Segment
	s, n, at := c.out.head, 0, -1
	for w := q.first; w != nil; w = w.mark.next {
		n++
		for s != nil && s != w.mark.to.seg {
			s, at = s.Next, -1
		}
		switch m := w.mark; {
		case s == nil:
			return fmt.Errorf("mark %d is not in the queue, or out of order", n)
		case !m.set || m.to.at < at || m.to.at > s.End() || m.next == nil && q.last != w || m.prev == nil && q.first != w:
			return fmt.Errorf("mark %d is wrong: %+v in %d to %d behind %d", n, m, s.Begin(), s.End(), at)
		}
		last, at = s, w.mark.to.at
	}
	if n != q.n || (n == 0) != (last == nil) {
		return fmt.Errorf("%d marks, %d counted", n, q.n)
	}
	return nil
}
