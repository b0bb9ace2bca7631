package metrics

import (
	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/ring"
)

type spillStats = ring.SpillStats

// ringStats is the snapshot of a ring.
type ringStats struct{ queued, capacity int }

//nolint:gochecknoglobals // tables, never written
var (
	ringTable = expo.Table[ringStats]{
		expo.Level("eddy_ring_queued", "Messages in the ring.", func(s *ringStats) int { return s.queued }),
		expo.Level("eddy_ring_capacity", "Slots of the ring.", func(s *ringStats) int { return s.capacity }),
	}.With("ring")

	spillTable = expo.Table[spillStats]{
		expo.Level("eddy_spill_memory", "Messages in memory.", func(s *spillStats) int { return s.Memory }),
		expo.Level("eddy_spill_writing", "Messages on their way to disk.", func(s *spillStats) int { return s.Waiting }),
		expo.Level("eddy_spill_disk", "Messages in the log.", func(s *spillStats) int { return s.Disk }),
		expo.Level("eddy_spill_log_bytes", "Bytes of the log.", func(s *spillStats) int64 { return s.Bytes }),
		expo.Level("eddy_spill_cut_bytes", "Bytes of an earlier process's log that could not be read.", func(s *spillStats) int64 { return s.Cut }),
		expo.Count("eddy_spill_accepted_total", "Messages taken.", func(s *spillStats) uint64 { return s.Accepted }),
		expo.Count("eddy_spill_spilled_total", "Of those, written to the log.", func(s *spillStats) uint64 { return s.Spilled }),
		expo.Count("eddy_spill_rejected_total", "Messages refused.", func(s *spillStats) uint64 { return s.Rejected }),
		expo.Count("eddy_spill_faults_total", "Writes that failed.", func(s *spillStats) uint64 { return s.Faults }),
		expo.Switch("eddy_spill_faulty", "1 while the log takes nothing.", func(s *spillStats) bool { return s.Fault != nil }),
	}.With("spill")
)

func ringFamilies() []*expo.Family { return append(ringTable.Families(), spillTable.Families()...) }

// measured gives a ring a Stats method.
type measured[R interface {
	comparable
	Len() int
	Cap() int
}] struct{ ring R }

func (m measured[R]) Stats() ringStats { return ringStats{m.ring.Len(), m.ring.Cap()} }

// Ring returns a Source of how full a ring is: an SPSC, MPSC, Shared or Broadcast of package ring. Rings do not count the
// messages that they refuse when full; the producer knows of them.
func Ring[R interface {
	comparable
	Len() int
	Cap() int
}](name string, r R) Source {
	return table("ring", name, measured[R]{r}, ringTable)
}

// Spill returns a Source of the numbers of a ring.Spill. A scrape takes the Spill's lock for a moment.
func Spill(name string, s *ring.Spill) Source { return table("spill", name, s, spillTable) }
