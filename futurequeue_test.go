package eddy

import "testing"

// TestQueueTakesListenersToTheEnd: a queue that was closed takes nothing but listeners of futures, and those until its loop has
// found it empty for the last time.
func TestQueueTakesListenersToTheEnd(t *testing.T) {
	q := &taskQueue{limit: 1, wake: func() {}}
	q.close()
	if err := q.push(task{kind: taskFunc}, true); err != ErrClosed {
		t.Errorf("a function after the close: %v", err)
	}
	for range 2 { // above the bound
		if err := q.push(task{kind: taskFuture}, true); err != nil {
			t.Errorf("a listener after the close: %v", err)
		}
	}
	for range 2 {
		if q.finish() {
			t.Fatal("it ended with a listener in it")
		}
		if _, ok := q.take(); !ok {
			t.Fatal("a listener was lost")
		}
	}
	if !q.finish() {
		t.Fatal("it does not end")
	}
	if err := q.push(task{kind: taskFuture}, true); err != ErrClosed {
		t.Errorf("a listener after the end: %v", err)
	}
}
