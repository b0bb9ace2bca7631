package rpc

import "sync/atomic"

// clientCounters are the counters behind ClientStats.
type clientCounters struct {
	calls, late, failovers, goAways, dials, dialFailures, resolveFailures, expired, cancelled, full,
	oneWays, oneWayDropped, pings, lost, parked, callbackPanics, poolFull atomic.Uint64
}

// ClientStats are the numbers of a Client.
type ClientStats struct {
	Connections     int    // that take calls
	Addresses       int    // that the resolver has named
	Active          int    // calls that have not ended, callbacks included
	Waiting         int    // of these, the ones that wait for a connection or for room on one
	Calls           uint64 // begun, one-way ones included
	Late            uint64 // responses dropped because nobody waited for them any more
	Failovers       uint64 // attempts to make a call on another connection
	Expired         uint64 // calls whose time was over before a response came
	Cancelled       uint64 // calls that their callers gave up
	Full            uint64 // calls refused by a bound of the client
	OneWays         uint64 // one-way requests given to a connection, with WaitWritten to the system
	OneWayDropped   uint64 // one-way requests that failed
	Dials           uint64 // attempts to connect
	DialFailures    uint64 // attempts that failed, and connections that ended soon without an answer
	Lost            uint64 // connections that ended while they were wanted
	GoAways         uint64 // connections whose servers said GOAWAY
	Pings           uint64
	ResolveFailures uint64
	Parked          uint64 // responses and callbacks that had to wait for room in a callback pool
	CallbackPanics  uint64
	Events          EventStats // what the Listener was told
	PoolFull        uint64     // responses that a full pool of DedicatedPool left to their callers
}

// Stats returns the numbers. Any goroutine, also after Close.
func (cl *Client) Stats() ClientStats {
	s := &cl.stats
	cl.mu.Lock()
	addresses, waiting := len(cl.peers), cl.waits.len()
	cl.mu.Unlock()
	return ClientStats{
		Connections: len(cl.routes.Load().All), Addresses: addresses, Active: int(cl.life.active.Load()), Waiting: waiting,
		Calls: s.calls.Load(), Late: s.late.Load(), Failovers: s.failovers.Load(), Expired: s.expired.Load(), Cancelled: s.cancelled.Load(),
		Full: s.full.Load(), OneWays: s.oneWays.Load(), OneWayDropped: s.oneWayDropped.Load(), Dials: s.dials.Load(), DialFailures: s.dialFailures.Load(),
		Lost: s.lost.Load(), GoAways: s.goAways.Load(), Pings: s.pings.Load(), ResolveFailures: s.resolveFailures.Load(), Parked: s.parked.Load(),
		Events: cl.events.stats(), CallbackPanics: s.callbackPanics.Load(), PoolFull: s.poolFull.Load(),
	}
}
