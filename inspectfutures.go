package eddy

// futures checks that the marks lie in the queue, in its order, and that no unfinished write is lost.
func (k *inspection) futures(c *Conn) {
	x := c.ext.Load()
	if x == nil {
		return
	}
	if m := x.marks; c.has(marked) {
		if err := m.Check(&c.out); err != nil {
			k.connFail(c, "%w", err)
		}
	} else if m != nil && len(m.Units())+m.Waiting() > 0 {
		k.connFail(c, "has marks and does not count: %+v", m)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := x.futures.Len(); n != x.futures.n || n > maxFutures {
		k.connFail(c, "has %d futures, %d counted, limit %d", n, x.futures.n, maxFutures)
	}
}
