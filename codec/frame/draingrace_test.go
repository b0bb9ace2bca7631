package frame

import (
	"context"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/testkit"
)

// TestDrainGrace: requests that cross GOAWAY are answered, until the client closes the connection or the time is over.
func TestDrainGrace(t *testing.T) {
	const grace, tick = time.Minute, 20 * time.Millisecond
	for _, leaves := range []bool{true, false} {
		r := newRig(t, &set{clock: true, o: Options{DrainGrace: grace}})
		c := r.dial()
		c.ask(1, 0, "")
		c.expect(answer{1, 0, ""})
		done := make(chan eddy.DrainReport)
		go func() {
			report, err := r.srv.Shutdown(context.Background())
			if err != nil {
				t.Error(err)
			}
			done <- report
		}()
		c.expect(answer{0, 65, "0 the server is draining"})
		r.clock.Advance(grace - tick)
		c.ask(2, 2, "crossed")
		c.expect(answer{2, 8, "0 the server is draining"})
		if !leaves {
			r.clock.Advance(2 * tick)
			c.expectEnd()
		}
		c.Close()
		if report := testkit.Receive(t, "the end of the drain", done); report.Drained != 1 || report.Forced != 0 {
			t.Errorf("the client leaves %v: %+v", leaves, report)
		}
		if n := r.runs.Load(); n != 0 {
			t.Errorf("%d requests ran", n)
		}
	}
}
