package main

import (
	"fmt"
	"io"
	"net"
)

// crowd is a set of connections that do nothing.
type crowd []net.Conn

// gather opens n connections and exchanges one message of size bytes on each. With an error it returns what was opened,
// too.
func gather(addr string, n, size int) (crowd, error) {
	var c crowd
	msg, answer := make([]byte, size), make([]byte, size)
	for i := range n {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return c, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		c = append(c, conn)
		if _, err := conn.Write(msg); err != nil {
			return c, fmt.Errorf("connection %d: %w", i+1, err)
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			return c, fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	return c, nil
}

// close resets the connections, so that they leave no port in TIME_WAIT.
func (c crowd) close() {
	for _, conn := range c {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}
