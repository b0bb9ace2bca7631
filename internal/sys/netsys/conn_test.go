package netsys

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

func TestReadWrite(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		sock := s.NewSockets()
		fd, client := connected(t, sock)
		b := make([]byte, 64)
		if n, err := sock.Read(fd, b); n != 0 || err != sys.ErrAgain {
			t.Fatalf("Read of nothing: %d, %v", n, err)
		}
		if n, err := sock.Read(fd, nil); n != 0 || err != nil {
			t.Fatalf("Read into nothing: %d, %v", n, err)
		}
		if n, err := sock.Write(fd, nil); n != 0 || err != nil {
			t.Fatalf("Write of nothing: %d, %v", n, err)
		}
		_, err := client.Write([]byte("question"))
		must(t, err)
		for _, want := range []string{"que", "sti", "on"} {
			n, err := again(t, func() (int, error) { return sock.Read(fd, b[:3]) })
			if err != nil || string(b[:n]) != want {
				t.Fatalf("Read: %q, %v", b[:n], err)
			}
		}
		if n, err := sock.Writev(fd, [][]byte{[]byte("an"), nil, []byte("swer")}); n != 6 || err != nil {
			t.Fatalf("Writev: %d, %v", n, err)
		}
		must(t, sock.ShutdownWrite(fd))
		if got, err := io.ReadAll(client); err != nil || string(got) != "answer" {
			t.Fatalf("the peer read %q, %v", got, err)
		}
		must(t, client.CloseWrite())
		if n, err := again(t, func() (int, error) { return sock.Read(fd, b) }); n != 0 || err != nil {
			t.Fatalf("Read at the end: %d, %v", n, err)
		}
		if _, err := sock.Write(fd, []byte("late")); !sys.IsReset(err) {
			t.Fatalf("Write after ShutdownWrite: %v", err)
		}
		must(t, sock.ShutdownWrite(fd))
	})
}

// TestPeek: a look leaves the bytes where they are, as many as Sockets.Peek promises, and sees the end of the stream and its
// errors as a read does.
func TestPeek(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		sock := s.NewSockets()
		fd, client := connected(t, sock)
		const most = 16 << 10
		b := make([]byte, most)
		if n, err := sock.Peek(fd, b); n != 0 || err != sys.ErrAgain {
			t.Fatalf("Peek at nothing: %d, %v", n, err)
		}
		if n, err := sock.Peek(fd, nil); n != 0 || err != nil {
			t.Fatalf("Peek into nothing: %d, %v", n, err)
		}
		text := bytes.Repeat([]byte("question"), most/8)
		for i := range 2 { // the second half comes while the first one is unread
			_, err := client.Write(text[i*most/2:][:most/2])
			must(t, err)
			testkit.Eventually(t, "all that was sent so far", func() bool {
				n, err := sock.Peek(fd, b)
				return err == nil && n == (i+1)*most/2 && bytes.Equal(b[:n], text[:n])
			})
		}
		must(t, client.CloseWrite())
		for got := 0; got < most; {
			n, err := again(t, func() (int, error) { return sock.Read(fd, b) })
			if must(t, err); !bytes.Equal(b[:n], text[got:got+n]) {
				t.Fatal("Read after Peek returns other bytes")
			}
			got += n
		}
		if n, err := again(t, func() (int, error) { return sock.Peek(fd, b) }); n != 0 || err != nil {
			t.Fatalf("Peek at the end: %d, %v", n, err)
		}
		broken, client := connected(t, sock)
		must(t, client.SetLinger(0))
		must(t, client.Close())
		if _, err := again(t, func() (int, error) { return sock.Peek(broken, b) }); !sys.IsReset(err) {
			t.Fatalf("Peek after a reset: %v", err)
		}
	})
}

// TestReset: a call that a reset interrupts returns the system's own error.
func TestReset(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		sock := s.NewSockets()
		fd, client := connected(t, sock)
		fill(t, sock, fd)
		if _, err := sock.Read(fd, make([]byte, 1)); err != sys.ErrAgain {
			t.Fatal(err)
		}
		must(t, client.SetLinger(0))
		must(t, client.Close())
		c := s.connOf(t, fd)
		testkit.Eventually(t, "the failure", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.outErr != nil && !c.reading && !c.writing
		})
		_, err := sock.Read(fd, make([]byte, 1))
		if errno, ok := err.(syscall.Errno); !ok || !sys.IsReset(errno) {
			t.Errorf("Read: %#v", err)
		}
		_, err = sock.Write(fd, []byte{1})
		if errno, ok := err.(syscall.Errno); !ok || !sys.IsReset(errno) {
			t.Errorf("Write: %#v", err)
		}
		if err := sock.ShutdownWrite(fd); !sys.IsReset(err) {
			t.Errorf("ShutdownWrite: %v", err)
		}
	})
}

