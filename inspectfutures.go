package eddy

import "fmt"

// futures checks that the marks lie in the queue, in its order, and that no unfinished write is lost.
func (k *inspection) futures(c *Conn) {
	x := c.ext.Load()
	if x == nil {
		return
	}
	if err := c.checkMarks(x.marks); err != nil {
		k.connFail(c, "%w", err)
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

// checkMarks compares the marks of the outbound queue, which may be nil, with the queue.
func (c *Conn) checkMarks(m *outMarks) error {
	switch {
	case !c.has(marked) && m != nil && len(m.units)+len(m.waits) > 0:
		return fmt.Errorf("has marks and does not count: %+v", m)
	case !c.has(marked):
		return nil
	case m.queued-m.sent != c.out.extent() || m.offered < m.sent || m.offered > m.queued:
		return fmt.Errorf("counts %d queued, %d offered, %d sent; the queue holds %d", m.queued, m.offered, m.sent, c.out.extent())
	}
	at := m.sent
	for i, u := range m.units {
		if u.from < at || u.to <= u.from || u.to > m.queued || (u.class != nil) == (u.file != nil) {
			return fmt.Errorf("unit %d lies at %v, the one before ends at %d, the queue at %d", i, u.mark, at, m.queued)
		}
		at = u.to
	}
	at = m.sent + 1
	for i, w := range m.waits {
		if w.mark.to < at || w.mark.from > w.mark.to || w.mark.to > m.queued {
			return fmt.Errorf("future %d waits for %v, the one before for %d, the queue ends at %d", i, w.mark, at, m.queued)
		}
		at = w.mark.to
	}
	return nil
}
