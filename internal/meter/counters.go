package meter

import "sync/atomic"

// Counter names one of a loop's own numbers, which only grow.
type Counter uint8

// The counters of a loop.
const (
	Iterations Counter = iota
	Events
	StaleEvents
	PollErrors
	Tasks
	Messages
	Hops
	HopRejects
	HopWaits
	BytesIn
	Spliced
	BytesOut
	Writes
	Opened
	Refused
	DeadReads
	DeadWrites
	Unhandled
	WriteErrors
	Resets
	Panics
	OutboundPauses
	DroppedNewest
	DroppedOldest
	Superseded
	PhaseViolations
	Tail
	Timers
	Premature
	Rebuilds
	Repolls
	Faults
	counters
)

// Counters are the numbers of one loop. Only the loop touches them.
type Counters [counters]uint64

// Gauge names one of a loop's numbers that rise and fall.
type Gauge uint8

// The gauges of a loop.
const (
	Active        Gauge = iota // open connections
	WriteInterest              // connections that wait for writability
	HeldIn                     // bytes received and not decoded
	HeldOut                    // bytes queued for peers
	Deadlines                  // connections with a deadline
	gauges
)

// Published is the copy of a loop's numbers that other goroutines read. The loop refreshes it once per iteration and touches
// only what has changed.
type Published struct {
	counters [counters]atomic.Uint64
	gauges   [gauges]atomic.Int64
	was      Counters // as of the last Publish
}

// Publish makes n visible. Loop only.
func (p *Published) Publish(n *Counters) {
	for i, v := range n {
		if v != p.was[i] {
			p.counters[i].Store(v)
		}
	}
	p.was = *n
}

// Count returns a counter as of the last Publish. Any goroutine.
func (p *Published) Count(c Counter) uint64 { return p.counters[c].Load() }

// Set gives a gauge its value. Loop only.
func (p *Published) Set(g Gauge, v int64) {
	if p.gauges[g].Load() != v {
		p.gauges[g].Store(v)
	}
}

// Add changes a gauge. Loop only.
func (p *Published) Add(g Gauge, v int64) { p.gauges[g].Add(v) }

// Value returns a gauge. Any goroutine.
func (p *Published) Value(g Gauge) int64 { return p.gauges[g].Load() }
