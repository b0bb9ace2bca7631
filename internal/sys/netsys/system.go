// Package netsys implements sys.Sockets and sys.Poller over package net. It is the backend "net", for systems without a
// readiness interface that the engine knows (Windows), and selectable everywhere else.
//
// Descriptors are entries of a table in memory. They mean nothing to the kernel, and the kernel's mean nothing here. A
// connection has at most two goroutines, which read at most one block (32 KiB) ahead of Read and send at most one block
// behind Write. What they do makes the descriptor ready, and a poller is a list of ready descriptors. The loop itself
// makes only system calls that return at once.
//
// Where it differs from a kernel:
//
//   - What Write has taken waits in the process. ShutdownWrite and Close let it go out first; after Close for at most
//     10 s, then the connection is reset. A poller that is closed waits up to 1 s for such connections, because the
//     process may end with it.
//   - Up to a block is read without being asked for. So the reset of a connection without interest is noticed (and
//     reported as Failed), unless half a block that the peer has sent before is unread. After the peer's end of stream
//     only the next write notices a reset.
//   - Up to 16 connections are accepted ahead. The Accept after a failed one makes one attempt and may wait 2 ms for it.
//     So a caller that gave up its reserve can take and close a connection.
//   - Accept, Connect and registration allocate. Connect resolves nothing, and reports every failure but a wrong argument
//     through ConnectError.
//   - SO_REUSEPORT is an error on Windows, and the backlog is the system's there.
//
// An idle connection costs 4.4 KB of resident memory, mostly its reader's stack, where epoll costs the engine 0.5 KB
// (10,000 connections, TestIdleConnections, Linux). An echo of 64 bytes over 100 connections takes one and a half times
// the processor time that it takes on epoll: 100,000 against 155,000 requests per processor second.
package netsys

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/go-eddy/eddy/internal/sys"
)

// Name is the name of the backend in options.
const Name = "net"

// System is a table of descriptors and what belongs to it. Sockets and pollers of one System understand each other's
// descriptors. They do not understand those of another System, and never take one for a descriptor of the kernel.
type System struct {
	table  table
	blocks blocks

	// Tests change these. closeLimit and exitLimit are how long bytes may be sent after Close of their connection and
	// of their poller. With blocking, readers wait inside net.Conn.Read with a block at hand, as on a system that
	// cannot wait for readiness alone.
	closeLimit, exitLimit time.Duration
	blocking              bool

	dial Dial // nil = package net
}

// New returns an empty System.
func New() *System { return &System{closeLimit: closeLimit, exitLimit: exitLimit} }

// Dial makes a connection, as the DialContext of a net.Dialer does. Several goroutines may call it.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// NewWith returns an empty System whose connections are made by dial.
func NewWith(dial Dial) *System {
	s := New()
	s.dial = dial
	return s
}

// Process returns the System of this process. There is one per process, like the kernel's table, because the loops of
// one group hand descriptors to those of another.
var Process = sync.OnceValue(New)

// NewSockets returns the System's sockets. The value may be shared by any number of loops.
func (s *System) NewSockets() sys.Sockets { return sockets{s} }

// NewPoller returns a poller for one loop.
func (s *System) NewPoller() sys.Poller { return newPoller(s) }
