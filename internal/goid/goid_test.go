package goid

import "testing"

// TestCurrent: a goroutine has one number, and others have others.
func TestCurrent(t *testing.T) {
	mine := Current()
	if mine == 0 || mine != Current() {
		t.Errorf("this goroutine is number %d, then %d", mine, Current())
	}
	other := make(chan uint64)
	go func() { other <- Current() }()
	if id := <-other; id == mine || id == 0 {
		t.Errorf("another goroutine is number %d, this one %d", id, mine)
	}
}
