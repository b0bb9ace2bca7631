package sim

import "slices"

// Fault is one kind of trouble in a world.
type Fault uint8

// The kinds of trouble. Some are errors that a system call may return at any time, and some are rare timing. Some are
// the behaviour of bad peers, for which scenarios ask Hit.
const (
	ShortRead         Fault = iota // a read returns less than has arrived
	ShortWrite                     // a write takes less than there is room for
	ReadAgain                      // EAGAIN although bytes have arrived
	WriteAgain                     // EAGAIN although there is room
	ReadReset                      // the connection is reset before a read
	WriteReset                     // the connection is reset in mid-write
	ReadTimedOut                   // ETIMEDOUT: the network has gone
	AcceptAborted                  // ECONNABORTED
	AcceptInterrupted              // EINTR
	OutOfDescriptors               // EMFILE
	OutOfFiles                     // ENFILE
	NoReserve                      // OpenReserve finds no descriptor
	AddressUnknown                 // LocalAddr fails
	ShutdownFails                  // ENOTCONN
	CloseFails                     // EIO; the descriptor is closed all the same
	AddFails                       // a poller takes no registration
	ModifyFails                    // a poller changes no registration
	WaitFails                      // a poller's wait fails
	WaitInterrupted                // a wait ends early, with nothing
	SpuriousReadable               // a report without bytes behind it
	SpuriousWritable               // a report without room behind it
	StaleEvent                     // a report for a registration that was removed
	SplitEvent                     // two reports for one descriptor
	LateEvent                      // only some of what is ready is reported
	TimeJump                       // the clock jumps ahead
	Stall                          // a loop gets no processor for long
	Interleave                     // another goroutine acts in the middle of a system call
	ZeroWindow                     // the peer takes nothing for a while
	SlowPeer                       // the peer takes a few bytes at a time
	PeerHalfCloses                 // the peer ends its direction and goes on reading
	PeerResets                     // the peer resets
	PeerVanishes                   // the peer says nothing any more
	TaskStorm                      // many tasks at once from another goroutine
	OffLoopWrite                   // another goroutine writes
	OffLoopClose                   // another goroutine closes
	OffLoopPause                   // another goroutine pauses or resumes reads
	DeadHandle                     // a write to a connection that may have ended
	Relief                         // another goroutine has the server end connections or refuse new ones
	ConnectRefused                 // a connect fails
	ConnectSlow                    // a connect takes its time
	NoPipe                         // no pipe is to be had
	faults
)

var faultNames = [faults]string{
	"short read", "short write", "EAGAIN on read", "EAGAIN on write", "reset before read", "reset in mid-write",
	"ETIMEDOUT on read", "ECONNABORTED on accept", "EINTR on accept", "EMFILE", "ENFILE", "no reserve descriptor",
	"local address unknown", "shutdown fails", "close fails", "poller add fails",
	"poller modify fails", "poller wait fails", "wait interrupted", "spurious readable", "spurious writable",
	"stale event", "split event", "late event", "time jump", "loop stalled", "call interleaved with a system call",
	"zero window", "slow peer", "peer half-closes", "peer resets", "peer vanishes", "task storm", "off-loop write",
	"off-loop close", "off-loop pause", "write to a dead handle", "relief", "connect refused", "connect slow", "no pipe",
}

// String returns a readable name of the fault.
func (f Fault) String() string { return faultNames[f] }

// Faults lists every kind.
func Faults() []Fault {
	all := make([]Fault, faults)
	for i := range all {
		all[i] = Fault(i)
	}
	return all
}

// Counts says how often each fault happened.
type Counts [faults]uint64

// Add adds another world's counts.
func (c *Counts) Add(o Counts) {
	for i, n := range o {
		c[i] += n
	}
}

// scale is the rate of a fault that always happens.
const scale = 1 << 16

// weather gives each kind of trouble its rate for one seed. About half of them are off in each world, because a fault
// that is always there hides what the others would show. Faults that leave little of a connection or a loop are rare.
func (w *World) weather() {
	rare := []Fault{
		ReadReset, WriteReset, ReadTimedOut, ModifyFails, WaitFails, TimeJump, Stall, OffLoopClose, TaskStorm,
	}
	for f := range faults {
		if w.rng.IntN(2) == 0 {
			continue
		}
		usual := []uint32{scale / 200, scale / 50, scale / 10, scale / 4}
		if slices.Contains(rare, f) {
			usual = []uint32{scale / 5000, scale / 1000, scale / 200, scale / 50}
		}
		w.rates[f] = usual[w.rng.IntN(len(usual))]
	}
}

// Never switches off faults under which a scenario's promises cannot hold.
func (w *World) Never(fs ...Fault) {
	for _, f := range fs {
		w.rates[f] = 0
	}
}

// Often makes a fault more likely than most weather does. Always makes it happen whenever Hit is asked.
func (w *World) Often(f Fault)  { w.rates[f] = max(w.rates[f], scale/20) }
func (w *World) Always(f Fault) { w.rates[f] = scale }

// Hit reports whether the fault happens now.
func (w *World) Hit(f Fault) bool {
	if w.calm || w.rates[f] == 0 || uint32(w.rng.Uint64()&(scale-1)) >= w.rates[f] {
		return false
	}
	w.Note(f)
	return true
}

// Note counts a fault that happened without Hit.
func (w *World) Note(f Fault) {
	w.counts[f]++
	if f != ZeroWindow { // happens at every write to a full queue
		w.trace("fault", int(f), 0, nil)
	}
}

// Counts returns how often each fault has happened.
func (w *World) Counts() Counts { return w.counts }
