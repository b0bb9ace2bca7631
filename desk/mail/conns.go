package mail

import (
	"net"
	"sync"
)

// connections are the connections of one attempt. Closing them ends every wait for the server.
type connections struct {
	mu     sync.Mutex
	all    []net.Conn
	closed bool
}

func (c *connections) add(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, conn)
	if c.closed {
		_ = conn.Close()
	}
}

// close closes them, also those that come later.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.all {
		_ = conn.Close()
	}
}
