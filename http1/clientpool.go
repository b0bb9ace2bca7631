package http1

import (
	"slices"

	"github.com/go-eddy/eddy"
)

// hostKey identifies a set of interchangeable connections: any of them can serve a request with the same key.
type hostKey struct {
	secure bool
	addr   string // host:port to talk to
	proxy  string // host:port of the proxy, empty for none
	auth   string // value of Proxy-Authorization, empty for none
}

// host holds the connections of one hostKey. Transport.mu guards it.
type host struct {
	idle []*clientConn // in order of their last use, the most recent at the end
	open int           // connections and attempts to connect
}

// waitList holds the calls that wait for a connection, in order of arrival. Transport.mu guards it.
type waitList struct{ calls []*call }

func (w *waitList) len() int { return len(w.calls) }

func (w *waitList) takeAll() []*call {
	left := w.calls
	w.calls = nil
	return left
}

// remove takes c out and reports whether c was in the list.
func (w *waitList) remove(c *call) bool {
	i := slices.Index(w.calls, c)
	if i < 0 {
		return false
	}
	w.calls = slices.Delete(w.calls, i, i+1)
	return true
}

// grant is the answer of the pool to a call: a connection, or leave to make one.
type grant struct {
	call *call
	conn *clientConn   // nil: dial
	shut []*clientConn // idle connections to close, to make room
}

func (g grant) carryOut() {
	for _, cc := range g.shut {
		cc.conn.Close(eddy.CloseNormal)
	}
	if g.conn != nil {
		g.conn.take(g.call)
	} else {
		g.call.dial()
	}
}

// acquire gives the call a connection, lets the call make one, or puts it in the waiting list.
func (t *Transport) acquire(c *call) {
	t.conns.mu.Lock()
	if t.conns.closed {
		t.conns.mu.Unlock()
		c.fail(ErrTransportClosed)
		return
	}
	g, ok := grant{}, false
	if t.conns.waiting.len() == 0 || !t.behind(c) {
		g, ok = t.grant(c)
	}
	if !ok {
		full := t.conns.waiting.len() >= t.MaxWaiting
		if !full {
			t.conns.waiting.calls = append(t.conns.waiting.calls, c)
		}
		t.conns.mu.Unlock()
		if full {
			c.fail(ErrTransportBusy)
		} else if c.stopped() { // a cancel before the append found no entry to remove
			t.stopWaiting(c)
		}
		return
	}
	t.conns.mu.Unlock()
	g.carryOut()
}

// behind reports whether earlier calls wait for the same host. t.mu is held.
func (t *Transport) behind(c *call) bool {
	return slices.ContainsFunc(t.conns.waiting.calls, func(o *call) bool { return o.key == c.key })
}

// grant returns the connection, or the leave to make one, that the call can have now, and reports false if the call has to
// wait. t.mu is held.
func (t *Transport) grant(c *call) (grant, bool) {
	h := t.conns.hosts[c.key]
	if h == nil {
		h = new(host)
		t.conns.hosts[c.key] = h
	}
	for len(h.idle) > 0 && !c.fresh {
		cc := h.idle[len(h.idle)-1]
		h.idle = h.idle[:len(h.idle)-1]
		if cc.conn.CloseError() == nil {
			t.conns.stats.Reused++
			return grant{call: c, conn: cc}, true
		}
	}
	g := grant{call: c}
	if h.open >= t.MaxConnsPerHost {
		if len(h.idle) == 0 { // idle ones are left only if the call is fresh
			return grant{}, false
		}
		g.shut = append(g.shut, t.evictFrom(c.key, h))
	}
	if t.conns.open >= t.MaxConns {
		old := t.evict()
		if old == nil {
			return grant{}, false
		}
		g.shut = append(g.shut, old)
	}
	t.conns.hosts[c.key] = h // evicting the host's last connection deletes the entry
	h.open++
	t.conns.open++
	return g, true
}

// evict removes an idle connection of any host from the pool's counts and returns it, nil if there is none. t.mu is held.
func (t *Transport) evict() *clientConn {
	for key, h := range t.conns.hosts {
		if len(h.idle) > 0 {
			return t.evictFrom(key, h)
		}
	}
	return nil
}

func (t *Transport) evictFrom(key hostKey, h *host) *clientConn {
	cc := h.idle[0]
	h.idle = slices.Delete(h.idle, 0, 1)
	cc.evicted = true
	t.uncount(key)
	return cc
}

// uncount subtracts one connection or attempt from the pool's counts. t.mu is held.
func (t *Transport) uncount(key hostKey) {
	h := t.conns.hosts[key]
	h.open--
	t.conns.open--
	if h.open == 0 {
		delete(t.conns.hosts, key)
	}
}

// release returns a connection to the pool when its request is over or was not started.
func (t *Transport) release(cc *clientConn) {
	t.conns.mu.Lock()
	h := t.conns.hosts[cc.key]
	keep := !t.conns.closed && h != nil && cc.conn.CloseError() == nil
	if keep {
		h.idle = append(h.idle, cc)
	}
	granted := t.serve()
	if keep && len(h.idle) > t.MaxIdlePerHost {
		h.idle = h.idle[:len(h.idle)-1] // cc, since nobody has taken it
		keep = false
	}
	t.conns.mu.Unlock()
	if !keep {
		cc.conn.Close(eddy.CloseNormal)
	}
	for _, g := range granted {
		g.carryOut()
	}
}

// gone updates the pool when a connection has ended. A nil cc stands for a failed attempt to connect.
func (t *Transport) gone(key hostKey, cc *clientConn) {
	t.conns.mu.Lock()
	if cc == nil || !cc.evicted {
		if h := t.conns.hosts[key]; cc != nil && h != nil {
			if i := slices.Index(h.idle, cc); i >= 0 {
				h.idle = slices.Delete(h.idle, i, i+1)
			}
		}
		t.uncount(key)
	}
	granted := t.serve()
	t.conns.mu.Unlock()
	for _, g := range granted {
		g.carryOut()
	}
}

// serve grants the waiting calls, in order, the connections that they can have now. t.mu is held.
func (t *Transport) serve() []grant {
	if t.conns.waiting.len() == 0 {
		return nil
	}
	var granted []grant
	left := t.conns.waiting.calls[:0]
	for _, c := range t.conns.waiting.calls {
		if g, ok := t.grant(c); ok {
			granted = append(granted, g)
		} else {
			left = append(left, c)
		}
	}
	clear(t.conns.waiting.calls[len(left):])
	t.conns.waiting.calls = left
	return granted
}

// stopWaiting removes a call from the waiting list and fails it with its stop cause. Other calls are left alone.
func (t *Transport) stopWaiting(c *call) {
	t.conns.mu.Lock()
	was := t.conns.waiting.remove(c)
	t.conns.mu.Unlock()
	if was {
		c.fail(c.stopCause())
	}
}
