package desk

import (
	"net"
	"sync"
	"testing"
)

// cable is a connection between two machines that can be cut, or let nothing through in one direction or both.
type cable struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	done     sync.WaitGroup

	mu     sync.Mutex
	moved  *sync.Cond // the state has changed
	state  cableState
	closed bool
	conns  map[net.Conn]struct{}
}

type cableState int

const (
	cableWhole  cableState = iota
	cableCut               // connections break, and new ones, too
	cableSilent            // nothing passes
	cableDeaf              // nothing passes to the far end
	cableMute              // nothing passes back
	cableFaults = int(cableMute)
)

func (s cableState) String() string {
	return [...]string{"whole", "cut", "silent", "deaf", "mute"}[s]
}

func newCable(t *testing.T, dial func() (net.Conn, error)) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{listener: l, dial: dial, conns: make(map[net.Conn]struct{})}
	c.moved = sync.NewCond(&c.mu)
	c.done.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		c.closed = true
		c.breakAll()
		c.mu.Unlock()
		c.done.Wait()
	})
	return c
}

func (c *cable) addr() string { return c.listener.Addr().String() }

func (c *cable) be(s cableState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state = s; s == cableCut {
		c.breakAll()
		return
	}
	c.moved.Broadcast()
}

// breakAll ends the connections. mu is held.
func (c *cable) breakAll() {
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.moved.Broadcast()
}

func (c *cable) accept() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := c.dial()
		if err != nil {
			_ = near.Close()
			continue
		}
		c.mu.Lock()
		dead := c.closed || c.state == cableCut
		if !dead {
			c.conns[near], c.conns[far] = struct{}{}, struct{}{}
			c.done.Go(func() { c.carry(near, far, cableDeaf) })
			c.done.Go(func() { c.carry(far, near, cableMute) })
		}
		c.mu.Unlock()
		if dead {
			_ = near.Close()
			_ = far.Close()
		}
	}
}

// carry passes on what one end sends, unless the cable lets nothing through in that direction.
func (c *cable) carry(from, to net.Conn, stops cableState) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		c.mu.Lock()
		for (c.state == stops || c.state == cableSilent) && !c.closed {
			c.moved.Wait()
		}
		c.mu.Unlock()
		if n > 0 && err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range []net.Conn{from, to} {
		_ = conn.Close()
		delete(c.conns, conn)
	}
}
