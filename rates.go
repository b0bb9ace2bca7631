package eddy

import "time"

// Rates are the events per second between two Stats of a server.
type Rates struct {
	Interval time.Duration // between the two Stats
	Accepted float64
	Refused  float64
	Closed   float64
	Events   float64 // readiness events of all loops
	Messages float64
	BytesIn  float64
	BytesOut float64
	ByReason map[CloseReason]float64 // closes
	Loops    []LoopRates             // in the order of Stats.Loops
}

// LoopRates are the Rates of one loop.
type LoopRates struct {
	Name     string
	Events   float64
	Tasks    float64
	Messages float64
	BytesIn  float64
	BytesOut float64
}

// Since returns the rates between prev, which was taken earlier, and s. With the zero Stats as prev they are averages
// since Listen. If no time lies between the two, every rate is 0.
func (s Stats) Since(prev Stats) Rates {
	r := Rates{Interval: s.Uptime - prev.Uptime, ByReason: make(map[CloseReason]float64)}
	per := perSecond(r.Interval)
	r.Accepted = per(s.Accepted, prev.Accepted)
	r.Refused = per(s.AdmissionRejected, prev.AdmissionRejected)
	for reason, n := range s.Closed {
		if v := per(n, prev.Closed[reason]); v > 0 {
			r.ByReason[reason] = v
			r.Closed += v
		}
	}
	for i, l := range s.Loops {
		var was LoopStats
		if i < len(prev.Loops) {
			was = prev.Loops[i]
		}
		lr := l.since(was, per)
		r.Loops = append(r.Loops, lr)
		r.Events += lr.Events
		r.Messages += lr.Messages
		r.BytesIn += lr.BytesIn
		r.BytesOut += lr.BytesOut
	}
	return r
}

func (s LoopStats) since(prev LoopStats, per func(now, before uint64) float64) LoopRates {
	return LoopRates{
		Name:     s.Name,
		Events:   per(s.Events, prev.Events),
		Tasks:    per(s.Tasks, prev.Tasks),
		Messages: per(s.Messages, prev.Messages),
		BytesIn:  per(s.BytesIn, prev.BytesIn),
		BytesOut: per(s.BytesOut, prev.BytesOut),
	}
}

// perSecond returns the function that makes a rate of two counts. A count that fell belongs to another server and gives
// 0.
func perSecond(d time.Duration) func(now, before uint64) float64 {
	return func(now, before uint64) float64 {
		if d <= 0 || now < before {
			return 0
		}
		return float64(now-before) / d.Seconds()
	}
}
