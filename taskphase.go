package eddy

import "sync/atomic"

// taskClockEvery is the number of tasks between two looks at the clock.
const taskClockEvery = 64

// runTasks is the phase that runs queued tasks. The number of tasks depends on the preceding wait:
//   - nothing was ready: a minimum batch (Group.MinTasks), so that the loop soon asks for I/O again;
//   - something was ready: for ioTime × (100 − r) / r, where r is Group.IORatio, and at most Group.TaskBudget. The clock is
//     read after every 64th task, so at least that many may run;
//   - at r = 100, everything that was queued when the phase began, however long it takes. The phase runs whether or not
//     the I/O before it failed.
//
// Tasks precede I/O in an iteration, so their time is based on the I/O of an earlier iteration. The base is the latest
// iteration whose I/O time was known without another look at the clock. Tasks that are left run in the next iteration,
// which then does not wait.
func (l *loop) runTasks(ready int) {
	l.hadIO = ready > 0 || len(l.ready) > 0
	l.ioFrom = l.now
	limit := l.taskLimit()
	for ran := 0; ran < limit; {
		t, ok := l.tasks.take()
		if !ok {
			break
		}
		l.ioFrom = 0 // unknown, until the clock is read
		l.counters[countTasks]++
		l.runTask(t)
		if ran++; ran%taskClockEvery == 0 && l.tasksOverdue() {
			break
		}
	}
}

// taskLimit returns the number of tasks that the phase may run.
func (l *loop) taskLimit() int {
	switch {
	case l.set.ioRatio == 100:
		return l.tasks.depth()
	case !l.hadIO:
		return l.set.minTasks
	}
	return l.set.taskBudget
}

// tasksOverdue reports whether the phase has used up its time.
func (l *loop) tasksOverdue() bool {
	l.ioFrom = l.clock.Now()
	r := int64(l.set.ioRatio)
	return r < 100 && l.hadIO && l.ioFrom-l.now >= l.ioTime*(100-r)/r
}

// measureIO ends the accounts of an iteration: the time since its tasks ended is the time of its I/O.
func (l *loop) measureIO(end int64) {
	if l.hadIO && l.ioFrom != 0 {
		l.ioTime = end - l.ioFrom
	}
	l.hadIO = false
}

// tailQueue holds functions that run after the current iteration. It shares the mutex, the bound and the wake state of
// its task queue.
type tailQueue struct {
	in, out []func()
	next    int // first of out that has not run
	pending atomic.Int64
}

// pushTail queues f for the end of the iteration.
func (q *taskQueue) pushTail(f func()) error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return ErrClosed
	}
	if q.tail.pending.Load() >= int64(q.limit) {
		q.mu.Unlock()
		return ErrSaturated
	}
	q.tail.in = append(q.tail.in, f)
	q.tail.pending.Add(1)
	q.mu.Unlock()
	q.rouse(loopAwake)
	return nil
}

// swapTail makes the functions submitted so far the batch to run and returns their number.
func (q *taskQueue) swapTail() int {
	t := &q.tail
	if t.next < len(t.out) { // a batch was cut short
		return len(t.out) - t.next
	}
	if t.pending.Load() == 0 {
		return 0
	}
	empty := t.out[:0]
	if cap(empty) > maxIdleBatch {
		empty = nil
	}
	q.mu.Lock()
	t.out, t.in = t.in, empty
	q.mu.Unlock()
	t.next = 0
	return len(t.out)
}

// runTail is the phase that runs the tail callbacks queued when it began. Callbacks that they add wait for the end of the
// next iteration.
func (l *loop) runTail() {
	t := &l.tasks.tail
	for range l.tasks.swapTail() {
		f := t.out[t.next]
		t.out[t.next] = nil
		t.next++
		t.pending.Add(-1)
		l.counters[countTail]++
		l.guard(f)
	}
}

// guard runs a user's function that belongs to no connection.
func (l *loop) guard(f func()) {
	defer l.contain(nil)
	l.serving.Store(nil)
	f()
}
