//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// staleSocket leaves the file of a server that has died.
func staleSocket(tb testing.TB, path string) {
	tb.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(tb, err)
	l.SetUnlinkOnClose(false)
	must(tb, l.Close())
}

func TestListenUnix(t *testing.T) {
	s := NewSockets()
	path := filepath.Join(t.TempDir(), "s")
	l, err := s.Listen("unix", path, ListenOptions{})
	must(t, err)
	if a, ok := l.Addr.(*net.UnixAddr); !ok || a.Name != path || a.Network() != "unix" {
		t.Errorf("address %#v", l.Addr)
	}
	if _, _, err := s.Accept(l.FD); err != ErrAgain {
		t.Errorf("Accept without a connection: %v", err)
	}
	client, err := net.Dial("unix", path)
	must(t, err)
	defer client.Close()
	fd, peer := accept(t, s, l)
	if peer.IsValid() {
		t.Errorf("peer %v", peer)
	}
	for _, fd := range []int{l.FD, fd} {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("descriptor %d is blocking (%v)", fd, err)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d is inherited (%v)", fd, err)
		}
	}
	must(t, s.Close(fd))
	if !exists(path) {
		t.Error("the end of a connection took the file")
	}
	must(t, s.Close(l.FD))
	if exists(path) {
		t.Error("the file outlives the listener")
	}
	listen(t, s, "unix", path)
}

func TestStaleSocketFile(t *testing.T) {
	s := NewSockets()
	path := filepath.Join(t.TempDir(), "s")
	staleSocket(t, path)
	l := listen(t, s, "unix", path)
	fd := dial(t, s, "unix", l.Addr, ConnectOptions{})
	server, _ := accept(t, s, l)
	exchange(t, s, fd, server)
}

// TestLiveSocketFile: the file of a server that lives is not touched, not even
// when the server is too busy to take a connection.
func TestLiveSocketFile(t *testing.T) {
	s := NewSockets()
	path := filepath.Join(t.TempDir(), "s")
	l, err := s.Listen("unix", path, ListenOptions{Backlog: 1})
	must(t, err)
	defer s.Close(l.FD)
	refused := func() {
		t.Helper()
		before := openDescriptors()
		other := NewSockets()
		if _, err := other.Listen("unix", path, ListenOptions{}); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "a server answers") {
			t.Fatalf("a second listener: %v", err)
		}
		if !exists(path) {
			t.Fatal("the file of a live server is gone")
		}
		if after := openDescriptors(); after != before {
			t.Fatalf("%d descriptors were open, now %d", before, after)
		}
	}
	refused()
	for range 3 { // every probe fills the queue, too
		refused()
	}
	for {
		fd, _, err := s.Accept(l.FD)
		if err == ErrAgain {
			break
		}
		must(t, err)
		must(t, s.Close(fd))
	}
	fd := dial(t, s, "unix", l.Addr, ConnectOptions{})
	server, _ := accept(t, s, l)
	exchange(t, s, fd, server)
}

// TestNotASocketFile: a file that is not a stream socket's is never removed.
func TestNotASocketFile(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	staleSocket(t, stale)
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "datagrams"), Net: "unixgram"})
	must(t, err)
	defer datagrams.Close()
	must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("precious"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	must(t, os.Symlink(stale, filepath.Join(dir, "link")))
	for name, says := range map[string]string{"file": "not a socket", "directory": "not a socket", "link": "not a socket", "datagrams": "not known"} {
		path := filepath.Join(dir, name)
		before, err := os.Lstat(path)
		must(t, err)
		if _, err := NewSockets().Listen("unix", path, ListenOptions{}); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s has been touched (%v)", name, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file")); string(b) != "precious" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if !exists(stale) {
		t.Error("a link took the file that it points to with it")
	}
}

// TestReplacedSocketFile: a listener does not remove a file that belongs to
// another one by now.
func TestReplacedSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := NewSockets()
	old, err := s.Listen("unix", path, ListenOptions{})
	must(t, err)
	must(t, os.Remove(path))
	l := listen(t, s, "unix", path)
	must(t, s.Close(old.FD))
	fd := dial(t, s, "unix", l.Addr, ConnectOptions{})
	server, _ := accept(t, s, l)
	exchange(t, s, fd, server)
}

func TestUnixPathLimit(t *testing.T) {
	s := NewSockets()
	const limit = len(unix.RawSockaddrUnix{}.Path) - 1
	dir := t.TempDir()
	if len(dir) > limit-2 {
		t.Skipf("the directory %s is too long itself", dir)
	}
	path := dir + "/" + strings.Repeat("p", limit-len(dir)-1)
	listen(t, s, "unix", path)
	_, err := s.Listen("unix", path+"p", ListenOptions{})
	_, _, cerr := s.Connect("unix", &net.UnixAddr{Name: path + "p", Net: "unix"}, ConnectOptions{})
	for _, err := range []error{err, cerr} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d bytes long: the limit is %d", limit+1, limit)) {
			t.Errorf("a path of %d bytes: %v", limit+1, err)
		}
	}
}

func TestListenUnixErrors(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path  string
		o     ListenOptions
		want  error
		names string
	}{
		{"", ListenOptions{}, nil, "empty"},
		{dir + "/none/s", ListenOptions{}, fs.ErrNotExist, "no such file"},
		{dir + "/s", ListenOptions{ReusePort: true}, nil, "ReusePort"},
		{dir + "/s", ListenOptions{Backlog: -1}, nil, "-1"},
	} {
		l, err := NewSockets().Listen("unix", c.path, c.o)
		if err == nil || l.FD != -1 || c.want != nil && !errors.Is(err, c.want) ||
			strings.HasPrefix(err.Error(), "sys: ") || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%q: descriptor %d, %v", c.path, l.FD, err)
		}
	}
	if exists(dir + "/s") {
		t.Error("a failed Listen leaves a file")
	}
}