// TestBackpressure: unread bytes stay with the peer, except for one block and what the kernels hold. No bytes are lost.
func TestBackpressure(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		sock := s.NewSockets()
		fd, client := connected(t, sock)
		must(t, s.connOf(t, fd).tcp().SetReadBuffer(16<<10))
		must(t, client.SetWriteBuffer(16<<10))
		p := s.NewPoller()
		defer p.Close()
		must(t, p.Add(fd, sys.None, 1))
		const total = 4 << 20
		sent := make(chan error, 1)
		go func() {
			_, err := client.Write(pattern(0, total))
			sent <- errors.Join(err, client.CloseWrite())
		}()
		c := s.connOf(t, fd)
		held := func() (n int, reading bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return largeBlock - c.space(), c.reading
		}
		testkit.Eventually(t, "the end of reading", func() bool { n, reading := held(); return n > 0 && !reading })
		if n, _ := held(); n > largeBlock {
			t.Errorf("%d bytes are held", n)
		}
		if len(sent) > 0 { // it may have more to send and be slow: what is held is the proof
			t.Fatalf("the peer sent everything to nobody (%v)", <-sent)
		}
		var got bytes.Buffer
		b := make([]byte, 5000)
		for {
			n, err := again(t, func() (int, error) { return sock.Read(fd, b) })
			must(t, err)
			if n == 0 {
				break
			}
			got.Write(b[:n])
		}
		must(t, <-sent)
		if !bytes.Equal(got.Bytes(), pattern(0, total)) {
			t.Errorf("%d of %d bytes have arrived, or others", got.Len(), total)
		}
	})
}

// TestShutdownComesLast: the end of the stream follows the bytes taken before it.
func TestShutdownComesLast(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	fd, client := connected(t, sock)
	n := fill(t, sock, fd)
	must(t, sock.ShutdownWrite(fd))
	if _, err := sock.Write(fd, []byte{1}); err != syscall.EPIPE {
		t.Errorf("Write after ShutdownWrite: %v", err)
	}
	expectPattern(t, client, n)
}

// TestCloseSendsWhatWasTaken: as a kernel does, Close lets what Write has taken go out, and does not wait for it.
func TestCloseSendsWhatWasTaken(t *testing.T) {
	for _, shutdown := range []bool{false, true} {
		s := New()
		s.closeLimit = time.Hour // a Close that waits does not return
		sock := s.NewSockets()
		fd, client := connected(t, sock)
		n := fill(t, sock, fd)
		if shutdown {
			must(t, sock.ShutdownWrite(fd))
		}
		must(t, sock.Close(fd))
		expectPattern(t, client, n)
	}
}

// TestAbort: after Abort, Close drops what Write has taken, and the peer reads a reset.
func TestAbort(t *testing.T) {
	s := New()
	s.closeLimit = time.Hour
	sock := s.NewSockets()
	fd, client := connected(t, sock)
	fill(t, sock, fd)
	must(t, sock.Abort(fd))
	must(t, sock.Close(fd))
	if _, err := io.Copy(io.Discard, client); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer's stream ended with %v", err)
	}
}

// TestPollerWaitsForTheLastBytes: Close of a poller waits for unsent bytes, because the end of a loop is often the end
// of the process.
func TestPollerWaitsForTheLastBytes(t *testing.T) {
	s := New()
	s.exitLimit = testkit.Patience
	sock := s.NewSockets()
	p := s.NewPoller()
	fd, client := connected(t, sock)
	must(t, p.Add(fd, sys.Read, 1))
	n := fill(t, sock, fd)
	must(t, p.Remove(fd))
	must(t, sock.Close(fd))
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	for range 1000 {
		runtime.Gosched()
	}
	if len(closed) > 0 {
		t.Fatal("the poller has not waited")
	}
	expectPattern(t, client, n)
	must(t, <-closed)

	s.exitLimit = time.Millisecond
	p = s.NewPoller()
	fd, client = connected(t, sock)
	must(t, p.Add(fd, sys.Read, 1))
	fill(t, sock, fd)
	must(t, p.Remove(fd))
	must(t, sock.Close(fd))
	must(t, p.Close()) // the peer takes nothing
	must(t, client.Close())
}

// TestCloseLimit: Close does not wait forever for a peer that takes nothing more. The peer learns that bytes are
// missing.
func TestCloseLimit(t *testing.T) {
	s := New()
	s.closeLimit = 20 * time.Millisecond
	sock := s.NewSockets()
	fd, client := connected(t, sock)
	c := s.connOf(t, fd)
	n := fill(t, sock, fd)
	must(t, sock.Close(fd))
	testkit.Eventually(t, "the end of the writer", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.writing
	})
	got, err := io.Copy(io.Discard, client)
	if !errors.Is(err, syscall.ECONNRESET) || got >= int64(n) {
		t.Errorf("the peer read %d of %d bytes, %v", got, n, err)
	}
}

