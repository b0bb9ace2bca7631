package metrics

import (
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics/internal/expo"
)

type (
	poolStats  = executor.Stats
	keyedStats = executor.KeyedStats
	laneStats  = executor.LaneStats
)

//nolint:gochecknoglobals // tables, never written
var (
	poolTable = expo.Table[poolStats]{
		expo.Level("eddy_pool_workers", "Goroutines of the pool.", func(s *poolStats) int { return s.Workers }),
		expo.Level("eddy_pool_workers_limit", "The most goroutines the pool may have; of an adaptive pool what it has found.", func(s *poolStats) int { return s.MaxWorkers }),
		expo.Level("eddy_pool_running", "Workers that run something.", func(s *poolStats) int { return s.Running }),
		expo.Level("eddy_pool_queued", "Work that waits for a worker.", func(s *poolStats) int { return s.Queued }),
		expo.Level("eddy_pool_queue_limit", "Bound of the queue; 0 is a pool in which nothing waits.", func(s *poolStats) int { return s.MaxQueue }),
		expo.Level("eddy_pool_parked", "Work that has begun and waits without a worker, such as requests whose client does not read.", func(s *poolStats) int { return s.Parked }),
		expo.Level("eddy_pool_parked_limit", "The most of it before what may wait like this is refused; 0 is a pool that has none.", func(s *poolStats) int { return s.MaxParked }),
		expo.Count("eddy_pool_left_total", "Times that work gave its worker to others while it waited.", func(s *poolStats) uint64 { return s.Left }),
		expo.Count("eddy_pool_crowded_total", "Work refused because as much was parked as may be, or as much of one owner.", func(s *poolStats) uint64 { return s.Crowded }),
		expo.Count("eddy_pool_submitted_total", "Work taken; each further turn of a strand or key counts again.", func(s *poolStats) uint64 { return s.Submitted }),
		expo.Count("eddy_pool_completed_total", "Work that ended, by panic too.", func(s *poolStats) uint64 { return s.Completed }),
		expo.Count("eddy_pool_rejected_total", "Work refused because a limit of the pool, a strand or a key was reached.", func(s *poolStats) uint64 { return s.Rejected }),
		expo.Count("eddy_pool_shed_total", "Work that an adaptive pool took and refused before it began: it waited too long, came too late, or mattered less than other work.", func(s *poolStats) uint64 { return s.Shed }),
		expo.Count("eddy_pool_wasted_total", "Work of an adaptive pool that was of no use to anybody: it ended after it was due, or its client had left.", func(s *poolStats) uint64 { return s.Wasted }),
		expo.Count("eddy_pool_exhausted_total", "Submissions for which the pool had no room, whatever its policy made of them.", func(s *poolStats) uint64 { return s.Exhausted }),
		expo.Count("eddy_pool_caller_ran_total", "Work that ran on the goroutine that submitted it.", func(s *poolStats) uint64 { return s.CallerRan }),
		expo.Count("eddy_pool_discarded_total", "Work dropped by the policies that discard.", func(s *poolStats) uint64 { return s.Discarded }),
		expo.Count("eddy_pool_waited_total", "Submissions that waited for room.", func(s *poolStats) uint64 { return s.Waited }),
		expo.Count("eddy_pool_panics_total", "Panics recovered.", func(s *poolStats) uint64 { return s.Panics }),
	}.With("pool")

	keyedTable = expo.Table[keyedStats]{
		expo.Level("eddy_keyed_keys", "Keys with a task that waits, runs or is not done.", func(s *keyedStats) int { return s.Keys }),
		expo.Level("eddy_keyed_waiting", "Tasks of keys that wait.", func(s *keyedStats) int { return s.Waiting }),
		expo.Level("eddy_keyed_waiting_limit", "Bound of the tasks that wait.", func(s *keyedStats) int { return s.Limit }),
	}.With("keyed")
	keyedRejected = expo.Counter("eddy_keyed_rejected_total", "Tasks refused, by the limit: key (its bound or its share), total or pool.", "keyed", "limit")

	laneTable = expo.Table[laneStats]{
		expo.Level("eddy_lane_workers", "Workers of the lane.", func(s *laneStats) int { return s.Workers }),
		expo.Level("eddy_lane_queued", "Work that waits in slots.", func(s *laneStats) int { return s.Queued }),
		expo.Level("eddy_lane_capacity", "Slots of the workers that have been started.", func(s *laneStats) int { return s.Capacity }),
		expo.Level("eddy_lane_spilled", "Work that waits in the spill queue.", func(s *laneStats) int { return s.Spilled }),
		expo.Count("eddy_lane_accepted_total", "Work taken.", func(s *laneStats) uint64 { return s.Accepted }),
		expo.Count("eddy_lane_rejected_total", "Work refused because the lane was full.", func(s *laneStats) uint64 { return s.Rejected }),
		expo.Count("eddy_lane_done_total", "Results published.", func(s *laneStats) uint64 { return s.Done }),
		expo.Count("eddy_lane_panics_total", "Panics of workers that were contained.", func(s *laneStats) uint64 { return s.Panics }),
		expo.Count("eddy_lane_waited_total", "Submissions that found the lane full and were to wait.", func(s *laneStats) uint64 { return s.Waited }),
		expo.Count("eddy_lane_lost_total", "Spilled work that could not be read back, and work that Stop gave up.", func(s *laneStats) uint64 { return s.Lost }),
		expo.Switch("eddy_lane_faulty", "1 while the spill queue takes or gives nothing.", func(s *laneStats) bool { return s.Fault != nil }),
	}.With("lanes", "lane")
)

func poolFamilies() []*expo.Family {
	return append(append(append(poolTable.Families(), keyedTable.Families()...), keyedRejected), laneTable.Families()...)
}

// Pool returns a Source of the numbers of an *executor.Pool, or of a type that wraps one.
func Pool[W interface {
	comparable
	Stats() executor.Stats
}](name string, p W) Source {
	return table("pool", name, p, poolTable)
}

// Keyed returns a Source of the numbers of an executor.Keyed, all keys together.
func Keyed[W interface {
	comparable
	Stats() executor.KeyedStats
}](name string, k W) Source {
	return source("keyed executor", name, k, func(_ *memory, scrape *expo.Scrape, st *keyedStats) {
		keyedTable.Put(scrape, st, name)
		scrape.Put(keyedRejected, float64(st.RejectedKey), name, "key")
		scrape.Put(keyedRejected, float64(st.RejectedTotal), name, "total")
		scrape.Put(keyedRejected, float64(st.RejectedPool), name, "pool")
	})
}

// Lanes returns a Source of the numbers of each lane of an executor.Lanes. The lanes must have different names.
func Lanes[W interface {
	comparable
	Stats() []executor.LaneStats
}](name string, l W) Source {
	return source("set of lanes", name, l, func(_ *memory, scrape *expo.Scrape, st *[]laneStats) {
		for i := range *st {
			laneTable.Put(scrape, &(*st)[i], name, (*st)[i].Name)
		}
	})
}
