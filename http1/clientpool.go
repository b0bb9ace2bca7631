package http1

import (
	"slices"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/fairqueue"
)

// hostKey identifies a set of interchangeable connections: any of them can serve a request with the same key.
type hostKey struct {
	secure bool
	addr   string // host:port to talk to
	proxy  string // host:port of the proxy, empty for none
	auth   string // value of Proxy-Authorization, empty for none
}

// host holds the connections of one hostKey and the calls that wait for one. transportConns.mu guards it.
type host struct {
	idle    []*clientConn // in order of their last use, the most recent at the end
	open    int           // connections and attempts to connect
	waiting fairqueue.Queue[*call]
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

// acquire gives the call a connection, lets the call make one, or puts it in the waiting list of its host.
func (t *Transport) acquire(c *call) {
	p := &t.conns
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		c.fail(ErrTransportClosed)
		return
	}
	h := p.hosts[c.key]
	if h == nil {
		h = new(host)
		p.hosts[c.key] = h
	}
	if h.waiting.Len() == 0 {
		if g, ok := t.grant(h, c); ok {
			p.mu.Unlock()
			g.carryOut()
			return
		}
	}
	refused, full := p.waiting.Push(&h.waiting, c, t.MaxWaiting)
	t.forget(c.key, h)
	p.mu.Unlock()
	if full {
		refused.fail(ErrTransportBusy)
	}
	if c.stopped() { // a cancel before the append found no entry to remove
		t.stopWaiting(c)
	}
}

// grant returns the connection, or the leave to make one, that the call can have now, and reports false if the call has to
// wait. The lock is held.
func (t *Transport) grant(h *host, c *call) (grant, bool) {
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
			t.conns.short = true
			return grant{}, false
		}
		g.shut = append(g.shut, old)
	}
	t.conns.hosts[c.key] = h // evicting the host's last connection forgets it
	h.open++
	t.conns.open++
	return g, true
}

// evict removes an idle connection of any host from the pool's counts and returns it, nil if there is none. The lock is held.
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

// uncount subtracts one connection or attempt from the pool's counts. The lock is held.
func (t *Transport) uncount(key hostKey) {
	h := t.conns.hosts[key]
	h.open--
	t.conns.open--
	t.forget(key, h)
}

// forget removes a host of which nothing is left. The lock is held.
func (t *Transport) forget(key hostKey, h *host) {
	if h.open == 0 && h.waiting.Len() == 0 {
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
	granted := t.serve(h)
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
	h := t.conns.hosts[key]
	if cc == nil || !cc.evicted {
		if cc != nil && h != nil {
			if i := slices.Index(h.idle, cc); i >= 0 {
				h.idle = slices.Delete(h.idle, i, i+1)
			}
		}
		t.uncount(key)
	}
	granted := t.serve(h)
	t.conns.mu.Unlock()
	for _, g := range granted {
		g.carryOut()
	}
}

// serve grants the calls that wait for h, in order, the connections that they can have now, or all calls if MaxConns keeps some waiting: the host comes first
// whose call has waited longest. The lock is held.
func (t *Transport) serve(h *host) (granted []grant) {
	if !t.conns.short {
		return t.serveHost(h, nil)
	}
	t.conns.short = false
	var hosts []*host
	for _, h := range t.conns.hosts {
		if h.waiting.Len() > 0 {
			hosts = append(hosts, h)
		}
	}
	slices.SortFunc(hosts, func(a, b *host) int { return a.waiting.Compare(&b.waiting) })
	for _, h := range hosts {
		granted = t.serveHost(h, granted)
	}
	return granted
}

func (t *Transport) serveHost(h *host, granted []grant) []grant {
	for h != nil && h.waiting.Len() > 0 {
		g, ok := t.grant(h, h.waiting.First())
		if !ok {
			break
		}
		t.conns.waiting.Pop(&h.waiting)
		granted = append(granted, g)
	}
	return granted
}

// stopWaiting removes a call from the waiting list and fails it with its stop cause. Other calls are left alone.
func (t *Transport) stopWaiting(c *call) {
	t.conns.mu.Lock()
	was := false
	if h := t.conns.hosts[c.key]; h != nil {
		was = t.conns.waiting.Remove(&h.waiting, c)
		t.forget(c.key, h)
	}
	t.conns.mu.Unlock()
	if was {
		c.fail(c.stopCause())
	}
}

// shut refuses further calls and returns those that wait.
func (t *Transport) shut() (left []*call) {
	t.conns.mu.Lock()
	defer t.conns.mu.Unlock()
	t.conns.closed = true
	for _, h := range t.conns.hosts {
		left = append(left, t.conns.waiting.Drain(&h.waiting)...)
	}
	return left
}
