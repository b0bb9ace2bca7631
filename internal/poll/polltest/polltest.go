// Package polltest tests an implementation of sys.Poller against its contract, together with the sockets that belong to
// it. The tests of packages poll and netsys run it on each of their backends.
package polltest

import (
	"net"
	"testing"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Kernel is the subject of the tests: a poller and the sockets whose descriptors it takes.
type Kernel struct {
	Sockets func() sys.Sockets
	Poller  func() (sys.Poller, error)
}

// Run tests the kernel, one subtest for each clause of the contract.
func Run(t *testing.T, k Kernel) {
	for _, group := range []map[string]func(*stage){readiness, registration, waiting} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) { test(newStage(t, k)) })
		}
	}
}

// patience is how long a test waits for what must happen.
const patience = 10 * time.Second

// stage is one poller and what a test needs around it.
type stage struct {
	*testing.T
	k        Kernel
	p        sys.Poller
	sock     sys.Sockets
	listener *sys.Listener
}

func newStage(t *testing.T, k Kernel) *stage {
	s := &stage{T: t, k: k, sock: k.Sockets()}
	s.p = s.poller()
	return s
}

// poller opens one more poller.
func (s *stage) poller() sys.Poller {
	s.Helper()
	p, err := s.k.Poller()
	s.must(err)
	s.Cleanup(func() { _ = p.Close() }) // tests close it, too
	return p
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// until calls happened repeatedly until it returns true.
func (s *stage) until(what string, happened func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			s.Fatalf("still not: %s", what)
		}
	}
}

// listen opens a listener on the loopback interface.
func (s *stage) listen(o sys.ListenOptions) sys.Listener {
	s.Helper()
	l, err := s.sock.Listen("tcp", "127.0.0.1:0", o)
	s.must(err)
	s.Cleanup(func() { _ = s.sock.Close(l.FD) }) // tests close it, too
	return l
}

// accepted returns a connection: the descriptor that a server has accepted, and its client.
func (s *stage) accepted() (fd int, client *net.TCPConn) {
	s.Helper()
	if s.listener == nil {
		l := s.listen(sys.ListenOptions{})
		s.listener = &l
	}
	c, err := net.Dial("tcp", s.listener.Addr.String())
	s.must(err)
	s.Cleanup(func() { _ = c.Close() }) // tests close it, too
	s.until("a connection to accept", func() bool {
		fd, _, err = s.sock.Accept(s.listener.FD)
		return err != sys.ErrAgain //nolint:errorlint // this very value
	})
	s.must(err)
	s.Cleanup(func() { _ = s.sock.Close(fd) }) // tests close it, too
	return fd, c.(*net.TCPConn)
}

// pair returns both ends of a connection as descriptors.
func (s *stage) pair() (a, b int) {
	s.Helper()
	l := s.listen(sys.ListenOptions{})
	b, done, err := s.sock.Connect("tcp", l.Addr, sys.ConnectOptions{})
	s.must(err)
	s.Cleanup(func() { _ = s.sock.Close(b) }) // tests close it, too
	s.until("a connection to accept", func() bool {
		a, _, err = s.sock.Accept(l.FD)
		return err != sys.ErrAgain //nolint:errorlint // this very value
	})
	s.must(err)
	s.Cleanup(func() { _ = s.sock.Close(a) }) // tests close it, too
	if !done {
		s.until("the outcome of the attempt", func() bool {
			err = s.sock.ConnectError(b)
			return err != sys.ErrAgain //nolint:errorlint // this very value
		})
		s.must(err)
	}
	s.must(s.sock.Close(l.FD))
	return a, b
}

// reset makes a client end its connection with RST.
func (s *stage) reset(client *net.TCPConn) {
	s.Helper()
	s.must(client.SetLinger(0))
	s.must(client.Close())
}

func (s *stage) write(fd, n int) {
	s.Helper()
	if m, err := s.sock.Write(fd, make([]byte, n)); m != n || err != nil {
		s.Fatalf("write of %d bytes: %d, %v", n, m, err)
	}
}

// drain reads n bytes and checks that no more come.
func (s *stage) drain(fd, n int) {
	s.Helper()
	b := make([]byte, 64<<10)
	s.until("all that was written", func() bool {
		for {
			m, err := s.sock.Read(fd, b)
			if err == sys.ErrAgain { //nolint:errorlint // this very value
				return n == 0
			}
			if n -= m; err != nil || m == 0 || n < 0 {
				s.Fatalf("read %d, %v with %d to go", m, err, n)
			}
		}
	})
}

// fillUp writes until nothing more is taken for a while, and returns how much that was.
func (s *stage) fillUp(fd int) (total int) {
	s.Helper()
	b := make([]byte, 64<<10)
	for full := 0; full < 20; {
		n, err := s.sock.Write(fd, b)
		total += n
		if err == sys.ErrAgain { //nolint:errorlint // this very value
			full++
			time.Sleep(time.Millisecond) // in which the peer's side may take some
			continue
		}
		s.must(err)
		full = 0
	}
	return total
}

// next waits for events and ignores early returns.
func (s *stage) next() []sys.Event {
	s.Helper()
	events := make([]sys.Event, 16)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		n, err := s.p.Wait(events, time.Second)
		s.must(err)
		if n > 0 {
			return events[:n]
		}
	}
	s.Fatal("no event")
	return nil
}

// expect waits for one event and compares it.
func (s *stage) expect(token uint64, ready sys.Ready) {
	s.Helper()
	got := s.next()
	if len(got) != 1 || got[0] != (sys.Event{Token: token, Ready: ready}) {
		s.Fatalf("got %+v, want %b of %d", got, ready, token)
	}
}

// ready returns what the poller reports now, without waiting.
func (s *stage) ready() []sys.Event {
	s.Helper()
	events := make([]sys.Event, 16)
	n, err := s.p.Wait(events, 0)
	s.must(err)
	return events[:n]
}

// expectNothing asks several times, because one answer may be early.
func (s *stage) expectNothing() {
	s.Helper()
	for range 5 {
		if got := s.ready(); len(got) != 0 {
			s.Fatalf("got %+v, want nothing", got)
		}
	}
}
