// Package poll implements sys.Poller over the readiness interfaces of operating systems: epoll, kqueue, poll(2) and
// select(2). New opens a poller.
//
// epoll (Linux) and kqueue (macOS and the BSDs) keep the registrations in the kernel and return only what is ready.
// Every Unix has poll(2). It has no limit of descriptors, but each Wait looks at all of them. select(2) does so too,
// and takes only descriptors below 1024.
package poll

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Mode is how a poller waits when nothing is ready.
type Mode uint8

const (
	// Parked gives the thread back: the goroutine parks in the Go runtime's own poller, on the descriptor of this one.
	// It needs no thread while it waits, and is made runnable like any other goroutine. Where the system cannot nest
	// pollers (poll(2), select(2), kqueue with today's runtime) it waits as Pinned does.
	//
	// The price is that of package net. While other goroutines keep every P computing, only the runtime's monitor asks
	// the kernel, every 10 ms. Wake does not have to wait for that.
	Parked Mode = iota
	// Pinned blocks the thread in the kernel. It is meant for a loop that has
	// locked itself to a thread of its own.
	Pinned
)

// String returns "parked" or "pinned".
func (m Mode) String() string {
	switch m {
	case Parked:
		return "parked"
	case Pinned:
		return "pinned"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// backend is one way to poll on this platform.
type backend struct {
	name string
	open func(Mode) (sys.Poller, error)
}

// New opens a poller. An empty name means the platform's default. For a name that this platform does not have, the
// error lists those of Available.
func New(name string, mode Mode) (sys.Poller, error) {
	if mode != Parked && mode != Pinned {
		return nil, fmt.Errorf("poll: unknown mode %d", uint8(mode))
	}
	if name == "" {
		name = Default()
	}
	for _, b := range backends() {
		if b.name == name {
			p, err := b.open(mode)
			if err != nil {
				return nil, fmt.Errorf("poll: open %s: %w", name, err)
			}
			return p, nil
		}
	}
	return nil, fmt.Errorf("poll: no backend %q here; there is %s", name, strings.Join(Available(), ", "))
}

// Default returns the name of the platform's best backend, "" where there is none.
func Default() string {
	if all := backends(); len(all) > 0 {
		return all[0].name
	}
	return ""
}

// Available lists the names that New takes on this platform, best first.
func Available() []string {
	var names []string
	for _, b := range backends() {
		names = append(names, b.name)
	}
	return names
}

// milliseconds converts a timeout to the unit of poll(2) and epoll_wait(2), rounded up. A wait that ended before its
// deadline would make the loop ask again and again until the deadline has come.
func milliseconds(timeout time.Duration) int {
	const longest = 1<<31 - 1
	switch {
	case timeout < 0:
		return -1
	case timeout > longest*time.Millisecond:
		return longest
	}
	return int((timeout + time.Millisecond - 1) / time.Millisecond)
}