// TestCloseWithUnreadInputResets: as a kernel does.
func TestCloseWithUnreadInputResets(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		sock := s.NewSockets()
		fd, client := connected(t, sock)
		_, err := client.Write([]byte("unread"))
		must(t, err)
		_, err = again(t, func() (int, error) { return sock.Read(fd, make([]byte, 1)) })
		must(t, err)
		must(t, sock.Close(fd))
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the peer read %v", err)
		}
	})
}

// TestCloseOfAnIdleConnection: the peer reads an orderly end, whatever waits inside.
func TestCloseOfAnIdleConnection(t *testing.T) {
	everySystem(t, func(t *testing.T, s *System) {
		sock := s.NewSockets()
		for _, touch := range []bool{false, true} {
			fd, client := connected(t, sock)
			if touch { // starts its reader
				_, err := sock.Read(fd, make([]byte, 1))
				if err != sys.ErrAgain {
					t.Fatal(err)
				}
			}
			must(t, sock.Close(fd))
			if n, err := client.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("the peer read %d, %v", n, err)
			}
		}
	})
}

// TestIdleConnectionHoldsNoBlock: an idle connection that has carried bytes costs its reader's stack, and what package
// net and this one know about it.
func TestIdleConnectionHoldsNoBlock(t *testing.T) {
	const count = 200
	s := New()
	sock := s.NewSockets()
	p := s.NewPoller()
	defer p.Close()
	used := func() int {
		runtime.GC()
		runtime.GC() // the second one takes what the first has left in the pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse)
	}
	fds, clients := make([]int, count), make([]*net.TCPConn, count)
	for i := range count {
		fds[i], clients[i] = connected(t, sock)
	}
	before := used()
	b := make([]byte, 10_000)
	for i, fd := range fds {
		must(t, p.Add(fd, sys.Read, uint64(i)))
		_, err := clients[i].Write(b)
		must(t, err)
		for left := len(b); left > 0; {
			n, err := again(t, func() (int, error) { return sock.Read(fd, b) })
			must(t, err)
			left -= n
		}
		_, err = sock.Write(fd, b)
		must(t, err)
		_, err = io.ReadFull(clients[i], b)
		must(t, err)
	}
	if each := (used() - before) / count; each > smallBlock*4 {
		t.Errorf("%d B for each idle connection", each)
	}
}

func TestSendFile(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	fd, client := connected(t, sock)
	path := filepath.Join(t.TempDir(), "file")
	const size = 300_000
	must(t, os.WriteFile(path, pattern(0, size), 0o600))
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	got := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(client)
		got <- b
	}()
	sent := 0
	for sent < size {
		n, err := again(t, func() (int, error) { return sock.SendFile(fd, f, int64(sent), 100_000) })
		must(t, err)
		if n == 0 {
			t.Fatalf("the file ends at %d", sent)
		}
		sent += n
	}
	if n, err := sock.SendFile(fd, f, size, 1); n != 0 || err != nil {
		t.Errorf("behind the end: %d, %v", n, err)
	}
	if n, err := sock.SendFile(fd, f, 0, 0); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
	for _, bad := range [][2]int{{-1, 1}, {0, -1}} {
		if _, err := sock.SendFile(fd, f, int64(bad[0]), bad[1]); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("offset %d, length %d: %v", bad[0], bad[1], err)
		}
	}
	must(t, sock.ShutdownWrite(fd))
	if !bytes.Equal(<-got, pattern(0, size)) {
		t.Error("the peer has read something else")
	}
	if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
		t.Errorf("the file's position is %d, %v", at, err)
	}
	f.Close()
	other, _ := connected(t, sock)
	if _, err := sock.SendFile(other, f, 0, 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
}

// TestOptions: options reach the system's socket, and do nothing on a socket that is not TCP.
func TestOptions(t *testing.T) {
	s := New()
	sock := s.NewSockets()
	fd, _ := connected(t, sock)
	for _, d := range []time.Duration{time.Minute, 0, -1} {
		must(t, sock.SetKeepAlive(fd, d))
	}
	if err := sock.SetKeepAlive(fd, longestKeepAlive+1); err == nil {
		t.Error("a keep-alive time beyond the limit is taken")
	}
	l := listen(t, sock, "unix", filepath.Join(t.TempDir(), "s"), sys.ListenOptions{})
	u, _, err := sock.Connect("unix", l.Addr, sys.ConnectOptions{})
	must(t, err)
	defer sock.Close(u)
	for _, fd := range []int{l.FD, u, accept(t, sock, l)} {
		must(t, sock.SetKeepAlive(fd, time.Minute))
	}
}
