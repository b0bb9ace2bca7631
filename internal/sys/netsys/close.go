package netsys

import (
	"net"
	"syscall"
	"time"
)

// shutdownWrite ends our side after the bytes that Write has taken.
func (c *conn) shutdownWrite() error {
	c.mu.Lock()
	switch {
	case c.closed:
		c.mu.Unlock()
		return syscall.EBADF
	case c.outErr != nil || c.state != connOpen:
		c.mu.Unlock()
		return syscall.ENOTCONN
	case c.ended || c.writing:
		c.ended = true
		c.mu.Unlock()
		return nil
	}
	c.ended = true
	c.mu.Unlock()
	err := errno(c.nc.CloseWrite())
	c.mu.Lock()
	c.done = true
	c.update()
	c.mu.Unlock()
	return err
}

// close ends the connection as a kernel would. Bytes that Write has taken still go out, for closeLimit at most, and the
// peer reads the end of the stream behind them. But if received bytes are unread, the connection is reset.
//
// close does not wait. A goroutine that still works for the connection finds out later.
func (c *conn) close() error {
	c.mu.Lock()
	c.lossy = c.lossy || c.in != nil
	if c.in != nil {
		c.sys.blocks.put(c.in)
		c.in = nil
	}
	if c.lossy {
		c.dropOut()
	}
	connecting, reading, writing, lossy := c.nc == nil, c.reading, c.writing, c.lossy
	if c.leaving = writing && !lossy; c.leaving {
		c.last.depart(1)
	}
	c.mu.Unlock()
	switch {
	case connecting:
		c.abort() // its goroutine closes a connection that it may have made by then
	case writing && !lossy:
		_ = c.nc.SetWriteDeadline(time.Now().Add(c.sys.closeLimit)) // fails only on what is closed already
	case reading || writing:
		go c.finish()
	default:
		c.finish()
	}
	return nil
}

// finish closes the connection in the system, which ends a goroutine that waits with it. It may be called twice.
func (c *conn) finish() {
	c.mu.Lock()
	lossy, leaving := c.lossy, c.leaving
	c.leaving = false
	c.mu.Unlock()
	if leaving {
		defer c.last.depart(-1)
	}
	if t, ok := c.nc.(*net.TCPConn); ok && lossy {
		_ = t.SetLinger(0) // so that the close resets; fails only on what is closed already
	}
	_ = c.nc.Close() // an error could be reported to no one
}
