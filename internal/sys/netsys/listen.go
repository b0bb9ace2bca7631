package netsys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

func (s sockets) Listen(network, address string, o sys.ListenOptions) (sys.Listener, error) {
	l, err := s.listen(network, address, o)
	if err != nil {
		return sys.Listener{FD: -1}, plain(err)
	}
	return sys.Listener{FD: l.fd, Addr: l.ln.Addr()}, nil
}

func (s sockets) listen(network, address string, o sys.ListenOptions) (*listener, error) {
	if o.On != nil {
		return s.newListener(o.On, nil)
	}
	if o.Backlog < 0 {
		return nil, fmt.Errorf("backlog %d is negative", o.Backlog)
	}
	var ln net.Listener
	var file *socketFile
	var err error
	switch network {
	case "tcp", "tcp4", "tcp6":
		ln, err = listenTCP(network, address, o)
	case "unix":
		ln, file, err = listenUnix(address, o)
	default:
		err = fmt.Errorf("network %q is not tcp, tcp4, tcp6 or unix", network)
	}
	if err != nil {
		return nil, err
	}
	if err = setBacklog(ln.(syscall.Conn), o.Backlog); err == nil {
		var l *listener
		if l, err = s.newListener(ln, file); err == nil {
			return l, nil
		}
	}
	file.remove()
	_ = ln.Close() // the error that led here is the one to report
	return nil, err
}

func listenTCP(network, address string, o sys.ListenOptions) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return nil, err
	}
	switch { // package net takes 0.0.0.0 for every address of both versions
	case addr.IP.To4() != nil:
		network = "tcp4"
	case len(addr.IP) != 0:
		network = "tcp6"
	}
	if err := checkOptions(o.KeepAlive, o.RecvBuffer, o.SendBuffer); err != nil {
		return nil, err
	}
	c := net.ListenConfig{KeepAlive: -1, Control: control(o.ReusePort, o.RecvBuffer, o.SendBuffer)}
	if o.KeepAlive > 0 {
		c.KeepAliveConfig = keepAlive(o.KeepAlive)
	}
	return c.Listen(context.Background(), network, addr.String())
}

// listenUnix binds a socket file. The file of a dead server is replaced.
func listenUnix(path string, o sys.ListenOptions) (net.Listener, *socketFile, error) {
	if o.ReusePort {
		return nil, nil, errors.New("ReusePort is for TCP: a unix socket has one listener")
	}
	if path == "" {
		return nil, nil, errors.New("the path is empty")
	}
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	hasFile := path[0] != '@'
	ln, err := net.ListenUnix("unix", addr)
	if errors.Is(errno(err), syscall.EADDRINUSE) && hasFile {
		if err := removeStale(path); err != nil {
			return nil, nil, err
		}
		ln, err = net.ListenUnix("unix", addr)
	}
	if err != nil {
		return nil, nil, err
	}
	if !hasFile {
		return ln, nil, nil
	}
	ln.SetUnlinkOnClose(false) // Close would remove the file of a server that has replaced this one
	info, err := os.Lstat(path)
	if err != nil {
		_ = ln.Close() // the error that led here is the one to report
		return nil, nil, err
	}
	return ln, &socketFile{path: path, info: info}, nil
}

// probeLimit is how long a unix listener has to answer. If that is not enough, its file counts as in use.
const probeLimit = time.Second

// removeStale removes a socket file that no server listens on. Otherwise its error is EADDRINUSE and says why the file
// stays.
func removeStale(path string) error {
	found, err := os.Lstat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		return err
	}
	if found.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("the file is not a socket: %w", syscall.EADDRINUSE)
	}
	c, err := net.DialTimeout("unix", path, probeLimit)
	if err == nil {
		_ = c.Close() // it was only a question
		return fmt.Errorf("a server answers on it: %w", syscall.EADDRINUSE)
	}
	if !errors.Is(errno(err), syscall.ECONNREFUSED) {
		return fmt.Errorf("whether a server uses it is not known (%w): %w", errno(err), syscall.EADDRINUSE)
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(found, now) {
		return fmt.Errorf("another server has just taken it: %w", syscall.EADDRINUSE)
	}
	return os.Remove(path)
}

// longestKeepAlive is the limit of package sys, for all systems.
const longestKeepAlive = 32767 * time.Second

func checkOptions(keepAlive time.Duration, recvBuffer, sendBuffer int) error {
	switch {
	case keepAlive > longestKeepAlive:
		return fmt.Errorf("keep-alive time %v: the limit is %v", keepAlive, longestKeepAlive)
	case recvBuffer < 0:
		return fmt.Errorf("RecvBuffer %d is negative", recvBuffer)
	case sendBuffer < 0:
		return fmt.Errorf("SendBuffer %d is negative", sendBuffer)
	}
	return nil
}

// keepAlive returns the configuration for a time above 0. Without it keep-alive is off, because KeepAlive is -1.
func keepAlive(d time.Duration) net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: d, Interval: d, Count: -1}
}

// control sets what must be set before a socket is bound or connected, because the buffers decide the window scale of
// the handshake. Accepted connections inherit these options.
func control(reusePort bool, recvBuffer, sendBuffer int) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = prepare(fd, reusePort, recvBuffer, sendBuffer) })
		return errors.Join(err, failed)
	}
}

// plain strips the operation and the address that package net adds, because they are in our own message.
func plain(err error) error {
	if op, ok := err.(*net.OpError); ok { //nolint:errorlint // only the outermost
		return op.Err
	}
	return err
}
