package poll

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
	"github.com/go-eddy/eddy/internal/testkit"
)

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

// TestWaitWithoutPwait2: on a kernel that counts only milliseconds a wait is
// rounded up, so that it does not end before its deadline.
func TestWaitWithoutPwait2(t *testing.T) {
	p, err := newBlockingEpoll()
	must(t, err)
	defer p.Close()
	p.wait.(*blockingWait).coarse = true
	events := make([]sys.Event, 4)
	for _, timeout := range []time.Duration{1, 100 * time.Microsecond, 1100 * time.Microsecond, 5 * time.Millisecond} {
		start := time.Now()
		if n, err := p.Wait(events, timeout); n != 0 || err != nil {
			t.Fatalf("Wait(%v) = %d, %v", timeout, n, err)
		}
		if took := time.Since(start); took < timeout {
			t.Errorf("Wait(%v) took only %v", timeout, took)
		}
	}
	must(t, p.Wake())
	if n, err := p.Wait(events, testkit.Patience); n != 0 || err != nil {
		t.Fatalf("Wait = %d, %v", n, err)
	}
}

// TestParkedFallsBack: a descriptor that the runtime cannot poll is refused and
// closed, and a poller that cannot park works all the same.
func TestParkedFallsBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plain")
	must(t, os.WriteFile(path, nil, 0o600))
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	if k, err := newParker(fd, "plain"); err == nil {
		k.close()
		t.Fatal("the runtime polls a plain file")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the refused descriptor is still open: %v", err)
	}
}

// TestParkedHoldsNoThread: a parked wait holds no thread, which is the purpose
// of the mode.
func TestParkedHoldsNoThread(t *testing.T) {
	const loops = 200
	before := threads(t)
	var wg sync.WaitGroup
	var pollers []sys.Poller
	for range loops {
		p := open(t, "epoll", Parked)
		pollers = append(pollers, p)
		wg.Go(func() {
			if _, err := p.Wait(make([]sys.Event, 1), -1); err != nil {
				t.Error(err)
			}
		})
	}
	for _, p := range pollers {
		if _, parked := p.(*epoll).wait.(*parkedWait); !parked {
			t.Fatal("a poller fell back to blocking")
		}
	}
	testkit.Eventually(t, "the waits to begin", func() bool {
		stacks := make([]byte, 1<<20)
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte(".(*parker).park(")) == loops
	})
	if grown := threads(t) - before; grown > loops/4 {
		t.Errorf("%d waiting loops took %d threads", loops, grown)
	}
	for _, p := range pollers {
		must(t, p.Wake())
	}
	wg.Wait()
}

func threads(tb testing.TB) int {
	tb.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	must(tb, err)
	return len(tasks)
}

func TestWaitAllocatesNothing(t *testing.T) {
	everyPoller(t, func(t *testing.T, p sys.Poller) {
		a, b := pair(t)
		must(t, p.Add(a, sys.Read, 1))
		events := make([]sys.Event, 4)
		one := make([]byte, 1)
		for _, c := range []struct {
			name string
			run  func()
		}{
			{"nothing ready", func() { p.Wait(events, 0) }},
			{"timeout", func() { p.Wait(events, time.Microsecond) }},
			{"woken", func() { p.Wake(); p.Wait(events, testkit.Patience) }},
			{"interest", func() { p.Modify(a, sys.None, 1); p.Modify(a, sys.Read, 2) }},
			{"registration", func() { p.Remove(a); p.Add(a, sys.Read, 2) }},
			{"ready", func() { unix.Write(b, one); p.Wait(events, testkit.Patience); unix.Read(a, one) }},
		} {
			if n := testing.AllocsPerRun(100, c.run); n != 0 {
				t.Errorf("%s: %v allocations", c.name, n)
			}
		}
	})
}
