package netsys

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-eddy/eddy/internal/sys"
)

// TestTable: descriptors are larger than the kernel's, differ from their predecessors, and name one thing at a time.
func TestTable(t *testing.T) {
	tab := new(table)
	seen := make(map[int]bool)
	var nodes []*node
	for range 2*chunkSize + 10 {
		n := new(node)
		must(t, tab.insert(n))
		nodes = append(nodes, n)
	}
	for range 3 {
		for _, n := range nodes {
			if n.fd < 1<<indexBits || n.fd > 1<<31-1 || seen[n.fd] {
				t.Fatalf("descriptor %d", n.fd)
			}
			seen[n.fd] = true
			if got, err := tab.lookup(n.fd); got != n || err != nil {
				t.Fatalf("lookup: %v, %v", got, err)
			}
		}
		for i, n := range nodes {
			if got, err := tab.remove(n.fd); got != n || err != nil {
				t.Fatalf("remove: %v, %v", got, err)
			}
			for _, call := range []func(int) (*node, error){tab.lookup, tab.remove} {
				if _, err := call(n.fd); err != syscall.EBADF {
					t.Fatalf("after remove: %v", err)
				}
			}
			nodes[i] = new(node)
			must(t, tab.insert(nodes[i]))
		}
	}
	for _, fd := range []int{-1, 0, 1, 1<<indexBits - 1, 1<<indexBits | 1<<20, 1 << 30} {
		if _, err := tab.lookup(fd); err != syscall.EBADF {
			t.Errorf("lookup(%d): %v", fd, err)
		}
	}
}

// TestGenerations: the first one comes again after the last, and none is 0, which would make small numbers.
func TestGenerations(t *testing.T) {
	tab := new(table)
	var first int
	for i := range 3 * lastGen {
		n := new(node)
		must(t, tab.insert(n))
		if i == 0 {
			first = n.fd
		}
		if n.fd < 1<<indexBits || (n.fd == first) != (i%lastGen == 0) {
			t.Fatalf("descriptor %d is %d", i, n.fd)
		}
		_, err := tab.remove(n.fd)
		must(t, err)
	}
}

// TestOneCloseSucceeds of many at the same time.
func TestOneCloseSucceeds(t *testing.T) {
	s := New()
	for range 100 {
		fd, err := s.NewSockets().OpenReserve()
		must(t, err)
		var closed atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				switch err := s.NewSockets().Close(fd); err {
				case nil:
					closed.Add(1)
				case syscall.EBADF:
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if closed.Load() != 1 {
			t.Fatalf("%d calls have closed it", closed.Load())
		}
	}
}

// TestBadDescriptor: descriptors that are unknown or name something else are refused.
func TestBadDescriptor(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	reserve, err := sock.OpenReserve()
	must(t, err)
	defer sock.Close(reserve)
	l := listen(t, sock, "tcp", "127.0.0.1:0", sys.ListenOptions{})
	f := os.Stdin
	for name, call := range map[string]func(fd int) error{
		"LocalAddr":     func(fd int) error { _, err := sock.LocalAddr(fd); return err },
		"Read":          func(fd int) error { _, err := sock.Read(fd, make([]byte, 1)); return err },
		"Write":         func(fd int) error { _, err := sock.Write(fd, make([]byte, 1)); return err },
		"Writev":        func(fd int) error { _, err := sock.Writev(fd, [][]byte{{1}}); return err },
		"SendFile":      func(fd int) error { _, err := sock.SendFile(fd, f, 0, 1); return err },
		"SetKeepAlive":  func(fd int) error { return sock.SetKeepAlive(fd, 0) },
		"ConnectError":  sock.ConnectError,
		"ShutdownWrite": sock.ShutdownWrite,
	} {
		if err := call(-1); err != syscall.EBADF {
			t.Errorf("%s(-1): %v", name, err)
		}
		if err := call(reserve); err == nil || err == syscall.EBADF {
			t.Errorf("%s of a reserve: %v", name, err)
		}
	}
	for _, fd := range []int{reserve, -1} {
		if _, _, err := sock.Accept(fd); err == nil || err == sys.ErrAgain {
			t.Errorf("Accept(%d): %v", fd, err)
		}
	}
	if _, err := sock.Read(l.FD, make([]byte, 1)); err != syscall.ENOTCONN {
		t.Errorf("Read of a listener: %v", err)
	}
	if err := sock.Close(-1); err != syscall.EBADF {
		t.Errorf("Close(-1): %v", err)
	}
}

func TestErrno(t *testing.T) {
	for _, c := range []struct{ in, want error }{
		{nil, nil},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, syscall.ECONNRESET},
		{&net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}, syscall.EMFILE},
		{&os.PathError{Op: "open", Err: syscall.ENOENT}, syscall.ENOENT},
		{&net.OpError{Op: "read", Err: net.ErrClosed}, syscall.EBADF},
		{fmt.Errorf("x: %w", os.ErrClosed), syscall.EBADF},
		{&net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, syscall.ETIMEDOUT},
		{io.ErrUnexpectedEOF, io.ErrUnexpectedEOF},
	} {
		if got := errno(c.in); got != c.want {
			t.Errorf("errno(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}
