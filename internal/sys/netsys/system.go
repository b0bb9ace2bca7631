// Package netsys implements sys.Sockets and sys.Poller over package net: the backend "net", for systems without a
// readiness interface that the engine knows (Windows), and selectable everywhere else.
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
