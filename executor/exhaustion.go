package executor

import (
	"fmt"
	"time"
)

// ReportInterval is the time between two reports of the exhaustion of a pool.
const ReportInterval = 10 * time.Second

// Exhaustion reports that a pool had no room for a submission.
type Exhaustion struct {
	Pool    string
	Workers int    // the limit at that time
	Queue   int    // the limit at that time
	Since   uint64 // submissions without room since the last report, this one included
	Stats   Stats
	Dump    string // path of the dump of goroutines, "" if none was written
}

// String names the pool and its numbers.
func (e Exhaustion) String() string {
	return fmt.Sprintf("pool %q is exhausted: %d of %d workers run, %d runners wait with room for %d, %d are parked, %d submissions without room since the last report",
		e.Pool, e.Stats.Running, e.Workers, e.Stats.Queued, e.Queue, e.Stats.Parked, e.Since)
}

// exhaust counts a submission for which there was no room, and starts a report if one is due. p.mu is held.
func (p *Pool) exhaust() {
	n := p.counts.exhausted.Add(1)
	if p.alarm.running || p.sim != nil {
		return
	}
	now := time.Now()
	if !p.alarm.begun.IsZero() && now.Sub(p.alarm.begun) < ReportInterval {
		return
	}
	e := Exhaustion{Pool: p.o.Name, Workers: p.o.Workers, Queue: p.o.Queue, Since: n - p.alarm.seen, Stats: p.Stats()}
	p.alarm.running, p.alarm.begun, p.alarm.seen = true, now, n
	go p.reportExhaustion(e) // on a goroutine that Shutdown waits for, because the submitter may be a loop and a log may block
}

// reportExhaustion dumps the goroutines, warns, and tells the listener.
func (p *Pool) reportExhaustion(e Exhaustion) {
	defer func() {
		p.mu.Lock()
		p.alarm.running = false
		p.endIfDone()
		p.mu.Unlock()
	}()
	defer p.contain()
	log := orDefaultLogger(p.o.Logger)
	if p.o.Dumper != nil {
		var err error
		if e.Dump, err = p.o.Dumper.Dump(e.String()); err != nil {
			log.Warn("executor: no dump of goroutines", "pool", e.Pool, "err", err)
		}
	}
	log.Warn("executor: pool is exhausted", "pool", e.Pool, "workers", e.Workers, "running", e.Stats.Running, "queue", e.Queue,
		"queued", e.Stats.Queued, "parked", e.Stats.Parked, "since_last_report", e.Since, "exhausted", e.Stats.Exhausted, "completed", e.Stats.Completed, "dump", e.Dump)
	if p.o.OnExhausted != nil {
		p.o.OnExhausted(e)
	}
}
