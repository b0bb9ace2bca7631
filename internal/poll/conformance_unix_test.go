//go:build unix

package poll

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

func TestNew(t *testing.T) {
	if got := Available(); len(got) == 0 || got[0] != Default() || !slices.Contains(got, "poll") || !slices.Contains(got, "select") {
		t.Fatalf("Available() = %q with default %q", got, Default())
	}
	if p := open(t, "", Parked); p.Name() != Default() {
		t.Errorf("the default poller is %q, want %q", p.Name(), Default())
	}
	for _, name := range Available() {
		if p := open(t, name, Pinned); p.Name() != name {
			t.Errorf("New(%q) made a %q", name, p.Name())
		}
	}
	_, err := New("iocp", Parked)
	if err == nil {
		t.Fatal("an unknown backend opened")
	}
	for _, want := range append(Available(), "iocp") {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	if _, err := New("", Mode(7)); err == nil {
		t.Error("an unknown mode opened")
	}
}

func TestReadable(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 7))
		expectNothing(t, p)
		write(t, b, 1)
		expect(t, p, sys.Event{Token: 7, Ready: sys.Readable})
		expect(t, p, sys.Event{Token: 7, Ready: sys.Readable}) // level-triggered
		drain(t, a)
		expectNothing(t, p)
		write(t, b, 1)
		expect(t, p, sys.Event{Token: 7, Ready: sys.Readable})
	})
}

func TestReadableBeforeAdd(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		write(t, b, 1)
		must(t, p.Add(a, sys.Read, 7))
		expect(t, p, sys.Event{Token: 7, Ready: sys.Readable})
	})
}

func TestAcceptable(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		s := sys.NewSockets()
		l, err := s.Listen("tcp", "127.0.0.1:0", sys.ListenOptions{})
		must(t, err)
		defer s.Close(l.FD)
		must(t, p.Add(l.FD, sys.Read, 9))
		expectNothing(t, p)
		sa, err := unix.Getsockname(l.FD)
		must(t, err)
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		must(t, err)
		defer unix.Close(fd)
		must(t, unix.Connect(fd, sa))
		expect(t, p, sys.Event{Token: 9, Ready: sys.Readable})
	})
}

func TestWritable(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Write, 7))
		expect(t, p, sys.Event{Token: 7, Ready: sys.Writable})
		fillUp(t, a)
		expectNothing(t, p)
		drain(t, b)
		expect(t, p, sys.Event{Token: 7, Ready: sys.Writable})
	})
}

// TestConnectable: the outcome of a connection attempt is Writable, good or bad;
// nothing is reported before.
func TestConnectable(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		s := sys.NewSockets()
		l, err := s.Listen("tcp", "127.0.0.1:0", sys.ListenOptions{Backlog: 1})
		must(t, err)
		fd, _, err := s.Connect("tcp", l.Addr, sys.ConnectOptions{})
		must(t, err)
		defer s.Close(fd)
		must(t, p.Add(fd, sys.Write, 7))
		expect(t, p, sys.Event{Token: 7, Ready: sys.Writable})
		must(t, s.ConnectError(fd))
		must(t, p.Remove(fd))
		if runtime.GOOS == "linux" { // where a full queue leaves an attempt without an answer
			var fd int
			for range 5 {
				fd, _, err = s.Connect("tcp", l.Addr, sys.ConnectOptions{})
				must(t, err)
				defer s.Close(fd)
			}
			must(t, p.Add(fd, sys.Write, 8))
			expectNothing(t, p)
			must(t, p.Remove(fd))
		}
		must(t, s.Close(l.FD))
		fd, _, err = s.Connect("tcp", l.Addr, sys.ConnectOptions{})
		if err != nil { // refused at once
			return
		}
		defer s.Close(fd)
		must(t, p.Add(fd, sys.Write, 9))
		got := next(t, p)
		if len(got) != 1 || got[0].Token != 9 || got[0].Ready&sys.Writable == 0 {
			t.Fatalf("a refused attempt reported %+v", got)
		}
		if err := s.ConnectError(fd); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("ConnectError: %v", err)
		}
	})
}

