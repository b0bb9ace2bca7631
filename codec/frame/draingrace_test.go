package frame

import (
	"context"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
)

// TestDrainGrace: requests that cross GOAWAY are answered, until the client closes the connection or the time is over.
func TestDrainGrace(t *testing.T) {
	for _, grace := range []time.Duration{patience, time.Millisecond} {
		r := newRig(t, &set{o: Options{DrainGrace: grace}})
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
		if grace < patience {
			c.expectEnd()
		} else {
			c.ask(2, 2, "crossed")
			c.expect(answer{2, 8, "0 the server is draining"})
			c.Close()
		}
		if report := <-done; report.Drained != 1 || report.Forced != 0 {
			t.Errorf("grace %v: %+v", grace, report)
		}
		if n := r.runs.Load(); n != 0 {
			t.Errorf("%d requests ran", n)
		}
	}
}
