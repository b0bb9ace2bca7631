package admin

import (
	"errors"
	"slices"

	"github.com/go-eddy/eddy/executor"
)

// Lanes is the argument of WatchLanes. Every *executor.Lanes implements it.
type Lanes interface {
	// Stats returns the numbers of each lane. Any goroutine may call Stats, which must not block.
	Stats() []executor.LaneStats
}

// watchedLanes is a set of lanes added with WatchLanes.
type watchedLanes struct {
	name  string
	lanes Lanes
}

// WatchLanes adds a set of lanes under a name of its own. The lanes may be started later. Full lanes do not make the program
// not ready. WatchLanes returns an error if the name or the lanes are missing, if the name is taken, or if 64 sets are
// watched already.
func (s *Server) WatchLanes(name string, lanes Lanes) error {
	if name == "" || lanes == nil {
		return errors.New("admin: WatchLanes needs a name and lanes")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := admits(s.lanes, "set of lanes", name, func(w watchedLanes) string { return w.name }); err != nil {
		return err
	}
	s.lanes = append(s.lanes, watchedLanes{name, lanes})
	return nil
}

// LaneStats are the numbers of one lane; see executor.LaneStats.
type LaneStats struct {
	Set      string `json:"set"` // the name that WatchLanes was given
	Name     string `json:"name"`
	Workers  int    `json:"workers"`
	Queued   int    `json:"queued"`
	Capacity int    `json:"capacity"`
	Spilled  int    `json:"spilled"`
	Accepted uint64 `json:"accepted"`
	Rejected uint64 `json:"rejected"`
	Done     uint64 `json:"done"`
	Panics   uint64 `json:"panics"`
	Waited   uint64 `json:"waited"`
	Lost     uint64 `json:"lost"`
	Fault    string `json:"fault,omitempty"`
}

// laneStats returns the numbers of all lanes, set by set.
func (s *Server) laneStats() []LaneStats {
	s.mu.Lock()
	sets := slices.Clone(s.lanes)
	s.mu.Unlock()
	all := []LaneStats{} // an empty list in JSON, not null
	for _, w := range sets {
		for _, st := range w.lanes.Stats() {
			l := LaneStats{
				Set: w.name, Name: st.Name, Workers: st.Workers, Queued: st.Queued, Capacity: st.Capacity, Spilled: st.Spilled, Accepted: st.Accepted,
				Rejected: st.Rejected, Done: st.Done, Panics: st.Panics, Waited: st.Waited, Lost: st.Lost,
			}
			if st.Fault != nil {
				l.Fault = st.Fault.Error()
			}
			all = append(all, l)
		}
	}
	return all
}
