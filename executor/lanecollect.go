package executor

import (
	"context"
	"time"
)

// Collect calls f with at most most results, or with all there are if most is 0, and returns how many. out is valid
// until f returns. If results are left, the consumer is woken again. Collect calls LanesOptions.Room first, where it is
// due. Consumer only.
func (l *Lanes[In, Out]) Collect(most int, f func(out *Out)) int {
	l.waking.Store(false) // reset before the look, so that a result after it wakes again
	l.goOn()
	n := 0
	for most == 0 || n < most {
		want := mostPortion
		if most > 0 {
			want = min(want, most-n)
		}
		run := l.results.FetchBatch(want)
		if len(run) == 0 {
			return n
		}
		for i := range run {
			f(&run[i])
		}
		l.results.Release()
		l.ringRooms()
		n += len(run)
	}
	if l.results.Len() > 0 && l.wake() != nil {
		l.late.Store(true)
		l.ringRooms()
		for _, ln := range l.lanes {
			ln.ringAll()
		}
	}
	return n
}

// ringRooms wakes the workers that wait for room for their results.
func (l *Lanes[In, Out]) ringRooms() {
	for _, b := range l.rooms {
		b.Ring()
	}
}

// wake calls LanesOptions.Wake, unless the consumer has been woken and has not collected yet.
func (l *Lanes[In, Out]) wake() error {
	if l.waking.Load() || !l.waking.CompareAndSwap(false, true) {
		return nil
	}
	err := l.o.Wake()
	if err != nil {
		l.waking.Store(false)
	}
	return err
}

// Stats returns the numbers of each lane.
func (l *Lanes[In, Out]) Stats() []LaneStats {
	all := make([]LaneStats, len(l.lanes))
	for i, ln := range l.lanes {
		workers := int(ln.started.Load())
		all[i] = LaneStats{
			Name: ln.Name, Workers: workers, Queued: ln.queue.Len(), Capacity: workers * ln.queue.Consumer(0).Cap(), Accepted: ln.accepted(),
			Rejected: ln.rejected.Load(), Waited: ln.waited.Load(), Done: l.done(ln), Panics: ln.panics.Load(), Lost: ln.lost.Load(),
		}
		if s := ln.spill.Load(); s != nil {
			st := (*s).Stats()
			all[i].Spilled, all[i].Fault = st.Memory+st.Waiting+st.Disk, st.Fault
		}
		if fault := ln.fault.Load(); fault != nil {
			all[i].Fault = *fault
		}
	}
	return all
}

// Stop lets the workers finish what they have, while ctx allows and the consumer collects, and then ends them. A worker
// in the middle of Run ends after it. Work in a spill queue stays there for the next Start. Stop returns when no worker
// is left, with the number of pieces of work that were given up.
//
// The producer must have made its last Submit before. Only a producer that waits for LanesOptions.Room may try again:
// Room is called now where it is owed, and Submit then returns ErrClosed. Do not call Stop on the consumer's goroutine,
// unless ctx has ended.
//
// A further call waits for the same end and returns the same number. The first context that ends counts for all calls.
func (l *Lanes[In, Out]) Stop(ctx context.Context) (lost int) {
	l.mu.Lock()
	run := l.run
	first := l.running.CompareAndSwap(true, false)
	l.mu.Unlock()
	switch {
	case run == nil:
		return 0
	case first:
		l.finish(ctx, run)
		l.end(run)
		return run.lost
	}
	select {
	case <-run.ended:
	case <-ctx.Done():
		run.hurried.Do(func() { close(run.hurry) })
		<-run.ended
	}
	return run.lost
}

// end ends the workers and clears the lanes.
func (l *Lanes[In, Out]) end(run *lanesRun) {
	run.ending.Store(true)
	close(run.stop)
	l.workers.Wait()
	l.closeSpills()
	for _, ln := range l.lanes {
		run.lost += ln.queue.Len()
		ln.lost.Add(uint64(ln.queue.Len()))
		ln.queue.Clear()
		ln.started.Store(0)
	}
	close(run.ended)
}

// finish waits until the lanes are empty, the results are collected and Room is called. Work in spill queues is not
// waited for.
func (l *Lanes[In, Out]) finish(ctx context.Context, run *lanesRun) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for l.busy() {
		for _, ln := range l.lanes {
			_ = l.tellRoom(ln) // tried again at the next look
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		case <-run.hurry:
			return
		}
	}
}

func (l *Lanes[In, Out]) busy() bool {
	for _, ln := range l.lanes {
		if ln.queue.Len() > 0 || ln.atSpill.Load() > 0 || ln.waits.Load() {
			return true
		}
	}
	return l.results.Len() > 0
}
