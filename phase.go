package eddy

import "github.com/go-eddy/eddy/internal/meter"

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
