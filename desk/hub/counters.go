package hub

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
)

// Counters are what the hub counts. All but Sessions only grow. Any goroutine may read them.
type Counters struct {
	Sessions    atomic.Int64 // connections now, welcomed or not
	Connects    atomic.Uint64
	Welcomes    atomic.Uint64
	Resumes     atomic.Uint64 // welcomes whose client had seen something
	Replayed    atomic.Uint64 // events sent from the store on a resume
	Truncated   atomic.Uint64 // conversations with more than a resume sends
	Frames      atomic.Uint64 // messages received
	Messages    atomic.Uint64 // messages committed, of everybody
	Acks        atomic.Uint64
	Dups        atomic.Uint64 // re-sent messages that were there already
	Late        atomic.Uint64 // commits after their sender had been told "unavailable"
	LaneRejects atomic.Uint64
	PoolRejects atomic.Uint64 // reads refused because a pool or an agent's share is full
	BotTurns    atomic.Uint64
	BotLate     atomic.Uint64 // answers discarded because the bot no longer owned the conversation
	BotFailed   atomic.Uint64 // turns that ended with an apology instead of an answer, and answers that could not be stored
	BotRefused  atomic.Uint64 // of the failed turns, those for which there was no room
	BotAccepted atomic.Uint64 // turns that their bot will answer by a callback
	BotDups     atomic.Uint64 // answers to turns that had been answered
	BotCut      atomic.Uint64 // messages over the limit of one turn

	BotNoPlace      atomic.Uint64 // hand-offs that the full queue of a group refused
	BotBounds       atomic.Uint64 // turns of assistants that a bound has handed over, or that had an answer only after a failure
	BotBadCallbacks atomic.Uint64 // callbacks with a wrong signature, an unknown turn or a malformed body
	Denied          atomic.Uint64 // commands that the role may not use
	AuditLost       atomic.Uint64 // lines of the audit log that could not be written
	Routed          atomic.Uint64 // assignments by the router
	RouterTurns     atomic.Uint64 // times that the router has looked at everything
	RouterRetries   atomic.Uint64 // turns of the router that the store failed
	Timers          atomic.Uint64 // actions of timers
	Reconciled      atomic.Uint64 // counters of agents that were wrong
	Offers          atomic.Uint64
	TargetMisses    atomic.Uint64 // warnings that a group misses its target for first answers
	FeedGaps        atomic.Uint64 // parts of the feed that were missing, and were read
	Rebuilds        atomic.Uint64 // times that rows of the feed were gone, and everything was read again
	BusLost         atomic.Uint64 // messages to other servers that the bus did not take
	BusBad          atomic.Uint64 // messages of other servers that cannot be read
	Dropped         atomic.Uint64 // ephemeral events not sent to a slow session

	mu     sync.Mutex
	errors map[string]uint64
	closes map[string]uint64
}

func (c *Counters) countError(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == nil {
		c.errors = make(map[string]uint64)
	}
	c.errors[code]++
}

// countClose counts a close by the server.
func (c *Counters) countClose(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closes == nil {
		c.closes = make(map[string]uint64)
	}
	c.closes[strconv.Itoa(code)]++
}

// Errors returns the error replies sent, by code.
func (c *Counters) Errors() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.errors)
}

// Closes returns the sessions closed by the server, by WebSocket close code.
func (c *Counters) Closes() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.closes)
}
