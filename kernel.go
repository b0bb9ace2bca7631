package eddy

import (
	"runtime"
	"time"

	"github.com/go-eddy/eddy/internal/backend"
	"github.com/go-eddy/eddy/internal/poll"
	"github.com/go-eddy/eddy/internal/sys"
)

// kernel holds the services that a group takes from the operating system.
type kernel struct {
	sockets func() sys.Sockets
	clock   sys.Clock
	poller  func(name string, wait WaitMode) (sys.Poller, error)
	start   func(*loop)                          // nil = one goroutine per loop
	await   func(a, b <-chan struct{}) bool      // nil = a select statement
	pause   func(time.Duration, <-chan struct{}) // how a loop without a working poller waits; nil = in real time
	yield   func()                               // lets other goroutines run; nil = they need no time of a loop's
	memory  func() int                           // defaultMemoryBudget; nil = not known
}

// wait blocks until one of the channels can be received from, and reports whether it was a.
func (k *kernel) wait(a, b <-chan struct{}) bool {
	if k.await != nil {
		return k.await(a, b)
	}
	select {
	case <-a:
		return true
	case <-b:
		return false
	}
}

// realKernel returns the kernel of the operating system, with the sockets and pollers of the named backend.
func realKernel(poller string) *kernel {
	return &kernel{
		sockets: func() sys.Sockets { return backend.NewSockets(poller) },
		clock:   sys.NewClock(),
		poller:  realPoller,
		yield:   runtime.Gosched,
		memory:  defaultMemoryBudget,
	}
}

func realPoller(name string, wait WaitMode) (sys.Poller, error) {
	mode := poll.Parked
	if wait == WaitPinned {
		mode = poll.Pinned
	}
	return backend.NewPoller(name, mode)
}
