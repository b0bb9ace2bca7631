//go:build unix

package poll

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// patience is how long a test waits for what must happen.
const patience = 10 * time.Second

// everyPoller runs a test on each backend of this platform in each mode.
func everyPoller(t *testing.T, test func(t *testing.T, p sys.Poller)) {
	t.Helper()
	for _, name := range Available() {
		for _, mode := range []Mode{Parked, Pinned} {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				test(t, open(t, name, mode))
			})
		}
	}
}

func open(tb testing.TB, name string, mode Mode) sys.Poller {
	tb.Helper()
	p, err := New(name, mode)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { p.Close() })
	return p
}

// pair is two connected non-blocking descriptors.
func pair(tb testing.TB) (a, b int) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(err)
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { unix.Close(fd) })
	}
	return fds[0], fds[1]
}

// accepted is a TCP connection: the descriptor that a server has accepted, and
// its client.
func accepted(tb testing.TB) (fd int, client *net.TCPConn) {
	tb.Helper()
	s := sys.NewSockets()
	l, err := s.Listen("tcp", "127.0.0.1:0", sys.ListenOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Close(l.FD)
	c, err := net.Dial("tcp", l.Addr.String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	until(tb, "a connection to accept", func() bool {
		fd, _, err = s.Accept(l.FD)
		return err != sys.ErrAgain
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Close(fd) })
	return fd, c.(*net.TCPConn)
}

// reset makes a client end its connection with RST.
func reset(tb testing.TB, client *net.TCPConn) {
	tb.Helper()
	must(tb, client.SetLinger(0))
	must(tb, client.Close())
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// until calls happened again and again until it returns true.
func until(tb testing.TB, what string, happened func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			tb.Fatalf("still not: %s", what)
		}
	}
}

// next waits for events, over early returns.
func next(tb testing.TB, p sys.Poller) []sys.Event {
	tb.Helper()
	events := make([]sys.Event, 16)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		n, err := p.Wait(events, time.Second)
		must(tb, err)
		if n > 0 {
			return events[:n]
		}
	}
	tb.Fatal("no event")
	return nil
}

// expect waits for one event and compares it.
func expect(tb testing.TB, p sys.Poller, want sys.Event) {
	tb.Helper()
	got := next(tb, p)
	if len(got) != 1 || got[0] != want {
		tb.Fatalf("got %+v, want %+v", got, want)
	}
}

// ready is what a poller reports now, without waiting.
func ready(tb testing.TB, p sys.Poller) []sys.Event {
	tb.Helper()
	events := make([]sys.Event, 16)
	n, err := p.Wait(events, 0)
	must(tb, err)
	return events[:n]
}

// expectNothing asks several times, because one answer may be early.
func expectNothing(tb testing.TB, p sys.Poller) {
	tb.Helper()
	for range 5 {
		if got := ready(tb, p); len(got) != 0 {
			tb.Fatalf("got %+v, want nothing", got)
		}
	}
}

func write(tb testing.TB, fd int, n int) {
	tb.Helper()
	if m, err := unix.Write(fd, make([]byte, n)); m != n || err != nil {
		tb.Fatalf("write of %d bytes: %d, %v", n, m, err)
	}
}

// drain reads until nothing is left.
func drain(tb testing.TB, fd int) {
	tb.Helper()
	b := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, b)
		if err == unix.EAGAIN || n == 0 && err == nil {
			return
		}
		must(tb, err)
	}
}

// fillUp writes until the socket takes no more.
func fillUp(tb testing.TB, fd int) {
	tb.Helper()
	b := make([]byte, 64<<10)
	for {
		if _, err := unix.Write(fd, b); err != nil {
			if err != unix.EAGAIN {
				tb.Fatal(err)
			}
			if len(b) == 1 {
				return
			}
			b = b[:1]
		}
	}
}
