package poll

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestGateByProcessors: there is a gate only where another thread could sleep in the runtime's poller.
func TestGateByProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2} {
		runtime.GOMAXPROCS(procs)
		p, err := newParkedEpoll()
		must(t, err)
		if gated := p.wait.(*parkedWait).gate != nil; gated != (procs > 1) {
			t.Errorf("%d processors: gate %v", procs, gated)
		}
		fd := p.fd
		must(t, p.Close())
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("%d processors: Close left the epoll descriptor open (%v)", procs, err)
		}
		if err := p.Close(); err != sys.ErrPollerClosed {
			t.Errorf("second Close: %v", err)
		}
	}
}

// gated runs a test with and without a gate, whatever the number of processors.
func gated(t *testing.T, test func(t *testing.T, p *epoll)) {
	for name, with := range map[string]bool{"gate": true, "no gate": false} {
		t.Run(name, func(t *testing.T) {
			p, err := newGatedEpoll(with)
			must(t, err)
			t.Cleanup(func() { p.Close() })
			test(t, p)
		})
	}
}

// TestGateLosesNothing: a parked wait ends for data that comes before it, during it and after a wake-up, in any order.
// That also holds when data is taken between two waits, and when it is left.
func TestGateLosesNothing(t *testing.T) {
	gated(t, func(t *testing.T, p *epoll) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 7))
		events := make([]sys.Event, 4)
		wait := func(step string, want int) {
			t.Helper()
			start := time.Now()
			n, err := p.Wait(events, testkit.Patience)
			if err != nil || n != want || time.Since(start) > testkit.Patience/2 {
				t.Fatalf("%s: %d events, want %d, error %v, after %v", step, n, want, err, time.Since(start))
			}
		}
		var all sync.WaitGroup
		defer all.Wait()
		later := func(f func()) { all.Go(func() { time.Sleep(2 * time.Millisecond); f() }) }
		for range 20 {
			write(t, b, 1)
			wait("came before", 1)
			wait("was left", 1)
			drain(t, a)
			later(func() { write(t, b, 1) })
			wait("came during", 1)
			drain(t, a)
			later(func() { must(t, p.Wake()) })
			wait("woken", 0)
			write(t, b, 1)
			wait("came after a wake-up", 1)
			later(func() { must(t, p.Wake()) })
			drain(t, a)
			wait("woken after events", 0)
			later(func() { write(t, b, 1) })
			wait("came during, after a wake-up", 1)
			drain(t, a)
			if n, err := p.Wait(events, time.Millisecond); n != 0 || err != nil {
				t.Fatalf("timeout: %d events, %v", n, err)
			}
		}
	})
}

// TestGateUnderStress: while wake-ups and data come at any moment, every byte is found in the end.
func TestGateUnderStress(t *testing.T) {
	gated(t, func(t *testing.T, p *epoll) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 7))
		const rounds = 2000
		got := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			for range rounds {
				write(t, b, 1)
				<-got
			}
		})
		over := make(chan struct{})
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					must(t, p.Wake())
					runtime.Gosched()
				}
			}
		})
		events := make([]sys.Event, 4)
		for found, end := 0, time.Now().Add(2*testkit.Patience); found < rounds; {
			n, err := p.Wait(events, testkit.Patience)
			must(t, err)
			if time.Now().After(end) {
				t.Fatalf("%d of %d bytes found", found, rounds)
			}
			if n > 0 {
				drain(t, a)
				found++
				got <- struct{}{}
			}
		}
		close(over)
		all.Wait()
	})
}

// TestClosedGate: the runtime's poller hears of data while the loop is parked, and not while it works.
func TestClosedGate(t *testing.T) {
	p, err := newGatedEpoll(true)
	must(t, err)
	defer p.Close()
	a, b := pair(t)
	must(t, p.Add(a, sys.Read, 7))
	g := p.wait.(*parkedWait).gate
	write(t, b, 1)
	if g.drop() {
		t.Error("a new gate lets reports through")
	}
	for i := range 3 {
		if errno := g.lift(); errno != 0 {
			t.Fatal(errno)
		}
		if !g.drop() {
			t.Fatalf("%d: an open gate holds back what is ready", i)
		}
		write(t, b, 1)
		if g.drop() {
			t.Errorf("%d: a gate lets a second report through", i)
		}
		if errno := g.lift(); errno != 0 {
			t.Fatal(errno)
		}
		if errno := g.shut(false); errno != 0 {
			t.Fatal(errno)
		}
		write(t, b, 1)
		if g.drop() {
			t.Errorf("%d: a shut gate lets reports through", i)
		}
	}
}

// TestGateTellsAgain: data that came while the gate was shut is reported when the gate is opened, also when an older
// report was left in it. The runtime is told of changes only, so the kernel has to make one.
func TestGateTellsAgain(t *testing.T) {
	p, err := newGatedEpoll(true)
	must(t, err)
	defer p.Close()
	a, b := pair(t)
	must(t, p.Add(a, sys.Read, 7))
	g := p.wait.(*parkedWait).gate
	outer, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	must(t, err)
	defer unix.Close(outer)
	must(t, unix.EpollCtl(outer, unix.EPOLL_CTL_ADD, g.fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET&(1<<32-1)}))
	told := func() bool {
		n, err := unix.EpollWait(outer, make([]unix.EpollEvent, 1), 0)
		must(t, err)
		return n == 1
	}
	for i := range 3 {
		if errno := g.lift(); errno != 0 {
			t.Fatal(errno)
		}
		if i == 0 {
			write(t, b, 1)
		}
		if !told() {
			t.Errorf("%d: not told of what is ready", i)
		}
		if errno := g.shut(false); errno != 0 { // as after a wake-up
			t.Fatal(errno)
		}
	}
}

// drain reads all there is.
func drain(t *testing.T, fd int) {
	t.Helper()
	for {
		if _, err := unix.Read(fd, make([]byte, 64)); err != nil {
			if err != unix.EAGAIN {
				t.Fatal(err)
			}
			return
		}
	}
}
