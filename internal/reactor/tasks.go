package reactor

import "github.com/go-eddy/eddy/internal/meter"

// taskClockEvery is the number of tasks between two looks at the clock.
const taskClockEvery = 64

// ioBudget is what tasks may take of the loop's time.
type ioBudget struct {
	ioTime int64 // of an earlier iteration
	ioFrom int64 // end of the tasks, 0 when it is unknown
	hadIO  bool  // something was ready in this iteration
	input  bool  // of it, what the iteration began with
}

// RunTasks is the phase that runs queued tasks. How many depends on what the wait before it brought:
//   - nothing was ready: Settings.MinTasks, so that the loop soon asks for I/O again;
//   - something was ready: for ioTime × (100 − r) / r, where r is Settings.IORatio, and at most Settings.TaskBudget. The clock
//     is read after every 64th task, so at least that many may run;
//   - at r = 100, everything that was queued when the phase began, however long it takes. The phase runs whether or not
//     the I/O before it failed.
//
// Tasks come before I/O in an iteration, so their time is measured by an earlier iteration's I/O. That is the latest one
// that could be told from its tasks' time without one more look at the clock. What is left runs in the next iteration, which
// then does not wait.
func (l *Loop[T]) RunTasks(ready int) {
	b := &l.budget
	b.hadIO = ready > 0 || b.input
	b.ioFrom = l.Now
	limit := l.taskLimit()
	for ran := 0; ran < limit; {
		t, ok := l.Tasks.take()
		if !ok {
			break
		}
		b.ioFrom = 0 // unknown, until the clock is read
		l.Counters[meter.Tasks]++
		l.up.RunTask(t)
		if ran++; ran%taskClockEvery == 0 && l.tasksOverdue() {
			break
		}
	}
}

// taskLimit is the number of tasks the phase may run.
func (l *Loop[T]) taskLimit() int {
	switch {
	case l.Set.IORatio == 100:
		return l.Tasks.Depth()
	case !l.budget.hadIO:
		return l.Set.MinTasks
	}
	return l.Set.TaskBudget
}

// tasksOverdue reports whether the phase has used up its time.
func (l *Loop[T]) tasksOverdue() bool {
	b := &l.budget
	b.ioFrom = l.Clock.Now()
	r := int64(l.Set.IORatio)
	return r < 100 && b.hadIO && b.ioFrom-l.Now >= b.ioTime*(100-r)/r
}

// measure ends the accounts of an iteration: what it took after its tasks is the time of its I/O.
func (b *ioBudget) measure(end int64) {
	if b.hadIO && b.ioFrom != 0 {
		b.ioTime = end - b.ioFrom
	}
	b.hadIO = false
}

// runTail is the phase that runs the functions for the end of the iteration that there were when it began. Those they add
// wait for the end of the next iteration.
func (l *Loop[T]) runTail() {
	t := &l.Tasks.tail
	for range l.Tasks.swapTail() {
		f := t.out[t.next]
		t.out[t.next] = nil
		t.next++
		t.pending.Add(-1)
		l.Counters[meter.Tail]++
		l.up.Call(nil, f)
	}
}
