package metrics

import (
	"time"

	"github.com/go-eddy/eddy"
)

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
	ByReason map[eddy.CloseReason]float64 // closes
	Loops    []LoopRates                  // in the order of eddy.Stats.Loops
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

// Between returns the rates between two Stats of a server, of which before was taken earlier. With the zero Stats as before
// they are averages since Listen. If no time lies between the two, every rate is 0.
func Between(before, now eddy.Stats) Rates {
	r := Rates{Interval: now.Uptime - before.Uptime, ByReason: make(map[eddy.CloseReason]float64)}
	per := perSecond(r.Interval)
	r.Accepted = per(now.Accepted, before.Accepted)
	r.Refused = per(now.AdmissionRejected, before.AdmissionRejected)
	for reason, n := range now.Closed {
		if v := per(n, before.Closed[reason]); v > 0 {
			r.ByReason[reason] = v
			r.Closed += v
		}
	}
	for i, l := range now.Loops {
		var was eddy.LoopStats
		if i < len(before.Loops) {
			was = before.Loops[i]
		}
		lr := loopRates(l, was, per)
		r.Loops = append(r.Loops, lr)
		r.Events += lr.Events
		r.Messages += lr.Messages
		r.BytesIn += lr.BytesIn
		r.BytesOut += lr.BytesOut
	}
	return r
}

func loopRates(now, before eddy.LoopStats, per func(now, before uint64) float64) LoopRates {
	return LoopRates{
		Name:     now.Name,
		Events:   per(now.Events, before.Events),
		Tasks:    per(now.Tasks, before.Tasks),
		Messages: per(now.Messages, before.Messages),
		BytesIn:  per(now.BytesIn, before.BytesIn),
		BytesOut: per(now.BytesOut, before.BytesOut),
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
