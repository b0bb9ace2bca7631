package promise

import (
	"errors"
	"slices"
	"testing"
)

// TestPromise: everybody learns of the end, also who asks later, and functions run in order, those added by others too.
func TestPromise(t *testing.T) {
	var p Promise
	early := p.Done()
	select {
	case <-early:
		t.Error("done before the end")
	default:
	}
	if p.Ended() || p.Err() != nil {
		t.Error("ended before the end")
	}
	var ran []int
	add := func(n int, then func()) {
		if !p.Then(func() { ran = append(ran, n); then() }) {
			t.Errorf("function %d was not taken", n)
		}
	}
	add(1, func() { add(3, func() { add(4, func() {}) }) })
	add(2, func() {
		<-p.Done()
		if !p.Ended() {
			t.Error("the end comes after the functions")
		}
	})
	lost := errors.New("lost")
	runs := 0
	p.End(lost, func(fn func()) { runs++; fn() })
	if !slices.Equal(ran, []int{1, 2, 3, 4}) || runs != 4 {
		t.Errorf("%v ran, %d by run", ran, runs)
	}
	<-early
	<-p.Done()
	if !p.Ended() || p.Err() != lost { //nolint:errorlint // the same one
		t.Errorf("%v, %v", p.Ended(), p.Err())
	}
	if p.Then(func() { t.Error("run after the end") }) {
		t.Error("a function was taken after the end")
	}
}