func TestInterestChanges(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.None, 1))
		write(t, b, 1)
		expectNothing(t, p)
		for i, step := range []struct {
			in   sys.Interest
			want sys.Ready
		}{
			{sys.Read, sys.Readable},
			{sys.Read | sys.Write, sys.Readable | sys.Writable},
			{sys.Write, sys.Writable},
			{sys.None, 0},
			{sys.Write, sys.Writable},
			{sys.Read, sys.Readable},
			{sys.None, 0},
			{sys.None, 0},
			{sys.Read | sys.Write, sys.Readable | sys.Writable},
		} {
			token := uint64(100 + i)
			must(t, p.Modify(a, step.in, token))
			if step.want == 0 {
				expectNothing(t, p)
				continue
			}
			var got sys.Ready
			for _, e := range next(t, p) { // a backend may report conditions apart
				if e.Token != token {
					t.Fatalf("step %d: token %d, want %d", i, e.Token, token)
				}
				got |= e.Ready
			}
			if got != step.want {
				t.Fatalf("step %d: ready %b, want %b", i, got, step.want)
			}
		}
	})
}

func TestEndOfStream(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		fd, client := accepted(t)
		must(t, p.Add(fd, sys.Read, 7))
		must(t, client.CloseWrite())
		expect(t, p, sys.Event{Token: 7, Ready: sys.Readable})
		if n, err := unix.Read(fd, make([]byte, 1)); n != 0 || err != nil {
			t.Fatalf("read at the end of the stream: %d, %v", n, err)
		}
	})
}

func TestReset(t *testing.T) {
	for _, in := range []sys.Interest{sys.Read, sys.Write, sys.Read | sys.Write} {
		everyPoller(t, func(t *testing.T, p sys.Poller) {
			fd, client := accepted(t)
			if in&sys.Write != 0 {
				fillUp(t, fd)
			}
			must(t, p.Add(fd, in, 7))
			expectNothing(t, p)
			reset(t, client)
			got := next(t, p)[0]
			if got.Token != 7 || got.Ready&(sys.Readable|sys.Writable|sys.Hangup|sys.Failed) == 0 {
				t.Fatalf("got %+v", got)
			}
		})
	}
}

func TestPausedConnectionDoesNotSpin(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		fd, client := accepted(t)
		must(t, p.Add(fd, sys.Read, 7))
		expectNothing(t, p)
		must(t, p.Modify(fd, sys.None, 7))
		if _, err := client.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		until(t, "data at the paused socket", func() bool {
			n, _, err := unix.Recvfrom(fd, make([]byte, 200), unix.MSG_PEEK)
			return err == nil && n == 100
		})
		expectNothing(t, p)
		reset(t, client)
		until(t, "an error at the paused socket", func() bool { return failed(fd) })
		told := 0
		for range 20 {
			for _, e := range ready(t, p) {
				told++
				if e.Token != 7 || e.Ready&^(sys.Hangup|sys.Failed) != 0 {
					t.Fatalf("a paused connection reported %+v", e)
				}
			}
		}
		if told > 1 {
			t.Fatalf("a paused connection reported its end %d times", told)
		}
		must(t, p.Modify(fd, sys.Read, 8))
		if got := next(t, p)[0]; got.Token != 8 || got.Ready&sys.Readable == 0 {
			t.Fatalf("after resuming: %+v", got)
		}
	})
}

// TestPausedConnectionEnds: that the peer has gone is told also under None, and
// once. Looking for it makes no wait shorter or longer.
func TestPausedConnectionEnds(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		alive, _ := accepted(t)
		must(t, p.Add(alive, sys.None, 1))
		fd, client := accepted(t)
		must(t, p.Add(fd, sys.Read, 2))
		must(t, p.Modify(fd, sys.None, 3))
		expectNothing(t, p)
		reset(t, client)
		got := next(t, p)
		if len(got) != 1 || got[0].Token != 3 || got[0].Ready == 0 || got[0].Ready&^(sys.Hangup|sys.Failed) != 0 {
			t.Fatalf("got %+v", got)
		}
		events := make([]sys.Event, 4)
		const timeout = 5 * glance / 4
		start := time.Now()
		waits := 0
		for left := timeout; left > 0; left = timeout - time.Since(start) {
			n, err := p.Wait(events, left)
			if n != 0 || err != nil {
				t.Fatalf("told again: %d, %v", n, err)
			}
			waits++
		}
		if took := time.Since(start); waits > 3 || took > patience/2 { // an earlier deadline may cut one short, or a signal
			t.Errorf("%d waits and %v for %v", waits, took, timeout)
		}
		l := startWaiter(p, func() bool { return true })
		must(t, p.Wake())
		l.join(t)
		must(t, p.Remove(fd))
		must(t, p.Remove(alive))
	})
}

// failed asks the kernel directly whether a socket carries an error.
func failed(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}

