package poll

import (
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/go-eddy/eddy/internal/sys"
)

// blockingWait blocks the thread in the kernel and is woken through an eventfd.
// The eventfd is edge-triggered and never read. Each write is one edge, and its
// 64-bit count does not overflow in a lifetime.
type blockingWait struct {
	woken  signal
	coarse bool // the kernel has no epoll_pwait2

	mu    sync.Mutex // keeps close from pulling event from under a wake
	event int        // the eventfd
	epoll int
}

func newBlockingEpoll() (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	p := &epoll{fd: fd, wait: &blockingWait{event: event, epoll: fd}}
	err = p.ctl(unix.EPOLL_CTL_ADD, "add", event, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLET,
		Fd:     -1, Pad: -1, // sys.ReservedToken
	})
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (w *blockingWait) sleep(p *epoll, timeout time.Duration) error {
	defer w.settle()
	p.collect()
	if p.n != 0 || p.errno != 0 || w.woken.pending() {
		return nil
	}
	w.block(p, timeout)
	return nil
}

// block waits in the kernel, to the nanosecond where it can.
func (w *blockingWait) block(p *epoll, timeout time.Duration) {
	if timeout < 0 || w.coarse {
		w.blockMilliseconds(p, milliseconds(timeout))
		return
	}
	limit := [2]int64{int64(timeout / time.Second), int64(timeout % time.Second)} // 64-bit on every architecture
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	if errno == syscall.ENOSYS || errno == syscall.EPERM { // old kernel, or a sandbox that does not know the call
		w.coarse = true
		w.blockMilliseconds(p, milliseconds(timeout))
		return
	}
	p.result(int(n), errno)
}

func (w *blockingWait) blockMilliseconds(p *epoll, ms int) {
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), uintptr(ms), 0, 0)
	p.result(int(n), errno)
}

func (w *blockingWait) settle() { w.woken.settle() }

func (w *blockingWait) wake() error {
	if first, err := w.woken.raise(); !first {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.woken.closed() {
		return sys.ErrPollerClosed
	}
	one := [8]byte{1} // any number but 0 and the largest, in either byte order
	for {
		_, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(w.event), uintptr(unsafe.Pointer(&one)), uintptr(len(one)))
		if errno == 0 {
			return nil
		}
		if errno != syscall.EINTR {
			return errno
		}
	}
}

func (w *blockingWait) close() error {
	if !w.woken.shut() {
		return sys.ErrPollerClosed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	unix.Close(w.event)
	return unix.Close(w.epoll)
}
