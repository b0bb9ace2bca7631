package http2

import (
	"slices"
	"sync"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/fairqueue"
)

// hostKey identifies the connections that can serve the same requests.
type hostKey struct {
	secure bool
	addr   string // host:port
}

// host holds the connections to one hostKey. transportConns.mu guards it.
type host struct {
	key     hostKey
	conns   []*clientConn // that take requests, the oldest first
	attempt *attempt      // to make a further one, at most one at a time
	waiting fairqueue.Queue[*call]
}

// transportConns are the connections of a Transport and what waits for them.
type transportConns struct {
	mu      sync.Mutex
	hosts   map[hostKey]*host
	open    int // connections and attempts, those that take no more requests included
	streams int // given out
	waiting fairqueue.Bound[*call]
	short   bool // MaxConns keeps a call waiting
	closed  bool
	stats   TransportStats
}

// slots is what the pool knows of a connection. transportConns.mu guards it.
type slots struct {
	used, limit int  // streams
	retired     bool // no longer among host.conns
	counted     bool // in transportConns.open
}

// tasks are what the pool has decided and the caller carries out without the lock.
type tasks struct {
	grants []grant
	dials  []*attempt
	shut   []*clientConn
}

type grant struct {
	call *call
	conn *clientConn
}

func (w *tasks) carryOut() {
	for _, cc := range w.shut {
		cc.conn.Close(eddy.CloseNormal)
	}
	for _, g := range w.grants {
		g.conn.take(g.call)
	}
	for _, a := range w.dials {
		a.begin()
	}
}

// acquire gives the call a stream of a connection, or puts it in the waiting list of its host.
func (t *Transport) acquire(c *call) {
	p := &t.conns
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		c.fail(ErrTransportClosed)
		return
	}
	if c.tries == 0 {
		p.stats.Requests++
	}
	h := p.hosts[c.key]
	if h == nil {
		h = &host{key: c.key}
		p.hosts[c.key] = h
	}
	if h.waiting.Len() == 0 {
		if cc := h.free(); cc != nil {
			t.grant(h, cc, c)
			t.forget(h)
			p.mu.Unlock()
			cc.take(c)
			return
		}
	}
	refused, full := p.waiting.Push(&h.waiting, c, t.MaxWaiting)
	var w tasks
	t.serve(h, &w)
	t.forget(h)
	p.mu.Unlock()
	w.carryOut()
	if full {
		refused.fail(ErrTransportBusy)
	}
	if c.stopCause() != nil { // a cancel before the append found no entry to remove
		t.stopWaiting(c)
	}
}

// grant gives a stream of cc to the call. The lock is held.
func (t *Transport) grant(h *host, cc *clientConn, c *call) {
	t.conns.streams++
	cc.slots.used++
	if c.plan.close {
		h.drop(cc)
	}
}

// free returns a connection that takes a request now, nil for none.
func (h *host) free() *clientConn {
	for _, cc := range h.conns {
		if cc.slots.used < cc.slots.limit && cc.conn.CloseError() == nil {
			return cc
		}
	}
	return nil
}

// serve gives streams to the calls that wait for h, in order, and begins a connection if some are left. The lock is held.
func (t *Transport) serve(h *host, w *tasks) {
	p := &t.conns
	for h.waiting.Len() > 0 {
		cc := h.free()
		if cc == nil {
			break
		}
		c := h.waiting.First()
		p.waiting.Pop(&h.waiting)
		t.grant(h, cc, c)
		w.grants = append(w.grants, grant{c, cc})
	}
	if h.waiting.Len() == 0 || h.attempt != nil || len(h.conns) >= t.MaxConnsPerHost || p.closed {
		return
	}
	if p.open >= t.MaxConns {
		old := t.evict()
		if old == nil {
			p.short = true
			return
		}
		w.shut = append(w.shut, old)
	}
	p.open++
	h.attempt = &attempt{t: t, host: h}
	w.dials = append(w.dials, h.attempt)
}

// serveAll is serve for all hosts, when there may be room for a connection. The lock is held.
func (t *Transport) serveAll(w *tasks) {
	t.conns.short = false
	for _, h := range t.conns.hosts {
		t.serve(h, w)
	}
}

// drop takes cc from the connections of h that take requests.
func (h *host) drop(cc *clientConn) {
	cc.slots.retired = true
	if i := slices.Index(h.conns, cc); i >= 0 {
		h.conns = slices.Delete(h.conns, i, i+1)
	}
}

