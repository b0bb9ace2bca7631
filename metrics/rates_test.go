package metrics

import (
	"testing"
	"time"

	"github.com/go-eddy/eddy"
)

// TestRates: the rates of two snapshots are the differences of their counts over the time between them.
func TestRates(t *testing.T) {
	loop := func(n uint64) eddy.LoopStats {
		return eddy.LoopStats{Name: "worker-0", Events: n, Tasks: 2 * n, Messages: 3 * n, BytesIn: 10 * n, BytesOut: 20 * n}
	}
	before := eddy.Stats{Uptime: 10 * time.Second, Accepted: 5, AdmissionRejected: 1, Loops: []eddy.LoopStats{loop(100), loop(0)},
		Closed: map[eddy.CloseReason]uint64{eddy.ClosePeerClosed: 4}}
	after := eddy.Stats{Uptime: 14 * time.Second, Accepted: 25, AdmissionRejected: 3, Loops: []eddy.LoopStats{loop(140), loop(4)},
		Closed: map[eddy.CloseReason]uint64{eddy.ClosePeerClosed: 8, eddy.CloseIOError: 2}}
	r := Between(before, after)
	if r.Interval != 4*time.Second || r.Accepted != 5 || r.Refused != 0.5 || r.Closed != 1.5 || r.ByReason[eddy.CloseIOError] != 0.5 ||
		r.Events != 11 || r.Messages != 33 || r.BytesIn != 110 || r.BytesOut != 220 || len(r.Loops) != 2 ||
		r.Loops[0] != (LoopRates{Name: "worker-0", Events: 10, Tasks: 20, Messages: 30, BytesIn: 100, BytesOut: 200}) {
		t.Errorf("rates %+v", r)
	}
	if r := Between(after, after); r.Accepted != 0 || r.Events != 0 || len(r.ByReason) != 0 {
		t.Errorf("without time in between: %+v", r)
	}
	if r := Between(eddy.Stats{}, before); r.Accepted != 0.5 || r.Events != 10 {
		t.Errorf("since Listen: %+v", r)
	}
}
