package eddy

import "github.com/go-eddy/eddy/internal/meter"

// connBits is what the loop knows of a connection besides its phase. Each bit says something that no other field does, and
// is set exactly while the right column holds:
//
//	registered   the poller knows the descriptor
//	listedReady  queued in loop.ready, once
//	listedDirty  queued in loop.dirty, once
//	listedClose  queued in loop.closing, once; the phase is Closing and only finishClose comes after
//	partial      Conn.in begins with a frame whose decoder asked for more; without it, Conn.in waits for a budget or a pause
//	inputEnded   the peer's last byte was read; nothing is read again
//	cutShort     inputEnded came inside a frame, whose bytes are dropped
//	finishing    the phase is Closing and what is queued is still sent, until listedClose
//	lingering    finishing, the queue is empty, FIN is sent: what the peer sends is dropped until its end
//	draining     the handlers have been told DrainEvent, by a drain or by relieve; the connection ends as soon as it is idle
//	relieved     draining because the server relieves itself, see Server.EndIdle
//	readingBody  Conn.clock times a body, else a header or frame
//	handshaking  Conn.clock is when the handshake has to be done; never in phase Closing, nor with pauseEnd
//	timed        there is a handler deadline
//	asked        connRare.current or kept hold contexts that were asked for on the loop
//	marked       connExt.marks counts what is queued and sent: from the first file, message that may be dropped, or future,
//	             until the outbound queue is empty
//	bulk         the last event brought more than a batch has room for
//	ample        the last event brought so much that splicing the next one pays
//	outputEnds   CloseWrite was called, and what was written before is not sent yet
//	outputEnded  CloseWrite was called, and our FIN is sent
//	aborts       the end is a reset
//	cutResets    an end that leaves the stream of our side incomplete is a reset, see Conn.ResetOnCut
//	readsOn      a full queue does not pause reads, see Conn.ReadOn
//	heldBack     bytes or readiness were left alone because reads are paused
//
// An end that was put off is marked by pauseEnd in Conn.paused.
type connBits uint32

const (
	registered connBits = 1 << iota
	listedReady
	listedDirty
	listedClose
	partial
	inputEnded
	cutShort
	finishing
	lingering
	draining
	readingBody
	handshaking
	heldBack
	timed
	asked
	marked
	bulk
	outputEnds
	outputEnded
	aborts
	cutResets
	readsOn
	relieved
	ample
)

func (c *Conn) has(b connBits) bool { return c.bits&b != 0 }

func (c *Conn) raise(b connBits) { c.bits |= b }

func (c *Conn) clear(b connBits) { c.bits &^= b }

// The bits of Conn.shared, which other goroutines read or write, in one atomic word.
//
//	appPaused    the application's own pause; any goroutine
//	unwritable   the outbound queue is above its watermarks; written by the loop
//	readTask     a taskReadState is queued
//	watchIdle    the loop wants to know when nothing is in flight
//	idleTask     a taskCheckDrain is queued
//	gone         the descriptor is closed; written by the loop, never cleared
//	drainTold    draining, for other goroutines
//	watched      the wheel fires within a handler deadline from now, or a taskWatch is queued
//	rewired      the pipeline was changed since it was opened; written by the loop, never cleared
//	writersWait  connExt.writable is waited for; raised with connExt.mu held, cleared by the loop with it
//	toldFull     Writable has said false for bytes that the loop need not see together; the loop says true at Low and
//	             clears it
//	writeClosed  CloseWrite was called; never cleared
//	detour       events from before a change of the pipeline may be under way, or its handlers are told the end; all events
//	             then go through the loop; cleared by the loop
const (
	appPaused uint32 = 1 << iota
	unwritable
	readTask
	watchIdle
	idleTask
	gone
	drainTold
	watched
	rewired
	detour
	writersWait
	toldFull
	writeClosed
)

// The highest bits of Conn.shared count down how often the peer has still to empty the outbound queue until its window is as
// wide as Watermarks say; see Conn.high.
const (
	windowShift = 26
	windowStep  = uint32(1) << windowShift
	// windowDrains is how often a queue is emptied before its window doubles, windowHalved how often it can double.
	windowDrains, windowHalved = 8, 4
)

// shows reports whether a shared bit is set. Any goroutine.
func (c *Conn) shows(b uint32) bool { return c.shared.Load()&b != 0 }

// mark sets a shared bit and reports whether it was clear.
func (c *Conn) mark(b uint32) bool { return c.shared.Or(b)&b == 0 }

// unmark clears a shared bit and reports whether it was set.
func (c *Conn) unmark(b uint32) bool { return c.shared.And(^b)&b != 0 }

// Phase is where a connection stands in its request cycle. Protocols with several requests in flight report the phase of
// the oldest unfinished one. Only the owning loop changes it.
type Phase uint8

// The phases, in the order a request meets them.
const (
	PhaseReadingHeader Phase = iota
	PhaseReadingBody
	PhaseDispatching
	PhaseWaitingForResponse
	PhaseWriting
	PhaseClosing
	PhaseClosed
	phases
)

var phaseNames = [phases]string{
	"reading_header", "reading_body", "dispatching", "waiting_for_response", "writing", "closing", "closed",
}

// String returns the phase's snake_case name.
func (p Phase) String() string {
	if p >= phases {
		return "unknown"
	}
	return phaseNames[p]
}

// phaseMoves is the only table of which phase may follow which. Row: from; set: allowed successors.
var phaseMoves = [phases]phaseSet{
	PhaseReadingHeader:      setOf(PhaseReadingBody, PhaseDispatching, PhaseWriting, PhaseClosing),
	PhaseReadingBody:        setOf(PhaseReadingHeader, PhaseDispatching, PhaseWriting, PhaseClosing),
	PhaseDispatching:        setOf(PhaseReadingHeader, PhaseWaitingForResponse, PhaseWriting, PhaseClosing),
	PhaseWaitingForResponse: setOf(PhaseReadingHeader, PhaseWriting, PhaseClosing),
	PhaseWriting:            setOf(PhaseReadingHeader, PhaseReadingBody, PhaseWaitingForResponse, PhaseClosing),
	PhaseClosing:            setOf(PhaseClosed),
	PhaseClosed:             0,
}

// phaseSet is a set of phases, one bit each.
type phaseSet uint8

func setOf(ps ...Phase) phaseSet {
	var s phaseSet
	for _, p := range ps {
		s |= 1 << p
	}
	return s
}

// canMove reports whether a connection may go from one phase to another. Staying is always allowed.
func canMove(from, to Phase) bool {
	return from == to || phaseMoves[from]&(1<<to) != 0
}

// setPhase moves the connection to a phase. If phaseMoves forbids the move, which is a bug, setPhase closes this
// connection, so that the damage ends with it.
func (c *Conn) setPhase(to Phase) {
	if c.phase == to {
		return
	}
	if !canMove(c.phase, to) {
		c.loop.Counters[meter.PhaseViolations]++
		c.loop.Log.Error("eddy: impossible phase transition", "conn", c.ID(), "from", c.phase, "to", to)
		if c.phase < PhaseClosing {
			c.beginClose(CloseInternalError, errPhase)
		}
		return
	}
	c.phase = to
}