// evict retires an idle connection of any host and returns it, nil if there is none. The lock is held.
func (t *Transport) evict() *clientConn {
	for _, h := range t.conns.hosts {
		for _, cc := range h.conns {
			if cc.slots.used == 0 {
				t.uncount(h, cc)
				return cc
			}
		}
	}
	return nil
}

// uncount subtracts a connection, which takes no more requests. The lock is held.
func (t *Transport) uncount(h *host, cc *clientConn) {
	h.drop(cc)
	if cc.slots.counted {
		cc.slots.counted = false
		t.conns.open--
	}
	t.forget(h)
}

// forget removes a host of which nothing is left. The lock is held.
func (t *Transport) forget(h *host) {
	if len(h.conns) == 0 && h.waiting.Len() == 0 && h.attempt == nil && t.conns.hosts[h.key] == h {
		delete(t.conns.hosts, h.key)
	}
}

// made puts a connection that an attempt has made among those of its host.
func (t *Transport) made(a *attempt, cc *clientConn, limit int) {
	var w tasks
	t.conns.mu.Lock()
	h := a.host
	h.attempt = nil
	cc.slots.limit, cc.slots.counted = limit, true
	h.conns = append(h.conns, cc)
	t.serve(h, &w)
	t.conns.mu.Unlock()
	w.carryOut()
}

// unmade ends an attempt that has failed. The calls that wait fail too, unless the host has other connections.
func (t *Transport) unmade(a *attempt, err error) {
	var w tasks
	t.conns.mu.Lock()
	h := a.host
	h.attempt = nil
	t.conns.open--
	var left []*call
	if len(h.conns) == 0 {
		left = t.conns.waiting.Drain(&h.waiting)
	}
	t.forget(h)
	if t.conns.short {
		t.serveAll(&w)
	}
	t.conns.mu.Unlock()
	for _, c := range left {
		c.fail(err)
	}
	w.carryOut()
}

// resized notes how many streams the server allows on cc now.
func (t *Transport) resized(cc *clientConn, limit int) {
	var w tasks
	t.conns.mu.Lock()
	cc.slots.limit = limit
	t.serve(cc.host, &w)
	t.conns.mu.Unlock()
	w.carryOut()
}

// release takes back a stream of cc.
func (t *Transport) release(cc *clientConn) {
	var w tasks
	p := &t.conns
	p.mu.Lock()
	cc.slots.used--
	p.streams--
	t.serve(cc.host, &w)
	if p.short && cc.slots.used == 0 {
		t.serveAll(&w)
	}
	p.mu.Unlock()
	w.carryOut()
}

// retire lets cc take no more requests. The calls that wait get another connection.
func (t *Transport) retire(cc *clientConn) {
	var w tasks
	t.conns.mu.Lock()
	if !cc.slots.retired {
		cc.host.drop(cc)
		t.serve(cc.host, &w)
		t.forget(cc.host)
	}
	t.conns.mu.Unlock()
	w.carryOut()
}

// gone takes a connection that has ended out of the pool.
func (t *Transport) gone(cc *clientConn) {
	var w tasks
	t.conns.mu.Lock()
	t.uncount(cc.host, cc)
	t.serveAll(&w)
	t.conns.mu.Unlock()
	w.carryOut()
}

// stopWaiting removes a call from the waiting list and fails it with its stop cause. Other calls are left alone.
func (t *Transport) stopWaiting(c *call) {
	t.conns.mu.Lock()
	was := false
	if h := t.conns.hosts[c.key]; h != nil {
		was = t.conns.waiting.Remove(&h.waiting, c)
		t.forget(h)
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

// CloseIdleConnections closes the connections that serve no request. http.Client calls it.
func (t *Transport) CloseIdleConnections() {
	var idle []*clientConn
	t.conns.mu.Lock()
	for _, h := range t.conns.hosts {
		for _, cc := range slices.Clone(h.conns) {
			if cc.slots.used == 0 {
				h.drop(cc)
				idle = append(idle, cc)
			}
		}
		t.forget(h)
	}
	t.conns.mu.Unlock()
	for _, cc := range idle {
		cc.conn.Close(eddy.CloseNormal)
	}
}

// Stats returns the numbers. Any goroutine.
func (t *Transport) Stats() TransportStats {
	p := &t.conns
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open, s.Streams, s.Waiting = p.open, p.streams, p.waiting.Len()
	for _, h := range p.hosts {
		for _, cc := range h.conns {
			if cc.slots.used == 0 {
				s.Idle++
			}
		}
	}
	return s
}
