//go:build unix

package poll

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

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

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// next waits for events, over early returns.
func next(tb testing.TB, p sys.Poller) []sys.Event {
	tb.Helper()
	events := make([]sys.Event, 16)
	for end := time.Now().Add(testkit.Patience); time.Now().Before(end); {
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
