//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// socketFile is the file of a unix listener.
type socketFile struct {
	path string
	info os.FileInfo
}

// listenUnix binds a socket file and replaces the file of a dead server. When
// two servers start on a dead server's file at the same moment, both may take
// it over, and the later one wins.
func (s *sockets) listenUnix(path string, o ListenOptions) (int, error) {
	if o.ReusePort {
		return -1, errors.New("ReusePort is for TCP: a unix socket has one listener")
	}
	if err := checkPath(path); err != nil {
		return -1, err
	}
	fd, err := streamSocket(unix.AF_UNIX)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	err = s.bindUnix(fd, path)
	if err == nil {
		err = startListening(fd, o.Backlog)
	}
	if err != nil {
		s.disown(fd)
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// checkPath refuses what no unix address can hold.
func checkPath(path string) error {
	const longest = len(unix.RawSockaddrUnix{}.Path) - 1
	switch {
	case path == "":
		return errors.New("the path is empty")
	case len(path) > longest:
		return fmt.Errorf("the path is %d bytes long: the limit is %d", len(path), longest)
	}
	return nil
}

// bindUnix binds the socket and remembers its file.
func (s *sockets) bindUnix(fd int, path string) error {
	err := unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if isAbstract(path) {
		return os.NewSyscallError("bind", err)
	}
	if err == unix.EADDRINUSE {
		if err := removeStale(path); err != nil {
			return err
		}
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err != nil {
		return os.NewSyscallError("bind", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	s.own(fd, socketFile{path: path, info: info})
	return nil
}

// removeStale removes a socket file that no server listens on. Otherwise its
// error is EADDRINUSE and says why the file stays.
func removeStale(path string) error {
	found, err := os.Lstat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return nil
		}
		return err
	}
	if found.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("the file is not a socket: %w", unix.EADDRINUSE)
	}
	switch err := probe(path); err {
	case unix.ECONNREFUSED:
	case nil:
		return fmt.Errorf("a server answers on it: %w", unix.EADDRINUSE)
	default:
		return fmt.Errorf("whether a server uses it is not known (%w): %w", err, unix.EADDRINUSE)
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(found, now) {
		return fmt.Errorf("another server has just taken it: %w", unix.EADDRINUSE)
	}
	return os.Remove(path)
}

// probe returns nil if a server listens on path.
func probe(path string) error {
	fd, err := streamSocket(unix.AF_UNIX)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	if err == unix.EAGAIN || err == unix.EINPROGRESS { // a full queue belongs to a living server
		return nil
	}
	return err
}

// disown closes what ends with a listening descriptor.
func (s *sockets) disown(fd int) {
	if c, ok := s.owned[fd]; ok {
		delete(s.owned, fd)
		_ = c.Close() // nobody to tell
	}
}

// Close removes the file, unless another server has replaced it.
func (f socketFile) Close() error {
	if now, err := os.Lstat(f.path); err != nil || !os.SameFile(f.info, now) {
		return err
	}
	return os.Remove(f.path) // a file that stays is found stale by the next server
}
