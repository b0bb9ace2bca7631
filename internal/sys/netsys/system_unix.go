//go:build unix

package netsys

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// portable returns e, because here the system's numbers are those of package syscall.
func portable(e syscall.Errno) syscall.Errno { return e }

// fetch waits for bytes and reads one block of them. It holds no block while it waits.
func (c *conn) fetch() {
	if c.sys.blocking || c.raw == nil {
		c.fetchBlocking()
		return
	}
	if err := c.raw.Read(c.probe); err != nil {
		c.gotErr = errno(err)
	}
}

// tryFetch reads without waiting, and reports whether there was something to read.
func (c *conn) tryFetch(fd uintptr) bool {
	b := c.sys.blocks.get(largeBlock)
	for {
		n, err := syscall.Read(int(fd), b.data[:c.limit])
		switch err {
		case nil:
			b.w, c.got = n, b
			return true
		case syscall.EINTR:
			continue
		}
		c.sys.blocks.put(b)
		if err == syscall.EAGAIN {
			return false
		}
		c.gotErr = err
		return true
	}
}

// tryNow is tryFetch for a connection without a reader.
func (c *conn) tryNow() (found bool) {
	c.limit = largeBlock
	_ = c.raw.Control(func(fd uintptr) { found = c.tryFetch(fd) }) // an error means that the connection is closed
	return found
}

// prepare sets options before a socket is bound or connected.
func prepare(fd uintptr, reusePort bool, recvBuffer, sendBuffer int) error {
	port := 0
	if reusePort {
		port = 1
	}
	for _, o := range []struct {
		name          string
		option, value int
	}{{"SO_REUSEPORT", unix.SO_REUSEPORT, port}, {"RecvBuffer", unix.SO_RCVBUF, recvBuffer}, {"SendBuffer", unix.SO_SNDBUF, sendBuffer}} {
		if o.value == 0 {
			continue
		}
		if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, o.option, o.value); err != nil {
			return os.NewSyscallError("setsockopt "+o.name, err)
		}
	}
	return nil
}

// pending reports whether the system has a connection for the listener.
func (l *listener) pending() bool {
	ln, ok := l.ln.(syscall.Conn)
	if !ok {
		return l.brings()
	}
	raw, err := ln.SyscallConn()
	if err != nil {
		return false
	}
	ready := 0
	_ = raw.Control(func(fd uintptr) { // an error means that the listener is closed
		ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return ready > 0
}

// setBacklog changes the length of the accept queue with a second listen(2), because package net makes it as long as
// the system allows.
func setBacklog(c syscall.Conn, backlog int) error {
	if backlog == 0 {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Listen(int(fd), backlog) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("backlog %d: %w", backlog, os.NewSyscallError("listen", failed))
	}
	return nil
}
