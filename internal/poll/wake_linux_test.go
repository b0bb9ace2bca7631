package poll

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// eventfdParked is the parked epoll with the wake-up of the blocking one: an
// edge-triggered eventfd that is never read. It is the rejected alternative,
// kept here so that BenchmarkWake goes on comparing.
type eventfdParked struct {
	*epoll
	woken signal
	event int
}

func newEventfdParked(tb testing.TB) *eventfdParked {
	p, err := newParkedEpoll()
	if err != nil {
		tb.Fatal(err)
	}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		tb.Fatal(err)
	}
	err = p.ctl(unix.EPOLL_CTL_ADD, "add", event, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: -1, Pad: -1})
	if err != nil {
		tb.Fatal(err)
	}
	return &eventfdParked{epoll: p, event: event}
}

func (p *eventfdParked) Wait(events []sys.Event, timeout time.Duration) (int, error) {
	if p.woken.pending() {
		timeout = 0
	}
	n, err := p.epoll.Wait(events, timeout)
	p.woken.settle()
	return n, err
}

func (p *eventfdParked) Wake() error {
	if first, err := p.woken.raise(); !first {
		return err
	}
	one := [8]byte{1}
	_, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(p.event), uintptr(unsafe.Pointer(&one)), uintptr(len(one)))
	if errno != 0 {
		return errno
	}
	return nil
}

func (p *eventfdParked) Close() error {
	unix.Close(p.event)
	return p.epoll.Close()
}

// wakeLoop runs tasks on a loop that waits in a poller between them.
type wakeLoop struct {
	p     sys.Poller
	mu    sync.Mutex
	tasks []func()
	sleep atomic.Bool
	stop  atomic.Bool
	done  chan struct{}
}

func startWakeLoop(p sys.Poller, locked bool) *wakeLoop {
	l := &wakeLoop{p: p, done: make(chan struct{})}
	go func() {
		if locked {
			runtime.LockOSThread()
		}
		l.run()
	}()
	return l
}

func (l *wakeLoop) run() {
	defer close(l.done)
	events := make([]sys.Event, 64)
	var spare []func()
	for !l.stop.Load() {
		l.mu.Lock()
		tasks := l.tasks
		l.tasks = spare[:0]
		l.mu.Unlock()
		for _, f := range tasks {
			f()
		}
		clear(tasks)
		spare = tasks
		timeout := time.Duration(0)
		if len(tasks) == 0 {
			l.sleep.Store(true)
			l.mu.Lock()
			if len(l.tasks) == 0 {
				timeout = -1
			}
			l.mu.Unlock()
		}
		l.p.Wait(events, timeout)
		l.sleep.Store(false)
	}
}

func (l *wakeLoop) post(f func()) {
	l.mu.Lock()
	l.tasks = append(l.tasks, f)
	l.mu.Unlock()
	if l.sleep.Load() {
		l.p.Wake()
	}
}

func (l *wakeLoop) close() {
	l.stop.Store(true)
	l.p.Wake()
	<-l.done
	l.p.Close()
}

// BenchmarkWake hands a task to a sleeping loop and back.
func BenchmarkWake(b *testing.B) {
	for _, kind := range []string{"deadline", "eventfd", "pinned", "poll"} {
		for _, busy := range []bool{false, true} {
			for _, senders := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/busy=%v/senders=%d", kind, busy, senders), func(b *testing.B) {
					benchmarkWake(b, kind, busy, senders)
				})
			}
		}
	}
}

func benchmarkWake(b *testing.B, kind string, busy bool, senders int) {
	var p sys.Poller
	var err error
	switch kind {
	case "deadline":
		p, err = New("epoll", Parked)
	case "pinned":
		p, err = New("epoll", Pinned)
	case "poll":
		p, err = New("poll", Parked)
	default:
		p = newEventfdParked(b)
	}
	if err != nil {
		b.Fatal(err)
	}
	l := startWakeLoop(p, kind == "pinned")
	defer l.close()
	if busy {
		defer burn()()
	}
	took := make([][]time.Duration, senders)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			back := make(chan struct{}, 1)
			answer := func() { back <- struct{}{} }
			for left.Add(-1) >= 0 {
				start := time.Now()
				l.post(answer)
				<-back
				took[s] = append(took[s], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2]), "p50-ns")
	b.ReportMetric(float64(all[len(all)*999/1000]), "p99.9-ns")
}

// burn keeps every CPU busy with goroutines that compute for 20 µs at a time.
func burn() (stop func()) {
	var quit atomic.Bool
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !quit.Load() {
				for start := time.Now(); time.Since(start) < 20*time.Microsecond; {
				}
				runtime.Gosched()
			}
		})
	}
	return func() {
		quit.Store(true)
		wg.Wait()
	}
}
