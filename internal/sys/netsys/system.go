// Package netsys implements sys.Sockets and sys.Poller over package net: the backend "net", for systems without a
// readiness interface that the engine knows (Windows), and selectable everywhere else.
//
// Descriptors are entries of a table in memory and mean nothing to the kernel; those of the kernel mean nothing here. A
// connection has at most two goroutines, which bring and send at most one block (32 KiB) ahead of Read and behind
// Write; what they do makes the descriptor ready, and a poller is a list of those that are. The loop itself makes no
// system call but those that return at once.
//
// Where it differs from a kernel:
//
//   - What Write has taken waits in the process. ShutdownWrite and Close let it go out first; after Close for at most
//     10 s, then the connection is reset. A poller that is closed waits up to 1 s for such connections, because the
//     process may end with it.
//   - Up to a block is read although nobody asks for it. So the reset of a connection without interest is noticed (and
//     reported as Failed), unless the peer has sent half a block before that nobody reads. After the peer's end of
//     stream a reset is noticed by the next write only.
//   - Up to 16 connections are accepted ahead. The Accept that follows one which failed makes one attempt and may wait
//     2 ms for it, so that a caller who gave up its reserve can take and close a connection.
//   - Accept, Connect and registration allocate. Connect resolves nothing, and tells every failure but a wrong argument
//     through ConnectError.
//   - SO_REUSEPORT is an error on Windows, and the backlog is the system's there.
//
// An idle connection costs 4.4 KB of resident memory, mostly its reader's stack, where epoll costs the engine 0.5 KB
// (10,000 connections, TestIdleConnections, Linux). An echo of 64 bytes over 100 connections takes one and a half
// times the processor time that it takes on epoll: 100,000 against 155,000 requests per processor second.
package netsys

import (
	"sync"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Name is what the backend is called where one is chosen.
const Name = "net"

// System is a table of descriptors and what belongs to it. Sockets and pollers of one System understand each other's
// descriptors; those of two do not, and never take one for a descriptor of the kernel.
type System struct {
	table  table
	blocks blocks

	// What tests change: how long bytes may be sent after Close of their connection and of their poller, and whether
	// readers wait inside net.Conn.Read with their block at hand, as they would on a system that cannot wait for
	// readiness alone.
	closeLimit, exitLimit time.Duration
	blocking              bool
}

// New returns an empty System.
func New() *System { return &System{closeLimit: closeLimit, exitLimit: exitLimit} }

// Process returns the System of this process. Descriptors are handed from the loops of one group to those of another, so
// this table is what the kernel's is: one per process.
var Process = sync.OnceValue(New)

// NewSockets returns the System's sockets. The value may be shared by any number of loops.
func (s *System) NewSockets() sys.Sockets { return sockets{s} }

// NewPoller returns a poller for one loop.
func (s *System) NewPoller() sys.Poller { return newPoller(s) }
