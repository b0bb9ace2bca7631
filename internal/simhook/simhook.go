// Package simhook is what the engine and the simulation of internal/sys/sim know of each other: types, and the two doors
// by which an engine gets onto a simulated machine. They live below internal/, so that only this module can do that and
// the engine's public face does not show it.
package simhook

import (
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Simulate puts groups, servers and dialers of package eddy on a simulated machine, which steps their loops. They must not
// be started yet. A group brings along the servers and dialers that use it. Package eddy sets it.
var Simulate func(h Host, on ...any)

// SimulatePool makes an executor.Pool run its workers on a simulated machine. The pool must not have work yet. A worker
// then ends when it finds nothing to do. Package executor sets it.
var SimulatePool func(pool any, m Workers)

// Host is a simulated machine. It replaces what an engine otherwise takes from the operating system and the Go runtime.
type Host struct {
	Sockets func() sys.Sockets
	Clock   sys.Clock
	Poller  func() (sys.Poller, error)

	// Start runs a loop that the engine would otherwise run on a goroutine of its own.
	Start func(Loop)

	// Pause returns after d, or when the channel can be received from. It replaces the wait of a loop whose poller is
	// out of order.
	Pause func(d time.Duration, alarm <-chan struct{})

	// Await returns when one of the channels can be received from, and whether it was a. It replaces the waits of
	// goroutines that are no loops.
	Await func(a, b <-chan struct{}) bool
}

// Loop is one loop of an engine. The machine calls its methods one at a time.
type Loop interface {
	// Name is the loop's name in logs and statistics.
	Name() string

	// Run is the loop's whole life. It calls Poller.Wait of the machine, which switches to another loop or actor there.
	Run()

	// Check compares the loop's state with what must hold whenever the loop waits, and names the first difference.
	Check(Waiting) error

	// State describes for people what the loop believes it has to do.
	State() string

	// CheckEnd is Check for a loop whose Run has returned: everything must have been given back.
	CheckEnd() error
}

// Waiting says how a loop waits.
type Waiting struct {
	Timeout time.Duration // as given to Poller.Wait
	Until   int64         // when that ends, on the machine's clock; meaningless without a limit
	Woken   bool          // the wait will end at once, because of a Wake
	In      uint64        // bytes that the loop has read
	Late    uint64        // of In, bytes from connections whose output it had ended; it counts them unless it lingers there
	Out     uint64        // bytes that the loop has written
}

// Inspector is a Poller whose registrations can be read.
type Inspector interface {
	// Registration returns the interest and the token of fd.
	Registration(fd int) (in sys.Interest, token uint64, ok bool)
}

// Workers lets a machine run the workers of a pool.
type Workers interface {
	// Go runs the body of a worker. It returns at once.
	Go(name string, f func())
	// Pause is called by a worker between two tasks, so that others may run.
	Pause()
	// Await is Host.Await.
	Await(a, b <-chan struct{}) bool
}
