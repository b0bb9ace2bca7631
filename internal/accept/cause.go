package accept

import (
	"net/netip"
	"time"
)

// Cause says why a connection was refused.
type Cause uint8

// The causes. Their String form is the metric label.
const (
	causeNone        Cause = iota
	CauseMaxConns          // Gate.MaxConns
	CausePerIP             // Gate.MaxPerIP
	CausePerTenant         // Gate.MaxPerTenant
	CauseRate              // Gate.Rate
	CausePerLoop           // Gate.MaxPerLoop: every loop is full
	CauseMemory            // Host.Pressed
	CauseDecide            // Gate.Decide said so, or a function of the Gate panicked
	CauseTaskQueue         // no loop took the socket, although not every loop is full
	CauseDescriptors       // the process has no descriptor left but Gate.SpareDescriptors
	CauseOverload          // Tally.Overloaded
	causes
)

var causeNames = [causes]string{
	"none", "max_conns", "max_per_ip", "max_per_tenant", "rate", "max_per_loop", "memory_budget", "decide", "task_queue", "descriptors", "overload",
}

// String returns the cause's snake_case name, the one metrics use.
func (c Cause) String() string {
	if c >= causes {
		return "unknown"
	}
	return causeNames[c]
}

// Causes lists every cause, in order.
func Causes() []Cause {
	all := make([]Cause, 0, causes-1)
	for c := CauseMaxConns; c < causes; c++ {
		all = append(all, c)
	}
	return all
}

// Decision is what becomes of a socket that was accepted from the kernel.
type Decision uint8

// The decisions.
const (
	DecisionAccept Decision = iota // a connection is made of it
	DecisionReject                 // it is closed at once
	DecisionBusy                   // it is sent what Gate.Busy returns, and closed in order
	DecisionPause                  // it is closed, and nothing is accepted for a while
)

// Refusal describes a refused connection.
type Refusal struct {
	Peer       netip.AddrPort // zero for a Unix socket
	Tenant     string
	Cause      Cause
	RetryAfter time.Duration // how long the peer should wait before it tries again
}
