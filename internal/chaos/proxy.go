// Package chaos is for tests: a proxy that does to TCP connections what bad networks do.
package chaos

import (
	"net"
	"sync"
	"time"
)

// Proxy carries the bytes of connections to and from a server, unless it is told to cut, stall, throttle or refuse
// them. Settings apply to open and to later connections. Any goroutine may call its methods.
type Proxy struct {
	target string
	ln     net.Listener
	tasks  sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond // signals changes of stalled, links and closed
	links   map[*link]struct{}
	closed  bool
	stalled bool
	refuses bool
	rate    int
	piece   int
	after   int64
	stats   Stats
}

// Stats count what a Proxy has done.
type Stats struct {
	Open     int    // connections now
	Accepted uint64 // connections carried to the server
	Refused  uint64
	Cut      uint64
	Bytes    uint64 // forwarded, both directions
}

// link is one connection to the proxy and its other half to the server.
type link struct {
	p              *Proxy
	client, server *net.TCPConn
	ended          chan struct{} // closed when the link ends
	over           bool          // Proxy.mu
	halves         int           // open directions, Proxy.mu
	left           int64         // bytes until it is cut, below 0 for never; Proxy.mu
}

// New returns a proxy to the server at target, on a port of its own. The caller closes it.
func New(target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, ln: ln, links: map[*link]struct{}{}}
	p.changed.L = &p.mu
	p.tasks.Add(1)
	go p.accept()
	return p, nil
}

// Addr returns where the proxy listens.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Redirect makes later connections go to another server.
func (p *Proxy) Redirect(target string) { p.set(func() { p.target = target }) }

// Stall stops all forwarding until it is called with false. Bytes are not read meanwhile, so that senders notice.
func (p *Proxy) Stall(on bool) { p.set(func() { p.stalled = on }) }

// Refuse resets new connections at once, until it is called with false.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refuses = on }) }

// Throttle lets at most that many bytes per second through in each direction of a connection; 0 is no limit.
func (p *Proxy) Throttle(bytesPerSecond int) { p.set(func() { p.rate = bytesPerSecond }) }

// Shred forwards at most n bytes at a time; 0 is no limit.
func (p *Proxy) Shred(n int) { p.set(func() { p.piece = n }) }

// CutAfter cuts each later connection once it has forwarded n bytes, both directions together; 0 is never.
func (p *Proxy) CutAfter(n int64) { p.set(func() { p.after = n }) }

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.changed.Broadcast()
}

// Cut ends all open connections with resets on both sides and returns their number.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.links)
	for l := range p.links {
		l.end(true)
	}
	return n
}

// Stats returns the numbers so far.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Open = len(p.links)
	return s
}

// Close cuts everything and waits until the proxy's goroutines have ended.
func (p *Proxy) Close() {
	p.set(func() { p.closed = true })
	_ = p.ln.Close() // the only owner
	p.Cut()
	p.tasks.Wait()
}

func (p *Proxy) accept() {
	defer p.tasks.Done()
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return // closed
		}
		p.tasks.Add(1)
		go p.carry(c.(*net.TCPConn))
	}
}

// carry connects a new connection to the server.
func (p *Proxy) carry(client *net.TCPConn) {
	defer p.tasks.Done()
	p.mu.Lock()
	target, refuses := p.target, p.refuses || p.closed
	p.mu.Unlock()
	var server net.Conn
	var err error
	if !refuses {
		server, err = net.DialTimeout("tcp", target, 10*time.Second)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case refuses || err != nil:
		p.stats.Refused++
		reset(client)
		return
	case p.closed:
		reset(client)
		reset(server.(*net.TCPConn))
		return
	}
	l := &link{p: p, client: client, server: server.(*net.TCPConn), ended: make(chan struct{}), halves: 2, left: -1}
	if p.after > 0 {
		l.left = p.after
	}
	p.links[l] = struct{}{}
	p.stats.Accepted++
	p.tasks.Add(2)
	go l.forward(l.server, l.client)
	go l.forward(l.client, l.server)
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // a reset instead of an orderly end
	_ = c.Close()
}

// end ends a connection, once; cut resets it. p.mu is held.
func (l *link) end(cut bool) {
	if l.over {
		return
	}
	l.over = true
	close(l.ended)
	delete(l.p.links, l)
	if cut {
		l.p.stats.Cut++
		reset(l.client)
		reset(l.server)
	} else {
		_ = l.client.Close()
		_ = l.server.Close()
	}
	l.p.changed.Broadcast()
}

// pass waits while the proxy stalls. It returns how much may be read at once, 0 when the connection has ended.
func (l *link) pass(most int) int {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	for l.p.stalled && !l.over {
		l.p.changed.Wait()
	}
	if l.over {
		return 0
	}
	if l.p.piece > 0 {
		most = min(most, l.p.piece)
	}
	if l.p.rate > 0 {
		most = min(most, max(l.p.rate/50, 1)) // 20 ms worth of it
	}
	return most
}

// count takes n bytes from those left. It returns how many of them may pass, and the rate.
func (l *link) count(n int) (may, rate int) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	may = n
	if l.left >= 0 {
		may = int(min(int64(n), l.left))
		l.left -= int64(may)
	}
	l.p.stats.Bytes += uint64(may)
	return may, l.p.rate
}

// forward is the goroutine of one direction.
func (l *link) forward(to, from *net.TCPConn) {
	defer l.p.tasks.Done()
	buf := make([]byte, 32<<10)
	for {
		most := l.pass(len(buf))
		if most == 0 {
			return
		}
		n, err := from.Read(buf[:most])
		if n > 0 && !l.move(to, buf[:n]) {
			return
		}
		if err != nil {
			l.half(to)
			return
		}
	}
}

// move forwards read bytes at the rate. It reports false when the connection has ended.
func (l *link) move(to *net.TCPConn, b []byte) bool {
	if l.pass(len(b)) == 0 { // the proxy may have stalled since the read began
		return false
	}
	may, rate := l.count(len(b))
	if _, err := to.Write(b[:may]); err != nil || may < len(b) {
		l.cut()
		return false
	}
	if rate <= 0 {
		return true
	}
	t := time.NewTimer(time.Duration(may) * time.Second / time.Duration(rate))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ended:
		return false
	}
}

func (l *link) cut() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.end(true)
}

// half passes the end of one direction on to the other side.
func (l *link) half(to *net.TCPConn) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.halves--; l.halves == 0 {
		l.end(false)
		return
	}
	if !l.over && to.CloseWrite() != nil {
		l.end(true)
	}
}