func TestTokens(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		write(t, b, 1)
		must(t, p.Add(a, sys.Read, 0))
		for _, token := range []uint64{0, 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 63, sys.ReservedToken - 1, 0x0123456789abcdef} {
			must(t, p.Modify(a, sys.Read, token))
			expect(t, p, sys.Event{Token: token, Ready: sys.Readable})
		}
		if p.Modify(a, sys.Read, sys.ReservedToken) == nil || p.Add(b, sys.Read, sys.ReservedToken) == nil {
			t.Error("the reserved token was taken")
		}
	})
}

func TestRemove(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 7))
		write(t, b, 1)
		expect(t, p, sys.Event{Token: 7, Ready: sys.Readable})
		must(t, p.Remove(a))
		expectNothing(t, p)
		must(t, p.Add(a, sys.Read, 8))
		expect(t, p, sys.Event{Token: 8, Ready: sys.Readable})
		must(t, p.Modify(a, sys.None, 8))
		must(t, p.Remove(a))
		expectNothing(t, p)
	})
}

func TestWrongUse(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 1))
		for _, c := range []struct {
			what string
			got  error
			want error
		}{
			{"add twice", p.Add(a, sys.Read, 2), syscall.EEXIST},
			{"modify unknown", p.Modify(b, sys.Read, 2), syscall.ENOENT},
			{"remove unknown", p.Remove(b), syscall.ENOENT},
			{"add -1", p.Add(-1, sys.Read, 2), syscall.EBADF},
			{"modify -1", p.Modify(-1, sys.Read, 2), syscall.EBADF},
			{"remove -1", p.Remove(-1), syscall.EBADF},
		} {
			if !errors.Is(c.got, c.want) || !strings.HasPrefix(c.got.Error(), "poll: ") {
				t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
			}
		}
		if _, err := p.Wait(nil, 0); err == nil {
			t.Error("Wait without room for events succeeded")
		}
		write(t, b, 1)
		expect(t, p, sys.Event{Token: 1, Ready: sys.Readable}) // the mistakes changed nothing
	})
}

func TestClosed(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, _ := pair(t)
		b, _ := pair(t)
		must(t, p.Add(a, sys.Read, 1))
		must(t, p.Close())
		_, wait := p.Wait(make([]sys.Event, 1), 0)
		_, sleep := p.Wait(make([]sys.Event, 1), -1)
		for what, err := range map[string]error{
			"Wait": wait, "Wait without limit": sleep, "Wake": p.Wake(), "Add": p.Add(b, sys.Read, 1),
			"Modify": p.Modify(a, sys.Read, 1), "Remove": p.Remove(a), "Close": p.Close(),
		} {
			if !errors.Is(err, sys.ErrPollerClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
		if _, err := unix.FcntlInt(uintptr(a), unix.F_GETFD, 0); err != nil {
			t.Errorf("Close took a registered descriptor with it: %v", err)
		}
	})
}

func TestManyDescriptors(t *testing.T) {
	const count = 400 // with two descriptors each, within the reach of select(2)
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		var in, out [count]int
		for i := range count {
			in[i], out[i] = pair(t)
			must(t, p.Add(in[i], sys.Read, uint64(i)))
		}
		for i := 1; i < count; i += 2 {
			write(t, out[i], 1)
		}
		// With room for 16 events and nobody reading, all have their turn.
		seen := make(map[uint64]bool)
		until(t, "all descriptors to be reported", func() bool {
			for _, e := range ready(t, p) {
				if e.Token%2 == 0 || e.Ready != sys.Readable {
					t.Fatalf("unexpected %+v", e)
				}
				seen[e.Token] = true
			}
			return len(seen) == count/2
		})
		for i := range count / 4 { // takes from the middle of dense arrays
			must(t, p.Remove(in[i]))
		}
		seen = make(map[uint64]bool)
		events := make([]sys.Event, count)
		n, err := p.Wait(events, patience)
		must(t, err)
		for _, e := range events[:n] {
			seen[e.Token] = true
		}
		for i := range uint64(count) {
			if want := i >= count/4 && i%2 == 1; seen[i] != want {
				t.Fatalf("descriptor %d reported: %v, want %v", i, seen[i], want)
			}
		}
	})
}

func TestDescriptorReuse(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		for round := range uint64(50) {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			must(t, err)
			must(t, p.Add(fds[0], sys.Read, round))
			write(t, fds[1], 1)
			expect(t, p, sys.Event{Token: round, Ready: sys.Readable})
			if round%2 == 0 {
				must(t, p.Modify(fds[0], sys.None, round))
			}
			must(t, p.Remove(fds[0]))
			must(t, unix.Close(fds[0]))
			must(t, unix.Close(fds[1]))
		}
		expectNothing(t, p)
	})
}
