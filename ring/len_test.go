package ring_test

import (
	"runtime"
	"testing"

	"github.com/go-eddy/eddy/ring"
)

// Len never returns more than Cap, even to a goroutine that calls it while others send and receive.
func TestLenIsAtMostCap(t *testing.T) {
	q, err := ring.NewSPSC[int](4)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 50_000
	done := make(chan struct{})
	go func() {
		for i := 0; i < messages; {
			if q.Send(i) {
				i++
			} else {
				runtime.Gosched()
			}
		}
	}()
	go func() {
		defer close(done)
		for i := 0; i < messages; {
			if _, ok := q.Recv(); ok {
				i++
			} else {
				runtime.Gosched()
			}
		}
	}()
	for looking := true; looking; {
		select {
		case <-done:
			looking = false
		default:
		}
		if n := q.Len(); n < 0 || n > q.Cap() {
			t.Errorf("%d messages in a ring of %d", n, q.Cap())
			break
		}
	}
	<-done
}
