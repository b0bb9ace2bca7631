package store

import "time"

// Stats are the numbers of a store since its start.
type Stats struct {
	Commits  uint64 // transactions committed
	Commands uint64 // commands in them
	Failures uint64 // transactions that the database failed, wholly or in one of their commands
	Waiting  int    // commands in the queue now

	Unindexed int64 // older messages that a search does not find yet, -1 = not counted yet
	Latency   Latency
}

// Latency is how long commands took from Do to their outcome, commands whose deadline came first included.
type Latency struct {
	Count uint64
	Sum   time.Duration
	Upto  [LatencyBounds]uint64 // commands that took LatencyBound(i) at most
}

// LatencyBounds is the number of bounds of Latency.
const LatencyBounds = 13

// LatencyBound returns a bound of Latency: 1, 2.5 and 5 ms, and so on to 10 s.
func LatencyBound(i int) time.Duration {
	d := time.Millisecond
	for range i / 3 {
		d *= 10
	}
	return d * [...]time.Duration{10, 25, 50}[i%3] / 10
}
